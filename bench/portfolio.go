package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of making workspaces and cards, and of comparing dollars.
const (
	makers          = 64               // requests at once
	settleWithin    = 20 * time.Second // without any change, or without an answer
	settlePause     = 50 * time.Millisecond
	takenBackWithin = time.Second // until the server reverses a swipe that timed out
	plentyCents     = 500_000_000_000
	skew            = 1.1 // the exponent of the Zipf distribution
)

// tenant is a workspace of the run.
type tenant struct {
	id, key   string
	deposited int64        // cents
	moved     atomic.Int64 // cents that answered swipes have added to the available amount
	doubtful  atomic.Int64 // cents that may be added or not, beside moved
	before    int64        // the highest available amount when the load began
	asked     atomic.Int64 // cents of the swipes sent since then
}

// bookSwipe books cents that a message adds to the available amount: when the answer was right, and
// perhaps when there was none. A swipe without a decision is taken back, unless a kill comes first
// (unsettled).
func (t *tenant) bookSwipe(cents int64, is verdict, unsettled bool) {
	switch {
	case is == right:
		t.moved.Add(cents)
	case is == missing || is == undecided && unsettled:
		t.doubtful.Add(max(cents, -cents))
		t.moved.Add(max(cents, 0))
	}
}

// expectedBalance returns the bounds of the available amount.
func (t *tenant) expectedBalance() (least, most int64) {
	most = t.deposited + t.moved.Load()
	return most - t.doubtful.Load(), most
}

// card is a card of a tenant. Update n sets a monthly limit of plentyCents less n cents; update 0
// is the issue of the card.
type card struct {
	id, token   string
	tenant      *tenant
	sent, acked atomic.Int64 // the last updates that were sent and acknowledged
	lost        bool         // an update had no answer; only the card's writer reads it
}

// portfolio has the workspaces and cards of a run.
type portfolio struct {
	tenants  []*tenant
	cards    []*card // card i belongs to tenant i modulo their number
	declines []decline
}

// object is the body of a request outside the loads.
type object map[string]any

// makePortfolio makes a user, workspaces with dollars and cards through the public interface, and
// returns when the dollars are available. It fails when the server refuses one.
func (r *run) makePortfolio(ctx context.Context) (*portfolio, error) {
	r.Progress(Progress{Stage: "making cards"})
	p := &portfolio{tenants: make([]*tenant, r.Workspaces), cards: make([]*card, r.Cards)}
	session := newWire(r.Target.REST, r.Target.Authorities)
	defer session.close()
	if err := session.callJSON("POST", "/api/dashboard/signup", object{"password": "bench-" + rand.Text(),
		"email": "bench-" + r.id + "-" + strings.ToLower(rand.Text()[:8]) + "@example.com"}, nil); err != nil {
		return nil, err
	}
	cookie, _, _ := strings.Cut(string(session.response.Header.Peek("Set-Cookie")), ";")
	session.cookie = cookie
	err := r.forEach(ctx, r.Workspaces, func(c *wire, i int) (err error) {
		c.cookie = cookie
		p.tenants[i], err = makeTenant(c, fmt.Sprintf("Bench %s %d", r.id, i), plentyCents)
		return err
	})
	if err == nil {
		err = r.forEach(ctx, r.Cards, func(c *wire, i int) (err error) {
			p.cards[i], err = issueCard(c, p.tenants[i%len(p.tenants)], nil)
			return err
		})
	}
	if err == nil {
		err = p.issueDeclines(session)
	}
	if err == nil {
		err = r.forEach(ctx, r.Workspaces, func(c *wire, i int) error {
			has, err := r.awaitDollars(ctx, c, p.tenants[i])
			if err == nil && has != plentyCents {
				err = fmt.Errorf("bench: a deposit of %d cents has not settled; %d are there", int64(plentyCents), has)
			}
			return err
		})
	}
	return p, err
}

// makeTenant makes a workspace of the wire's session with a key, and announces a deposit of cents,
// if not 0. It fails like call.
func makeTenant(c *wire, name string, cents int64) (*tenant, error) {
	var made struct{ Workspace struct{ ID string } }
	if err := c.callJSON("POST", "/api/workspaces", object{"name": name}, &made); err != nil {
		return nil, err
	}
	t := &tenant{id: made.Workspace.ID, deposited: cents}
	var key struct{ Secret string }
	scopes := []string{"read:treasury", "write:treasury", "read:cards", "write:cards"}
	if err := c.callJSON("POST", "/api/auth/keys", object{"label": "bench", "scopes": scopes}, &key,
		"X-Workspace-Id", t.id); err != nil {
		return nil, err
	}
	if t.key = key.Secret; cents == 0 {
		return t, nil
	}
	cookie := c.cookie
	defer func() { c.cookie, c.bearer = cookie, "" }()
	c.cookie, c.bearer = "", t.key
	deposit := object{"source": "bank_fiat", "rail": "fednow", "amountUsdCents": cents}
	return t, c.callJSON("POST", "/api/treasury/deposits", deposit, nil, "Idempotency-Key", newUUID())
}

// newUUID makes a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// issueCard issues a card with wide limits, but for those of rules. It fails like call.
func issueCard(c *wire, t *tenant, rules object) (*card, error) {
	body := object{"holderKind": "agent", "holderLabel": "Bench", limitField: plentyCents,
		"perTxnLimitUsdCents": perTxnCents}
	for name, value := range rules {
		body[name] = value
	}
	c.cookie, c.bearer = "", t.key
	var issued struct {
		Card struct{ ID, PartnerCardToken string }
	}
	err := c.callJSON("POST", "/api/cards", body, &issued)
	return &card{id: issued.Card.ID, token: issued.Card.PartnerCardToken, tenant: t}, err
}

// issueDeclines issues the cards that must decline: frozen, terminated, restricted, with a low
// limit, and without dollars. It fails when the server refuses one.
func (p *portfolio) issueDeclines(session *wire) error {
	poor, err := makeTenant(session, "Bench without dollars", 0)
	if err != nil {
		return err
	}
	p.declines = alteredDeclines
	for _, d := range []struct {
		reason string
		owner  *tenant
		rules  object
		state  string
	}{
		{"card_frozen", p.tenants[0], nil, "frozen"}, {"card_terminated", p.tenants[0], nil, "terminated"},
		{"mcc_not_allowed", p.tenants[0], object{"allowedMccs": []string{"7995"}}, ""},
		{"merchant_not_allowed", p.tenants[0], object{"allowedMerchants": []string{"The One"}}, ""},
		{"monthly_limit_exceeded", p.tenants[0], object{limitField: leastCents / 2}, ""},
		{"insufficient_funds", poor, nil, ""},
	} {
		c, err := issueCard(session, d.owner, d.rules)
		if err == nil && d.state != "" {
			err = session.callJSON("PATCH", "/api/cards/"+c.id, object{"state": d.state}, nil)
		}
		if err != nil {
			return err
		}
		p.declines = append(p.declines, decline{reason: d.reason, card: c})
	}
	return nil
}

// shareCards returns the same cards with workspaces whose sums are separate: a server without REST
// gets the swipes of another's cards.
func (p *portfolio) shareCards() *portfolio {
	s := &portfolio{declines: p.declines}
	for range p.tenants {
		s.tenants = append(s.tenants, &tenant{})
	}
	for i, c := range p.cards {
		s.cards = append(s.cards, &card{id: c.id, token: c.token, tenant: s.tenants[i%len(s.tenants)]})
	}
	return s
}

// newPicker returns a function that picks the next card by a spread.
func (p *portfolio) newPicker(spread string, random *mathrand.Rand) func() *card {
	switch spread {
	case SpreadCard:
		return func() *card { return p.cards[0] }
	case SpreadUniform:
		return func() *card { return p.cards[random.IntN(len(p.cards))] }
	case SpreadWorkspace:
		of := (len(p.cards) + len(p.tenants) - 1) / len(p.tenants)
		return func() *card { return p.cards[random.IntN(of)*len(p.tenants)] }
	}
	zipf := mathrand.NewZipf(random, skew, 1, uint64(len(p.cards)-1))
	return func() *card { return p.cards[zipf.Uint64()] }
}

// awaitSettled waits until every workspace has its expected balance, and marks the first stage with
// a difference. Without a REST address it compares nothing. It fails when the server does not
// answer.
func (r *run) awaitSettled(ctx context.Context, stages []Stage) error {
	if r.Target.REST == "" {
		return nil
	}
	for _, s := range stages {
		if s.Outcomes["timeout"] > 0 {
			if err := pauseFor(ctx, takenBackWithin); err != nil {
				return err
			}
		}
	}
	var mu sync.Mutex
	return r.forEach(ctx, len(r.cards.tenants), func(c *wire, i int) error {
		t := r.cards.tenants[i]
		has, err := r.awaitDollars(ctx, c, t)
		if least, most := t.expectedBalance(); err == nil && (has < least || has > most) {
			mu.Lock()
			defer mu.Unlock()
			stages[0].Wrong = fmt.Sprintf("GET /api/treasury of %s shows %d cents available, want %d to %d; %s", t.id, has,
				least, most, auditAdvice)
		}
		return err
	})
}

// openBounds starts the bounds for reads of treasuries.
func (p *portfolio) openBounds() {
	for _, t := range p.tenants {
		least, most := t.expectedBalance()
		t.before = most
		t.asked.Store(most - least)
	}
}

// awaitDollars waits until a workspace has its expected balance and returns the balance. It gives
// up when the balance has not changed for settleWithin. It retries while the server cannot answer,
// and fails with its last error, with ErrLimited and when ctx ends.
func (r *run) awaitDollars(ctx context.Context, c *wire, t *tenant) (has int64, err error) {
	c.bearer = t.key
	least, most := t.expectedBalance()
	for last, since := int64(-1), time.Now(); ; last = has {
		err = c.callJSON("GET", "/api/treasury", nil, nil)
		if told := false; err == nil {
			if has, told = availableDollars(c.response.Body()); !told {
				return 0, fmt.Errorf("bench: GET /api/treasury shows no dollars: %s", quoteBody(c.response.Body()))
			}
		}
		if err == nil && has >= least && has <= most || err == ErrLimited {
			return has, err
		}
		if has != last {
			since = time.Now()
		}
		if time.Since(since) > r.settleWithin {
			return has, err
		}
		if err := pauseFor(ctx, settlePause); err != nil {
			return has, err
		}
	}
}

// pauseFor waits for d. It fails only when ctx ends first.
func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// forEach calls do for 0 to n-1, some at the same time, each with a wire to the REST port, and
// returns the first error, after which no further call begins.
func (r *run) forEach(ctx context.Context, n int, do func(c *wire, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	var next atomic.Int64
	var running sync.WaitGroup
	var telling sync.Mutex
	for range min(n, makers) {
		running.Go(func() {
			c := newWire(r.Target.REST, r.Target.Authorities)
			defer c.close()
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := do(c, int(i)); err != nil {
					cancel(err)
				}
				if i%1000 == 999 {
					telling.Lock()
					r.Progress(Progress{Stage: "making cards", Done: float64(i) / float64(n),
						PerSecond: float64(i) / time.Since(began).Seconds()})
					telling.Unlock()
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
