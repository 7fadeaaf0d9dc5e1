package chain_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/partner/chain"
)

// A node that redirects a request reaches no other server, and the error says what to configure.
func TestNoRedirectOfANodeIsFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		asked := 0
		elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
		defer elsewhere.Close()
		node := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/audit", status))
		defer node.Close()
		for name, network := range chain.Networks() {
			for _, client := range []*http.Client{nil, node.Client()} {
				opened, err := chain.Open(network, node.URL, client)
				require.NoError(t, err)
				_, err = opened.Head(t.Context())
				require.ErrorContains(t, err, "redirect", name)
				require.NotContains(t, err.Error(), "audit", "the node's text is not in the log")
			}
		}
		require.Zero(t, asked, status)
	}
}
