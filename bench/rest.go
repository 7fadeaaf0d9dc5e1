package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// The calls of a REST client.
const (
	patchCard = iota
	getCard
	getTreasury
	restCalls
)

// clients is the traffic of REST. Each connection updates and reads its own cards, so that its
// books have the expected limit of each.
type clients struct {
	cards   *portfolio
	workers int            // connections
	shares  [restCalls]int // how often each call is made, beside the others
}

func (r *run) newClients(connections int, shares [restCalls]int) *clients {
	r.cards.openBounds()
	return &clients{cards: r.cards, workers: connections, shares: shares}
}

var restNames = [restCalls]string{"PATCH card", "GET card", "GET treasury"}

func (*clients) measures() []string { return restNames[:] }

// unit sends one REST call, drawn by the shares of the calls. A connection of the load calls it.
func (t *clients) unit(w *worker, due time.Time) {
	drawn := w.random.IntN(t.shares[patchCard] + t.shares[getCard] + t.shares[getTreasury])
	switch {
	case drawn < t.shares[patchCard]:
		t.patchLimit(w, due)
	case drawn < t.shares[patchCard]+t.shares[getCard]:
		t.getCard(w, due)
	default:
		t.getTreasury(w, due)
	}
}

// pickOwnCard draws one of the cards that only this connection updates. Each connection has a range
// of cards, which belong to many workspaces.
func (t *clients) pickOwnCard(w *worker) (*card, *bookedLimit) {
	from, to := w.index*len(t.cards.plain)/t.workers, (w.index+1)*len(t.cards.plain)/t.workers
	i := from + w.random.IntN(to-from)
	return t.cards.plain[i], &t.cards.limits[i]
}

// patchLimit sets another monthly limit, too high to decline a swipe. A wrong answer is recorded as
// a difference.
func (t *clients) patchLimit(w *worker, due time.Time) {
	c, booked := t.pickOwnCard(w)
	limit := booked.nextLimit()
	w.body = strconv.AppendInt(append(w.body[:0], `{"monthlyLimitUsdCents":`...), limit, 10)
	w.body = append(w.body, '}')
	w.rest.setBearer(c.tenant.key)
	status, answer, ok := w.sendMeasured(w.rest, patchCard, due, "PATCH", "/api/cards/"+c.id)
	switch {
	case ok && status == 200:
		booked.noteAcknowledged()
	case ok && status == 503:
		booked.noteRefused()
	default:
		booked.noteLost()
	}
	if !ok {
		return
	}
	told, _ := centsField(answer, limitField)
	if countWrong(w, patchCard, due, status, told == limit && describesCard(answer, c)) {
		w.noteDifference("PATCH card", status, answer, fmt.Sprintf("%s with a monthly limit of %d cents", c.id, limit))
	}
}

// getCard reads a card of this connection and compares its limit with the acknowledged updates. A
// wrong answer is recorded as a difference.
func (t *clients) getCard(w *worker, due time.Time) {
	c, booked := t.pickOwnCard(w)
	w.rest.setBearer(c.tenant.key)
	status, answer, ok := w.sendMeasured(w.rest, getCard, due, "GET", "/api/cards/"+c.id)
	if !ok {
		return
	}
	shown, told := centsField(answer, limitField)
	if countWrong(w, getCard, due, status, told && booked.mayShow(shown) && describesCard(answer, c)) {
		w.noteDifference("GET card", status, answer, c.id+" with "+booked.describeWanted())
	}
}

// getTreasury reads a workspace's balance and checks that it is within the bounds of the sent
// swipes. A wrong answer is recorded as a difference.
func (t *clients) getTreasury(w *worker, due time.Time) {
	owner := t.cards.tenants[w.random.IntN(len(t.cards.tenants))]
	w.rest.setBearer(owner.key)
	status, answer, ok := w.sendMeasured(w.rest, getTreasury, due, "GET", "/api/treasury")
	if !ok {
		return
	}
	available, told := centsField(dollarsOf(answer), "availableCents")
	if countWrong(w, getTreasury, due, status, told && owner.mayShow(available)) {
		w.noteDifference(
			"GET treasury",
			status,
			answer,
			fmt.Sprintf("%d to %d cents available", owner.leastBalance(), owner.before),
		)
	}
}

const limitField = "monthlyLimitUsdCents"

// describesCard reports whether a document is that of the card, whose id is its first member.
func describesCard(answer []byte, c *card) bool { return string(textField(answer, "id")) == c.id }

// countWrong counts an answer and reports whether it is wrong. A 503 is not wrong: it reports a
// full queue, or a store that does not answer.
func countWrong(w *worker, call int, due time.Time, status int, right bool) bool {
	w.countOutcome(restNames[call] + " " + strconv.Itoa(status))
	if status == 503 {
		w.markUndecided(call, due)
		return false
	}
	return status != 200 || !right
}

// runREST runs the workload rest: a load for each call, which share the duration. It fails when the
// server does not answer or ctx ends.
func (r *run) runREST(ctx context.Context, l *Load) ([]Stage, error) {
	var all []Stage
	for call, name := range restNames {
		part := *l
		part.Name, part.Duration = l.Name+": "+name, l.Duration/restCalls
		var shares [restCalls]int
		shares[call] = 1
		stages, err := r.runFlows(
			ctx,
			&part,
			nil,
			flow{traffic: r.newClients(l.Connections, shares), connections: l.Connections},
		)
		if err == nil && !foundWrong(stages) {
			err = r.compareLimits(ctx, &stages[0])
		}
		stages[0].Measures = stages[0].Measures[call : call+1]
		all = append(all, stages...)
		if err != nil || foundWrong(all) {
			return all, err
		}
	}
	return all, nil
}

// runMixed runs the workload mixed: swipes and REST calls concurrently, each at its rate. It fails
// when the server does not answer or ctx ends.
func (r *run) runMixed(ctx context.Context, l *Load) ([]Stage, error) {
	shares := [restCalls]int{patchCard: l.RESTRate, getCard: l.ReadRate, getTreasury: l.ReadRate}
	stages, err := r.runFlows(
		ctx,
		l,
		r.watchBacklog(),
		flow{name: ": swipes", traffic: r.newSwipes(l), connections: l.Connections, rate: l.Rate},
		flow{
			name:        ": REST",
			traffic:     r.newClients(l.Connections, shares),
			connections: l.Connections,
			rate:        l.RESTRate + 2*l.ReadRate,
		},
	)
	if l.ReadRate == 0 {
		stages[1].Measures = stages[1].Measures[:1]
	}
	if err != nil || foundWrong(stages) {
		return stages, err
	}
	if err = r.settleWorkspaces(ctx, &stages[0]); err == nil {
		err = r.compareLimits(ctx, &stages[1])
	}
	return stages, err
}

// compareLimits reads every card that was updated since the last comparison, and compares its limit
// with the books. A difference is in the stage. It fails when the server does not answer.
func (r *run) compareLimits(ctx context.Context, s *Stage) error {
	var updated []int
	for i := range r.cards.limits {
		if r.cards.limits[i].toCompare() {
			updated = append(updated, i)
		}
	}
	if len(updated) == 0 {
		return nil
	}
	r.Progress(Progress{Stage: s.Name + ": comparing the cards", Done: 1})
	var wrong differences
	err := forEach(ctx, len(updated), func(ctx context.Context, i int) error {
		c, booked := r.cards.plain[updated[i]], &r.cards.limits[updated[i]]
		shown, err := r.desk.readLimit(ctx, c)
		if err == nil && !booked.mayShow(shown) {
			wrong.addSum("GET card %s shows a monthly limit of %d cents after the load, want %s", c.id, shown,
				booked.describeWanted())
		}
		booked.compared = booked.sent
		return err
	})
	s.addDifference(&wrong)
	s.Notes = append(s.Notes, fmt.Sprintf("%d cards compared afterwards", len(updated)))
	return err
}
