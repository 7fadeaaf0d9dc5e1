package httpapi

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

const testProxy, testStranger = "10.9.0.1", "10.8.0.1"

// newProxiedWorld makes a world whose requests come through a trusted proxy.
func newProxiedWorld(t *testing.T, change ...func(*Config)) *world {
	return newWorld(t, append(change, func(c *Config) {
		c.Edge.Proxies = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}
	})...)
}

// clientAt returns the header with which a proxy forwards a client's request. The client itself
// sent the entry on the left.
func clientAt(n int) as { return as{"X-Forwarded-For": fmt.Sprintf("198.51.100.1, 192.0.2.%d", n)} }

func limitAddresses(most int) func(*Config) {
	return func(c *Config) { c.RateLimits = RateLimits{PerKey: 1000, PerWorkspace: 1000, PerAddress: most} }
}

// The limits of an address apply to the client behind a trusted proxy, on known and unknown routes.
// The fields of an untrusted peer are ignored.
func TestLimitsCountTheClientBehindAProxy(t *testing.T) {
	t.Parallel()
	w := newProxiedWorld(t, limitAddresses(2))
	for i, from := range []string{testProxy, testStranger} {
		w.at(from, func() {
			for _, path := range []string{"/api/nothing", "/api/v1/openapi.json"} {
				w.get(clientAt(1+10*i), path)
			}
			w.fails(w.get(clientAt(1+10*i), "/api/nothing"), 429, "rate_limited")
			w.fails(w.get(clientAt(1+10*i), "/api/v1/openapi.json"), 429, "rate_limited")
			status := map[string]int{testProxy: 200, testStranger: 429}[from]
			require.Equal(t, status, w.get(clientAt(2+10*i), "/api/v1/openapi.json").status, from)
			require.Equal(t, status, w.get(as{"Forwarded": "for=192.0.2.3;proto=https"}, "/api/v1/openapi.json").status, from)
		})
	}
}

// spend uses up a limit.
func (w *world) spend(t *testing.T, caller string, limit int) {
	t.Helper()
	for range limit {
		wait, err := w.server.limits.counts.admitOne(caller, limit)
		require.NoError(t, err)
		require.Zero(t, wait)
	}
}

// Sign-ups and sign-ins count against the client.
func TestCountersOfSignInCountTheClientBehindAProxy(t *testing.T) {
	t.Parallel()
	w := newProxiedWorld(t)
	delayed := w.countDelays()
	w.at(testProxy, func() {
		const ada = `{"email":"ada@example.com","password":"a long password"}`
		w.spend(t, "signup-address/192.0.2.1", signupsPerAddress)
		w.fails(w.post(clientAt(1), "/api/dashboard/signup", ada), 429, "rate_limited")
		w.ok(w.post(clientAt(2), "/api/dashboard/signup", ada))
		w.spend(t, "login-address/192.0.2.3", loginsPerAddress)
		w.ok(w.post(clientAt(2), "/api/dashboard/login", ada))
		require.Zero(t, *delayed, "another client is at its first attempt")
		w.ok(w.post(clientAt(3), "/api/dashboard/login", ada))
		require.Equal(t, 1, *delayed)
	})
}

// Strict-Transport-Security is on every answer to a request over https, and on no other.
func TestStrictTransportSecurity(t *testing.T) {
	t.Parallel()
	const header, only = "Strict-Transport-Security", "max-age=31536000"
	byHTTPS := as{"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}
	w := newProxiedWorld(t, limitAddresses(4), func(c *Config) { c.BaseURL = "https://purser.test" })
	w.at(testProxy, func() {
		for _, path := range []string{"/api/v1/openapi.json", "/api/nothing", "/api/cards", "/api/cards",
			"/api/cards"} {
			require.Equal(t, only, w.get(byHTTPS, path).header(header), path)
		}
		require.Empty(t, w.get(byHTTPS.with("X-Forwarded-Proto", "http"), "/api/nothing").header(header))
		require.Empty(t, w.get(nil, "/api/nothing").header(header))
	})
	w.at(testStranger, func() { require.Empty(t, w.get(byHTTPS, "/api/nothing").header(header)) })
	plain := newProxiedWorld(t)
	plain.at(testProxy, func() {
		require.Empty(t, plain.get(byHTTPS, "/api/nothing").header(header), "links are http")
	})
}

// The hosted page answers a client behind a proxy with pages too, and counts that client.
func TestTheHostedPageBehindAProxy(t *testing.T) {
	t.Parallel()
	w := newProxiedWorld(t, limitAddresses(1))
	w.at(testProxy, func() {
		for client, want := range []int{404, 404} {
			status, contentType, _, body := w.showPage(clientAt(client), "/checkout/cs_nothing")
			require.Equal(t, want, status)
			require.Equal(t, "text/html; charset=utf-8", contentType)
			require.Contains(t, body, "There is no such link")
		}
		status, contentType, _, body := w.showPage(clientAt(0), "/checkout/cs_nothing")
		require.Equal(t, 429, status)
		require.Equal(t, "text/html; charset=utf-8", contentType)
		require.Contains(t, body, "Too many requests")
	})
}
