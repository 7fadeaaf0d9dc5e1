package httpapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
)

// The totals count the last 24 hours of one workspace, the declined authorizations by reason.
func TestAuthorizationTotalsCountTheLastDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.newTenant("ada"), w.newTenant("eve")
	w.fund(tn, 95_000)
	card := w.mint(tn, "").text("card", "id")
	w.swipe(tn, card, "old", 100)
	w.clock.turn(24*time.Hour + time.Second)
	for i, cents := range []int{100, 200, 50_001, 50_002, 30_000, 30_000, 30_000, 99_999, 9_000} {
		w.swipe(tn, card, fmt.Sprint("n", i), cents)
	}
	w.ok(w.do(tn.all, "PATCH", "/api/cards/"+card, `{"state":"frozen"}`))
	w.swipe(tn, card, "frozen", 100)
	r := w.ok(w.get(tn.all, "/api/authorizations/totals"))
	require.Equal(t, true, r.at("complete"))
	require.Equal(t, []int{5, 5}, []int{r.cents("approved"), r.cents("declined")})
	require.Equal(t, []any{
		map[string]any{"reason": "per_transaction_limit_exceeded", "count": 3.0},
		map[string]any{"reason": "card_frozen", "count": 1.0},
		map[string]any{"reason": "insufficient_funds", "count": 1.0},
	}, r.at("reasons"))
	require.Equal(t, w.clock.now().Add(-totalsPeriod).UTC().Format("2006-01-02T15:04:05.000Z"), r.text("from"))
	empty := w.ok(w.get(other.all, "/api/authorizations/totals"))
	require.Equal(t, []any{0.0, 0.0, []any{}}, []any{empty.at("approved"), empty.at("declined"), empty.at("reasons")})
}

// More authorizations than one request counts are not complete.
func TestAuthorizationTotalsCountABoundedNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := newAuthorizationLog(w)
	l.every = 0
	for range maxScanned / balance.MaxRelay {
		l.addRun(balance.MaxRelay)
	}
	counted := func() (int, any) {
		r := w.ok(w.get(l.tn.all, "/api/authorizations/totals"))
		return r.cents("approved") + r.cents("declined"), r.at("complete")
	}
	l.addRun(maxScanned - len(l.all))
	count, complete := counted()
	require.Equal(t, []any{maxScanned, true}, []any{count, complete})
	l.addRun(1)
	count, complete = counted()
	require.Equal(t, []any{maxScanned, false}, []any{count, complete})
}
