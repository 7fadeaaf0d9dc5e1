package book_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence"
	"purser/persistence/book"
)

// fold is the book in memory.
type fold struct {
	accounts map[[3]string]*book.Account
	entries  map[[3]string][]book.Entry // newest first
}

func (f *fold) add(e persistence.Event, legs []leg) {
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

// transfers are balanced legs in any order.
func transfers(t *rapid.T, position uint64) []leg {
	var legs []leg
	for n := range rapid.IntRange(0, 3).Draw(t, "transfers") {
		group := fmt.Sprintf("tg_%d_%d", position, n)
		for range rapid.IntRange(1, 2).Draw(t, "parts") {
			currency := rapid.SampledFrom([]string{"", "USD", "EUR", "USDC"}).Draw(t, "currency")
			rest := int64(0)
			for range rapid.IntRange(0, 3).Draw(t, "legs") {
				cents := rapid.Int64Range(-1000, 1000).Draw(t, "cents")
				legs = append(legs, leg{group, account(t), cents, currency})
				rest -= cents
			}
			legs = append(legs, leg{group, account(t), rest, currency})
		}
	}
	return rapid.Permutation(legs).Draw(t, "order")
}

func account(t *rapid.T) string {
	return rapid.SampledFrom([]string{"usd", "bank", "network", "suspense", "fx"}).Draw(t, "account")
}

// TestBookMatchesAFold delivers random events in random pages, with repeats, by two processes, against a fold in memory.
func TestBookMatchesAFold(t *testing.T) {
	url := databases.Database(t)
	books := []*book.Book{open(t, url, journal), open(t, url, journal)}
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		workspaces := []string{fmt.Sprintf("ws_%d_a", run), fmt.Sprintf("ws_%d_b", run)}
		before, err := books[0].Position(context.Background(), shard)
		require.NoError(r, err)
		want := &fold{map[[3]string]*book.Account{}, map[[3]string][]book.Entry{}}
		var events []persistence.Event
		for i := range uint64(rapid.IntRange(1, 25).Draw(r, "events")) {
			position := before + i + 1
			if rapid.IntRange(0, 3).Draw(r, "kind") == 0 {
				events = append(events, frozen(position))
				continue
			}
			legs := transfers(r, position)
			e := event(position, rapid.SampledFrom(workspaces).Draw(r, "workspace"), legs...)
			events = append(events, e)
			want.add(e, legs)
		}
		deliver(r, books, events)
		compare(r, books[0], workspaces, want)
	})
	requireSound(t, url)
}

// deliver hands over all events; a page that does not begin after the position changes nothing.
func deliver(r *rapid.T, books []*book.Book, events []persistence.Event) {
	at := 0
	for at < len(events) {
		b := books[rapid.IntRange(0, 1).Draw(r, "process")]
		from := min(max(0, at+rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(r, "skip")), len(events)-1)
		through := rapid.IntRange(from+1, len(events)).Draw(r, "through")
		err := b.Handle(context.Background(), shard, events[from:through])
		if from != at {
			require.ErrorIs(r, err, persistence.ErrMoved)
			continue
		}
		require.NoError(r, err)
		at = through
	}
}

func compare(r *rapid.T, b *book.Book, workspaces []string, want *fold) {
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
			entries, err := b.Entries(context.Background(), book.Query{Workspace: key[0], Account: key[1], Currency: key[2]})
			require.NoError(r, err)
			require.Equal(r, want.entries[key], entries)
		}
	}
	require.Len(r, want.accounts, found)
}
