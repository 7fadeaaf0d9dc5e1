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

// TestAbsent: a machine without Postgres leaves tests out and says which; the checks do not, and a server that is there and does
// not start is always a failure.
func TestAbsent(t *testing.T) {
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
			var said bytes.Buffer
			require.Equal(t, c.want, absent(&said, "the journal", c.err))
			require.Equal(t, "left out, the journal: "+c.err.Error()+"\n", said.String())
		})
	}
}

// TestATakenPortIsPassedOver: whoever has the port, the server that answers is the one that was started.
func TestATakenPortIsPassedOver(t *testing.T) {
	next := strconv.Itoa(port(ports.Load() + 1))
	taken, err := net.Listen("tcp", net.JoinHostPort(ownHost(), next))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	server := Own(t, "a server beside another", false)
	if server == nil {
		return
	}
	require.NotEqual(t, taken.Addr().String(), server.address())
	require.NoError(t, server.Stop())
	require.NoError(t, os.Remove(filepath.Join(server.data(), "PG_VERSION")))
	err = server.Restart()
	require.ErrorContains(t, err, "postgres ended")
	require.NotErrorIs(t, err, errTaken, "an earlier start's log is held against a later one")
}

// TestAnAddressThatTheMachineLacks: 192.0.2.1 is of documentation's own block (RFC 5737), no machine has it.
func TestAnAddressThatTheMachineLacks(t *testing.T) {
	require.Equal(t, "127.0.0.1", hostOr("192.0.2.1", "127.0.0.1"))
	require.Equal(t, "127.0.0.1", hostOr("127.0.0.1", "192.0.2.1"))
}

// TestServer starts, pauses, crashes and stops a server, each time with the data it had.
func TestServer(t *testing.T) {
	server := Own(t, "a server of its own", true)
	if server == nil {
		return
	}
	for _, f := range []func() error{
		server.Pause, server.Resume, server.await, server.Crash, server.Restart, server.Stop, server.Restart,
	} {
		require.NoError(t, f())
	}
}
