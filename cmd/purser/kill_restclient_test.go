package main

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"purser/cmd/purser/apiclient"
)

// restClient is a client of the REST API in a storm. It changes one card of its own; the deposits,
// cards and keys that it creates belong to the tenant.
type restClient struct {
	tenant          *tenant
	card            string
	token           string
	terms           cardTerms     // the terms of the last answered PATCH
	unansweredTerms *cardTerms    // the terms of a PATCH without an answer; nil: none
	activeKeys      []*createdKey // created in this storm and not revoked
}

const perTxnUnlimited, monthUnlimited = 1_000_000_00, 100_000_000_00

// run sends one request after another until the storm stops.
func (d *restClient) run(s *storm, r *rand.Rand) {
	d.activeKeys = nil // keys of earlier storms stay valid
	for !s.stopped() {
		var answered bool
		switch r.IntN(6) {
		case 0, 1:
			answered = d.deposit(s, r)
		case 2:
			answered = d.createCard(s)
		case 3:
			answered = d.updateCard(s, r)
		default:
			answered = d.createOrRevokeKey(s, r)
		}
		if !answered {
			return
		}
	}
}

// post sends a POST with a new Idempotency-Key and records its answer. It returns false if the
// connection was cut off.
func (d *restClient) post(s *storm, p *restPost, path string, body fields, noted *atomic.Int64) bool {
	p.tenant, p.round = d.tenant, s.round
	p.request = apiclient.Request{Method: "POST", Path: path, IdempotencyKey: apiclient.NewIdempotencyKey(),
		Body: marshal(body)}
	a, answered := s.send(s.p.client(s.p.rest, d.tenant.bearer), p.request, new(atomic.Int64))
	d.tenant.mu.Lock()
	d.tenant.posts = append(d.tenant.posts, p)
	d.tenant.mu.Unlock()
	switch {
	case !answered:
	case a.Status == p.status:
		noted.Add(1)
		p.answer, p.answered = a, true
	case apiclient.IsUndecided(a):
		s.counts.undecided.Add(1)
		p.refused = a.Status == 503
	default:
		s.differ("round %d: POST %s was answered %d %s", s.round, path, a.Status, a.Raw)
	}
	return answered
}

// deposit announces 1 to 50 dollars. The sandbox bank reports an amount that ends in 91 cents
// twice, and never reports one that ends in 93 cents, so deposit avoids 93.
func (d *restClient) deposit(s *storm, r *rand.Rand) bool {
	cents := 1_00 + r.Int64N(50_00)
	if cents%100 == 93 {
		cents++
	}
	return d.post(s, &restPost{status: 202, cents: cents}, "/api/treasury/deposits", depositRequest(cents),
		&s.counts.deposits)
}

func depositRequest(cents int64) fields {
	return fields{"source": "bank_fiat", "rail": "fednow", "amountUsdCents": cents}
}

// createCard creates a card, which the swipers use as soon as it is answered.
func (d *restClient) createCard(s *storm) bool {
	p := &restPost{status: 200}
	answered := d.post(s, p, "/api/cards", cardRequest(), &s.counts.mints)
	if p.answered {
		d.tenant.addToken(p.answer.Text("card", "partnerCardToken"))
	}
	return answered
}

func cardRequest() fields {
	return fields{"holderKind": "agent", "holderLabel": "Storm", "monthlyLimitUsdCents": int64(monthUnlimited),
		"perTxnLimitUsdCents": int64(perTxnUnlimited)}
}

// updateCard sets all terms of the client's card in one PATCH: either all change or none.
func (d *restClient) updateCard(s *storm, r *rand.Rand) bool {
	want := cardTerms{State: "active", Monthly: monthUnlimited, PerTxn: 10_00 + r.Int64N(50_00)}
	if r.IntN(2) == 0 {
		want.State = "frozen"
	}
	if r.IntN(4) == 0 {
		want.Monthly = 100_00 + r.Int64N(1_000_00)
	}
	d.unansweredTerms = &want
	a, answered := s.send(s.p.client(s.p.rest, d.tenant.bearer), d.updateRequest(want), new(atomic.Int64))
	if !answered {
		return false
	}
	if apiclient.IsUndecided(a) {
		s.counts.undecided.Add(1)
		return false // another change would hide whether this one took effect
	}
	s.counts.patches.Add(1)
	if got, err := decodeCardTerms(a); err != nil || a.Status != 200 || got != want {
		s.differ("round %d: PATCH of %s to %+v was answered %d %s", s.round, d.card, want, a.Status, a.Raw)
	}
	d.terms, d.unansweredTerms = want, nil
	return true
}

func (d *restClient) updateRequest(to cardTerms) apiclient.Request {
	return apiclient.Request{Method: "PATCH", Path: "/api/cards/" + d.card, Body: marshal(to)}
}

// createOrRevokeKey creates an API key, or revokes one that this client created. Some keys stay.
func (d *restClient) createOrRevokeKey(s *storm, r *rand.Rand) bool {
	if len(d.activeKeys) > 0 && r.IntN(2) == 0 {
		return d.revokeKey(s, r)
	}
	p := &restPost{status: 200}
	answered := d.post(s, p, "/api/auth/keys", fields{"label": "storm", "scopes": []string{"read:treasury"}},
		&s.counts.keysMade)
	if p.answered {
		d.activeKeys = append(d.activeKeys, d.tenant.addKey(p))
	}
	return answered
}

// addKey records the key of an answered POST.
func (tn *tenant) addKey(p *restPost) *createdKey {
	k := &createdKey{tenant: tn, round: p.round, id: p.answer.Text("apiKey", "id"), secret: p.answer.Text("secret")}
	tn.mu.Lock()
	defer tn.mu.Unlock()
	tn.keys = append(tn.keys, k)
	return k
}

func (d *restClient) revokeKey(s *storm, r *rand.Rand) bool {
	i := r.IntN(len(d.activeKeys))
	k := d.activeKeys[i]
	d.activeKeys = append(d.activeKeys[:i], d.activeKeys[i+1:]...)
	k.revocationSent = true
	a, answered := s.send(s.p.client(s.p.rest, d.tenant.bearer), k.revokeRequest(), new(atomic.Int64))
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

func (k *createdKey) revokeRequest() apiclient.Request {
	return apiclient.Request{Method: "DELETE", Path: "/api/auth/keys?id=" + k.id}
}

// integerAt returns the whole number at a path of an answer, 0 when there is none.
func integerAt(a apiclient.Answer, path ...string) (n int64) {
	_, _ = fmt.Sscan(fmt.Sprint(a.At(path...)), &n) // another value is 0
	return n
}
