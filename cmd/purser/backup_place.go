package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"purser/persistence/pebblegate"
)

// The place of a backup: whether its disk has room, and the directories of backups that were killed.

const (
	// unfinishedInfix is in the name of a directory that a backup fills, behind the name of the backup.
	unfinishedInfix = ".unfinished-"
	// unfinishedMark is a file in such a directory. It has the id of the deployment, and the process
	// that fills the directory holds a lock on it.
	unfinishedMark = "UNFINISHED"
	// roomEvery is how many bytes of a journal's archive are written between two looks at the disk.
	roomEvery = 16 << 20
)

// foreignBackup is said of a directory that may be another's.
const foreignBackup = "an unfinished backup of an earlier program or another deployment stays: " +
	"remove it if nothing fills it"

// backupRoom decides whether a disk has room for a backup.
type backupRoom struct {
	free    func(dir string) (int64, error)
	reserve int64 // bytes that a backup leaves free
}

// require refuses to write so many bytes into a directory whose disk would have less than the reserve
// after them. The error is pebblegate.ErrNoRoom.
func (r backupRoom) require(dir string, bytes int64) error {
	free, err := r.free(dir)
	if err != nil {
		return fmt.Errorf("the free space of %s is not known: %w", dir, err)
	}
	if free >= bytes+r.reserve {
		return nil
	}
	return fmt.Errorf("%w: the disk of %s has %s free; the backup needs %s: %s to copy, and the reserve of %s",
		pebblegate.ErrNoRoom, dir, pebblegate.FormatFree(free), pebblegate.FormatNeed(bytes+r.reserve),
		pebblegate.FormatNeed(bytes), pebblegate.FormatNeed(r.reserve))
}

// roomWriter writes a file of unknown length and ends with an error before the reserve is used up.
type roomWriter struct {
	io.Writer
	room backupRoom
	dir  string
	left int // bytes until the next look
}

// Write implements io.Writer.
func (w *roomWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		if err := w.room.require(w.dir, roomEvery); err != nil {
			return 0, err
		}
		w.left = roomEvery
	}
	return w.Writer.Write(p)
}

// checkpointBytes bounds what the checkpoints of stores take in a directory. On the disk of a store
// its tables are linked and take nothing.
func checkpointBytes(to string, stores ...string) (total int64, err error) {
	device, err := deviceOf(to)
	if err != nil {
		return 0, err
	}
	for _, store := range stores {
		own, err := deviceOf(store)
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

// treeBytes adds up the files of a directory that count. A file that is removed meanwhile has none.
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

// unfinished is a directory that a backup fills beside its place.
type unfinished struct {
	dir  string
	mark *os.File
}

// beginUnfinished makes the directory of a backup. It first removes those that killed backups of the
// same deployment have left there, and notes those that it must not remove.
func beginUnfinished(to, deployment string, note func(string)) (*unfinished, error) {
	if err := removeUnfinished(filepath.Dir(to), deployment, note); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), filepath.Base(to)+unfinishedInfix)
	if err != nil {
		return nil, err
	}
	u := &unfinished{dir: dir}
	if u.mark, err = os.OpenFile(filepath.Join(dir, unfinishedMark), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
		// The lock comes before the text: without it the directory is nobody's to remove.
		if err = syscall.Flock(int(u.mark.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			_, err = u.mark.WriteString(deployment)
		}
	}
	if err != nil {
		return nil, u.abandon(err)
	}
	return u, nil
}

// finish gives a whole backup its place.
func (u *unfinished) finish(to string) error {
	err := os.Remove(u.mark.Name())
	if err == nil {
		err = syncDir(u.dir)
	}
	if err == nil {
		err = os.Rename(u.dir, to)
	}
	if err != nil {
		return u.abandon(err)
	}
	return errors.Join(u.mark.Close(), syncDir(filepath.Dir(to)))
}

// abandon removes the directory and returns why.
func (u *unfinished) abandon(why error) error {
	why = errors.Join(why, os.RemoveAll(u.dir))
	if u.mark != nil {
		why = errors.Join(why, u.mark.Close())
	}
	return why
}

// removeUnfinished removes what killed backups of a deployment have left in a directory. A directory
// that another process fills stays. One without the deployment's mark stays too, and is noted.
func removeUnfinished(parent, deployment string, note func(string)) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.Contains(e.Name(), unfinishedInfix) {
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

// removeOwn removes an unfinished backup of a deployment, unless another process fills it. It reports
// whether the backup is the deployment's.
func removeOwn(dir, deployment string) (own bool, err error) {
	mark, err := os.OpenFile(filepath.Join(dir, unfinishedMark), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
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
		if e.Name() != unfinishedMark {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return true, errors.Join(err, os.RemoveAll(dir))
}
