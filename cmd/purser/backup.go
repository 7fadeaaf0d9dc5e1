package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/actors/fault"
	"purser/actors/partner/sandbox"
	"purser/authorizer"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/buildinfo"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/persistence"
	"purser/persistence/archive"
	"purser/persistence/pebblegate"
)

// BackupCmd copies the stores into a new directory. It asks the server that has the data directory, and opens the stores itself
// when none has. Secrets are not copied.
type BackupCmd struct {
	datadir.Stores
	DiskReserve string `name:"disk-reserve" env:"PURSER_DISK_RESERVE" default:"1GiB" help:"Free space that the backup leaves on its disk."`
	To          string `arg:"" name:"directory" help:"Directory to make. A running server writes the backup in PURSER_BACKUP_DIR, and this command moves it."`
}

// Run backs up and says what the operator must keep besides.
func (b *BackupCmd) Run(out io.Writer) error {
	to, err := filepath.Abs(b.To)
	if err != nil {
		return err
	}
	var f settings.Faults
	room := backupRoom{free: datadir.FreeBytes, reserve: f.Bytes("PURSER_DISK_RESERVE", b.DiskReserve, settings.MinDiskReserve)}
	if err := errors.Join(f...); err != nil {
		return err
	}
	note := func(dir string) { fmt.Fprintf(out, "%s: %s\n", dir, foreignBackup) }
	m, err := b.backup(context.Background(), to, room, note)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s and the authorizer's store, %d bytes\n", to, m.Counts, m.bytes())
	fmt.Fprintf(out, "the secrets are not in it: keep %s, in another place. "+
		"Without data-key personal data stays unreadable\n", settings.SecretsToKeep)
	return nil
}

func (b *BackupCmd) backup(ctx context.Context, to string, room backupRoom, note func(string)) (manifest, error) {
	unlock, err := datadir.LockUsed(b.DataDir)
	if errors.Is(err, datadir.ErrInUse) {
		return b.backupRunning(ctx, to, room, note)
	}
	if err != nil {
		return manifest{}, err
	}
	m, err := b.backupStores(ctx, to, room, note)
	return m, errors.Join(err, unlock())
}

// backupStores opens the stores, which no server has.
func (b *BackupCmd) backupStores(
	ctx context.Context, to string, room backupRoom, note func(string),
) (m manifest, err error) {
	if err := b.RequireStores(); err != nil {
		return m, err
	}
	journal, err := b.ReadJournal(ctx, "a backup")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	engine, err := authorizer.Open(authorizer.Options{Dir: datadir.AuthorizerDir(b.DataDir), Deployment: journal.Identity().Deployment,
		Clock: time.Now, Entropy: rand.Reader, Fatal: func(err error) { panic("BUG: a backup writes: " + err.Error()) }})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	s := backedUp{data: b.DataDir, room: room, note: note, journal: journal, authorizer: engine,
		bank: checkpointOf(datadir.BankDir(b.DataDir)), ramp: checkpointOf(datadir.RampDir(b.DataDir)),
		chains: checkpointOf(datadir.ChainsDir(b.DataDir))}
	return writeBackup(ctx, s, to, time.Now())
}

// checkpointOf copies a store of the sandbox's that nobody has open; nil when it is not there.
func checkpointOf(from string) func(dir string) error {
	if !sandbox.Exists(nil, from) {
		return nil
	}
	return func(dir string) error { return sandbox.Checkpoint(nil, from, dir) }
}

// backedUp are the stores of a backup.
type backedUp struct {
	data string // the data directory
	room backupRoom
	note func(dir string) // called with each unfinished backup that is not removed

	journal    persistence.Journal
	authorizer interface{ Checkpoint(dir string) error }
	// bank, ramp and chains copy the sandbox's stores; nil: there is none.
	bank, ramp, chains func(dir string) error
}

// writeBackup fills a directory beside its place and renames it when it is whole and synced. When
// the disk has no room for the copies and the reserve, it copies nothing and returns
// pebblegate.ErrNoRoom. The length of the journal's archive is not known beforehand, so the free
// space is measured again while the archive is written.
//
// The journal's instant comes first and the authorizer's after it. So the authorizer has every decision that the journal was told
// of, and its log, which keeps for days what was relayed, begins at or before the first one that the journal lacks: the relay
// sends the rest. What the authorizer has followed beyond the journal is followed anew by restore. The other order could give a
// journal with decisions that the log will number once more for others. The bank comes last for the same reason: it knows
// every deposit that the journal has told it of, and reports again what the journal may not have heard. So does the ramp. The
// sandbox's chains have every block that a watcher has left behind.
func writeBackup(ctx context.Context, s backedUp, to string, now time.Time) (m manifest, err error) {
	if err := requireAbsent(to); err != nil {
		return m, err
	}
	deployment := s.journal.Identity().Deployment
	u, err := beginUnfinished(to, hex.EncodeToString(deployment[:]), s.note)
	if err != nil {
		return m, err
	}
	if err = s.requireRoom(ctx, filepath.Dir(to)); err == nil {
		m, err = fillBackup(ctx, s, u.dir, now)
	}
	if err != nil {
		return m, u.abandon(err)
	}
	return m, u.finish(to)
}

// requireRoom refuses a backup into a directory whose disk has no room for it.
func (s backedUp) requireRoom(ctx context.Context, parent string) error {
	stored, err := s.journal.(persistence.Archiver).StoredBytes(ctx)
	if err != nil {
		return err
	}
	stores := []string{datadir.AuthorizerDir(s.data)}
	for _, of := range datadir.SandboxDirs {
		stores = append(stores, of(s.data))
	}
	copied, err := checkpointBytes(parent, stores...)
	if err != nil {
		return err
	}
	return s.room.requireFree(parent, stored+copied)
}

// requireAbsent refuses a path at which there is anything, a link that leads nowhere too, and one
// whose parent is no directory.
func requireAbsent(path string) error {
	parent := filepath.Dir(path)
	info, err := os.Stat(parent)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory: make it first, because the backup is made in it", parent)
	}
	if err != nil {
		return err
	}
	_, err = os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s is there already: name a directory that is not", path)
	}
	return err
}

func fillBackup(ctx context.Context, s backedUp, dir string, now time.Time) (m manifest, err error) {
	snapshot, err := s.journal.(persistence.Archiver).Snapshot(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if err := s.authorizer.Checkpoint(datadir.AuthorizerDir(dir)); err != nil {
		return m, err
	}
	for i, copied := range []func(dir string) error{s.bank, s.ramp, s.chains} {
		if copied == nil {
			continue
		}
		if err := copied(datadir.SandboxDirs[i](dir)); err != nil {
			return m, err
		}
	}
	identity := s.journal.Identity()
	sum, err := writeArchive(ctx, identity, snapshot, filepath.Join(dir, archiveFile), s.room)
	if err != nil {
		return m, err
	}
	m = manifest{At: now.UTC(), Version: buildinfo.Version, Counts: sum.Counts,
		Deployment: hex.EncodeToString(identity.Deployment[:]), Store: hex.EncodeToString(identity.Store[:])}
	if m.Files, err = sumFiles(dir); err != nil {
		return m, err
	}
	delete(m.Files, unfinishedMark)
	return m, m.write(dir)
}

func writeArchive(
	ctx context.Context, identity persistence.Identity, snapshot persistence.Snapshot, path string, room backupRoom,
) (sum archive.Sum, err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return sum, err
	}
	buffered := bufio.NewWriterSize(&roomWriter{Writer: file, room: room, dir: filepath.Dir(path)}, 1<<20)
	sum, err = archive.Write(buffered, identity, snapshot.Content(ctx))
	return sum, errors.Join(err, buffered.Flush(), file.Sync(), file.Close())
}

// backupRequest is the body of the command of the admin port. The server names the backup itself
// when Name is "".
type backupRequest struct {
	Name string `json:"name,omitempty"`
}

// backupAnswer says what the server wrote and where.
type backupAnswer struct {
	Directory string   `json:"directory"`
	Manifest  manifest `json:"manifest"`
}

// backupName is a single path element that is neither hidden nor a way out of its directory.
var backupName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// backupCommand is the command of the admin port. Whoever reaches that port must not choose where
// on the machine the server writes, so every backup becomes an element of one directory, which is
// made when it is missing.
func backupCommand(ctx context.Context, s backedUp, dir string, body []byte, now time.Time) (a backupAnswer,
	err error) {
	var asked backupRequest
	if err := adminport.DecodeBody(body, &asked); err != nil {
		return a, err
	}
	if asked.Name == "" {
		asked.Name = "backup-" + now.UTC().Format("20060102T150405.000Z")
	}
	if !backupName.MatchString(asked.Name) {
		return a, fault.New(fault.InvalidBody,
			"name is not 1 to 100 letters, digits, dots, underscores and hyphens that begin with"+
				" a letter or digit; a running server writes backups only in PURSER_BACKUP_DIR")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return a, err
	}
	if err := pebblegate.MakeDir(vfs.Default, dir); err != nil {
		return a, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return a, err
	}
	if !info.IsDir() {
		return a, fmt.Errorf("%s is a link or a file: PURSER_BACKUP_DIR names a directory itself", dir)
	}
	a.Directory = filepath.Join(dir, asked.Name)
	a.Manifest, err = writeBackup(ctx, s, a.Directory, now)
	if errors.Is(err, pebblegate.ErrNoRoom) {
		return a, fault.New(fault.Unavailable, err.Error())
	}
	return a, err
}

// backupRunning has the running server write the backup where it may, and moves it to its place
// with the rights of who runs this command.
func (b *BackupCmd) backupRunning(
	ctx context.Context, to string, room backupRoom, note func(string),
) (manifest, error) {
	if err := requireAbsent(to); err != nil {
		return manifest{}, err
	}
	made, err := adminport.Ask[backupAnswer](ctx, b.DataDir, "backup", backupRequest{}, maxManifest)
	if err != nil {
		return manifest{}, err
	}
	if err := moveBackup(made, to, room, note); err != nil {
		return manifest{}, fmt.Errorf("the backup is whole in %s and could not be moved: %w", made.Directory, err)
	}
	return made.Manifest, nil
}

// moveBackup renames a backup, or copies it whole to another file system before the first one goes.
func moveBackup(made backupAnswer, to string, room backupRoom, note func(string)) error {
	err := os.Rename(made.Directory, to)
	switch {
	case errors.Is(err, syscall.EXDEV):
		return copyBackup(made, to, room, note)
	case err != nil:
		return err
	}
	return datadir.SyncDir(filepath.Dir(to))
}

// copyBackup copies a backup to its place, and then removes the first one.
func copyBackup(made backupAnswer, to string, room backupRoom, note func(string)) error {
	u, err := beginUnfinished(to, made.Manifest.Deployment, note)
	if err != nil {
		return err
	}
	if err = room.requireFree(filepath.Dir(to), made.Manifest.bytes()); err == nil {
		err = copyTree(made.Directory, u.dir)
	}
	if err != nil {
		return u.abandon(err)
	}
	if err := u.finish(to); err != nil {
		return err
	}
	return os.RemoveAll(made.Directory)
}
