package book_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pgjournal/pgtest"
)

// benchmarkHandle books pages of events with the given number of transfers, of two postings each,
// on a server with fsync.
func benchmarkHandle(b *testing.B, shards, page, transfers int) {
	server := pgtest.Own(b, "the book's benchmarks", true)
	require.NotNil(b, server)
	target := open(b, server.URL("postgres"), journal)
	require.NoError(b, target.Prepare(b.Context()))
	errs := make([]error, shards)
	b.ResetTimer()
	var work sync.WaitGroup
	for s := range shards {
		work.Go(func() {
			for n := 0; n < b.N && errs[s] == nil; n++ {
				errs[s] = target.Handle(context.Background(), ident.Shard(s), pageOf(s, n*page, page, transfers))
			}
		})
	}
	work.Wait()
	b.StopTimer()
	for _, err := range errs {
		require.NoError(b, err)
	}
	events := float64(b.N * page * shards)
	b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(events*float64(2*transfers)/b.Elapsed().Seconds(), "postings/s")
}

func pageOf(s, after, n, transfers int) []persistence.Event {
	events := make([]persistence.Event, n)
	for i := range events {
		var legs []leg
		for g := range transfers {
			group := fmt.Sprintf("tg_%026d", (after+i)*transfers+g)
			legs = append(legs, leg{group, "usd", -100, ""}, leg{group, "network", 100, ""})
		}
		events[i] = event(uint64(after+i+1), fmt.Sprintf("ws_%d_%d", s, i%20), legs...)
	}
	return events
}

func BenchmarkHandle1Event(b *testing.B)                { benchmarkHandle(b, 1, 1, 1) }
func BenchmarkHandle1000Events(b *testing.B)            { benchmarkHandle(b, 1, 1000, 1) }
func BenchmarkHandle4Shards1000Events(b *testing.B)     { benchmarkHandle(b, 4, 1000, 1) }
func BenchmarkHandle100Events100Transfers(b *testing.B) { benchmarkHandle(b, 1, 100, 100) }
func BenchmarkHandle1000WithoutPostings(b *testing.B)   { benchmarkHandle(b, 1, 1000, 0) }
