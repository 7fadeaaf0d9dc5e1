package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/settings"
)

// Refused requests of an authenticated caller do not block its address; those of an unknown caller
// do.
func TestOnlyRefusalsBeforeAuthenticationAreCounted(t *testing.T) {
	const refusals = 30 // above the burst of ten seconds at one refusal a second
	m := startWithSettings(t, t.TempDir(), func(s *settings.Settings) { s.Refusals = "1" })
	defer func() { require.NoError(t, m.Close()) }()
	url := "http://" + m.listeners.http.Addr().String()
	known, unknown := apiclient.New(url, ""), apiclient.New(url, "unknown")
	for _, c := range []*apiclient.Client{known, unknown} {
		c.HTTP.Transport = &http.Transport{DisableKeepAlives: true}
	}
	signUp := apiclient.Request{Method: "POST", Path: "/api/dashboard/signup",
		Body: marshal(fields{"email": "ada@example.com", "password": "a long password"})}
	a, err := known.Send(t.Context(), signUp)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.Status, string(a.Raw))
	for range refusals {
		a, err := known.Send(t.Context(),
			apiclient.Request{Method: "POST", Path: "/api/workspaces", Body: []byte(`{"name":7}`)})
		require.NoError(t, err)
		require.GreaterOrEqual(t, a.Status, http.StatusBadRequest)
		require.NotEqual(t, http.StatusUnauthorized, a.Status)
	}
	for n := 0; err == nil && n < 10*refusals; n++ {
		_, err = unknown.Send(t.Context(), apiclient.Request{Method: "GET", Path: "/api/cards"})
	}
	require.ErrorContains(t, err, "PURSER_REFUSALS")
}
