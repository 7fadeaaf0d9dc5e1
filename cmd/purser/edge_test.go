package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"purser/authorizer/front"
	"purser/cmd/purser/settings"
)

// The limit of open files is divided among the stores, the two ports and the outgoing calls. A
// limit below 928 is refused.
func TestDescriptorsAreDividedAmongTheirUsers(t *testing.T) {
	most := settings.Connections{REST: 8192, Network: 16384, PerAddress: 512}
	f := func(limit uint64, want descriptorShares) {
		t.Helper()
		got, err := shareDescriptors(limit, most)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	f(928, descriptorShares{openTables: 128, network: 64, rest: 128, calls: 64})
	f(1024, descriptorShares{openTables: 128, network: 96, rest: 192, calls: 64})
	f(4096, descriptorShares{openTables: 512, network: 736, rest: 1472, calls: 448})
	f(20_000, descriptorShares{openTables: 1000, network: 5370, rest: 8192, calls: 1472})
	f(1<<20, descriptorShares{openTables: 1000, network: 16384, rest: 8192, calls: 1472})
	f(1<<63, descriptorShares{openTables: 1000, network: 16384, rest: 8192, calls: 1472}) // unlimited
	_, err := shareDescriptors(927, most)
	require.EqualError(t, err, "the limit of open files is 927, and purser needs 928: raise it, "+
		"with `ulimit -n 928` or LimitNOFILE= of the service")
	shares, err := shareDescriptors(20_000, settings.Connections{REST: 10, Network: 20})
	require.NoError(t, err)
	require.Equal(t, descriptorShares{openTables: 1000, network: 20, rest: 10, calls: 1472}, shares)
}

// failsOnceServer is a server whose first Serve fails. The second one serves until Shutdown.
type failsOnceServer struct {
	served chan net.Listener
	shut   chan struct{}
	failed bool
}

var errListener = errors.New("the listener failed")

func (b *failsOnceServer) Serve(ln net.Listener) error {
	if !b.failed {
		b.failed = true
		return errListener
	}
	b.served <- ln
	<-b.shut
	return ln.Close()
}

func (b *failsOnceServer) Shutdown(context.Context) error { close(b.shut); return nil }

// A failed listener of the REST or admin port is opened again at its address. A failed listener of
// the card network ends the process.
func TestFailedListenerIsReopened(t *testing.T) {
	for _, name := range []string{portREST, portAdmin, portNetwork} {
		m := newDaemon(settings.Config{}, slog.New(slog.DiscardHandler))
		m.edge.addPort(name, 1, func() front.Counts { return front.Counts{} })
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		s := &failsOnceServer{served: make(chan net.Listener, 1), shut: make(chan struct{})}
		stop := m.serve(name, s, ln)
		if name == portNetwork {
			require.ErrorIs(t, <-m.Failed(), errListener)
			require.NoError(t, ln.Close())
		} else {
			require.Equal(t, ln.Addr().String(), (<-s.served).Addr().String())
			require.Empty(t, m.Failed())
			require.Equal(t, 1.0, countReopenedListeners(t, m.edge))
		}
		require.NoError(t, stop())
	}
}

// countReopenedListeners returns the number of reopened listeners in the metrics.
func countReopenedListeners(t *testing.T, e *edge) (sum float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(e))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "purser_listeners_reopened_total" {
			sum += family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return sum
}
