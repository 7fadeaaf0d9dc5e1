package hold_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// life is a card's random life beside a model. The model keeps no sums: it stores each held cent
// with the month that counted it and each movement of a month, and sums them anew.
type life struct {
	now       int64
	rule      hold.Rule
	funds     money.Cents // ledgerCents less reservedCents
	cardCents money.Cents
	spend     hold.Spend
	holds     []*hold.Hold
	deltas    []money.Cents // per hold, the sum of its entries' CardDelta
	model     []*layered
	month     money.Month
	movements map[money.Month]money.Cents
	ids       int
}

// layered is the model of an authorization: the held cents of each month, and its totals.
type layered struct {
	held              map[money.Month]money.Cents
	cleared, refunded money.Cents
	approved          bool
}

func (h *layered) total() (sum money.Cents) {
	for _, cents := range h.held {
		sum += cents
	}
	return sum
}

// shed removes cents from the layers, from the current month's first or last.
func (h *layered) shed(cents money.Cents, current money.Month, currentFirst bool) (ofCurrent money.Cents) {
	older := h.total() - h.held[current]
	ofCurrent = min(cents, h.held[current])
	if !currentFirst {
		ofCurrent = max(cents-older, 0)
	}
	h.held[current] -= ofCurrent
	for month := range h.held {
		if month != current {
			delete(h.held, month)
		}
	}
	h.held[0] = older - (cents - ofCurrent)
	return ofCurrent
}

func (l *life) spendable() money.Cents {
	sum := l.funds
	for _, h := range l.model {
		sum += h.refunded - h.cleared - h.total()
	}
	return sum
}

func (l *life) view(h *hold.Hold) hold.View {
	l.ids++
	l.month = max(l.month, money.Month(time.UnixMilli(l.now).UTC().Year()*100+int(time.UnixMilli(l.now).UTC().Month())))
	return hold.View{
		Now: l.now, Rule: &l.rule, Spend: l.spend, Spendable: l.funds + l.cardCents, Hold: h,
		NewID: ident.Derive(3, time.UnixMilli(l.now), fmt.Sprint(l.ids)),
	}
}

func (l *life) apply(i int, e *hold.Entry) {
	before := l.cardCents
	hold.Apply(e, &l.spend, l.holds[i], &l.cardCents)
	l.deltas[i] += l.cardCents - before
}

func (l *life) open() int {
	l.holds, l.deltas = append(l.holds, &hold.Hold{}), append(l.deltas, 0)
	l.model = append(l.model, &layered{held: map[money.Month]money.Cents{}})
	return len(l.holds) - 1
}

func message(kind hold.Kind, amount money.Cents) hold.Message {
	return hold.Message{Kind: kind, Amount: amount, Currency: [3]byte([]byte("USD")),
		Merchant: hold.Merchant{Name: "Shop", MCC: 1}}
}

func drawAmount(t *rapid.T) money.Cents {
	return centsBetween(1, 60).Draw(t, "amount")
}

// pick draws an existing authorization, or skips the step.
func (l *life) pick(t *rapid.T) int {
	if len(l.holds) == 0 {
		t.Skip("no authorization yet")
	}
	return rapid.IntRange(0, len(l.holds)-1).Draw(t, "hold")
}

func (l *life) authorize(t *rapid.T) {
	m := message(hold.Authorization, centsBetween(0, 60).Draw(t, "amount"))
	m.PartialApproval = rapid.Bool().Draw(t, "partial")
	v := l.view(nil)
	var e hold.Entry
	hold.Decide(&v, &m, &e)

	want := m.Amount
	if m.PartialApproval && want > 0 {
		want = min(want, l.rule.MonthCents-l.movements[l.month], l.spendable())
	}
	fits := want <= l.rule.MonthCents-l.movements[l.month] && want <= l.spendable() || m.Amount == 0
	approve := l.rule.State == hold.CardActive && m.Amount <= l.rule.PerTxnCents && fits && (want > 0 || m.Amount == 0)
	require.Equal(t, approve, e.Decision == hold.Approved, "%s", e.Reason)
	i := l.open()
	if approve {
		require.Equal(t, want, e.Approved)
		l.take(i, want)
	}
	l.apply(i, &e)
	l.checkApproval(t, &e)
}

func (l *life) take(i int, cents money.Cents) {
	l.model[i].held[l.month] += cents
	l.model[i].approved = true
	l.movements[l.month] += cents
}

// checkApproval checks promise 3: no approval takes a limit or the funds below zero.
func (l *life) checkApproval(t *rapid.T, e *hold.Entry) {
	if e.Decision == hold.Approved && e.Approved > 0 {
		require.GreaterOrEqual(t, l.funds+l.cardCents, money.Cents(0))
		require.LessOrEqual(t, l.spend.Cents, l.rule.MonthCents)
		require.Equal(t, hold.CardActive, l.rule.State)
	}
}

func (l *life) increment(t *rapid.T) {
	i := l.pick(t)
	m := message(hold.Incremental, drawAmount(t))
	v := l.view(l.holds[i])
	var e hold.Entry
	hold.Decide(&v, &m, &e)
	h := l.model[i]
	approve := l.rule.State == hold.CardActive && h.total() > 0 && h.total()+h.cleared+m.Amount <= l.rule.PerTxnCents &&
		m.Amount <= l.rule.MonthCents-l.movements[l.month] && m.Amount <= l.spendable()
	require.Equal(t, approve, e.Decision == hold.Approved, "%s", e.Reason)
	if approve {
		l.take(i, m.Amount)
	}
	l.apply(i, &e)
	l.checkApproval(t, &e)
}

func (l *life) giveBack(i int, cents money.Cents) {
	l.movements[l.month] -= l.model[i].shed(cents, l.month, true)
}

func (l *life) reverse(t *rapid.T) {
	i := l.pick(t)
	m := message(hold.Reversal, drawAmount(t))
	m.WholeHold = rapid.Bool().Draw(t, "whole")
	v := l.view(l.holds[i])
	var e hold.Entry
	hold.Decide(&v, &m, &e)
	cents := l.model[i].total()
	if !m.WholeHold {
		cents = min(cents, m.Amount)
	}
	l.giveBack(i, cents)
	l.apply(i, &e)
}

func (l *life) clear(t *rapid.T) {
	i := l.pick(t)
	m := message(hold.Clearing, drawAmount(t))
	m.Final = rapid.Bool().Draw(t, "final")
	v := l.view(l.holds[i])
	var e hold.Entry
	hold.Decide(&v, &m, &e)
	require.Equal(t, hold.Posted, e.Decision)
	require.Equal(t, m.Amount, e.Posted)
	h := l.model[i]
	covered := min(m.Amount, h.total())
	h.shed(covered, l.month, false)
	h.cleared += m.Amount
	l.movements[l.month] += m.Amount - covered
	if m.Final {
		l.giveBack(i, h.total())
	}
	l.apply(i, &e)
}

func (l *life) force(t *rapid.T) {
	m := message(hold.Clearing, drawAmount(t))
	v := l.view(nil)
	var e hold.Entry
	hold.Decide(&v, &m, &e)
	require.Equal(t, hold.ReasonForcedPost, e.Reason)
	i := l.open()
	l.model[i].cleared = m.Amount
	l.movements[l.month] += m.Amount
	l.apply(i, &e)
}

func (l *life) refund(t *rapid.T) {
	i := l.pick(t)
	m := message(hold.Refund, drawAmount(t))
	v := l.view(l.holds[i])
	var e hold.Entry
	hold.Decide(&v, &m, &e)
	require.Equal(t, -m.Amount, e.Posted)
	l.model[i].refunded += m.Amount
	l.apply(i, &e)
}

func (l *life) expire(t *rapid.T) {
	i := l.pick(t)
	v := l.view(l.holds[i])
	var e hold.Entry
	hold.Expire(&v, &e)
	l.giveBack(i, l.model[i].total())
	l.apply(i, &e)
}

func (l *life) timeOut(t *rapid.T) {
	m := message(hold.Authorization, drawAmount(t))
	v := l.view(nil)
	var approval, back hold.Entry
	hold.Decide(&v, &m, &approval)
	i := l.open()
	l.apply(i, &approval)
	if approval.Decision == hold.Approved {
		v = l.view(l.holds[i])
		hold.TakeBack(&v, &approval, &back)
		l.apply(i, &back)
		require.Equal(t, hold.StatusDeclined, l.holds[i].Status)
	}
}

// check compares the sums of the package with the model's.
func (l *life) check(t *rapid.T) {
	require.Equal(t, l.spendable(), l.funds+l.cardCents)
	require.GreaterOrEqual(t, l.spend.Cents, money.Cents(0))
	if l.spend.Month != 0 {
		require.Equal(t, l.movements[l.spend.Month], l.spend.Cents)
	}
	for i, h := range l.holds {
		require.Equal(t, l.model[i].total(), h.Held)
		require.Equal(t, l.model[i].cleared, h.Cleared)
		require.Equal(t, l.model[i].refunded, h.Refunded)
		require.Equal(t, -h.Held-h.Cleared+h.Refunded, l.deltas[i])
		require.LessOrEqual(t, h.MonthCents, h.Held)
		if h.Month == l.spend.Month {
			require.Equal(t, l.model[i].held[h.Month], h.MonthCents)
		}
		holding := h.Status == hold.StatusHeld || h.Status == hold.StatusPartiallyCleared
		require.Equal(t, h.Held > 0, holding, "%s", h.Status)
		require.Equal(t, h.Held > 0, h.ExpiresAt != 0)
	}
}

func TestLifeAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{
			now:       time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).UnixMilli(),
			funds:     centsBetween(0, 300).Draw(t, "funds"),
			movements: map[money.Month]money.Cents{},
			rule: hold.Rule{Card: ident.Derive(3, time.UnixMilli(1), "card"), State: hold.CardActive,
				PerTxnCents: centsBetween(0, 100).Draw(t, "limit"),
				MonthCents:  centsBetween(0, 300).Draw(t, "month")},
		}
		t.Repeat(map[string]func(*rapid.T){
			"":          l.check,
			"authorize": l.authorize, "increment": l.increment, "reverse": l.reverse, "clear": l.clear,
			"force":  l.force,
			"refund": l.refund, "expire": l.expire, "timeOut": l.timeOut,
			"time": func(t *rapid.T) { l.now += rapid.Int64Range(-3, 20).Draw(t, "days") * 86_400_000 },
			"rule": func(t *rapid.T) {
				l.rule.PerTxnCents = centsBetween(0, 100).Draw(t, "limit")
				l.rule.MonthCents = centsBetween(0, 300).Draw(t, "month")
				l.rule.State = rapid.SampledFrom([]hold.CardState{1, 1, 1, 2, 3}).Draw(t, "state")
			},
			"deposit": func(t *rapid.T) { l.funds += drawAmount(t) },
		})
	})
}
