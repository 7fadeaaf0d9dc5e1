package main

import (
	"math/rand/v2"
	"sync/atomic"

	"purser/cmd/purser/apiclient"
)

// desk is a client of the REST API with a card of its own, which it changes; what else it makes is the tenant's.
type desk struct {
	tenant *tenant
	card   string
	token  string
	terms  terms  // as last answered
	maybe  *terms // of a PATCH without an answer
	live   []*madeKey
}

const perTxnUnlimited, monthUnlimited = 1_000_000_00, 100_000_000_00

// workOn does one thing after another until the server is struck.
func (d *desk) workOn(s *storm, r *rand.Rand) {
	d.live = nil // keys of earlier storms are left alone
	for !s.struck() {
		var answered bool
		switch r.IntN(6) {
		case 0, 1:
			answered = d.deposit(s, r)
		case 2:
			answered = d.mint(s)
		case 3:
			answered = d.patch(s, r)
		default:
			answered = d.turnKeys(s, r)
		}
		if !answered {
			return
		}
	}
}

// create sends a POST with a fresh Idempotency-Key and notes its answer. It is false when the client was cut off.
func (d *desk) create(s *storm, p *post, path string, body fields, noted *atomic.Int64) bool {
	p.tenant, p.round = d.tenant, s.round
	p.request = apiclient.Request{Method: "POST", Path: path, IdempotencyKey: apiclient.NewIdempotencyKey(), Body: marshal(body)}
	a, answered := s.send(s.p.as(s.p.rest, d.tenant.bearer), p.request, new(atomic.Int64))
	d.tenant.mu.Lock()
	d.tenant.posts = append(d.tenant.posts, p)
	d.tenant.mu.Unlock()
	switch {
	case !answered:
	case a.Status == p.status:
		noted.Add(1)
		p.answer, p.told = a, true
	case apiclient.IsUndecided(a):
		s.counts.undecided.Add(1)
		p.refused = a.Status == 503
	default:
		s.differ("round %d: POST %s was answered %d %s", s.round, path, a.Status, a.Raw)
	}
	return answered
}

// deposit announces 1 to 50 dollars. The sandbox bank reports those that end in 91 cents twice, and never those that end in 93.
func (d *desk) deposit(s *storm, r *rand.Rand) bool {
	cents := 1_00 + r.Int64N(50_00)
	if cents%100 == 93 {
		cents++
	}
	return d.create(s, &post{status: 202, cents: cents}, "/api/treasury/deposits", announcement(cents), &s.counts.deposits)
}

func announcement(cents int64) fields {
	return fields{"source": "bank_fiat", "rail": "fednow", "amountUsdCents": cents}
}

// mint makes a card that the swipers use from the moment of its answer.
func (d *desk) mint(s *storm) bool {
	p := &post{status: 200}
	answered := d.create(s, p, "/api/cards", newCard(), &s.counts.mints)
	if p.told {
		d.tenant.issued(p.answer.Text("card", "partnerCardToken"))
	}
	return answered
}

func newCard() fields {
	return fields{"holderKind": "agent", "holderLabel": "Storm", "monthlyLimitUsdCents": int64(monthUnlimited),
		"perTxnLimitUsdCents": int64(perTxnUnlimited)}
}

// patch sets all terms of the desk's card at once, so that none of them or all of them change.
func (d *desk) patch(s *storm, r *rand.Rand) bool {
	want := terms{State: "active", Monthly: monthUnlimited, PerTxn: 10_00 + r.Int64N(50_00)}
	if r.IntN(2) == 0 {
		want.State = "frozen"
	}
	if r.IntN(4) == 0 {
		want.Monthly = 100_00 + r.Int64N(1_000_00)
	}
	d.maybe = &want
	a, answered := s.send(s.p.as(s.p.rest, d.tenant.bearer), d.change(want), new(atomic.Int64))
	if !answered {
		return false
	}
	if apiclient.IsUndecided(a) {
		s.counts.undecided.Add(1)
		return false // the next change would hide which of the two took effect
	}
	s.counts.patches.Add(1)
	if got, err := termsOf(a); err != nil || a.Status != 200 || got != want {
		s.differ("round %d: PATCH of %s to %+v was answered %d %s", s.round, d.card, want, a.Status, a.Raw)
	}
	d.terms, d.maybe = want, nil
	return true
}

func (d *desk) change(to terms) apiclient.Request {
	return apiclient.Request{Method: "PATCH", Path: "/api/cards/" + d.card, Body: marshal(to)}
}

// turnKeys makes a key or revokes one that it has made; some stay.
func (d *desk) turnKeys(s *storm, r *rand.Rand) bool {
	if len(d.live) > 0 && r.IntN(2) == 0 {
		return d.revoke(s, r)
	}
	p := &post{status: 200}
	answered := d.create(s, p, "/api/auth/keys", fields{"label": "storm", "scopes": []string{"read:treasury"}},
		&s.counts.keysMade)
	if p.told {
		d.live = append(d.live, d.tenant.made(p))
	}
	return answered
}

// made keeps the key of an answered POST.
func (tn *tenant) made(p *post) *madeKey {
	k := &madeKey{tenant: tn, round: p.round, id: p.answer.Text("apiKey", "id"), secret: p.answer.Text("secret")}
	tn.mu.Lock()
	defer tn.mu.Unlock()
	tn.keys = append(tn.keys, k)
	return k
}

func (d *desk) revoke(s *storm, r *rand.Rand) bool {
	i := r.IntN(len(d.live))
	k := d.live[i]
	d.live = append(d.live[:i], d.live[i+1:]...)
	k.maybe = true
	a, answered := s.send(s.p.as(s.p.rest, d.tenant.bearer), k.revocation(), new(atomic.Int64))
	switch {
	case !answered:
	case a.Status == 200:
		s.counts.keysRevoked.Add(1)
		k.revoked = true
	case apiclient.IsUndecided(a):
		s.counts.undecided.Add(1)
	default:
		s.differ("round %d: revocation of %s was answered %d %s", s.round, k.id, a.Status, a.Raw)
	}
	return answered
}

func (k *madeKey) revocation() apiclient.Request {
	return apiclient.Request{Method: "DELETE", Path: "/api/auth/keys?id=" + k.id}
}
