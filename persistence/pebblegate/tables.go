package pebblegate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// startTableBytes bounds what a start reads of the tables before the store is open: the newest
// ones. The rest is read behind it.
const startTableBytes = 32 << 20

// tableCheck verifies the checksums of the tables of a store that was opened. A start reads the
// newest tables, up to startTableBytes. A goroutine of the gate reads the others with pauses.
// Pebble itself verifies each block that it reads, so this check only finds damage earlier.
type tableCheck struct {
	fs   vfs.FS
	dir  string
	read sstable.ReaderOptions
	left []tableFile
}

type tableFile struct {
	number uint64
	bytes  uint64
}

// tablesOf lists the tables of an open store, newest first, for verification. It fails when the
// store cannot list them.
func tablesOf(db *pebble.DB, dir string, o *pebble.Options) (*tableCheck, error) {
	defaults := o.Clone()
	defaults.EnsureDefaults()
	t := &tableCheck{fs: o.FS, dir: dir, read: defaults.MakeReaderOptions()}
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}
	for _, level := range levels {
		for _, of := range level {
			t.left = append(t.left, tableFile{number: uint64(of.BackingSSTNum), bytes: of.Size})
		}
	}
	slices.SortFunc(t.left, func(a, b tableFile) int { return cmp.Compare(b.number, a.number) })
	t.left = slices.CompactFunc(t.left, func(a, b tableFile) bool { return a.number == b.number })
	return t, nil
}

// verifyNewest verifies the newest tables, up to startTableBytes. The older ones stay in left. It
// fails as verifyTable does.
func (t *tableCheck) verifyNewest() error {
	for budget := uint64(startTableBytes); len(t.left) > 0 && t.left[0].bytes <= budget; t.left = t.left[1:] {
		budget -= t.left[0].bytes
		if err := t.verifyTable(t.left[0], func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// verifyTable verifies the checksums of a table, and calls before ahead of each read. A table that
// was compacted meanwhile is no error. It fails with ErrDamaged, with the error of before, and with
// the disk's error.
func (t *tableCheck) verifyTable(of tableFile, before func() error) error {
	path := t.fs.PathJoin(t.dir, fmt.Sprintf("%06d.sst", of.number))
	f, err := t.fs.Open(path)
	if isNotExist(err) {
		return nil // compacted since
	}
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(pausing{File: f, before: before})
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, t.read)
	if err == nil {
		err = errors.Join(r.ValidateBlockChecksums(), r.Close())
	} else {
		err = errors.Join(err, readable.Close())
	}
	if err != nil && !errors.Is(err, errClosing) {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return err
}

// errClosing ends the reading of tables when the store is closed.
var errClosing = errors.New("pebblegate: the store is being closed")

// pausing is a file with a call ahead of each read.
type pausing struct {
	vfs.File
	before func() error
}

// ReadAt implements vfs.File. It fails with the error of before, and with the file's.
func (p pausing) ReadAt(b []byte, at int64) (int, error) {
	if err := p.before(); err != nil {
		return 0, err
	}
	return p.File.ReadAt(b, at)
}

// verifyRest verifies the tables that verifyNewest left, with pauses, and reports the first damage
// to fatal. It ends when the store is closed. It runs in a goroutine of its own after the open.
func (g *gate) verifyRest(t *tableCheck, fatal func(format string, args ...any)) {
	read := 0
	before := func() error {
		select {
		case <-g.done:
			return errClosing
		default:
		}
		if read++; read%restedReads == 0 {
			g.sleep(pieceRest)
		}
		return nil
	}
	for _, of := range t.left {
		err := t.verifyTable(of, before)
		if errors.Is(err, errClosing) {
			return
		}
		if err != nil {
			fatal("%v", err)
			return
		}
	}
}

// restedReads is the number of blocks between two pauses of the verification.
const restedReads = pieceBytes / (4 << 10)

// corruption keeps the first damage that Pebble meets while it opens a store. The store is then
// refused. Later damage goes to the listener.
type corruption struct {
	mu    sync.Mutex
	open  bool
	first error
	later func(pebble.DataCorruptionInfo)
}

// reportDamage is the listener's DataCorruption.
func (c *corruption) reportDamage(info pebble.DataCorruptionInfo) {
	c.mu.Lock()
	if !c.open {
		if c.first == nil {
			c.first = fmt.Errorf("%w: %s: %w", ErrDamaged, info.Path, info.Details)
		}
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.later(info)
}

// finishOpen returns the damage that Pebble met during the open, or nil; later damage goes to the
// listener.
func (c *corruption) finishOpen() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = c.first == nil
	return c.first
}
