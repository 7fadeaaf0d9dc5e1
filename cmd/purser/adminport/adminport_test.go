package adminport

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReachable(t *testing.T) {
	require.Equal(t, "127.0.0.1:80", Reachable(tcp("0.0.0.0:80")))
	require.Equal(t, "[::1]:80", Reachable(tcp("[::]:80")))
	require.Equal(t, "10.0.0.1:80", Reachable(tcp("10.0.0.1:80")))
}

func tcp(s string) net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s))
}
