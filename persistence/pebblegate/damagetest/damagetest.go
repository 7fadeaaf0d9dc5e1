// Package damagetest alters one place of a store on an in-memory disk, as a failing disk does, and
// judges the start after it.
package damagetest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// Kinds of damage.
const (
	flippedBit = iota
	zeroed512
	zeroed4096
	stale512
	stale4096
	kinds
)

// tailBytes is how much of the end of a file counts as its tail. Half of the places lie in tails.
const tailBytes = 8 << 10

// grain is the resolution at which a file is searched for bytes that are not zero. Damage to zeros
// alone is of no interest.
const grain = 64

// Disk is a store as a crash leaves it. Older is the same disk at an earlier moment: a stale
// sector is one of Older, as if its later write had been lost. Open opens the store on a copy,
// reads back every acknowledged value, and returns the number of missing or different ones. An
// error is a refusal, at the start or by a read.
type Disk struct {
	Name  string
	FS    *vfs.MemFS
	Older *vfs.MemFS
	Dir   string
	Open  func(fs *vfs.MemFS) (lost int, err error)
}

// Outcome counts the results of starts on damaged disks.
type Outcome struct {
	Places, Refused, Whole, Lost int
	Losses                       []string // the first silent losses, by place
}

// Add adds another outcome.
func (o *Outcome) Add(b Outcome) {
	o.Places, o.Refused, o.Whole, o.Lost = o.Places+b.Places, o.Refused+b.Refused, o.Whole+b.Whole, o.Lost+b.Lost
	o.Losses = append(o.Losses, b.Losses...)
}

// Places returns how many places of one disk are damaged: short in a usual run, long under
// PURSER_TEST_FULL.
func Places(short, long int) int {
	if os.Getenv("PURSER_TEST_FULL") != "" {
		return long
	}
	return short
}

// place is a file, an offset and a kind of damage.
type place struct {
	file   string
	kind   int
	offset int64
	bit    byte
}

// String names the place in Outcome.Losses: "stale 512 at 1024 of 000004.log".
func (p place) String() string {
	kind := [kinds]string{"flipped bit", "zeroed 512", "zeroed 4096", "stale 512", "stale 4096"}[p.kind]
	return fmt.Sprintf("%s at %d of %s", kind, p.offset, p.file)
}

// Sweep damages a disk at n places drawn from random, one at a time, and opens the store each time.
func Sweep(t testing.TB, d Disk, n int, random *rand.Rand) Outcome {
	t.Helper()
	lost, err := d.Open(clone(d.FS))
	require.NoError(t, err, "%s: the undamaged store is refused", d.Name)
	require.Zero(t, lost, "%s: the undamaged store lacks what was acknowledged", d.Name)
	var o Outcome
	targets := d.targets(t)
	for o.Places < n {
		p := draw(targets, random)
		damaged := clone(d.FS)
		if !d.applyDamage(t, damaged, p) {
			continue
		}
		o.Places++
		lost, err := d.Open(damaged)
		switch {
		case err != nil:
			o.Refused++
		case lost == 0:
			o.Whole++
		default:
			o.Lost++
			o.Losses = append(o.Losses, fmt.Sprintf("%s: %v: %d lost", d.Name, p, lost))
		}
	}
	return o
}

func clone(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// target is a file with the offsets of its bytes that are not zero.
type target struct {
	file    string
	offsets []int64
}

// targets returns the files of a store and the offsets in them that can be damaged: blocks that are
// not all zero.
func (d *Disk) targets(t testing.TB) []target {
	names, err := d.FS.List(d.Dir)
	require.NoError(t, err)
	slices.Sort(names)
	var found []target
	for _, name := range names {
		if info, err := d.FS.Stat(d.FS.PathJoin(d.Dir, name)); name == "LOCK" || err != nil || info.IsDir() {
			continue
		}
		data := read(t, d.FS, d.FS.PathJoin(d.Dir, name))
		of := target{file: name}
		for at := 0; at < len(data); at += grain {
			if strings.Trim(string(data[at:min(at+grain, len(data))]), "\x00") != "" {
				of.offsets = append(of.offsets, int64(at))
			}
		}
		if len(of.offsets) > 0 {
			found = append(found, of)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// draw chooses a file, a place in it and a kind of damage at random; half of the places are near a
// file's end.
func draw(targets []target, random *rand.Rand) place {
	of := targets[random.IntN(len(targets))]
	offsets := of.offsets
	if random.IntN(2) == 0 {
		tail, _ := slices.BinarySearch(offsets, offsets[len(offsets)-1]-tailBytes)
		offsets = offsets[tail:]
	}
	return place{file: of.file, kind: random.IntN(kinds), offset: offsets[random.IntN(len(offsets))] +
		int64(random.IntN(grain)),
		bit: byte(1) << random.IntN(8)}
}

// applyDamage alters the place and returns whether a byte changed.
func (d *Disk) applyDamage(t testing.TB, fs *vfs.MemFS, p place) bool {
	path := fs.PathJoin(d.Dir, p.file)
	data := read(t, fs, path)
	before := slices.Clone(data)
	switch p.kind {
	case flippedBit:
		data[min(p.offset, int64(len(data)-1))] ^= p.bit
	case zeroed512, zeroed4096:
		clear(sector(data, p))
	default:
		clear(sector(data, p))
		if older, err := d.Older.Open(path); err == nil {
			old, err := io.ReadAll(older)
			require.NoError(t, errors.Join(err, older.Close()))
			copy(sector(data, p), sector(old, p))
		}
	}
	if slices.Equal(before, data) {
		return false
	}
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.WriteAt(data, 0)
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
	return true
}

// sector is the aligned sector of data in which the place lies, as far as there is one.
func sector(data []byte, p place) []byte {
	size := int64(512)
	if p.kind == zeroed4096 || p.kind == stale4096 {
		size = 4096
	}
	from := min(p.offset/size*size, int64(len(data)))
	return data[from:min(from+size, int64(len(data)))]
}

func read(t testing.TB, fs vfs.FS, path string) []byte {
	f, err := fs.Open(path)
	require.NoError(t, err)
	data, err := io.ReadAll(f)
	require.NoError(t, errors.Join(err, f.Close()))
	return data
}
