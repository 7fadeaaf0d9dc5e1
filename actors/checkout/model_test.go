package checkout_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/checkout"
	"purser/actors/decision"
	"purser/persistence/money"
)

// Size of a random history.
const (
	modelSteps    = 40
	modelPayments = 4
	modelBlocks   = 3
	modelCents    = 2_500
)

// linkModel is a second, stateless specification of a link: it keeps the inputs and derives the
// status from all of them.
type linkModel struct {
	now               time.Time
	ends, lives       time.Time // the end, and the end by the time to live
	picked, cancelled bool
	simulated         bool
	completed         int
	short             money.Cents
	closed            bool
	closedAs          string
	tolerance         money.Cents
	payments          [modelPayments]modelPayment
}

type modelPayment struct {
	cents             money.Cents
	good, late, known bool
	blocks            [modelBlocks]struct {
		here  bool
		shown int
	}
}

func (p *modelPayment) shown() (live bool, shown int) {
	for _, b := range p.blocks {
		if b.here {
			live, shown = true, max(shown, b.shown)
		}
	}
	return live, shown
}

// sums returns the counted payments on chain, the unconfirmed ones among them, their confirmed
// cents, and the cents received in time and late. ever reports whether a counted payment was ever
// observed.
func (m *linkModel) sums() (there, waiting int, confirmed, inTime, late money.Cents, ever bool) {
	for i := range m.payments {
		p := &m.payments[i]
		live, shown := p.shown()
		switch {
		case live && p.good && p.late:
			late += p.cents
		case live && p.good:
			inTime += p.cents
		}
		if !p.good || p.late {
			continue
		}
		ever = ever || p.known
		switch {
		case live && shown == 3:
			there++
			confirmed += p.cents
		case live:
			there++
			waiting++
		}
	}
	return there, waiting, confirmed, inTime, late, ever
}

func (m *linkModel) status() string {
	there, waiting, confirmed, _, _, ever := m.sums()
	switch {
	case m.completed > 0:
		return checkout.Completed
	case m.closedAs != "":
		return m.closedAs
	case ever && there > 0 && waiting == 0 && confirmed < modelCents-m.tolerance:
		return checkout.Underpaid
	case ever:
		return checkout.Confirming
	case !m.now.Before(m.ends):
		return checkout.Expired
	case m.picked:
		return checkout.Awaiting
	}
	return checkout.Pending
}

// advanceClock advances the time, through the ends of the watch on the way.
func (m *linkModel) advanceClock(d time.Duration) {
	until := m.now.Add(d)
	for _, moment := range []time.Time{m.ends.Add(checkout.Grace), m.lives.Add(checkout.StaleAfter)} {
		if moment.After(until) {
			break
		}
		if moment.After(m.now) {
			m.now = moment
		}
		m.closeAt(moment)
	}
	m.now = until
}

// maySettle reports whether payments can still change the status after the grace.
func (m *linkModel) maySettle() bool {
	gone := false
	for i := range m.payments {
		live, _ := m.payments[i].shown()
		gone = gone || m.payments[i].known && m.payments[i].good && !m.payments[i].late && !live
	}
	return m.status() == checkout.Confirming || m.status() == checkout.Underpaid && gone
}

// closeAt ends the watch at the grace's end or, while a payment is unconfirmed, at StaleAfter past
// the time to live.
func (m *linkModel) closeAt(moment time.Time) {
	if !m.picked || m.closed {
		return
	}
	if m.maySettle() && moment.Before(m.lives.Add(checkout.StaleAfter)) {
		return
	}
	status := m.status()
	if _, _, confirmed, _, _, _ := m.sums(); status == checkout.Confirming && confirmed >= modelCents-m.tolerance {
		m.complete()
		status = checkout.Completed
	}
	m.closed, m.closedAs = true, status
	if status != checkout.Confirming {
		return
	}
	m.closedAs = checkout.Failed
	if there, _, _, _, _, _ := m.sums(); there > 0 {
		m.closedAs = checkout.Expired
	}
}

func (m *linkModel) recordPayment(i, block, shown int, removed bool, sent time.Time) {
	if !m.picked || m.closed {
		return
	}
	p := &m.payments[i]
	if removed {
		p.blocks[block].here = false
		m.completeIfPaid()
		m.closeNow()
		return
	}
	if !p.known {
		p.known = true
		inTime := m.now.Before(m.ends) || !sent.After(m.ends) && !m.now.After(m.ends.Add(checkout.Grace))
		p.late = !inTime
	}
	b := &p.blocks[block]
	if !b.here {
		b.shown = 0
	}
	b.here, b.shown = true, max(b.shown, shown)
	m.completeIfPaid()
	m.closeNow()
}

// completeIfPaid completes a link that is confirmed in full, or within the tolerance without an
// unconfirmed payment.
func (m *linkModel) completeIfPaid() {
	_, waiting, confirmed, _, _, _ := m.sums()
	if confirmed >= modelCents || waiting == 0 && confirmed >= modelCents-m.tolerance {
		m.complete()
	}
}

func (m *linkModel) complete() {
	if m.completed == 0 {
		_, _, confirmed, _, _, _ := m.sums()
		m.completed, m.short = 1, max(0, modelCents-confirmed)
	}
}

// dueCents returns the missing part of the amount without the accepted shortfall, negative after an
// overpayment in time.
func (m *linkModel) dueCents(inTime money.Cents) money.Cents {
	switch missing := modelCents - inTime; {
	case missing <= 0:
		return missing
	case m.simulated:
		return 0
	default:
		return max(0, missing-m.short)
	}
}

// closeNow ends the watch when the grace is over and no payment can change the status.
func (m *linkModel) closeNow() {
	if !m.now.Before(m.ends.Add(checkout.Grace)) && !m.maySettle() {
		m.closed, m.closedAs = true, m.status()
	}
}

// randomHistory sends the same inputs to the package and to the model.
type randomHistory struct {
	t *rapid.T
	*scenario
	model linkModel
	// a completion is never undone and never repeated
	completions int
	credit      money.Cents
}

func (h *randomHistory) sendCommand(command any) error {
	d, err := h.state.Decide(decision.Meta{At: h.now}, command)
	if err != nil {
		return err
	}
	for _, e := range d.Events {
		payload, err := json.Marshal(e)
		require.NoError(h.t, err)
		read, err := checkout.DecodeEvent(e.EventType(), payload)
		require.NoError(h.t, err)
		h.state.Apply(read)
		if completed, ok := e.(checkout.SessionCompleted); ok {
			h.completions++
			h.credit = completed.AmountUsdCents - completed.ShortfallCents
		}
	}
	if fire, ok := command.(decision.Fire); ok {
		delete(h.timers, fire.Key)
	}
	for _, timer := range d.Timers {
		if h.timers[timer.Key] = timer.Due; timer.Due.IsZero() {
			delete(h.timers, timer.Key)
		}
	}
	return nil
}

// fireTimersUntil advances the clock and fires the due timers in order.
func (h *randomHistory) fireTimersUntil(d time.Duration) {
	until := h.now.Add(d)
	for range 100 {
		key := ""
		for k, due := range h.timers {
			if !due.After(until) && (key == "" || due.Before(h.timers[key]) || due.Equal(h.timers[key]) && k < key) {
				key = k
			}
		}
		if key == "" {
			h.now = until
			return
		}
		if h.timers[key].After(h.now) {
			h.now = h.timers[key]
		}
		require.NoError(h.t, h.sendCommand(decision.Fire{Key: key}))
	}
	require.Fail(h.t, "the timers never end")
}

func (h *randomHistory) sendObservation() {
	i := rapid.IntRange(0, modelPayments-1).Draw(h.t, "payment")
	block, confirmations := rapid.IntRange(0, modelBlocks-1).Draw(h.t, "block"),
		rapid.SampledFrom([]int{0, 1, 4, 8, 12, 30}).Draw(h.t, "blocks")
	removed := rapid.IntRange(0, 4).Draw(h.t, "removed") == 0
	sent := h.now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(h.t, "minutes ago")) * time.Minute)
	p := &h.model.payments[i]
	o := checkout.Observed{Chain: "polygon", Asset: "USDC", Address: addressOf("polygon"),
		TxHash: fmt.Sprint("0x", i/2),
		Index:  i % 2, Amount: fmt.Sprint(p.cents * 10_000), Block: uint64(block), BlockHash: fmt.Sprint("0xb", block),
		Confirmations: confirmations, Threshold: 12, At: sent, Removed: removed}
	if !p.good {
		o.Asset = "USDC.e"
	}
	h.model.recordPayment(i, block, min(3, confirmations*3/12), removed, sent)
	require.NoError(h.t, h.sendCommand(o))
}

func (h *randomHistory) makeStep() {
	switch rapid.IntRange(0, 11).Draw(h.t, "step") {
	case 0:
		d := time.Duration(rapid.SampledFrom([]int{1, 10, 29, 31, 61, 600, 1500}).Draw(h.t, "minutes")) * time.Minute
		h.model.advanceClock(d)
		h.fireTimersUntil(d)
	case 1, 2:
		open := h.model.status() == checkout.Pending || h.model.status() == checkout.Awaiting
		err := h.sendCommand(checkout.Select{Asset: "USDC", Chain: "polygon"})
		require.Equal(h.t, open, err == nil)
		h.model.picked = h.model.picked || open
	case 3:
		open := h.model.status() == checkout.Pending || h.model.status() == checkout.Awaiting
		err := h.sendCommand(checkout.Cancel{})
		if open {
			require.NoError(h.t, err)
			h.model.cancelled, h.model.ends = true, h.now
		}
	case 4:
		if rapid.IntRange(0, 9).Draw(h.t, "simulate") == 0 && h.sendCommand(checkout.Simulate{}) == nil {
			h.model.simulated = h.model.simulated || h.model.completed == 0
			h.model.completed = 1
			h.model.closed = h.model.closed || h.model.picked && !h.now.Before(h.model.ends.Add(checkout.Grace))
		}
	default:
		h.sendObservation()
	}
}

// The package and the model agree after every step on status, money received, and the completion,
// which happens at most once.
func TestRandomHistoriesAgreeWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &randomHistory{t: t, scenario: newScenario()}
		accepted, err := checkout.Accept([]string{"USDC"}, []string{"polygon"}, servedEverywhere)
		require.NoError(t, err)
		accepted.Pairs[0].Address = addressOf("polygon")
		tolerance := checkout.Tolerance{BasisPoints: rapid.SampledFrom([]int64{0, 50}).Draw(t, "points")}
		require.NoError(t, h.sendCommand(checkout.Create{ID: "cs_1", Workspace: "ws_1", AmountUsdCents: modelCents,
			Accepted:  accepted,
			Tolerance: tolerance,
			Expires:   checkout.DefaultExpires, SettlementOption: checkout.HoldStablecoin,
			Text: checkout.Text{SuccessURL: "https://shop.example"}}))
		h.model = linkModel{now: h.now, ends: h.now.Add(checkout.DefaultExpires),
			lives:     h.now.Add(checkout.DefaultExpires),
			tolerance: tolerance.ShortfallFor(modelCents)}
		for i := range h.model.payments {
			h.model.payments[i].cents = rapid.SampledFrom([]money.Cents{500, 1_240, 1_250, 2_490, 2_500, 4_000}).Draw(t, "cents")
			h.model.payments[i].good = rapid.IntRange(0, 5).Draw(t, "good") > 0
		}
		for range rapid.IntRange(1, modelSteps).Draw(t, "steps") {
			h.makeStep()
			_, _, _, inTime, late, _ := h.model.sums()
			require.Equal(t, h.model.status(), h.state.StatusAt(h.now))
			require.Equal(t, checkout.Money{ReceivedCents: inTime + late, LateCents: late,
				DueCents: h.model.dueCents(inTime)}, h.state.Money())
			require.Equal(t, h.model.completed, h.completions)
			require.Equal(t, money.Cents(h.model.completed)*(modelCents-h.model.short), h.credit)
			require.Equal(t, h.model.picked && !h.model.closed, h.state.Watching)
		}
	})
}
