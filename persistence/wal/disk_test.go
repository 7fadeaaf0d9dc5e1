package wal

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

const sectorBytes = 512

// sectorDisk is a file system whose crash keeps each unsynced sector, name and removal of a name or
// loses it, independently. A sector that was written several times since its sync may hold any of
// its versions.
type sectorDisk struct {
	vfs.FS

	hook    sync.Mutex
	touched func() // called after each change, one call at a time; nil: nothing

	mu          sync.Mutex
	names       map[string]*diskFile
	syncedNames map[string]*diskFile
}

// diskFile is the content of a file of a sectorDisk.
type diskFile struct {
	synced   []byte
	versions map[int][][]byte // by sector: its versions since its sync, the last one is current
}

func newSectorDisk() *sectorDisk {
	return &sectorDisk{FS: vfs.NewMem(), names: map[string]*diskFile{}, syncedNames: map[string]*diskFile{}}
}

func (d *sectorDisk) change(do func() error) error {
	d.mu.Lock()
	err := do()
	d.mu.Unlock()
	d.hook.Lock()
	defer d.hook.Unlock()
	if d.touched != nil {
		d.touched()
	}
	return err
}

// afterEach makes the disk call a function after each change, one call at a time.
func (d *sectorDisk) afterEach(touched func()) {
	d.hook.Lock()
	defer d.hook.Unlock()
	d.touched = touched
}

func (d *sectorDisk) Create(name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = d.change(func() error {
		n := &diskFile{versions: map[int][][]byte{}}
		d.names[name] = n
		if f, err = d.FS.Create(name, category); err == nil {
			f = &sectorFile{File: f, disk: d, content: n}
		}
		return err
	})
	return f, err
}

func (d *sectorDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.FS.OpenReadWrite(name, c, o...)
	if err != nil {
		return nil, err
	}
	return &sectorFile{File: f, disk: d, content: d.names[name]}, nil
}

func (d *sectorDisk) Rename(from, to string) error {
	return d.change(func() error {
		d.names[to] = d.names[from]
		delete(d.names, from)
		return d.FS.Rename(from, to)
	})
}

func (d *sectorDisk) Remove(name string) error {
	return d.change(func() error {
		delete(d.names, name)
		return d.FS.Remove(name)
	})
}

func (d *sectorDisk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	return &sectorDir{File: f, disk: d, name: name}, err
}

type sectorDir struct {
	vfs.File
	disk *sectorDisk
	name string
}

func (f *sectorDir) Sync() error {
	return f.disk.change(func() error {
		if f.name == "log" { // and not a parent of it
			f.disk.syncedNames = maps.Clone(f.disk.names)
		}
		return nil
	})
}

type sectorFile struct {
	vfs.File
	disk    *sectorDisk
	content *diskFile
	at      int64
}

func (f *sectorFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.at)
	f.at += int64(n)
	return n, err
}

func (f *sectorFile) WriteAt(p []byte, at int64) (n int, err error) {
	err = f.disk.change(func() error {
		if n, err = f.File.(interface {
			WriteAt([]byte, int64) (int, error)
		}).WriteAt(p, at); err != nil {
			return err
		}
		info, err := f.File.Stat()
		if err != nil {
			return err
		}
		for sector := int(at) / sectorBytes; sector*sectorBytes < int(at)+len(p); sector++ {
			size := min(sectorBytes, info.Size()-int64(sector)*sectorBytes)
			now := make([]byte, size)
			if _, err := f.File.ReadAt(now, int64(sector)*sectorBytes); err != nil {
				return err
			}
			f.content.versions[sector] = append(f.content.versions[sector], now)
		}
		return nil
	})
	return n, err
}

func (f *sectorFile) Sync() error {
	return f.disk.change(func() error {
		for _, sector := range slices.Sorted(maps.Keys(f.content.versions)) {
			versions := f.content.versions[sector]
			f.content.putSector(sector, versions[len(versions)-1])
		}
		clear(f.content.versions)
		return nil
	})
}

func (f *sectorFile) SyncData() error { return f.Sync() }

// putSector writes a sector of the synced content.
func (n *diskFile) putSector(sector int, b []byte) {
	at := sector * sectorBytes
	if grow := at + len(b) - len(n.synced); grow > 0 {
		n.synced = append(n.synced, make([]byte, grow)...)
	}
	copy(n.synced[at:], b)
}

// crash returns a disk as a power loss may leave this one.
func (d *sectorDisk) crash(t require.TestingT, random *rand.Rand) *sectorDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := maps.Clone(d.syncedNames)
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		if random.IntN(2) == 0 {
			names[name] = d.names[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.syncedNames)) {
		if d.names[name] == nil && random.IntN(2) == 0 {
			delete(names, name)
		}
	}
	left := newSectorDisk()
	require.NoError(t, left.FS.MkdirAll("log", 0o700))
	odds := random.IntN(5) // a sector is lost
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old := names[name]
		n := &diskFile{synced: slices.Clone(old.synced), versions: map[int][][]byte{}}
		for _, sector := range slices.Sorted(maps.Keys(old.versions)) {
			versions := old.versions[sector]
			if random.IntN(4) >= odds {
				n.putSector(sector, versions[len(versions)-1-random.IntN(min(2, len(versions)))])
			}
		}
		left.names[name], left.syncedNames[name] = n, n
		writeFile(t, left.FS, name, n.synced)
	}
	return left
}

func writeFile(t require.TestingT, fs vfs.FS, name string, data []byte) {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(slices.Clone(data))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func readFile(t testing.TB, fs vfs.FS, name string) []byte {
	f, err := fs.Open(name)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	data := make([]byte, info.Size())
	if len(data) > 0 {
		_, err = f.ReadAt(data, 0)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	return data
}
