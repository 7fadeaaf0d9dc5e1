package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/persistence/pebblegate"
	"purser/persistence/pebblegate/damagetest"
	"purser/persistence/pebblelog"
)

// pebbleDirs are the store directories of an embedded deployment.
var pebbleDirs = []string{"journal", "authorizer", "sandbox"}

// copyStoresToMemory copies the stores of a data directory to an in-memory file system.
func copyStoresToMemory(t *testing.T, data string) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	for _, dir := range pebbleDirs {
		require.NoError(t, fs.MkdirAll(dir, 0o700))
		entries, err := os.ReadDir(filepath.Join(data, dir))
		require.NoError(t, err)
		for _, entry := range entries {
			text, err := os.ReadFile(filepath.Join(data, dir, entry.Name()))
			require.NoError(t, err)
			f, err := fs.Create(fs.PathJoin(dir, entry.Name()), vfs.WriteCategoryUnspecified)
			require.NoError(t, err)
			_, err = f.Write(text)
			require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
		}
		d, err := fs.OpenDir(dir)
		require.NoError(t, err)
		require.NoError(t, errors.Join(d.Sync(), d.Close()))
	}
	d, err := fs.OpenDir("")
	require.NoError(t, err)
	require.NoError(t, errors.Join(d.Sync(), d.Close()))
	return fs
}

// panicLog turns a fatal error of Pebble, which would end the process, into a panic.
type panicLog struct{}

func (panicLog) Infof(string, ...any)  {}
func (panicLog) Errorf(string, ...any) {}
func (panicLog) Fatalf(f string, _ ...any) {
	panic(errors.New(f))
}

// readStore opens a store as a start does and returns all its keys and values. A fatal error of
// Pebble and a reported corruption are errors.
func readStore(t testing.TB, fs vfs.FS, dir string) (content map[string]string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(err, p.(error))
		}
	}()
	var corruption error
	o := &pebble.Options{FS: fs, Logger: panicLog{}, ErrorIfNotExists: true,
		EventListener: &pebble.EventListener{DataCorruption: func(i pebble.DataCorruptionInfo) {
			corruption = i.Details
		}}}
	db, closeStore, err := openStore(dir, o)
	if err != nil {
		return nil, err
	}
	content = map[string]string{}
	all, err := db.NewIter(nil)
	require.NoError(t, err)
	for all.First(); all.Valid(); all.Next() {
		content[string(all.Key())] = string(all.Value())
	}
	return content, errors.Join(all.Error(), all.Close(), closeStore(), corruption)
}

// openStore opens a store with what its log has. That of the authorizer's log is in no table;
// only the engine can read it.
func openStore(dir string, o *pebble.Options) (db *pebble.DB, closeStore func() error, err error) {
	if filepath.Base(dir) == "authorizer" {
		db, err := pebblegate.Open(dir, o)
		if err != nil {
			return nil, nil, err
		}
		return db, db.Close, nil
	}
	s, err := pebblelog.Open(pebblelog.Options{Dir: dir, Pebble: o})
	if err != nil {
		return nil, nil, err
	}
	return s.DB, s.Close, nil
}

// countDifferences counts the keys whose values differ and the keys that only one of the maps has.
func countDifferences(a, b map[string]string) (n int) {
	for key, value := range a {
		if got, ok := b[key]; !ok || !bytes.Equal([]byte(got), []byte(value)) {
			n++
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			n++
		}
	}
	return n
}

// TestAttackDamageToADeploymentIsRefused damages single places of each store of a server that was
// killed with SIGKILL, once after its first start and once after its second. Opening the store
// either fails or reads every value.
func TestAttackDamageToADeploymentIsRefused(t *testing.T) {
	onlyInFullLength(t)
	purser, data := program{path: buildProgram(t)}, t.TempDir()
	older := vfs.NewMem()
	random := rand.New(rand.NewPCG(14, 7))
	var all damagetest.Outcome
	for _, name := range []string{"young", "of a second start"} {
		p := launch(t, purser, data)
		requireSuccess(t, purser, data, "demo", "--url", p.rest, "--authorizer-url", p.network, "--admin-url", p.admin)
		p.signalAndWait(t, syscall.SIGKILL)
		image := copyStoresToMemory(t, data)
		for _, dir := range pebbleDirs {
			whole, err := readStore(t, image.CrashClone(vfs.CrashCloneCfg{}), dir)
			require.NoError(t, err)
			disk := damagetest.Disk{Name: dir + " " + name, Dir: dir, FS: image, Older: older,
				Open: func(fs *vfs.MemFS) (int, error) {
					content, err := readStore(t, fs, dir)
					return countDifferences(whole, content), err
				}}
			o := damagetest.Sweep(t, disk, damagetest.Places(10, 1_000), random)
			t.Logf("%s: %d places, %d refused, %d whole, %d lost", disk.Name, o.Places, o.Refused, o.Whole, o.Lost)
			all.Add(o)
		}
		older = image
	}
	require.Zero(t, all.Lost, "of %d places: %s", all.Places, strings.Join(all.Losses[:min(20, len(all.Losses))], "\n"))
}
