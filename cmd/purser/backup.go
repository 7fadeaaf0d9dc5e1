package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"purser/actors/partner/sandbox"
	"purser/authorizer"
	"purser/persistence"
	"purser/persistence/archive"
)

// BackupCmd copies the stores into a new directory. It asks the server that has the data directory, and opens the stores itself
// when none has. Secrets are not copied: without data-key (or PURSER_DATA_KEY) what tells of a person in a backup stays
// unreadable.
type BackupCmd struct {
	Place
	To string `arg:"" name:"directory" help:"Directory to make. The server writes it when one is running."`
}

func bankDir(data string) string { return filepath.Join(data, "sandbox-bank") }

func rampDir(data string) string { return filepath.Join(data, "sandbox-ramp") }

func chainsDir(data string) string { return filepath.Join(data, "sandbox-chains") }

// sandboxDirs are where the sandbox's stores are in a data directory, or in a backup of one.
var sandboxDirs = []func(data string) string{bankDir, rampDir, chainsDir}

// Run backs up and says what the operator must keep besides.
func (b *BackupCmd) Run(out io.Writer) error {
	to, err := filepath.Abs(b.To)
	if err != nil {
		return err
	}
	m, err := b.backup(context.Background(), to)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s and the authorizer's store, %d bytes\n", to, m.Counts, m.bytes())
	fmt.Fprintln(out, "the secrets are not in it: keep data-key (PURSER_DATA_KEY) in another place, what tells of a person cannot be read without it")
	return nil
}

func (b *BackupCmd) backup(ctx context.Context, to string) (manifest, error) {
	unlock, err := lockUsed(b.DataDir)
	if errors.Is(err, errInUse) {
		return askAdmin[manifest](ctx, b.DataDir, "backup", backupTo{Directory: to}, maxManifest)
	}
	if err != nil {
		return manifest{}, err
	}
	m, err := b.backupStores(ctx, to)
	return m, errors.Join(err, unlock())
}

// backupStores opens the stores, which no server has.
func (b *BackupCmd) backupStores(ctx context.Context, to string) (m manifest, err error) {
	if err := b.requireStores(); err != nil {
		return m, err
	}
	journal, err := b.readJournal(ctx, "a backup")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	engine, err := authorizer.Open(authorizer.Options{Dir: authorizerDir(b.DataDir), Deployment: journal.Identity().Deployment,
		Clock: time.Now, Entropy: rand.Reader, Fatal: func(err error) { panic("BUG: a backup writes: " + err.Error()) }})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	s := backedUp{journal: journal, authorizer: engine, bank: checkpointOf(bankDir(b.DataDir)),
		ramp: checkpointOf(rampDir(b.DataDir)), chains: checkpointOf(chainsDir(b.DataDir))}
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
	journal    persistence.Journal
	authorizer interface{ Checkpoint(dir string) error }
	// bank, ramp and chains copy the sandbox's stores; nil: there is none.
	bank, ramp, chains func(dir string) error
}

// writeBackup fills a directory beside its place and renames it when it is whole and synced.
//
// The journal's instant comes first and the authorizer's after it. So the authorizer has every decision that the journal was told
// of, and its log, which keeps for days what was relayed, begins at or before the first one that the journal lacks: the relay
// sends the rest. What the authorizer has followed beyond the journal is followed anew by restore. The other order could give a
// journal with decisions that the log will number once more for others. The bank comes last for the same reason: it knows
// every deposit that the journal has told it of, and reports again what the journal may not have heard. So does the ramp. The
// sandbox's chains have every block that a watcher has left behind.
func writeBackup(ctx context.Context, s backedUp, to string, now time.Time) (m manifest, err error) {
	if _, err := os.Lstat(to); err == nil {
		return m, fmt.Errorf("%s is there already: name a directory that is not", to)
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), filepath.Base(to)+".unfinished-")
	if err != nil {
		return m, err
	}
	if m, err = fillBackup(ctx, s, dir, now); err == nil {
		err = os.Rename(dir, to)
	}
	if err != nil {
		return m, errors.Join(err, os.RemoveAll(dir))
	}
	return m, syncDir(filepath.Dir(to))
}

func fillBackup(ctx context.Context, s backedUp, dir string, now time.Time) (m manifest, err error) {
	snapshot, err := s.journal.(persistence.Archiver).Snapshot(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if err := s.authorizer.Checkpoint(authorizerDir(dir)); err != nil {
		return m, err
	}
	for i, copied := range []func(dir string) error{s.bank, s.ramp, s.chains} {
		if copied == nil {
			continue
		}
		if err := copied(sandboxDirs[i](dir)); err != nil {
			return m, err
		}
	}
	identity := s.journal.Identity()
	sum, err := writeArchive(ctx, identity, snapshot, filepath.Join(dir, archiveFile))
	if err != nil {
		return m, err
	}
	m = manifest{At: now.UTC(), Version: Version, Counts: sum.Counts,
		Deployment: hex.EncodeToString(identity.Deployment[:]), Store: hex.EncodeToString(identity.Store[:])}
	if m.Files, err = sumFiles(dir); err != nil {
		return m, err
	}
	return m, m.write(dir)
}

func writeArchive(
	ctx context.Context, identity persistence.Identity, snapshot persistence.Snapshot, path string,
) (sum archive.Sum, err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return sum, err
	}
	buffered := bufio.NewWriterSize(file, 1<<20)
	sum, err = archive.Write(buffered, identity, snapshot.Content(ctx))
	return sum, errors.Join(err, buffered.Flush(), file.Sync(), file.Close())
}

// backupTo is what the admin port is asked.
type backupTo struct {
	Directory string `json:"directory"`
}

// backupCommand is the command of the admin port.
func backupCommand(ctx context.Context, s backedUp, body []byte, now time.Time) (m manifest, err error) {
	var to backupTo
	if err := json.Unmarshal(body, &to); err != nil {
		return m, err
	}
	if !filepath.IsAbs(to.Directory) {
		return m, errors.New("directory is not an absolute path")
	}
	return writeBackup(ctx, s, to.Directory, now)
}
