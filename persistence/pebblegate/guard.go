package pebblegate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"purser/persistence/dataformat"
)

// guarded is the file system of one store. It keeps the integrity file in step with the manifests
// that Pebble writes.
type guarded struct {
	vfs.FS
	dir   string
	state *integrity
}

// maxPlainManifest bounds a manifest without an extent, which is read whole.
const maxPlainManifest = 512 << 20

// guardStore verifies the files of a store before Pebble opens it, and returns the file system for
// Pebble. It fails with ErrDamaged, with ErrDBDoesNotExist for an absent store that must exist,
// with *dataformat.Other for a newer store, and with the disk's error.
func guardStore(fs vfs.FS, dir string, mustExist bool) (*guarded, error) {
	g := &guarded{FS: fs, dir: dir, state: newIntegrity(fs, dir)}
	if err := requireFormat(fs, dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	manifest, err := atomicfs.ReadMarker(fs, dir, "manifest")
	if err != nil && !isNotExist(err) {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := g.requireNoLog(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	known, err := g.state.loadNewest()
	if err == nil && !known && manifest == "" && mustExist {
		err = fmt.Errorf("%s: %w", dir, pebble.ErrDBDoesNotExist)
	}
	if err == nil {
		if known {
			err = g.verifyKnown(manifest)
		} else {
			err = g.adoptFiles(manifest)
		}
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

// requireNoLog refuses a store of a program that kept its changes in a log of Pebble's. It fails
// with *dataformat.Other and the disk's error.
func (g *guarded) requireNoLog() error {
	data, err := readFile(g.FS, g.state.file.path, 4)
	if isNotExist(err) || err == nil && (len(data) < 4 || binary.LittleEndian.Uint32(data) != loggedMagic) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", g.dir, dataformat.Require("the format of its files", loggedMagic, integrityMagic,
		"make a backup with the program that made it, and restore that with this one"))
}

// verifyKnown checks the current manifest. It fails with ErrDamaged for one that is missing or
// differs from its synced content, and with the disk's error.
func (g *guarded) verifyKnown(manifest string) error {
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
	return nil
}

// adoptFiles takes over a restored backup, which has no integrity file, or a new directory. It
// fails with ErrDamaged for a damaged manifest, and for tables without a manifest; else with the
// disk's error.
func (g *guarded) adoptFiles(manifest string) error {
	if manifest == "" {
		return g.requireNoTables()
	}
	number, ok := manifestNumber(manifest)
	if !ok {
		return fmt.Errorf("%w: %s: its manifest is called %s", ErrDamaged, g.dir, manifest)
	}
	data, err := readFile(g.FS, g.pathOf(manifest), maxPlainManifest)
	if err == nil {
		err = scanRecords(data)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, g.pathOf(manifest), err)
	}
	g.state.manifests[number] = extent{uint64(len(data)), crc32.Checksum(data, castagnoli)}
	g.state.opened = true
	return g.state.changeDurably(func() {})
}

// requireNoTables makes the integrity file of a new directory.
func (g *guarded) requireNoTables() error {
	names, err := g.List(g.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			return fmt.Errorf("%w: %s: it has tables, and the marker of its manifest is missing", ErrDamaged, g.dir)
		}
	}
	return g.state.changeDurably(func() {})
}

// scanRecords reads the records of a manifest to their end. It fails for a chunk that does not
// check.
func scanRecords(data []byte) error {
	for r := record.NewReader(bytes.NewReader(data), 0); ; {
		next, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, next)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
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

func manifestNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, "MANIFEST-")
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, ok && err == nil
}

// Create implements vfs.FS. A new manifest is kept in the integrity file. It fails with the
// disk's error.
func (g *guarded) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(path, category)
	name, own := g.ownFile(path)
	if number, ok := manifestNumber(name); err == nil && own && ok {
		f = &manifestWriter{File: f, number: number, state: g.state}
	}
	return f, err
}

// Remove implements vfs.FS.
func (g *guarded) Remove(path string) error {
	name, own := g.ownFile(path)
	if number, ok := manifestNumber(name); own && ok {
		g.state.mu.Lock()
		delete(g.state.manifests, number) // an obsolete manifest may be missing
		g.state.mu.Unlock()
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
