package storecare

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"purser/actors"
	"purser/cmd/purser/datadir"
	"purser/persistence"
	"purser/persistence/archive"
	"purser/persistence/ident"
)

// The files of a backup beside the stores' directories.
const (
	ManifestFile = "BACKUP"
	ArchiveFile  = "journal.archive"

	maxManifest = 64 << 20
)

// manifestForm is the format of a backup.
var manifestForm = datadir.Form{Name: "purser-backup", Number: 2,
	Older: "restore it with the program that made it"}

// ErrDamaged reports that a backup differs from its manifest. Nothing was changed.
var ErrDamaged = errors.New("the backup cannot be restored, and nothing was changed")

// Manifest describes a backup. It is stored as JSON in a file that datadir.WriteChecksummed writes.
type Manifest struct {
	At         time.Time          `json:"at"`
	Version    string             `json:"version"`
	Deployment string             `json:"deployment"` // in hex, as the journal's
	Store      string             `json:"store"`      // incarnation
	Counts     persistence.Counts `json:"counts"`
	Files      map[string]fileSum `json:"files"` // by path in the backup; all there are but the manifest
}

type fileSum struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Bytes returns the size of all files.
func (m *Manifest) Bytes() (total int64) {
	for _, f := range m.Files {
		total += f.Bytes
	}
	return total
}

// Write syncs the directories of the files that SumFiles has synced, and then writes the manifest.
// It fails only with the disk's error. fillBackup calls it last.
func (m *Manifest) Write(dir string) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return datadir.SyncDir(path)
		}
		return err
	})
	if err != nil {
		return err
	}
	return datadir.WriteChecksummed(filepath.Join(dir, ManifestFile), manifestForm, text)
}

// SumFiles reads and syncs every file of a directory. It refuses links and other special files,
// because a link's target would be summed here and copied from elsewhere. A refusal is ErrDamaged;
// other errors are the disk's.
func SumFiles(dir string) (map[string]fileSum, error) {
	sums := map[string]fileSum{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return damaged("%s is no plain file", name)
		}
		sums[filepath.ToSlash(name)], err = sumFile(path)
		return err
	})
	return sums, err
}

// sumFile reads and syncs a file, and returns its size and SHA-256. It fails only with the disk's
// error.
func sumFile(path string) (sum fileSum, err error) {
	file, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	h := sha256.New()
	sum.Bytes, err = io.Copy(h, file)
	sum.SHA256 = hex.EncodeToString(h.Sum(nil))
	return sum, errors.Join(err, file.Sync(), file.Close())
}

// CheckedBackup is a backup that was read completely and equals its manifest.
type CheckedBackup struct {
	Manifest
	Dir  string
	sum  string // the manifest's: it names this backup
	told actors.Relayed

	DeploymentID ident.UUID // the archive's
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// CheckBackup reads every byte of a backup. The directory itself may be a link to one; nothing in
// it may be. It fails with ErrDamaged for a missing, extra or altered file, and with the disk's
// error. A restore calls it first.
func CheckBackup(dir string) (*CheckedBackup, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	c := &CheckedBackup{Dir: dir}
	if err := c.ReadManifest(); err != nil {
		return nil, err
	}
	found, err := SumFiles(dir)
	if err != nil {
		return nil, err
	}
	delete(found, ManifestFile)
	for name, want := range c.Files {
		got, there := found[name]
		switch {
		case !there:
			return nil, damaged("%s is missing", name)
		case got.Bytes != want.Bytes:
			return nil, damaged("%s has %d bytes, not %d", name, got.Bytes, want.Bytes)
		case got != want:
			return nil, damaged("the checksum of %s differs", name)
		}
		delete(found, name)
	}
	for name := range found {
		return nil, damaged("%s is not of the backup", name)
	}
	return c, c.readArchive()
}

// ReadManifest reads the manifest alone. It fails with ErrDamaged for a directory without a
// manifest and for an altered one.
func (c *CheckedBackup) ReadManifest() error {
	text, sum, err := datadir.ReadChecksummed(filepath.Join(c.Dir, ManifestFile), manifestForm)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged("%s has no file %s: it is no backup, or one that was not finished", c.Dir, ManifestFile)
	}
	if err != nil {
		return damaged("%w", err)
	}
	c.sum = sum
	if err := json.Unmarshal(text, &c.Manifest); err != nil {
		return damaged("%s: %w", ManifestFile, err)
	}
	return nil
}

// readArchive reads the journal to its end, so that no part of a damaged one is ever loaded. It
// fails with ErrDamaged.
func (c *CheckedBackup) readArchive() error {
	return c.archive(func(r *archive.Reader) (err error) {
		if c.told, err = actors.RelayedInContent(r.Content()); err != nil {
			return damaged("%s: %w", ArchiveFile, err)
		}
		found := r.Identity()
		c.DeploymentID = found.Deployment
		if hex.EncodeToString(found.Deployment[:]) != c.Deployment || hex.EncodeToString(found.Store[:]) != c.Store ||
			r.Sum().Counts != c.Counts {
			return damaged("%s is not the journal that %s tells of", ArchiveFile, ManifestFile)
		}
		return nil
	})
}

// archive calls do with a reader of the journal. It fails with ErrDamaged for an archive that
// cannot be read, and with do's error.
func (c *CheckedBackup) archive(do func(r *archive.Reader) error) error {
	file, err := os.Open(filepath.Join(c.Dir, ArchiveFile))
	if err != nil {
		return err
	}
	r, err := archive.NewReader(file)
	if err != nil {
		err = damaged("%s: %w", ArchiveFile, err)
	} else {
		err = do(r)
	}
	return errors.Join(err, file.Close())
}
