package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
	"purser/persistence/pebblegate"
)

// alterFormat adds to the number of the format in a store's stamp.
func alterFormat(t *testing.T, dir, key string, by int) {
	t.Helper()
	db, closeStore, err := openStore(dir, &pebble.Options{FS: vfs.Default, Logger: panicLog{}})
	require.NoError(t, err)
	value, closer, err := db.Get([]byte(key))
	require.NoError(t, err)
	stamp := []byte(string(value))
	require.NoError(t, closer.Close())
	stamp[3] = byte(int(stamp[3]) + by)
	require.NoError(t, db.Set([]byte(key), stamp, pebble.NoSync))
	require.NoError(t, errors.Join(db.Flush(), closeStore()))
}

// A start refuses data of another format with its number, the number that the program reads, and
// what to do. For data of a newer program that is never to remove it.
func TestDataOfAnotherFormatIsRefusedWithTheRepair(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, startServer(t, data).Close())
	stamped := func(dir, key string) func(t *testing.T, by int) {
		return func(t *testing.T, by int) {
			alterFormat(t, dir, key, by)
			t.Cleanup(func() { alterFormat(t, dir, key, -by) })
		}
	}
	for _, c := range []struct {
		name, older string
		alter       func(t *testing.T, by int)
	}{
		{"journal", "start with an empty directory", stamped(datadir.JournalDir(data), "m")},
		{"authorizer", "after a clean stop of the program that made it", stamped(datadir.AuthorizerDir(data), "a")},
		{"sandbox", "", func(t *testing.T, by int) { // Pebble brings an older one up to date
			marker, err := filepath.Glob(filepath.Join(datadir.SandboxDir(data), "marker.format-version.*"))
			require.NoError(t, err)
			require.Len(t, marker, 1)
			other := fmt.Sprintf("%s.%03d", strings.TrimSuffix(marker[0], filepath.Ext(marker[0])), int(pebblegate.Format)+by)
			require.NoError(t, os.Rename(marker[0], other))
			t.Cleanup(func() { require.NoError(t, os.Rename(other, marker[0])) })
		}},
		{"clock", removeClockMark, func(t *testing.T, by int) {
			before, err := os.ReadFile(clockFile(data))
			require.NoError(t, err)
			form := datadir.Form{Name: clockMarkForm.Name, Number: clockMarkForm.Number + int64(by)}
			require.NoError(t, datadir.WriteChecksummed(clockFile(data), form, nil))
			t.Cleanup(func() { require.NoError(t, os.WriteFile(clockFile(data), before, 0o600)) })
		}},
	} {
		for by, repair := range map[int]string{-1: c.older,
			1: "run the newer program, or restore a backup made by this one"} {
			if repair == "" {
				continue
			}
			t.Run(fmt.Sprint(c.name, by), func(t *testing.T) {
				c.alter(t, by)
				err := newDaemon(testConfig(t, data), debugLogger()).Start(t.Context())
				require.ErrorContains(t, err, data)
				require.Regexp(t, `its format( of tables)? is \d+, this program reads \d+: `+repair, err)
				if by > 0 {
					require.NotRegexp(t, "remove|empty|rebuild|anew", err)
				}
				if c.name == "authorizer" && by > 0 {
					err := run([]string{"rebuild-authorizer", "--yes", "--data-dir", data}, io.Discard)
					require.ErrorContains(t, err, repair, "a store of a newer program is not lost")
				}
			})
		}
	}
	require.NoError(t, startServer(t, data).Close(), "a refused start changes nothing")
}
