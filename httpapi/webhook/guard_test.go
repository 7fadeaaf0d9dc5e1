package webhook

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// names is a resolver that returns the answers of a name in turn; the last answer repeats.
type names map[string][][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	answers, known := n[host]
	if !known {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		n[host] = answers[1:]
	}
	var all []netip.Addr
	for _, text := range answers[0] {
		all = append(all, netip.MustParseAddr(text))
	}
	return all, nil
}

func TestWhereDeliveriesMayGo(t *testing.T) {
	hosts := names{"good.example.com": {{"93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"}},
		"mapped.example.com": {{"::ffff:93.184.216.34"}},
		"mixed.example.com":  {{"93.184.216.34", "10.0.0.1"}}, "mapped-private.example.com": {{"::ffff:10.0.0.1"}},
		"none.example.com": {{}}}
	guard, open := NewGuard(false, hosts), NewGuard(true, hosts)
	f := func(url, says string) {
		t.Helper()
		err := guard.Check(t.Context(), url)
		if says == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, says)
	}
	const notURL, notPublic, notHTTPS = "is not an absolute URL", "not public", "must begin with https://"
	f("https://good.example.com", "")
	f("https://good.example.com:443/path?token=a", "")
	f("https://good.example.com:8443", "")
	f("https://mapped.example.com", "")
	f("https://93.184.216.34/", "")
	f("https://[2606:2800:220:1:248:1893:25c8:1946]/", "")

	f("", notURL)
	f("good.example.com", notURL)
	f("//good.example.com", notHTTPS)
	f("https:good.example.com", notURL)
	f("https://", notURL)
	f("https:///path", notURL)
	f("https://good.exämple.com", notURL)
	f("https://[fe80::1%25eth0]/", notURL)
	f("http://good.example.com", notHTTPS)
	f("ftp://good.example.com", notHTTPS)
	f("file://good.example.com/etc/passwd", notHTTPS)
	f("gopher://good.example.com", notHTTPS)
	f("https://user@good.example.com", "user or password")
	f("https://user:password@good.example.com", "user or password")
	f("https://good.example.com#part", "fragment")
	f("https://good.example.com:22", "port")
	f("https://good.example.com:6379", "port")
	f("https://good.example.com:80", "port")
	f("https://unknown.example.com", "cannot be resolved")
	f("https://none.example.com", "cannot be resolved")
	f("https://mixed.example.com", notPublic)
	f("https://mapped-private.example.com", notPublic)
	for _, address := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.254", "127.0.0.1", "127.8.8.8", "169.254.169.254",
		"172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
		"198.19.255.255",
		"198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[::ffff:0:127.0.0.1]", "[::127.0.0.1]",
		"[64:ff9b::7f00:1]", "[64:ff9b::5db8:d822]", "[64:ff9b:1::1]", "[100::1]", "[2001::1]", "[2001:db8::1]",
		"[2002:7f00:1::]", "[2002:5db8:d822::]", "[3fff::1]", "[fc00::1]", "[fd12:3456::1]", "[fe80::1]", "[fec0::1]",
		"[ff02::1]", "[5f00::1]",
	} {
		f("https://"+address+"/", notPublic)
		require.NoError(t, open.Check(t.Context(), "http://"+address+":8080/"), address)
	}
	require.ErrorContains(t, open.Check(t.Context(), "ftp://good.example.com"), notHTTPS)
	require.ErrorContains(t, open.Check(t.Context(), "http://user@good.example.com"), "user or password")
}

// A number in an unusual notation is resolved like a name, and the resolved address is checked.
func TestNumbersInDisguiseAreJudgedByTheirAddress(t *testing.T) {
	disguised := names{}
	for _, host := range []string{"2130706433", "0x7f000001", "127.1", "0177.0.0.1", "127.0.0.1."} {
		disguised[host] = [][]string{{"127.0.0.1"}}
		require.ErrorIs(t, NewGuard(false, disguised).Check(t.Context(), "https://"+host+"/"), ErrAddress, host)
	}
}

// The socket checks the final address, independent of the resolved ones.
func TestTheSocketIsJudgedToo(t *testing.T) {
	guard := NewGuard(false, names{})
	require.ErrorIs(t, guard.checkSocket(t.Context(), "tcp4", "127.0.0.1:443", nil), ErrAddress)
	require.ErrorIs(t, guard.checkSocket(t.Context(), "tcp6", "[::ffff:10.0.0.1]:443", nil), ErrAddress)
	require.Error(t, guard.checkSocket(t.Context(), "tcp6", "nonsense", nil))
	require.NoError(t, guard.checkSocket(t.Context(), "tcp4", "93.184.216.34:443", nil))
	require.NoError(t, NewGuard(true, nil).checkSocket(t.Context(), "tcp4", "127.0.0.1:443", nil))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	dialer := net.Dialer{Timeout: time.Minute, ControlContext: guard.checkSocket}
	_, err = dialer.DialContext(t.Context(), "tcp", ln.Addr().String())
	require.ErrorIs(t, err, ErrAddress)
}
