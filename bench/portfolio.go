package bench

import (
	"context"
	"fmt"
	"math"
	"time"
)

// The money of a run, in cents. Swipes are small, so that only the intended swipes are declined.
const (
	plentyCents     = 500_000_000_000
	perTxnCents     = 1_000_000
	leastSwipeCents = 100
	mostSwipeCents  = 5_000
	tightMonthCents = 50
	groceryMCC      = "5411"
	casinoMCC       = "7995"
)

// portfolio has the workspaces and cards of a run.
type portfolio struct {
	tenants []*tenant
	plain   []*card       // without limits in effect; card i belongs to tenant i modulo their number
	limits  []bookedLimit // of plain
	given   *given        // instead of plain, when the cards exist before the run
	// one card each for the declines that need one
	frozen, terminated, groceriesOnly, oneMerchantOnly, tight, poor *card
}

// issuePortfolio creates workspaces, deposits and cards, and returns when the dollars are
// available. It fails when the server refuses one, or when a deposit has not settled within
// settleWithin. prepareReport calls it.
func issuePortfolio(ctx context.Context, d *desk, c Config) (*portfolio, error) {
	p := &portfolio{tenants: make([]*tenant, c.Workspaces), plain: make([]*card, c.Cards), limits: make([]bookedLimit, c.Cards)}
	err := forEach(ctx, c.Workspaces, func(ctx context.Context, i int) (err error) {
		p.tenants[i], err = d.createTenant(ctx, fmt.Sprint(i), plentyCents)
		return err
	})
	if err != nil {
		return nil, err
	}
	made := make(chan struct{}, len(p.plain))
	go reportMade(made, len(p.plain), c.Progress)
	err = forEach(ctx, len(p.plain), func(ctx context.Context, i int) (err error) {
		p.plain[i], err = d.issueCard(ctx, p.tenants[i%len(p.tenants)], nil)
		made <- struct{}{}
		return err
	})
	close(made)
	if err == nil {
		err = p.issueSpecial(ctx, d)
	}
	if err != nil {
		return nil, err
	}
	return p, forEach(ctx, len(p.tenants), func(ctx context.Context, i int) error {
		has, err := d.awaitBalance(ctx, p.tenants[i], plentyCents)
		if err == nil && has != plentyCents {
			err = fmt.Errorf("bench: a deposit of %d cents has not settled within %s; %d are there", int64(plentyCents),
				settleWithin, has)
		}
		return err
	})
}

// reportMade reports the progress after each 1,000 cards made, until the channel is closed.
// issuePortfolio runs it in a goroutine.
func reportMade(made <-chan struct{}, all int, tell func(Progress)) {
	began, n := time.Now(), 0
	for range made {
		if n++; n%1000 == 0 {
			tell(Progress{Stage: "making cards", Done: float64(n) / float64(all),
				PerSecond: float64(n) / time.Since(began).Seconds()})
		}
	}
}

// issueSpecial issues the cards that must decline: frozen, terminated, restricted, with a low
// limit, and without dollars. It fails when the server refuses one.
func (p *portfolio) issueSpecial(ctx context.Context, d *desk) error {
	poor, err := d.createTenant(ctx, "without dollars", 0)
	if err != nil {
		return err
	}
	for i, special := range []struct {
		to    **card
		rules rules
		state string
	}{
		{&p.frozen, nil, "frozen"}, {&p.terminated, nil, "terminated"},
		{&p.groceriesOnly, rules{"allowedMccs": []string{groceryMCC}}, ""},
		{&p.oneMerchantOnly, rules{"allowedMerchants": []string{"The One"}}, ""},
		{&p.tight, rules{"monthlyLimitUsdCents": tightMonthCents}, ""}, {&p.poor, nil, ""},
	} {
		owner := p.tenants[i%len(p.tenants)]
		if special.to == &p.poor {
			owner = poor
		}
		c, err := d.issueCard(ctx, owner, special.rules)
		if err != nil {
			return err
		}
		if special.state != "" {
			if _, err := d.requestOK(ctx, "PATCH", "/api/cards/"+c.id, bearerHeader(owner.key), rules{"state": special.state}); err != nil {
				return err
			}
		}
		*special.to = c
	}
	return nil
}

// sharedCards returns the same cards with workspaces of their own, whose sums are separate. A
// server without REST gets the swipes of these cards.
func (p *portfolio) sharedCards() *portfolio {
	shared := *p
	shared.limits = nil
	shared.tenants, shared.plain = make([]*tenant, len(p.tenants)), make([]*card, len(p.plain))
	for i := range shared.tenants {
		shared.tenants[i] = &tenant{}
	}
	for i, c := range p.plain {
		shared.plain[i] = &card{id: c.id, token: c.token, tenant: shared.tenants[i%len(shared.tenants)]}
	}
	return &shared
}

// cardAt returns card i of the plain cards.
func (p *portfolio) cardAt(i int) *card {
	if p.given != nil {
		return p.given.card(i)
	}
	return p.plain[i]
}

func (p *portfolio) count() int {
	if p.given != nil {
		return p.given.cards
	}
	return len(p.plain)
}

// picker returns a function that picks the plain card of the next swipe by the load's spread. It
// panics for an unknown spread, which Validate refuses.
func (p *portfolio) picker(spread string) func(w *worker) *card {
	switch spread {
	case SpreadCard:
		return func(*worker) *card { return p.cardAt(0) }
	case SpreadWorkspace:
		return func(w *worker) *card {
			of := (len(p.plain) + len(p.tenants) - 1) / len(p.tenants)
			return p.plain[w.random.IntN(of)*len(p.tenants)]
		}
	case SpreadZipf:
		return func(w *worker) *card { return p.cardAt(int(w.cards.Uint64())) }
	}
	panic("BUG: a spread that was validated is not known: " + spread)
}

// settleWorkspaces waits until every workspace has its expected balance after the run's swipes, and
// adds the differences to the stage. After wrong or missing answers, and without a REST address, it
// compares nothing. It fails when the server does not answer.
func (r *run) settleWorkspaces(ctx context.Context, s *Stage) error {
	if r.Target.REST == "" {
		s.Notes = append(s.Notes, "the server has no REST address, so that no dollars were compared")
		return nil
	}
	if n := s.Outcomes[noAnswer]; n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d requests had no answer, so that the dollars could not be compared", n))
		r.uncounted = true
		return nil
	}
	if s.Wrong > 0 {
		r.uncounted = true
		return nil // after wrong answers the expected sums are unknown
	}
	if s.undecidedSwipes() > 0 {
		if err := pause(ctx, takenBackWithin); err != nil {
			return err
		}
	}
	r.Progress(Progress{Stage: s.Name + ": comparing the dollars", Done: 1})
	var wrong differences
	err := forEach(ctx, len(r.cards.tenants), func(ctx context.Context, i int) error {
		t := r.cards.tenants[i]
		want := t.depositedCents + t.moved.Load()
		has, err := r.desk.awaitBalance(ctx, t, want)
		if err == nil && has != want {
			wrong.addSum("GET /api/treasury shows %d cents available, want %d", has, want)
			t.moved.Store(has - t.depositedCents) // reported once
		}
		return err
	})
	s.addDifference(&wrong)
	s.Compared += len(r.cards.tenants)
	return err
}

// takenBackWithin bounds the time in which the server reverses a swipe that timed out.
const takenBackWithin = time.Second

// acceptBalances takes the stable balance of every workspace as expected, after a load that could
// not be compared. Its messages without an answer then do not count against later loads. It fails
// when the server does not answer. runLoad calls it first.
func (r *run) acceptBalances(ctx context.Context) error {
	if !r.uncounted {
		return nil
	}
	r.Progress(Progress{Stage: "counting the dollars anew", Done: 1})
	err := forEach(ctx, len(r.cards.tenants), func(ctx context.Context, i int) error {
		t := r.cards.tenants[i]
		has, err := r.desk.awaitBalance(ctx, t, math.MinInt64)
		if err == nil {
			t.moved.Store(has - t.depositedCents)
		}
		return err
	})
	r.uncounted = err != nil
	return err
}
