package authorizer

import (
	"fmt"
	"math/rand/v2"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// traffic is a mixture of messages for a few cards of three workspaces and one unknown card,
// determined by the seed, with the answers.
type traffic struct {
	r     *rig
	draw  *rand.Rand
	cards []testCard
	told  []told
}

type told struct {
	message *hold.Message
	answer  hold.Answer
}

func newTraffic(r *rig) *traffic {
	tr := &traffic{r: r, draw: rand.New(rand.NewPCG(1, 2))}
	for i, slot := range []ident.Slot{3, 100, 100, 4000} {
		tr.cards = append(tr.cards, cardOf(slot, i))
	}
	tr.follow(r)
	tr.cards = append(tr.cards, cardOf(2222, 0)) // unknown
	return tr
}

// follow brings the rules and the deposits of the known cards into a rig.
func (tr *traffic) follow(r *rig) {
	for i, c := range tr.cards {
		if i < 4 {
			r.mint(c)
			r.deposit(c.workspace, 50_000)
		}
	}
}

// step submits message number i, which the seed determines.
func (tr *traffic) step(i int) hold.Answer {
	m := tr.message(i)
	a := tr.r.e.Submit(m)
	if a.Status == hold.StatusOK && a.Reason != hold.ReasonCardNotFound && a.Reason != hold.ReasonTimeout {
		tr.told = append(tr.told, told{message: m, answer: a})
	}
	return a
}

func (tr *traffic) message(i int) *hold.Message {
	c := tr.cards[tr.draw.IntN(len(tr.cards))]
	earlier := fmt.Sprint("m", max(0, i-tr.draw.IntN(12)))
	id, cents := fmt.Sprint("m", i), money.Cents(1+tr.draw.IntN(900))
	switch tr.draw.IntN(10) {
	case 0:
		return incremental(id, earlier, c, cents)
	case 1:
		return reversal(id, earlier)
	case 2:
		return reversal(id, fmt.Sprint("m", i+3)) // before it arrives
	case 3, 4:
		return clearing(id, earlier, c, cents)
	case 5:
		return refund(id, earlier, c, cents)
	}
	return authorization(id, c, cents)
}

// walks returns all stored data of an engine, for comparison.
func (tr *traffic) walks(r *rig) (all []string) {
	add := func(format string, args ...any) error {
		all = append(all, fmt.Sprintf(format, args...))
		return nil
	}
	s := r.e.Snapshot()
	for _, err := range []error{
		s.WalkFunds(func(w ident.UUID, f Funds, seq uint64) error { return add("funds %x %+v %d", w, f, seq) }),
		s.WalkHolds(func(h *hold.Hold) error { return add("hold %+v", *h) }),
		s.WalkCards(func(rule *hold.Rule) error { return add("rule %+v", *rule) }),
		s.WalkSpends(func(card ident.UUID, s hold.Spend) error { return add("spend %x %+v", card, s) }),
		s.WalkReservations(func(w, id ident.UUID, c money.Cents) error { return add("reserved %x %x %d", w, id, c) }),
		s.Close(),
	} {
		if err != nil {
			panic(err)
		}
	}
	return all
}
