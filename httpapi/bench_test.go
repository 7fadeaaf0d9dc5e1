package httpapi

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// BenchmarkGetWorkspace measures a whole request without a commit: parsing, key, limits, one actor
// and the answer.
func BenchmarkGetWorkspace(b *testing.B) {
	w := newWorld(b)
	tn := w.newTenant("ada")
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	req.SetRequestURI("http://purser.test/api/workspaces")
	req.Header.Set("Authorization", "Bearer "+tn.secret)
	b.ResetTimer()
	for range b.N {
		require.NoError(b, w.client.Do(req, resp))
	}
	require.Equal(b, 200, resp.StatusCode())
}
