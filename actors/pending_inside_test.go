package actors

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/balance"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Reads show a card's decisions between the relayed and the newest one, in their order, and an
// earlier answer does not change. Relayed decisions are dropped.
func TestPendingCardsAreTheCardsPartOfTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kept atomic.Int64
		p := pendingCards{kept: &kept}
		var log []hold.Entry
		relayed := uint64(0)
		cards := []ident.UUID{{1}, {2}, {}}
		want := func(card ident.UUID) (want []balance.CardDecision) {
			for i := range log[relayed:] {
				if e := &log[relayed:][i]; e.Card == card {
					want = append(want, balance.CardDecisionOf(e))
				}
			}
			return want
		}
		type answer struct{ got, want []balance.CardDecision }
		var answers []answer
		t.Repeat(map[string]func(*rapid.T){
			"decide": func(t *rapid.T) {
				for range rapid.IntRange(1, 5).Draw(t, "decisions") {
					seq := uint64(len(log) + 1)
					log = append(log, hold.Entry{Seq: seq, Card: rapid.SampledFrom(cards).Draw(t, "card"),
						Spend: hold.Spend{Cents: money.Cents(seq)}})
				}
			},
			"relay": func(t *rapid.T) {
				relayed = rapid.Uint64Range(relayed, uint64(len(log))).Draw(t, "through")
				if rapid.Bool().Draw(t, "at once") {
					p.dropRelayed(relayed)
				}
			},
			"read": func(t *rapid.T) {
				card := rapid.SampledFrom(cards).Draw(t, "card")
				most := rapid.IntRange(1, 4).Draw(t, "entries of a read")
				readLog := func(after uint64, limit int) ([]hold.Entry, error) {
					return log[after:min(len(log), int(after)+min(limit, most))], nil
				}
				got, ok := p.ofCard(card, relayed, uint64(len(log)), readLog)
				require.True(t, ok)
				answers = append(answers, answer{got, want(card)})
				require.Len(t, p.order, int(kept.Load()))
				require.Len(t, log[relayed:], int(kept.Load()))
			},
			"": func(t *rapid.T) {
				for _, a := range answers {
					require.Equal(t, a.want, a.got)
				}
			},
		})
		p.dropRelayed(uint64(len(log)))
		require.Zero(t, kept.Load())
		require.Empty(t, p.byCard)
	})
}

// A read of more decisions than a shard, or all shards, may keep keeps nothing.
func TestPendingCardsAreLimited(t *testing.T) {
	var kept atomic.Int64
	p := pendingCards{kept: &kept}
	readLog := func(after uint64, limit int) (entries []hold.Entry, err error) {
		for i := range limit {
			entries = append(entries, hold.Entry{Seq: after + uint64(i) + 1, Card: ident.UUID{1}})
		}
		return entries, nil
	}
	_, ok := p.ofCard(ident.UUID{1}, 0, 9, func(uint64, int) ([]hold.Entry, error) { return nil, authorizer.ErrCorrupt })
	require.False(t, ok)
	require.Zero(t, kept.Load())
	_, ok = p.ofCard(ident.UUID{1}, 0, maxPendingRead+1, readLog)
	require.False(t, ok)
	pending, ok := p.ofCard(ident.UUID{1}, 1, maxPendingRead+1, readLog)
	require.True(t, ok)
	require.Len(t, pending, maxPendingRead)
	kept.Store(maxPendingKept)
	_, ok = p.ofCard(ident.UUID{1}, 1+maxPendingRead, maxPendingRead+2, readLog)
	require.True(t, ok, "what is relayed makes room")
	kept.Store(maxPendingKept)
	_, ok = p.ofCard(ident.UUID{1}, 1+maxPendingRead, maxPendingRead+3, readLog)
	require.False(t, ok)
}
