package httpapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors/agent/intent"
)

// BenchmarkSubmitIntent measures accepted intents of one agent per second, from 1 and from 64
// clients, beside the verification rate of one core. The journal is in memory, so the disk is not
// measured.
func BenchmarkSubmitIntent(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) { benchmarkSubmit(b, clients) })
	}
	b.Run("verify only", func(b *testing.B) {
		w := newWorld(b)
		id, key := w.registerAgent(w.newTenant("ada"))
		body := []byte(w.signed(key, w.intentOf(id, "order-1")))
		submission := intent.Submission{}
		require.NoError(b, json.Unmarshal(body, &submission))
		for b.Loop() {
			require.NoError(b, intent.Verify(intent.PublicKey(key), submission.Intent, submission.Signature))
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "verified/s")
	})
}

func benchmarkSubmit(b *testing.B, clients int) {
	w := newWorld(b)
	tn := w.newTenant("ada")
	id, key := w.registerAgent(tn)
	requests := make([][]byte, b.N)
	for i := range requests {
		body := w.signed(key, w.intentOf(id, fmt.Sprint("order-", i)))
		requests[i] = fmt.Appendf(nil, "POST /api/agents/%s/intents HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n"+
			"Content-Length: %d\r\n\r\n%s", id, tn.secret, len(body), body)
	}
	var next atomic.Int64
	failed := make(chan error, clients)
	b.ResetTimer()
	for range clients {
		go func() { failed <- sendAll(w.listen, requests, &next) }()
	}
	for range clients {
		require.NoError(b, <-failed)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submitted/s")
}

// sendAll sends requests over one connection until none is left.
func sendAll(listener *fasthttputil.InmemoryListener, requests [][]byte, next *atomic.Int64) error {
	conn, err := listener.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	var resp fasthttp.Response
	for {
		i := next.Add(1) - 1
		if i >= int64(len(requests)) {
			return nil
		}
		if _, err := conn.Write(requests[i]); err != nil {
			return err
		}
		if err := resp.Read(answers); err != nil {
			return err
		}
		if resp.StatusCode() != fasthttp.StatusOK {
			return fmt.Errorf("answered %d: %s", resp.StatusCode(), resp.Body())
		}
	}
}
