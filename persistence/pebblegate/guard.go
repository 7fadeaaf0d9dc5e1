package pebblegate

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"purser/persistence/dataformat"
)

// guarded is the file system of one store. It keeps the integrity file in step with the manifests
// and logs that Pebble writes, mirrors the pages of each log, and verifies manifests and logs when
// they are read.
type guarded struct {
	vfs.FS
	dir   string
	state *integrity
	notes *syncedLogs

	mu      sync.Mutex
	writers map[uint64]*logWriter // logs that this process has made and not removed
}

// guardStore verifies the files of a store before Pebble opens it, and returns the file system for
// Pebble. It fails with ErrDamaged, with ErrDBDoesNotExist for an absent store that must exist,
// with *dataformat.Other for a newer store, and with the disk's error.
func guardStore(fs vfs.FS, dir string, mustExist bool) (*guarded, error) {
	g := &guarded{FS: fs, dir: dir, state: newIntegrity(fs, dir), notes: newSyncedLogs(fs, dir),
		writers: map[uint64]*logWriter{}}
	if err := requireFormat(fs, dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	manifest, err := atomicfs.ReadMarker(fs, dir, "manifest")
	if err != nil && !isNotExist(err) {
		return nil, fmt.Errorf("open store: %w", err)
	}
	known, err := g.state.loadNewest()
	if err == nil && !known && manifest == "" && mustExist {
		err = fmt.Errorf("%s: %w", dir, pebble.ErrDBDoesNotExist)
	}
	if err == nil {
		err = g.notes.load(!known)
	}
	if err == nil {
		err = g.verifyFiles(known, manifest)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return g, nil
}

// requireFormat refuses a store whose format is newer than Format, before its files look damaged.
// Pebble brings an older one up to date. It fails with *dataformat.Other and the disk's error.
func requireFormat(fs vfs.FS, dir string) error {
	marker, err := atomicfs.ReadMarker(fs, dir, "format-version")
	if isNotExist(err) || err == nil && marker == "" {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := strconv.ParseInt(marker, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s: its format is %q", ErrDamaged, dir, marker)
	}
	if found <= int64(Format) {
		return nil
	}
	return fmt.Errorf("%s: %w", dir, dataformat.Require("its format of tables", found, int64(Format), ""))
}

// verifyFiles checks manifest and logs by the integrity file; known says whether there is one. A
// store without it is adopted. It fails with ErrDamaged and the disk's error.
func (g *guarded) verifyFiles(known bool, manifest string) error {
	names, err := g.List(g.dir)
	if err != nil {
		return err
	}
	if known {
		return g.verifyKnown(names, manifest)
	}
	return g.adoptFiles(names, manifest)
}

// verifyKnown checks the current manifest, and that each listed log is there. It fails with
// ErrDamaged for a file that is missing or differs from its synced content, and with the disk's
// error.
func (g *guarded) verifyKnown(names []string, manifest string) error {
	if manifest == "" {
		if g.state.opened {
			return fmt.Errorf("%w: %s: the marker of its manifest is missing", ErrDamaged, g.dir)
		}
		clear(g.state.manifests) // a crash in the first open, which acknowledged nothing
		return nil
	}
	number, ok := manifestNumber(manifest)
	want, listed := g.state.manifests[number]
	if !ok || !listed {
		return fmt.Errorf("%w: %s: its manifest %s is not the one that was synced", ErrDamaged, g.dir, manifest)
	}
	f, err := g.FS.Open(g.pathOf(manifest))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	err = verifyExtent(f, want)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, g.pathOf(manifest), err)
	}
	// Earlier manifests are never read again. Each start that ends by a crash would leave one here,
	// up to maxManifests.
	g.state.manifests = map[uint64]extent{number: want}
	return g.requireLogs(names)
}

// requireLogs fails with ErrDamaged for a store that lacks a listed log, and with the disk's error.
// The file of a log that Pebble has used again bears the new log's number.
func (g *guarded) requireLogs(names []string) error {
	missing := map[uint64]bool{}
	for log := range g.state.logs {
		missing[log] = true
	}
	var files []uint64
	for _, name := range names {
		if number, ok := logNumber(name); ok {
			delete(missing, number)
			files = append(files, number)
		}
	}
	for _, number := range files {
		if len(missing) == 0 {
			break
		}
		h, ok, err := g.headerOf(number)
		if err != nil {
			return err
		}
		before := h.before
		if h.log != number {
			before = h.log // the header is still that of the log before
		}
		if ok && missing[before] {
			delete(missing, before)
			delete(g.state.logs, before)
		}
	}
	for log := range missing {
		return fmt.Errorf("%w: %s: the write-ahead log is missing", ErrDamaged, g.pathOf(logName(log)))
	}
	return nil
}

// headerOf reads the header of a log's file; ok is false when it has none. It fails with the disk's
// error.
func (g *guarded) headerOf(log uint64) (h fileHeader, ok bool, err error) {
	f, err := g.FS.Open(g.pathOf(logName(log)))
	if err != nil {
		return fileHeader{}, false, err
	}
	h, ok, err = readHeader(f)
	return h, ok, errors.Join(err, f.Close())
}

// adoptFiles takes over a restored backup, which has no integrity file, or a new directory. It
// fails with ErrDamaged for a damaged manifest, for mirrored logs, and for tables without a
// manifest; else with the disk's error.
func (g *guarded) adoptFiles(names []string, manifest string) error {
	for _, name := range names {
		number, ok := logNumber(name)
		switch {
		case ok:
			_, mirrored, err := g.headerOf(number)
			if err != nil {
				return err
			}
			if mirrored {
				return fmt.Errorf("%w: %s is missing beside mirrored logs", ErrDamaged, g.state.file.path)
			}
			g.state.logs[number] = plainLog
		case manifest == "" && strings.HasSuffix(name, ".sst"):
			return fmt.Errorf("%w: %s: it has tables, and the marker of its manifest is missing", ErrDamaged, g.dir)
		}
	}
	if manifest != "" {
		number, ok := manifestNumber(manifest)
		if !ok {
			return fmt.Errorf("%w: %s: its manifest is called %s", ErrDamaged, g.dir, manifest)
		}
		data, err := readFile(g.FS, g.pathOf(manifest), maxPlainManifest)
		if err == nil {
			err = scanRecords(data, 0)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, g.pathOf(manifest), err)
		}
		g.state.manifests[number] = extent{uint64(len(data)), crc32.Checksum(data, castagnoli)}
		g.state.opened = true
	}
	return g.state.changeDurably(func() {})
}

// keepOpened records durably that the store has a current manifest from now on. It fails with the
// disk's error. openGuarded calls it once Pebble has opened the store.
func (g *guarded) keepOpened() error {
	if g.state.opened {
		return nil
	}
	return g.state.changeDurably(func() { g.state.opened = true })
}

func (g *guarded) pathOf(name string) string { return g.PathJoin(g.dir, name) }

// ownFile returns the base name of a path, and whether the file is in the store's directory.
func (g *guarded) ownFile(path string) (name string, ok bool) {
	name = g.PathBase(path)
	return name, g.pathOf(name) == path
}

func logName(number uint64) string { return fmt.Sprintf("%06d.log", number) }

func logNumber(name string) (uint64, bool) {
	number, index, ok := wal.ParseLogFilename(name)
	return uint64(number), ok && index == 0
}

func manifestNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, "MANIFEST-")
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, ok && err == nil
}

// Create implements vfs.FS. A new log is mirrored, and a new manifest kept in the integrity file.
// It fails with the disk's error.
func (g *guarded) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(path, category)
	name, own := g.ownFile(path)
	if err != nil || !own {
		return f, err
	}
	if number, ok := logNumber(name); ok {
		return g.writeLog(f, number, 0)
	}
	if number, ok := manifestNumber(name); ok {
		return &manifestWriter{File: f, number: number, state: g.state}, nil
	}
	return f, nil
}

// ReuseForWrite implements vfs.FS: Pebble makes a new log from the file of an old one. It fails
// with the disk's error.
func (g *guarded) ReuseForWrite(oldpath, newpath string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.ReuseForWrite(oldpath, newpath, category)
	if err != nil {
		return nil, err
	}
	oldName, _ := g.ownFile(oldpath)
	newName, own := g.ownFile(newpath)
	before, _ := logNumber(oldName)
	number, ok := logNumber(newName)
	if !own || !ok {
		return f, nil
	}
	return g.writeLog(f, number, before)
}

// writeLog returns the writer of a new log that replaces the log before. The log is listed in the
// integrity file after its first sync. When the header cannot be written, f is closed and the error
// returned.
func (g *guarded) writeLog(f vfs.File, number, before uint64) (vfs.File, error) {
	g.notes.forget(before)
	w, err := newLogWriter(f, number, before, func() error {
		return g.state.changeDurably(func() {
			delete(g.state.logs, before)
			g.state.logs[number] = mirroredLog
		})
	})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w.notes = g.notes
	w.roomy = func(bytes int64) bool { return HasRoom(g.FS, g.dir, bytes) }
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.writers, before)
	g.writers[number] = w
	return w, nil
}

// Open implements vfs.FS. A log is verified when it is read, so that a start reads only those that
// Pebble replays. A damaged log fails with ErrDamaged.
func (g *guarded) Open(path string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := g.FS.Open(path, opts...)
	name, own := g.ownFile(path)
	number, ok := logNumber(name)
	if err != nil || !own || !ok {
		return f, err
	}
	g.mu.Lock()
	w := g.writers[number]
	g.mu.Unlock()
	if w != nil {
		return &logReader{File: f, end: w.end.Load()}, nil
	}
	read, err := g.openLog(path, f, number)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return read, nil
}

// openLog verifies a log of an earlier start and returns a file that shows its records. It fails
// with ErrDamaged for a log that ends before its synced end and for a damaged one without mirrored
// pages, and with the disk's error.
func (g *guarded) openLog(path string, f vfs.File, number uint64) (vfs.File, error) {
	h, ok, err := readHeader(f)
	if err != nil {
		return nil, err
	}
	kind, listed := g.state.kindOf(number)
	switch {
	case ok && h.log == number || listed && kind == mirroredLog || g.notes.endOf(number) > 0:
		r, end, err := recoverLog(path, f, number)
		if err == nil && listed && end == 0 {
			err = fmt.Errorf("%w: %s: it was synced with records, and has none", ErrDamaged, path)
		}
		if err == nil {
			err = g.notes.checkEnd(path, number, end)
		}
		return r, err
	case listed:
		data, err := readFile(g.FS, path, maxPlainLog)
		if err == nil {
			err = scanRecords(data, uint32(number))
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
		}
		return f, nil
	}
	return &logReader{File: f}, nil // a log that was never synced
}

// Remove implements vfs.FS. A log is removed from the integrity file before its file. It fails with
// the disk's error.
func (g *guarded) Remove(path string) error {
	name, own := g.ownFile(path)
	if !own {
		return g.FS.Remove(path)
	}
	if number, ok := manifestNumber(name); ok {
		g.state.mu.Lock()
		delete(g.state.manifests, number) // an obsolete manifest may be missing
		g.state.mu.Unlock()
	}
	number, ok := logNumber(name)
	if _, listed := g.state.kindOf(number); ok && listed {
		if err := g.state.changeDurably(func() { delete(g.state.logs, number) }); err != nil {
			return err
		}
	}
	if ok {
		g.notes.forget(number)
		g.mu.Lock()
		delete(g.writers, number)
		g.mu.Unlock()
	}
	return g.FS.Remove(path)
}

// Unwrap is vfs.FS's.
func (g *guarded) Unwrap() vfs.FS { return g.FS }

// manifestWriter is a manifest that Pebble writes. Its synced extent is in the integrity file
// before its sync returns.
type manifestWriter struct {
	vfs.File
	number uint64
	state  *integrity
	extent extent
}

// Write implements vfs.File. The checksum is of a copy, because a file system may change the bytes
// it has written, as those of Pebble's tests do. It fails with the disk's error.
func (w *manifestWriter) Write(p []byte) (int, error) {
	written := slices.Clone(p)
	n, err := w.File.Write(p)
	w.extent = extent{w.extent.bytes + uint64(n), crc32.Update(w.extent.sum, castagnoli, written[:n])}
	return n, err
}

// Sync is vfs.File's.
func (w *manifestWriter) Sync() error { return w.syncBy(w.File.Sync) }

// SyncData is vfs.File's.
func (w *manifestWriter) SyncData() error { return w.syncBy(w.File.SyncData) }

// syncBy syncs the manifest and then stores its extent in the integrity file. It fails with the
// disk's error.
func (w *manifestWriter) syncBy(sync func() error) error {
	if err := sync(); err != nil {
		return err
	}
	return w.state.changeDurably(func() { w.state.manifests[w.number] = w.extent })
}
