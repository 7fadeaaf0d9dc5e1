package bench

import (
	"bytes"
	"context"
	"strconv"
	"time"
)

// What a REST client does.
const (
	patchCard = iota
	getCard
	getTreasury
)

// clients is the traffic of REST: one of the calls, or all of them in turn.
type clients struct {
	cards *portfolio
	only  int // one call; all when it is allCalls
}

const allCalls = -1

func (*clients) measures() []string { return []string{"PATCH card", "GET card", "GET treasury"} }

func (t *clients) unit(w *worker, due time.Time) {
	call := t.only
	if call == allCalls {
		w.ids++
		call = int(w.ids) % 3
	}
	c := t.cards.plain[w.random.IntN(len(t.cards.plain))]
	w.rest.as(c.tenant.key)
	switch call {
	case patchCard:
		t.patch(w, c, due)
	case getCard:
		t.get(w, getCard, due, c.id)
	case getTreasury:
		t.get(w, getTreasury, due, "usd")
	}
}

// patch sets another monthly limit, which is as good as none.
func (t *clients) patch(w *worker, c *card, due time.Time) {
	limit := int64(plentyCents) - w.random.Int64N(1_000_000)
	w.body = strconv.AppendInt(append(w.body[:0], `{"monthlyLimitUsdCents":`...), limit, 10)
	w.body = append(w.body, '}')
	status, answer, ok := w.ask(w.rest, patchCard, due, "PATCH", "/api/cards/"+c.id)
	if !ok {
		return
	}
	told, _ := centsField(answer, "monthlyLimitUsdCents")
	t.judge(w, "PATCH card", status, answer, told == limit, "the new limit")
}

func (t *clients) get(w *worker, call int, due time.Time, mentions string) {
	name, path := "GET treasury", "/api/treasury"
	if call == getCard {
		name, path = "GET card", "/api/cards/"+mentions
	}
	if status, answer, ok := w.ask(w.rest, call, due, "GET", path); ok {
		t.judge(w, name, status, answer, bytes.Contains(answer, []byte(mentions)), mentions)
	}
}

func (t *clients) judge(w *worker, what string, status int, answer []byte, right bool, want string) {
	w.count(what + " " + strconv.Itoa(status))
	if status == 503 {
		return // nothing changed: a full queue or a store that does not answer
	}
	if status != 200 || !right {
		w.differs(what, status, answer, want)
	}
}

// rest runs each call by itself.
func (r *run) rest(ctx context.Context, l *Load) ([]Stage, error) {
	var all []Stage
	for call, name := range (&clients{}).measures() {
		part := *l
		part.Name, part.Duration = l.Name+": "+name, l.Duration/3
		stages, err := r.drive(ctx, &part, nil, flow{traffic: &clients{cards: r.cards, only: call}, connections: l.Connections})
		for i := range stages {
			stages[i].Measures = stages[i].Measures[call : call+1]
		}
		all = append(all, stages...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// mixed runs swipes and REST calls beside each other, each at its rate.
func (r *run) mixed(ctx context.Context, l *Load) ([]Stage, error) {
	stages, err := r.drive(ctx, l, r.backlog(), flow{name: ": swipes", traffic: r.swipes(l), connections: l.Connections,
		rate: l.Rate}, flow{name: ": REST", traffic: &clients{cards: r.cards, only: allCalls}, connections: l.Connections,
		rate: 3 * l.RESTRate})
	if err == nil {
		err = r.settle(ctx, &stages[0])
	}
	return stages, err
}
