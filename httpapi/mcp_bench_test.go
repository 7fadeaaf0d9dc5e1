package httpapi

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkCallTool reads one card through its tool and through its route, sequentially over one
// connection.
func BenchmarkCallTool(b *testing.B) {
	w := newWorld(b)
	tn := w.newTenant("ada")
	card := w.mint(tn, "").text("card", "id")
	head := " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + tn.secret + "\r\n"
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_card","arguments":{"cardId":"` + card + `"}}}`
	for _, way := range []struct{ name, request string }{
		{"route", "GET /api/cards/" + card + head + "\r\n"},
		{"tool", fmt.Sprintf("POST /api/mcp%sContent-Length: %d\r\n\r\n%s", head, len(body), body)},
	} {
		b.Run(way.name, func(b *testing.B) {
			requests := make([][]byte, b.N)
			for i := range requests {
				requests[i] = []byte(way.request)
			}
			var next atomic.Int64
			b.ResetTimer()
			require.NoError(b, sendAll(w.listen, requests, &next))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "read/s")
		})
	}
}
