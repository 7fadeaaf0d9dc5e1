package actors_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/pebblejournal"
)

// BenchmarkLoad measures the first answer of a balance that is not in memory, with a journal on
// disk and so many events behind the balance. Balances collect the most events of all actors, one
// with each relayed run. An actor is loaded from its state record, which every commit writes, and
// replays no event: neither the events nor open payouts make a difference.
func BenchmarkLoad(b *testing.B) {
	for _, c := range []struct{ events, payouts int }{{1, 0}, {1_000_000, 0}, {1, balance.MaxOpenPayouts}} {
		b.Run(fmt.Sprintf("events=%d/payouts=%d", c.events, c.payouts), func(b *testing.B) {
			journal, err := pebblejournal.Open(pebblejournal.Options{Dir: b.TempDir(), NoSync: true})
			require.NoError(b, err)
			defer func() { require.NoError(b, journal.Close()) }()
			id := counterID(3)
			appendBalanceHistory(b, journal, id, c.events, c.payouts)
			clock := newClock()
			system, err := actors.Start(b.Context(), actors.Config{Journal: journal,
				Sealer:     testSealer(b),
				Authorizer: &reservingAuthorizer{reserved: map[ident.UUID]money.Cents{}}, Clock: clock.now,
				Entropy: rand.Reader, IdleAfter: time.Second,
				Kinds: []actors.Kind{{Name: "balance", New: func() actors.State { return new(balance.State) }}}})
			require.NoError(b, err)
			defer system.Stop()
			for b.Loop() {
				reply, err := system.Ask(b.Context(), actors.Envelope{Kind: "balance", Stream: id, Workspace: id,
					Command: decision.Read{}})
				require.NoError(b, err)
				require.EqualValues(b, c.events, reply.(balance.View).Balances[0].HeldCents-money.Cents(c.payouts))
				clock.turn(time.Minute)
				system.Passivate()
			}
		})
	}
}

// appendBalanceHistory appends the events of a balance, each with a relayed swipe of a cent. After
// each batch it stores the state, with open payouts of a cent. It leaves out the records of the
// authorizations, because a load reads none.
func appendBalanceHistory(b *testing.B, journal persistence.Journal, id string, events, payouts int) {
	slot, err := ident.SlotOf(id)
	require.NoError(b, err)
	heads, err := journal.Raise(b.Context(), slot.Shard())
	require.NoError(b, err)
	now := newClock().now()
	state := balance.State{Workspace: id, LedgerCents: 1<<40 - money.Cents(payouts), UsdCents: 1 << 40,
		ReservedCents: money.Cents(payouts),
		OpenPayouts:   payouts}
	swipe := newSwiper(b, id)
	for version := uint64(0); version < uint64(events); {
		batch := &persistence.Batch{Workspace: id, Slot: slot}
		for range min(persistence.MaxBatchEvents, uint64(events)-version) {
			version++
			d, err := state.Decide(decision.Meta{At: now}, balance.Relay{Entries: []hold.Entry{swipe(version)}})
			require.NoError(b, err)
			state.Apply(d.Events[0])
			payload, err := decision.Encode(d.Events[0])
			require.NoError(b, err)
			event := ident.Derive(slot, now, fmt.Sprint("event ", version)).Format(ident.Event)
			batch.Events = append(batch.Events, persistence.Event{ID: event, Workspace: id, Kind: "balance", Stream: id,
				Version: version, Type: d.Events[0].EventType(), At: now, Payload: payload})
		}
		document, err := json.Marshal(state)
		require.NoError(b, err)
		batch.Records = []persistence.Record{{Kind: "balance", Workspace: id, ID: id, Slot: slot,
			Document: document, Version: version}}
		outcomes, err := journal.Append(context.Background(), slot.Shard(), heads[0].Epoch, now,
			[]*persistence.Batch{batch})
		require.NoError(b, err)
		require.NoError(b, outcomes[0].Err)
	}
}

// newSwiper returns a function that makes log entries of approved swipes of a cent on one card.
func newSwiper(b *testing.B, id string) func(seq uint64) hold.Entry {
	workspace, err := ident.Parse(ident.Workspace, id)
	require.NoError(b, err)
	slot, now := workspace.Slot(), newClock().now()
	token, err := ident.NewToken(slot, rand.Reader)
	require.NoError(b, err)
	rule := hold.Rule{Token: token, Card: ident.Derive(slot, now, "card"), Workspace: workspace, Version: 1,
		State:       hold.CardActive,
		PerTxnCents: 1, MonthCents: 1 << 40}
	view := hold.View{Now: now.UnixMilli(), Rule: &rule, Spendable: 1 << 40}
	return func(seq uint64) (e hold.Entry) {
		m := hold.Message{Kind: hold.Authorization, ID: fmt.Sprint("n", seq), Token: token, Amount: 1,
			Currency: [3]byte{'U', 'S', 'D'},
			Merchant: hold.Merchant{ID: "m-77", Name: "Corner Shop", MCC: 5411, Country: "US"}}
		view.NewID = ident.Derive(slot, now, m.ID)
		hold.Decide(&view, &m, &e)
		require.Equal(b, hold.Approved, e.Decision)
		e.Seq, e.WsSeq, e.Shard, view.Spend = seq, seq, slot.Shard(), e.Spend
		return e
	}
}
