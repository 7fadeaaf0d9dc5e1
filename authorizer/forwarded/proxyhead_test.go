package forwarded

import (
	"bytes"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

const signed = "0d0a0d0a000d0a515549540a"

// heads are heads by the specification (haproxy.org, proxy-protocol.txt, section 2.2).
var heads = []struct{ name, head, client, fault string }{
	{"TCP over IPv4", signed + "2111000c" + "c0000201" + "0a000001" + "1f40" + "01bb", "192.0.2.1", ""},
	{"TCP over IPv6", signed + "21210024" + "20010db8000000000000000000000001" + "20010db8000000000000000000000002" +
		"1f4001bb",
		"2001:db8::1", ""},
	{"an IPv4-mapped address", signed + "21210024" + "00000000000000000000ffffc0000201" +
		"00000000000000000000ffff0a000001" + "1f4001bb",
		"192.0.2.1", ""},
	{"with more behind the addresses", signed + "21110014" + "c0000201" + "0a000001" + "1f40" + "01bb" +
		"0300050102030405", "192.0.2.1", ""},
	{"the longest", signed + "21110ff0" + "c0000201" + "0a000001" + "1f40" + "01bb" + strings.Repeat("00", 0xff0-12),
		"192.0.2.1", ""},
	{"LOCAL", signed + "20000000", "invalid IP", ""},
	{"LOCAL with addresses", signed + "2011000c" + "c0000201" + "0a000001" + "1f40" + "01bb", "invalid IP", ""},
	{"an unknown client", signed + "21000000", "invalid IP", ""},
	{"a unix socket", signed + "213100d8" + strings.Repeat("00", 216), "invalid IP", ""},
	{"version 1", hex.EncodeToString([]byte("PROXY TCP4 192.0.2.1 10.0.0.1 8000 443\r\n")), "", "another signature"},
	{"HTTP", hex.EncodeToString([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), "", "another signature"},
	{"another version", signed + "3111000c" + "c0000201" + "0a000001" + "1f40" + "01bb", "", "version 3"},
	{"another command", signed + "2211000c" + "c0000201" + "0a000001" + "1f40" + "01bb", "", "command 2"},
	{"UDP", signed + "2112000c" + "c0000201" + "0a000001" + "1f40" + "01bb", "", "0x12 are not TCP"},
	{"too short for its addresses", signed + "2111000b" + "c0000201" + "0a000001" + "1f40" + "01", "", "too short"},
	{"too long", signed + "21110ff1" + "c0000201", "", "longer than 4096 bytes"},
}

func TestReadProxyHead(t *testing.T) {
	for _, c := range heads {
		head, err := hex.DecodeString(c.head)
		require.NoError(t, err, c.name)
		from := bytes.NewReader(append(head, "rest"...))
		client, err := ReadProxyHead(iotest.OneByteReader(from))
		if c.fault != "" {
			require.ErrorIs(t, err, ErrProxyHead, c.name)
			require.ErrorContains(t, err, c.fault, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, c.client, client.String(), c.name)
		rest, err := io.ReadAll(from)
		require.NoError(t, err)
		require.Equal(t, "rest", string(rest), "%s: not a byte more is read", c.name)
		for n := range min(len(head), 300) {
			_, err := ReadProxyHead(bytes.NewReader(head[:n]))
			require.Error(t, err, "%s, cut at %d", c.name, n)
		}
	}
}

func FuzzReadProxyHead(f *testing.F) {
	for _, c := range heads {
		head, err := hex.DecodeString(c.head)
		require.NoError(f, err)
		f.Add(head)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		from := bytes.NewReader(text)
		client, err := ReadProxyHead(from)
		read := len(text) - from.Len()
		require.LessOrEqual(t, read, MaxProxyHead)
		if err != nil {
			require.False(t, client.IsValid())
			return
		}
		again, err := ReadProxyHead(bytes.NewReader(text[:read]))
		require.NoError(t, err)
		require.Equal(t, client, again, "what follows does not matter")
	})
}
