package storecare

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/persistence/pebblegate"
)

// The place of a backup: the room on its disk, and the directories that killed backups have left.

const (
	// UnfinishedInfix follows the name of the backup in the name of a directory that is being
	// filled.
	UnfinishedInfix = ".unfinished-"
	// UnfinishedMark is a file in such a directory. It has the id of the deployment. The process
	// that fills the directory holds a lock on it.
	UnfinishedMark = "UNFINISHED"
	// RoomEvery is how many bytes of a journal's archive are written between two measurements of
	// the free space.
	RoomEvery = 16 << 20
)

// ForeignBackup is the note about an unfinished backup that may be another deployment's.
const ForeignBackup = "an unfinished backup of another deployment or without a mark stays: " +
	"remove it if nothing fills it"

// requireOutside refuses a backup in the data directory, whose loss would then be the loss of the
// backup too, and in a store, which would take the backup's files for its own. The data directory's
// own directory of backups is allowed.
func requireOutside(data, to string) error {
	if err := requireOutsideStores(data, to); err != nil {
		return err
	}
	within, err := isWithin(data, filepath.Dir(to))
	if !within || err != nil {
		return err
	}
	own := settings.BackupsOf(data)
	if inOwn, err := isWithin(own, filepath.Dir(to)); inOwn || err != nil {
		return err
	}
	return fmt.Errorf("%s is in the data directory %s: name a directory outside it or in %s", to, data, own)
}

// requireOutsideStores refuses a backup inside a store, which would take the backup's files for its
// own.
func requireOutsideStores(data, to string) error {
	for _, store := range []string{datadir.JournalDir(data), datadir.AuthorizerDir(data),
		datadir.SandboxDir(data)} {
		within, err := isWithin(store, filepath.Dir(to))
		if err != nil {
			return err
		}
		if within {
			return fmt.Errorf("%s is in the store %s: name a directory outside it", to, store)
		}
	}
	return nil
}

// isWithin reports whether a directory is another one or in it, whatever links lead there. A
// directory that does not exist is within none and has none within it. It fails for a path that
// cannot be resolved.
func isWithin(outer, dir string) (bool, error) {
	var resolved [2]string
	for i, path := range []string{outer, dir} {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if resolved[i], err = filepath.Abs(real); err != nil {
			return false, err
		}
	}
	relative, err := filepath.Rel(resolved[0], resolved[1])
	return err == nil && filepath.IsLocal(relative), nil
}

// BackupRoom decides whether a disk has room for a backup.
type BackupRoom struct {
	Free    func(dir string) (int64, error)
	Reserve int64 // bytes that a backup leaves free
}

// requireFree returns pebblegate.ErrNoRoom when so many bytes in a directory would leave less than
// the reserve free on its disk.
func (r BackupRoom) requireFree(dir string, bytes int64) error {
	free, err := r.Free(dir)
	if err != nil {
		return fmt.Errorf("the free space of %s is not known: %w", dir, err)
	}
	if free >= bytes+r.Reserve {
		return nil
	}
	return fmt.Errorf("%w: the disk of %s has %s free; the backup needs %s: %s to copy, and the reserve of %s",
		pebblegate.ErrNoRoom, dir, pebblegate.FormatFree(free), pebblegate.FormatNeed(bytes+r.Reserve),
		pebblegate.FormatNeed(bytes), pebblegate.FormatNeed(r.Reserve))
}

// RoomWriter writes a file of unknown length. It fails with pebblegate.ErrNoRoom before it uses the
// reserve.
type RoomWriter struct {
	io.Writer
	Room BackupRoom
	Dir  string
	left int // bytes until the next measurement
}

// Write implements io.Writer. It measures the free space once in RoomEvery bytes, and fails with
// pebblegate.ErrNoRoom before it goes below the reserve.
func (w *RoomWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		if err := w.Room.requireFree(w.Dir, RoomEvery); err != nil {
			return 0, err
		}
		w.left = RoomEvery
	}
	return w.Writer.Write(p)
}

// CheckpointBytes returns an upper bound of the bytes of the stores' checkpoints in a directory. On
// the disk of its store a checkpoint links the tables, which takes no space. It fails only with the
// disk's error.
func CheckpointBytes(to string, stores ...string) (total int64, err error) {
	device, err := datadir.Device(to)
	if err != nil {
		return 0, err
	}
	for _, store := range stores {
		own, err := datadir.Device(store)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a store of the sandbox that was never made
		}
		if err != nil {
			return 0, err
		}
		bytes, err := treeBytes(store, func(name string) bool {
			return own != device || filepath.Ext(name) != ".sst"
		})
		if err != nil {
			return 0, err
		}
		total += bytes
	}
	return total, nil
}

// treeBytes adds up the sizes of the files of a directory for which counts is true. A file that is
// removed meanwhile counts 0. It fails for a directory that cannot be read.
func treeBytes(dir string, counts func(name string) bool) (total int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() || !counts(path) {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// Unfinished is the directory that a backup fills beside its place. mark is its locked
// UnfinishedMark.
type Unfinished struct {
	Dir  string
	Mark *os.File
}

// BeginUnfinished makes the directory of a backup. It first removes the directories that killed
// backups of the same deployment have left beside it, and notes those of an unknown owner. It fails
// with the disk's error.
func BeginUnfinished(to, deployment string, note func(string)) (*Unfinished, error) {
	if err := removeUnfinished(filepath.Dir(to), deployment, note); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), filepath.Base(to)+UnfinishedInfix)
	if err != nil {
		return nil, err
	}
	u := &Unfinished{Dir: dir}
	u.Mark, err = os.OpenFile(filepath.Join(dir, UnfinishedMark), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		// The lock precedes the id, because removeOwn removes no directory without the id.
		if err = syscall.Flock(int(u.Mark.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			_, err = u.Mark.WriteString(deployment)
		}
	}
	if err != nil {
		return nil, u.abandon(err)
	}
	return u, nil
}

// finish removes the mark of a whole backup and renames the backup to its place. It fails with the
// disk's error, and the directory is then removed.
func (u *Unfinished) finish(to string) error {
	err := os.Remove(u.Mark.Name())
	if err == nil {
		err = datadir.SyncDir(u.Dir)
	}
	if err == nil {
		err = os.Rename(u.Dir, to)
	}
	if err != nil {
		return u.abandon(err)
	}
	return errors.Join(u.Mark.Close(), datadir.SyncDir(filepath.Dir(to)))
}

// abandon removes the directory of a backup that failed. It returns why, joined with the errors of
// the removal.
func (u *Unfinished) abandon(why error) error {
	why = errors.Join(why, os.RemoveAll(u.Dir))
	if u.Mark != nil {
		why = errors.Join(why, u.Mark.Close())
	}
	return why
}

// removeUnfinished removes the directories that killed backups of a deployment have left in parent.
// A directory that another process fills stays. A directory without the deployment's mark stays
// too, and is noted. It fails only with the disk's error.
func removeUnfinished(parent, deployment string, note func(string)) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.Contains(e.Name(), UnfinishedInfix) {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		own, err := removeOwn(dir, deployment)
		if err != nil {
			return fmt.Errorf("remove an unfinished backup: %w", err)
		}
		if !own {
			note(dir)
		}
	}
	return nil
}

// removeOwn removes an unfinished backup of a deployment, unless another process fills it. It
// reports whether the backup is the deployment's.
func removeOwn(dir, deployment string) (own bool, err error) {
	mark, err := os.OpenFile(filepath.Join(dir, UnfinishedMark), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, nil // no mark, or one of another user
	}
	defer func() { err = errors.Join(err, mark.Close()) }()
	text, err := io.ReadAll(io.LimitReader(mark, int64(len(deployment)+1)))
	if err != nil || string(text) != deployment {
		return false, nil
	}
	if err := syscall.Flock(int(mark.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return true, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return true, err
	}
	for _, e := range entries { // the mark goes last: a kill in between leaves the rest removable
		if e.Name() != UnfinishedMark {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return true, errors.Join(err, os.RemoveAll(dir))
}
