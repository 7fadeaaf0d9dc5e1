package pgtest

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A machine without Postgres leaves tests out and names them; with CI=true they fail. A server that
// does not start is always a failure.
func TestMissingPostgresFailsOnlyInCI(t *testing.T) {
	for name, c := range map[string]struct {
		ci   string
		err  error
		want int
	}{
		"at home":      {"", ErrAbsent, 0},
		"in the check": {"true", ErrAbsent, 1},
		"broken":       {"", errors.New("initdb: exit status 1"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", c.ci)
			var output bytes.Buffer
			require.Equal(t, c.want, reportAbsent(&output, "the journal", c.err))
			require.Equal(t, "left out, the journal: "+c.err.Error()+"\n", output.String())
		})
	}
}

// The server skips a port that another process uses, and reports its own exit as such.
func TestPortInUseIsSkipped(t *testing.T) {
	next := strconv.Itoa(nthPort(ports.Load() + 1))
	taken, err := net.Listen("tcp", net.JoinHostPort(ownHost(), next))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	server := Own(t, "a server beside another", false)
	if server == nil {
		return
	}
	require.NotEqual(t, taken.Addr().String(), server.address())
	require.NoError(t, server.Stop())
	require.NoError(t, os.Remove(filepath.Join(server.dataDir(), "PG_VERSION")))
	err = server.Restart()
	require.ErrorContains(t, err, "postgres ended")
	require.NotErrorIs(t, err, errTaken, "an earlier start's log is held against a later one")
}

// 192.0.2.1 is in the block reserved for documentation (RFC 5737): no machine has it.
func TestHostFallsBackToOtherAddress(t *testing.T) {
	require.Equal(t, "127.0.0.1", hostOr("192.0.2.1", "127.0.0.1"))
	require.Equal(t, "127.0.0.1", hostOr("127.0.0.1", "192.0.2.1"))
}

// The server keeps its data when it is paused, crashed and stopped.
func TestServerKeepsItsData(t *testing.T) {
	server := Own(t, "a server of its own", true)
	if server == nil {
		return
	}
	for _, f := range []func() error{
		server.Pause, server.Resume, server.awaitReady, server.Crash, server.Restart, server.Stop, server.Restart,
	} {
		require.NoError(t, f())
	}
}

// Data is in memory only on a machine with a file system for it.
func TestDataIsInMemoryWhereThereIsRoom(t *testing.T) {
	require.Empty(t, memoryParent(filepath.Join(t.TempDir(), "absent")))
}
