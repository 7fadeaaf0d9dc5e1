package bankhttp_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/bankhttp"
)

func newClient(t *testing.T, url string) *bankhttp.Client {
	c := bankhttp.NewClient(url, func([]byte) string { return "a signature" })
	t.Cleanup(c.Close)
	return c
}

var ada = partner.Account{Reference: "rcp_1", Kind: "us", Name: "Ada", RoutingNumber: "021000021",
	AccountNumber: "987654321"}

// endpoints match the addresses in connection errors, whose ports may have any digits.
var endpoints = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)

// For any answer of the server, no error has an account number.
func TestNoErrorHasAnAccountNumber(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"echoes":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no account 987654321", 500) },
		"not JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"token":987654321`)) },
		"no token": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) },
		"too much": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) },
		"closes":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"sends elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/987654321", http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				answer(w, r)
			}))
			defer server.Close()
			_, err := newClient(t, server.URL).Tokenize(t.Context(), ada)
			require.Error(t, err)
			require.NotContains(t, endpoints.ReplaceAllString(err.Error(), ""), "4321")
			require.EqualValues(t, 1, calls.Load())
		})
	}
}

// A bank that cannot be connected to has no order, so the payment can be undone at once.
func TestPayToAnUnreachableBankIsErrFull(t *testing.T) {
	const nowhere = "http://127.0.0.1:1"
	order := partner.Payment{Reference: "po_1", Account: "any", Rail: "ach", AmountMinor: 1_000}
	require.ErrorIs(t, newClient(t, nowhere).Pay(t.Context(), order), partner.ErrFull)
	_, err := newClient(t, nowhere).Standing(t.Context(), order.Reference)
	require.ErrorIs(t, err, partner.ErrFull)
}
