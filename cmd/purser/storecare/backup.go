package storecare

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

// Run is `purser backup`: it makes the backup and names the secrets that the operator must keep
// besides. It fails like Backup.
func (b *BackupCmd) Run(out io.Writer) error {
	to, err := filepath.Abs(b.To)
	if err != nil {
		return err
	}
	var f settings.Faults
	room := BackupRoom{Free: datadir.FreeBytes, Reserve: f.Bytes("PURSER_DISK_RESERVE", b.DiskReserve, settings.MinDiskReserve)}
	if err := errors.Join(f...); err != nil {
		return err
	}
	note := func(dir string) { fmt.Fprintf(out, "%s: %s\n", dir, ForeignBackup) }
	m, err := b.Backup(context.Background(), to, room, note)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s and the authorizer's store, %d bytes\n", to, m.Counts, m.Bytes())
	fmt.Fprintf(out, "the secrets are not in it: keep %s, in another place. "+
		"Without data-key personal data stays unreadable\n", settings.SecretsToKeep)
	return nil
}

// Backup writes a backup of the data directory to a new directory: the running server makes it, or
// this process when none runs. It fails when the directory exists, lies in a store or in the data
// directory, or has no room, and with an error of the stores. An unfinished directory is removed.
func (b *BackupCmd) Backup(ctx context.Context, to string, room BackupRoom, note func(string)) (Manifest, error) {
	if err := requireOutside(b.DataDir, to); err != nil {
		return Manifest{}, err
	}
	unlock, err := datadir.LockUsed(b.DataDir)
	if errors.Is(err, datadir.ErrInUse) {
		return b.backupRunning(ctx, to, room, note)
	}
	if err != nil {
		return Manifest{}, err
	}
	m, err := b.backupStores(ctx, to, room, note)
	return m, errors.Join(err, unlock())
}

// backupStores backs up the stores by opening them. The caller holds the lock of the directory, so
// no server has them open. It fails when a store is missing or cannot be opened, and like
// writeBackup.
func (b *BackupCmd) backupStores(
	ctx context.Context, to string, room BackupRoom, note func(string),
) (m Manifest, err error) {
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
	s := OpenStores{Data: b.DataDir, Room: room, Note: note, Journal: journal, Authorizer: engine}
	if from := datadir.SandboxDir(b.DataDir); sandbox.Exists(nil, from) {
		s.Sandbox = func(dir string) error { return sandbox.Checkpoint(nil, from, dir) }
	}
	return writeBackup(ctx, s, to, time.Now())
}

// OpenStores are the stores of a backup.
type OpenStores struct {
	Data string // the data directory
	Room BackupRoom
	Note func(dir string) // called with each unfinished backup that is not removed

	Journal    persistence.Journal
	Authorizer interface{ Checkpoint(dir string) error }
	// Sandbox copies the sandbox's store; nil: there is none.
	Sandbox func(dir string) error
}

// writeBackup fills a directory beside its place and renames it when it is whole and synced. When
// the disk has no room for the copies and the reserve, it copies nothing and returns
// pebblegate.ErrNoRoom. The length of the journal's archive is not known beforehand, so the free
// space is measured again while the archive is written.
//
// The journal's instant comes first and the authorizer's after it. So the authorizer has every
// decision of the journal. Its log, which keeps relayed entries for days, begins at or before the
// first decision that the journal lacks: the relay sends the rest. A restore follows the events
// anew that the authorizer has followed beyond the journal. The other order could give a journal
// with decisions whose numbers the log gives to others. The sandbox comes last for the same reason:
// its bank has every deposit that the journal has announced, and repeats reports that the journal
// may lack. So does its ramp. Its chains have every block that a watcher has settled.
func writeBackup(ctx context.Context, s OpenStores, to string, now time.Time) (m Manifest, err error) {
	if err := errors.Join(requireOutsideStores(s.Data, to), requireAbsent(to)); err != nil {
		return m, err
	}
	deployment := s.Journal.Identity().Deployment
	u, err := BeginUnfinished(to, hex.EncodeToString(deployment[:]), s.Note)
	if err != nil {
		return m, err
	}
	if err = s.requireRoom(ctx, filepath.Dir(to)); err == nil {
		m, err = fillBackup(ctx, s, u.Dir, now)
	}
	if err != nil {
		return m, u.abandon(err)
	}
	return m, u.finish(to)
}

// requireRoom refuses a backup into a directory whose disk has no room for it.
func (s OpenStores) requireRoom(ctx context.Context, parent string) error {
	stored, err := s.Journal.(persistence.Archiver).StoredBytes(ctx)
	if err != nil {
		return err
	}
	copied, err := CheckpointBytes(parent, datadir.AuthorizerDir(s.Data), datadir.SandboxDir(s.Data))
	if err != nil {
		return err
	}
	return s.Room.requireFree(parent, stored+copied)
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

// fillBackup copies the stores into a directory, in the order that writeBackup explains, and writes
// the manifest last. It fails with an error of a store or of the disk.
func fillBackup(ctx context.Context, s OpenStores, dir string, now time.Time) (m Manifest, err error) {
	snapshot, err := s.Journal.(persistence.Archiver).Snapshot(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if err := s.Authorizer.Checkpoint(datadir.AuthorizerDir(dir)); err != nil {
		return m, err
	}
	if s.Sandbox != nil {
		if err := s.Sandbox(datadir.SandboxDir(dir)); err != nil {
			return m, err
		}
	}
	identity := s.Journal.Identity()
	sum, err := writeArchive(ctx, identity, snapshot, filepath.Join(dir, ArchiveFile), s.Room)
	if err != nil {
		return m, err
	}
	m = Manifest{At: now.UTC(), Version: buildinfo.Build(), Counts: sum.Counts,
		Deployment: hex.EncodeToString(identity.Deployment[:]), Store: hex.EncodeToString(identity.Store[:])}
	if m.Files, err = SumFiles(dir); err != nil {
		return m, err
	}
	delete(m.Files, UnfinishedMark)
	return m, m.Write(dir)
}

// writeArchive writes a snapshot of the journal into a new file and syncs it. It fails with
// pebblegate.ErrNoRoom when the disk fills up, and with an error of the journal or the disk.
func writeArchive(
	ctx context.Context, identity persistence.Identity, snapshot persistence.Snapshot, path string, room BackupRoom,
) (sum archive.Sum, err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return sum, err
	}
	buffered := bufio.NewWriterSize(&RoomWriter{Writer: file, Room: room, Dir: filepath.Dir(path)}, 1<<20)
	sum, err = archive.Write(buffered, identity, snapshot.Content(ctx))
	return sum, errors.Join(err, buffered.Flush(), file.Sync(), file.Close())
}

// backupRequest is the body of the admin port's command "backup". The server chooses the name of
// the backup when Name is "".
type backupRequest struct {
	Name string `json:"name,omitempty"`
}

// BackupAnswer is the server's answer: the directory and the manifest of the backup.
type BackupAnswer struct {
	Directory string   `json:"directory"`
	Manifest  Manifest `json:"manifest"`
}

// backupName is a single path element that is neither hidden nor a way out of its directory.
var backupName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// AnswerBackup is the admin port's command "backup". A caller of that port must not choose where
// the server writes on the machine. AnswerBackup therefore makes every backup inside one directory,
// and makes a missing one. It fails with invalid_body for a bad name, with unavailable without
// room, and with the errors of the stores.
func AnswerBackup(ctx context.Context, s OpenStores, dir string, body []byte, now time.Time) (a BackupAnswer,
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

// backupRunning has the running server write the backup in its own directory of backups, and moves
// it to its place with the rights of this command's user. It fails when the place is taken, when
// the server refuses, and when the move fails; the backup is then whole where the server made it.
func (b *BackupCmd) backupRunning(
	ctx context.Context, to string, room BackupRoom, note func(string),
) (Manifest, error) {
	if err := requireAbsent(to); err != nil {
		return Manifest{}, err
	}
	made, err := adminport.Ask[BackupAnswer](ctx, b.DataDir, "backup", backupRequest{}, maxManifest)
	if err != nil {
		return Manifest{}, err
	}
	if err := moveBackup(made, to, room, note); err != nil {
		return Manifest{}, fmt.Errorf("the backup is whole in %s and could not be moved: %w", made.Directory, err)
	}
	return made.Manifest, nil
}

// moveBackup renames a backup, or copies it whole to another file system before the first one goes.
// It fails with the disk's error and without room.
func moveBackup(made BackupAnswer, to string, room BackupRoom, note func(string)) error {
	err := os.Rename(made.Directory, to)
	switch {
	case errors.Is(err, syscall.EXDEV):
		return CopyBackup(made, to, room, note)
	case err != nil:
		return err
	}
	return datadir.SyncDir(filepath.Dir(to))
}

// CopyBackup copies a backup to its place on another file system, and then removes the first one.
// It fails with pebblegate.ErrNoRoom and with the disk's error; the first one then stays.
func CopyBackup(made BackupAnswer, to string, room BackupRoom, note func(string)) error {
	u, err := BeginUnfinished(to, made.Manifest.Deployment, note)
	if err != nil {
		return err
	}
	if err = room.requireFree(filepath.Dir(to), made.Manifest.Bytes()); err == nil {
		err = CopyTree(made.Directory, u.Dir)
	}
	if err != nil {
		return u.abandon(err)
	}
	if err := u.finish(to); err != nil {
		return err
	}
	return os.RemoveAll(made.Directory)
}
