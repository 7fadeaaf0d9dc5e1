package forwarded

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func networks(t testing.TB, text string) Networks {
	t.Helper()
	n, err := ParseNetworks(text)
	require.NoError(t, err)
	return n
}

func TestParseNetworks(t *testing.T) {
	n := networks(t, " 10.0.0.0/8, 192.0.2.7 ,2001:db8::/32,::ffff:172.16.0.0/108,::ffff:198.51.100.1")
	for address, trusted := range map[string]bool{"10.255.0.1": true, "11.0.0.1": false, "192.0.2.7": true,
		"192.0.2.8":     false,
		"2001:db8:1::1": true, "2001:db9::1": false, "172.31.0.1": true, "172.32.0.1": false, "::ffff:10.0.0.1": true,
		"198.51.100.1": true, "::1": false} {
		require.Equal(t, trusted, n.Contains(Plain(netip.MustParseAddr(address))), address)
	}
	require.Empty(t, networks(t, " "))
	require.False(t, Networks(nil).Contains(netip.MustParseAddr("10.0.0.1")))
	require.False(t, n.Contains(netip.Addr{}))
}

func TestParseNetworksNamesEveryFault(t *testing.T) {
	_, err := ParseNetworks("proxy,10.1.2.3/8,0.0.0.0/0,::/0,fe80::1%eth0,10.0.0.0/33,")
	for _, part := range []string{`"proxy" is neither`, "the network is 10.0.0.0/8", `"0.0.0.0/0" trusts every address`,
		`"::/0" trusts`, `"fe80::1%eth0"`, `"10.0.0.0/33"`, `"" is neither`} {
		require.ErrorContains(t, err, part)
	}
	_, err = ParseNetworks(strings.TrimSuffix(strings.Repeat("192.0.2.1,", MaxNetworks+1), ","))
	require.ErrorContains(t, err, "65 networks are more than 64")
	require.Len(t, networks(t, strings.TrimSuffix(strings.Repeat("192.0.2.1,", MaxNetworks), ",")), MaxNetworks)
}

func TestClient(t *testing.T) {
	const peer = "10.0.0.1"
	trusted := networks(t, "10.0.0.0/8,2001:db8:ffff::/48")
	for _, c := range []struct{ name, peer, xff, forwarded, client string }{
		{"no field", peer, "", "", peer},
		{"one entry", peer, "192.0.2.1", "", "192.0.2.1"},
		{"a forged entry on the left", peer, "203.0.113.9, 192.0.2.1", "", "192.0.2.1"},
		{"proxies in a row", peer, "203.0.113.9,192.0.2.1,10.0.0.7 , 10.9.9.9", "", "192.0.2.1"},
		{"only proxies", peer, "10.0.0.3,10.0.0.2", "", "10.0.0.3"},
		{"an untrusted peer", "192.0.2.66", "203.0.113.9", "for=203.0.113.9", "192.0.2.66"},
		{"empty entries", peer, ",192.0.2.1,, ", "", "192.0.2.1"},
		{"a port", peer, "192.0.2.1:4711", "", "192.0.2.1"},
		{"IPv6", peer, "2001:db8::1", "", "2001:db8::1"},
		{"IPv6 with a port", peer, "[2001:db8::1]:4711", "", "2001:db8::1"},
		{"IPv6 with a zone", peer, "fe80::1%eth0", "", "fe80::1"},
		{"an IPv4-mapped client", peer, "::ffff:192.0.2.1", "", "192.0.2.1"},
		{"an IPv4-mapped proxy", peer, "192.0.2.1,::ffff:10.0.0.2", "", "192.0.2.1"},
		{"unknown ends the walk", peer, "192.0.2.1,unknown,10.0.0.2", "", "10.0.0.2"},
		{"unknown at once", peer, "192.0.2.1,unknown", "", peer},
		{"not an address", peer, "192.0.2.1,192.0.2.300", "", peer},
		{"not a port", peer, "192.0.2.1:http", "", peer},
		{"not IPv6", peer, "[192.0.2.1]", "", peer},
		{"text behind a bracket", peer, "[2001:db8::1]x", "", peer},

		{"for", peer, "", "for=192.0.2.1", "192.0.2.1"},
		{"for in capitals with others", peer, "", `By=10.0.0.1 ; FOR="192.0.2.1:99";proto=https;host=x`, "192.0.2.1"},
		{"for IPv6", peer, "", `for="[2001:db8::1]:4711"`, "2001:db8::1"},
		{"for, proxies in a row", peer, "", `for=203.0.113.9, for=192.0.2.1;proto=http, for="[2001:db8:ffff::2]"`, "192.0.2.1"},
		{"for, an obfuscated client", peer, "", `for=192.0.2.1, for=_hidden, for=10.0.0.2`, "10.0.0.2"},
		{"for, an obfuscated port", peer, "", `for="192.0.2.1:_p"`, "192.0.2.1"},
		{"for unknown", peer, "", `for=192.0.2.1, for=unknown`, peer},
		{"an element without for", peer, "", `for=192.0.2.1, proto=https`, peer},
		{"empty elements", peer, "", `, for=192.0.2.1,;,`, "192.0.2.1"},
		{"a comma in quotes", peer, "", `host="a,for=203.0.113.9";for=192.0.2.1`, "192.0.2.1"},
		{"an escape", peer, "", `host="a\",for=203.0.113.9";for=192.0.2.1`, "192.0.2.1"},
		{"an open quote", peer, "", `for="203.0.113.9, for=192.0.2.1`, peer},
		{"for twice", peer, "", `for=203.0.113.9;for=192.0.2.1`, peer},
		{"no value", peer, "", `for=, for=192.0.2.1`, peer},
		{"no name", peer, "", `=192.0.2.1`, peer},
		{"no pair", peer, "", `192.0.2.1`, peer},
		{"text behind a quote", peer, "", `for="192.0.2.1"x`, peer},

		{"both agree", peer, "203.0.113.9, 192.0.2.1", "for=192.0.2.1", "192.0.2.1"},
		{"Forwarded is forged", peer, "192.0.2.1", "for=203.0.113.9", peer},
		{"X-Forwarded-For is forged", peer, "203.0.113.9", "for=192.0.2.1", peer},
		{"a malformed one beside a good one", peer, "192.0.2.1", `for="`, peer},
	} {
		client := trusted.Client(netip.MustParseAddr(c.peer),
			Fields{For: []byte(c.xff), Forwarded: []byte(c.forwarded)})
		require.Equal(t, c.client, client.String(), c.name)
	}
}

// A list longer than MaxHops ends at the farthest proxy that is looked at.
func TestHopsAreBounded(t *testing.T) {
	trusted := networks(t, "10.0.0.0/8")
	text := "192.0.2.1,10.0.0.8," + strings.TrimSuffix(strings.Repeat("10.0.0.9,", MaxHops-1), ",")
	client := trusted.Client(netip.MustParseAddr("10.0.0.1"), Fields{For: []byte(text)})
	require.Equal(t, "10.0.0.8", client.String())
	text = strings.Replace(text, "10.0.0.9,", "", 1)
	client = trusted.Client(netip.MustParseAddr("10.0.0.1"), Fields{For: []byte(text)})
	require.Equal(t, "192.0.2.1", client.String())
}

func TestHTTPS(t *testing.T) {
	for _, c := range []struct {
		proto, forwarded string
		secure           bool
	}{
		{"", "", false},
		{"https", "", true},
		{"HTTPS ", "", true},
		{"https,http", "", false},
		{"http, https", "", true},
		{"httpsx", "", false},
		{"", "for=x;proto=https", true},
		{"", "proto=http, proto=https", true},
		{"", "proto=https, proto=http", false},
		{"", "proto=https, for=192.0.2.1", false},
		{"https", "for=192.0.2.1", true},
		{"https", "proto=http", false},
		{"http", "proto=https", false},
		{"https", `proto="https`, false},
	} {
		require.Equal(t, c.secure, Fields{Proto: []byte(c.proto), Forwarded: []byte(c.forwarded)}.HTTPS(), "%+v", c)
	}
}

// The entry that a trusted proxy appends decides, whatever the client has sent before it.
func FuzzClient(f *testing.F) {
	for _, seed := range []string{"", "192.0.2.1", `for="[2001:db8::1]:1";proto=https`, "unknown,_x", `for="`, `a="\"",for=1`,
		strings.Repeat(",", 100), "10.0.0.1,10.0.0.2"} {
		f.Add(seed, seed)
	}
	trusted := networks(f, "10.0.0.0/8")
	peer, stranger := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("192.0.2.7")
	appended := netip.MustParseAddr("198.51.100.23")
	f.Fuzz(func(t *testing.T, xff, text string) {
		both := Fields{For: []byte(xff), Forwarded: []byte(text), Proto: []byte(xff)}
		both.HTTPS()
		require.Equal(t, stranger, trusted.Client(stranger, both))
		given := trusted.Client(peer, Fields{For: []byte(xff)})
		require.True(t, given.IsValid() && given == Plain(given))
		if text != "" {
			require.Contains(t, []netip.Addr{peer, given}, trusted.Client(peer, both), "no third address")
		}
		byProxy := Fields{For: bytes.Join([][]byte{[]byte(xff), []byte(appended.String())}, []byte(","))}
		require.Equal(t, appended, trusted.Client(peer, byProxy))
		byProxy = Fields{Forwarded: []byte(text + ", for=" + appended.String())}
		client := trusted.Client(peer, byProxy)
		if _, valid := parseForwarded([]byte(text)); valid {
			require.Equal(t, appended, client)
		}
		require.Contains(t, []netip.Addr{appended, peer}, client, "a malformed field hides the client, and forges none")
	})
}
