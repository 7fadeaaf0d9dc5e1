package book_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence"
	"purser/persistence/book"
	"purser/persistence/consumer"
	"purser/persistence/money"
)

// modelBook is a model of the book in memory.
type modelBook struct {
	accounts map[[3]string]*book.Account
	entries  map[[3]string][]book.Entry // newest first
}

func (f *modelBook) add(e persistence.Event, legs []leg) {
	for i, l := range legs {
		if l.Currency == "" {
			l.Currency = "USD"
		}
		key := [3]string{e.Workspace, l.Account, l.Currency}
		a := f.accounts[key]
		if a == nil {
			a = &book.Account{Workspace: e.Workspace, Name: l.Account, Currency: l.Currency}
			f.accounts[key] = a
		}
		a.Balance, a.Entries = a.Balance+l.Cents, a.Entries+1
		entry := book.Entry{Position: e.Position, Leg: i, Workspace: e.Workspace, Account: l.Account, Currency: l.Currency,
			Transfer: l.Transfer, Event: e.ID, Kind: e.Type, At: e.At, Number: a.Entries, Amount: l.Cents, Balance: a.Balance}
		f.entries[key] = append([]book.Entry{entry}, f.entries[key]...)
	}
}

// drawTransfers draws transfers that balance, with their postings in any order.
func drawTransfers(t *rapid.T, position uint64) []leg {
	var legs []leg
	for n := range rapid.IntRange(0, 3).Draw(t, "transfers") {
		group := fmt.Sprintf("tg_%d_%d", position, n)
		for range rapid.IntRange(1, 2).Draw(t, "parts") {
			currency := rapid.SampledFrom([]string{"", "USD", "EUR", "USDC"}).Draw(t, "currency")
			rest := money.Minor(0)
			for range rapid.IntRange(0, 3).Draw(t, "legs") {
				cents := money.Minor(rapid.Int64Range(-1000, 1000).Draw(t, "cents"))
				legs = append(legs, leg{group, drawAccount(t), cents, currency})
				rest -= cents
			}
			legs = append(legs, leg{group, drawAccount(t), rest, currency})
		}
	}
	return rapid.Permutation(legs).Draw(t, "order")
}

func drawAccount(t *rapid.T) string {
	return rapid.SampledFrom([]string{"usd", "bank", "network", "suspense", "fx"}).Draw(t, "account")
}

// modelRuns is how many random deliveries TestBookMatchesAFold makes. With PURSER_TEST_FULL it makes
// as many as -rapid.checks says.
const modelRuns = "30"

// Two processes that restart deliver random events in random pages, with repeats. The book then
// equals a fold of the events in memory.
func TestBookMatchesAFold(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue && os.Getenv("PURSER_TEST_FULL") == "" {
		require.NoError(t, checks.Value.Set(modelRuns))
		t.Cleanup(func() { require.NoError(t, checks.Value.Set(checks.DefValue)) })
	}
	url := databases.Database(t)
	books := []*book.Book{open(t, url, journal), openWriting(t, url, journal, never)}
	var events []persistence.Event // all events: a lost skip is delivered again
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		workspaces := []string{fmt.Sprintf("ws_%d_a", run), fmt.Sprintf("ws_%d_b", run)}
		want := &modelBook{map[[3]string]*book.Account{}, map[[3]string][]book.Entry{}}
		for range rapid.IntRange(1, 25).Draw(r, "events") {
			position := uint64(len(events) + 1)
			if rapid.IntRange(0, 2).Draw(r, "kind") == 0 {
				events = append(events, eventWithoutPostings(position))
				continue
			}
			legs := drawTransfers(r, position)
			e := event(position, rapid.SampledFrom(workspaces).Draw(r, "workspace"), legs...)
			events = append(events, e)
			want.add(e, legs)
		}
		deliver(r, t, url, books, events)
		requireModel(r, books[0], workspaces, want)
	})
	requireSound(t, url)
}

// deliver delivers all events. Each page begins at the position that its process reports, or one
// beside it, which must change nothing. After ErrMoved a process reads the position again.
func deliver(r *rapid.T, t *testing.T, url string, books []*book.Book, events []persistence.Event) {
	end := uint64(len(events))
	for {
		n := rapid.IntRange(0, 1).Draw(r, "process")
		if rapid.IntRange(0, 29).Draw(r, "crash") == 0 {
			interval := rapid.SampledFrom([]time.Duration{skippedInterval, never}).Draw(r, "interval")
			books[n] = openWriting(t, url, journal, interval) // the abandoned process may still write its skips
		}
		b := books[n]
		at, err := b.Position(context.Background(), shard)
		require.NoError(r, err)
		if at == end {
			return
		}
		skip := rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1}).Draw(r, "skip")
		from := min(uint64(max(0, int(at)+skip)), end-1)
		through := uint64(rapid.IntRange(int(from)+1, int(min(end, from+8))).Draw(r, "through"))
		switch err := b.Handle(context.Background(), shard, events[from:through]); {
		case err == nil && from > at: // the other process has meanwhile skipped the events between
			require.NotContains(r, string(events[at].Payload), `"transfer"`)
		case from != at:
			require.ErrorIs(r, err, consumer.ErrMoved)
		case err != nil:
			require.ErrorIs(r, err, consumer.ErrMoved) // the other process has written its skips
		}
	}
}

func requireModel(r *rapid.T, b *book.Book, workspaces []string, want *modelBook) {
	found := 0
	for _, workspace := range workspaces {
		accounts, err := b.Balances(context.Background(), workspace)
		require.NoError(r, err)
		found += len(accounts)
		for _, got := range accounts {
			key := [3]string{got.Workspace, got.Name, got.Currency}
			require.Contains(r, want.accounts, key)
			got.Side = ""
			require.Equal(r, *want.accounts[key], got)
			entries, err := b.Entries(context.Background(), key[0], key[1], key[2])
			require.NoError(r, err)
			require.Equal(r, want.entries[key], entries)
		}
	}
	require.Len(r, want.accounts, found)
}
