package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Refusals of an authenticated caller do not close its address; those of an unknown caller do.
func TestOnlyRefusalsBeforeAuthenticationAreCounted(t *testing.T) {
	const refusals = 30 // more than ten seconds of one a second
	m := startSet(t, t.TempDir(), func(s *Settings) { s.Refusals = "1" })
	defer func() { require.NoError(t, m.Close()) }()
	url := "http://" + m.listeners.http.Addr().String()
	known, unknown := newClient(url, ""), newClient(url, "unknown")
	for _, c := range []*client{known, unknown} {
		c.http.Transport = &http.Transport{DisableKeepAlives: true}
	}
	signUp := request{method: "POST", path: "/api/dashboard/signup",
		body: marshal(fields{"email": "ada@example.com", "password": "a long password"})}
	a, err := known.send(t.Context(), signUp)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, string(a.raw))
	for range refusals {
		a, err := known.send(t.Context(), request{method: "POST", path: "/api/workspaces", body: []byte(`{"name":7}`)})
		require.NoError(t, err)
		require.GreaterOrEqual(t, a.status, http.StatusBadRequest)
		require.NotEqual(t, http.StatusUnauthorized, a.status)
	}
	for n := 0; err == nil && n < 10*refusals; n++ {
		_, err = unknown.send(t.Context(), request{method: "GET", path: "/api/cards"})
	}
	require.ErrorContains(t, err, "PURSER_REFUSALS")
}
