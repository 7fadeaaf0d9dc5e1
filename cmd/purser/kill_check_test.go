package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
	"purser/persistence/retry"
)

const (
	verifiers = 16 // concurrent requests of a verification
	maxProbes = 5  // swipes of a card until one is decided in time
)

// forEachConcurrently calls work for every item, on as many goroutines as verifiers says.
func forEachConcurrently[T any](items []T, work func(T)) {
	var (
		next    atomic.Int64
		workers sync.WaitGroup
	)
	for range verifiers {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				work(items[i])
			}
		})
	}
	workers.Wait()
}

// verify compares a restarted server with the answers of one round. It reads first, because a
// repeat would restore a lost effect. Then it repeats the requests without an outcome, and then all
// requests.
func (w *witness) verify(t *testing.T, p *process, round int) {
	t.Helper()
	p.awaitEmptyBacklog(t)
	for _, tn := range w.tenants {
		w.checkListed(t, p, tn, ofRound(tn.swipes, func(s *swipe) int { return s.round }, round))
	}
	w.checkCards(p)
	w.checkKeys(p, round)
	for _, tn := range w.tenants {
		forEachConcurrently(ofRound(tn.swipes, func(s *swipe) int { return s.round }, round),
			func(s *swipe) { w.repeatUndecided(p, s) })
		forEachConcurrently(ofRound(tn.posts, func(p *restPost) int { return p.round }, round),
			func(post *restPost) { w.repeatPost(p, post) })
	}
	w.repeatChanges(p, round)
	w.repeatSwipes(p, round)
	w.probeCards(p, round)
	for i, tn := range w.tenants {
		w.checkTreasury(t, p, tn, fmt.Sprintf("round %d, workspace %d", round, i))
	}
}

func ofRound[T any](items []T, roundOf func(T) int, round int) (found []T) {
	for _, item := range items {
		if roundOf(item) == round {
			found = append(found, item)
		}
	}
	return found
}

// listedAuthorization is an authorization in the list of the REST API.
type listedAuthorization struct {
	NetworkID string `json:"networkId"`
	Decision  string `json:"decision"`
	Reason    string `json:"reason"`
	Held      int64  `json:"heldCents"`
	Cleared   int64  `json:"clearedCents"`
	Refunded  int64  `json:"refundedCents"`
}

func (e listedAuthorization) state() authorizationState {
	return authorizationState{declined: e.Decision != "approved", held: e.Held, cleared: e.Cleared,
		refunded: e.Refunded}
}

// listAuthorizations reads a workspace's authorizations, newest first, page by page until enough
// returns true or the list ends.
func (w *witness) listAuthorizations(t *testing.T, p *process, tn *tenant,
	enough func(shown map[string]listedAuthorization) bool) map[string]listedAuthorization {
	t.Helper()
	shown, cursor := map[string]listedAuthorization{}, ""
	for {
		a, err := p.sendToREST(tn.bearer,
			apiclient.Request{Method: "GET", Path: "/api/authorizations?limit=100" + cursor})
		require.NoError(t, err)
		require.Equal(t, 200, a.Status, string(a.Raw))
		var page struct {
			Data       []listedAuthorization `json:"data"`
			NextCursor *string               `json:"nextCursor"`
		}
		require.NoError(t, json.Unmarshal(a.Raw, &page))
		for _, e := range page.Data {
			if _, twice := shown[e.NetworkID]; twice {
				w.differ("authorization %s is listed twice", e.NetworkID)
			}
			shown[e.NetworkID] = e
		}
		if enough(shown) || page.NextCursor == nil {
			return shown
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// checkListed requires every answered swipe in the list, with its decision and with the amounts
// that its messages add up to.
func (w *witness) checkListed(t *testing.T, p *process, tn *tenant, swipes []*swipe) {
	t.Helper()
	missing := map[string]*swipe{}
	for _, s := range swipes {
		if s.messages[0].answered {
			missing[s.id] = s
		}
	}
	w.listAuthorizations(t, p, tn, func(shown map[string]listedAuthorization) bool {
		for id, s := range missing {
			if e, ok := shown[id]; ok {
				w.compareListed(s, e)
				delete(missing, id)
			}
		}
		return len(missing) == 0
	})
	for id := range missing {
		w.differ("swipe %s was answered and is not listed", id)
	}
}

func (w *witness) compareListed(s *swipe, e listedAuthorization) {
	w.counts.reads.Add(1)
	if first := s.messages[0]; first.answered && e.Reason != first.answer.Text("reason") {
		w.differ("swipe %s was answered %s and is listed as %+v", s.id, first.answer.Raw, e)
	}
	may := s.possibleStates()
	for _, m := range may {
		if e.state() == m {
			return
		}
	}
	w.differ("swipe %s is listed as %+v; its answers add up to one of %+v", s.id, e, may)
}

// repeatUndecided repeats a swipe's last message if its outcome is unknown. A message that stays
// undecided was declined.
func (w *witness) repeatUndecided(p *process, s *swipe) {
	m := s.messages[len(s.messages)-1]
	if m.answered {
		return
	}
	a, err := p.sendToNetwork(m.route(), m.body)
	if err != nil {
		w.differ("the repeat of %s failed: %v", m.id, err)
		return
	}
	if !apiclient.IsUndecided(a) {
		m.answer, m.answered = a, true
	}
}

// repeatSwipes sends every message of a round again, and those of all rounds if round is negative.
func (w *witness) repeatSwipes(p *process, round int) {
	for _, tn := range w.tenants {
		forEachConcurrently(tn.swipes, func(s *swipe) {
			if round >= 0 && s.round != round {
				return
			}
			for _, m := range s.messages {
				w.repeatMessage(p, m)
			}
		})
	}
}

func (w *witness) repeatMessage(p *process, m *message) {
	if !m.answered {
		return
	}
	w.counts.repeated.Add(1)
	a, err := p.sendToNetwork(m.route(), m.body)
	if err != nil || a.Status != m.answer.Status || string(a.Raw) != string(m.answer.Raw) {
		w.differ("%s %s was answered %d %s and is now answered %d %s (%v)", m.kind, m.id, m.answer.Status, m.answer.Raw,
			a.Status, a.Raw, err)
	}
}

// repeatPost sends a POST again. The answer to an answered POST must be a replay, equal to the
// byte. A POST without an answer gets this one.
func (w *witness) repeatPost(p *process, post *restPost) {
	a, err := p.sendToREST(post.tenant.bearer, post.request)
	switch {
	case err != nil || a.Status != post.status:
		w.differ("the repeat of POST %s was answered %d %s (%v)", post.request.Path, a.Status, a.Raw, err)
	case post.answered:
		w.counts.repeated.Add(1)
		if !a.Replayed || string(a.Raw) != string(post.answer.Raw) {
			w.differ("POST %s was answered %s and is now answered %s, replayed %v",
				post.request.Path, post.answer.Raw, a.Raw, a.Replayed)
		}
	case post.refused && a.Replayed:
		w.differ("POST %s was refused with 503 and has taken effect: %s", post.request.Path, a.Raw)
	default:
		post.answer, post.answered = a, true
		if post.request.Path == "/api/auth/keys" {
			post.tenant.addKey(post)
		}
	}
}

func (w *witness) restClients() (all []*restClient) {
	for _, tn := range w.tenants {
		all = append(all, tn.restClients...)
	}
	return all
}

// checkCards requires that every changed card has the terms of the last answered change, or all
// those of a later change without an answer.
func (w *witness) checkCards(p *process) {
	for _, d := range w.restClients() {
		a, err := p.sendToREST(d.tenant.bearer, apiclient.Request{Method: "GET", Path: "/api/cards/" + d.card})
		got, fault := decodeCardTerms(a)
		w.counts.reads.Add(1)
		if err != nil || fault != nil || got != d.terms && (d.unansweredTerms == nil || got != *d.unansweredTerms) {
			w.differ("card %s is %+v; last answered %+v, unanswered %+v (%v)",
				d.card, got, d.terms, d.unansweredTerms, err)
		}
	}
}

// checkKeys uses the keys of a round, and those of all rounds if round is negative. A created key
// must work, and a revoked key must be refused.
func (w *witness) checkKeys(p *process, round int) {
	for _, tn := range w.tenants {
		forEachConcurrently(tn.keys, func(k *createdKey) {
			if round >= 0 && k.round != round {
				return
			}
			a, err := p.sendToREST(k.secret, apiclient.Request{Method: "GET", Path: "/api/treasury"})
			w.counts.reads.Add(1)
			works, refused := a.Status == 200, a.Status == 401
			if err != nil || !works && !refused || works && k.revoked || refused && !k.revocationSent {
				w.differ("key %s (revoked %v, revocation sent %v) is answered %d (%v)",
					k.id, k.revoked, k.revocationSent, a.Status, err)
			}
		})
	}
}

// repeatChanges repeats the card changes and key revocations without an answer, and checks the
// cards and keys again.
func (w *witness) repeatChanges(p *process, round int) {
	for _, d := range w.restClients() {
		if d.unansweredTerms == nil {
			continue
		}
		a, err := p.sendToREST(d.tenant.bearer, d.updateRequest(*d.unansweredTerms))
		if err != nil || a.Status != 200 {
			w.differ("the repeat of a PATCH of %s was answered %d %s (%v)", d.card, a.Status, a.Raw, err)
		}
		d.terms, d.unansweredTerms = *d.unansweredTerms, nil
	}
	for _, tn := range w.tenants {
		for _, k := range tn.keys {
			if !k.revocationSent || k.revoked {
				continue
			}
			a, err := p.sendToREST(tn.bearer, k.revokeRequest())
			if err != nil || a.Status != 200 {
				w.differ("the repeat of a revocation of %s was answered %d %s (%v)", k.id, a.Status, a.Raw, err)
			}
			k.revoked = true
		}
	}
	w.checkCards(p)
	w.checkKeys(p, round)
}

// probeCards swipes each changed card once above its limit, which shows the terms that the
// authorizer has for the card.
func (w *witness) probeCards(p *process, round int) {
	for i, d := range w.restClients() {
		var m *message
		// A swipe that timed out stays declined, so each probe has an id of its own.
		for probe := 0; (m == nil || !m.answered) && probe < maxProbes; probe++ {
			s := &swipe{tenant: d.tenant, id: fmt.Sprintf("probe-%d-%d-%d", round, i, probe), token: d.token,
				round: round}
			m = s.addMessage("authorization", s.id, d.terms.PerTxn+1, nil)
			w.repeatUndecided(p, s)
			d.tenant.addSwipe(s)
		}
		want := "per_transaction_limit_exceeded"
		if d.terms.State == "frozen" {
			want = "card_frozen"
		}
		if w.counts.reads.Add(1); m.answer.Text("reason") != want {
			w.differ("card %s is %+v, but a swipe of %d cents is answered %s", d.card, d.terms, m.cents, m.answer.Raw)
		}
	}
}

// expectedBalances returns the unheld and the held cents that a workspace's answers add up to.
func (tn *tenant) expectedBalances() (funds, held int64) {
	for _, p := range tn.posts {
		if p.answered {
			funds += p.cents
		}
	}
	for _, s := range tn.swipes {
		now := s.state()
		funds += now.refunded - now.cleared - now.held
		held += now.held
	}
	return funds, held
}

// checkTreasury waits until the treasury shows the expected balances. It adds incoming deposits to
// the available dollars, because a deposit settles at any time.
func (w *witness) checkTreasury(t *testing.T, p *process, tn *tenant, where string) {
	t.Helper()
	funds, held := tn.expectedBalances()
	var shown map[string]any
	matches := func() bool {
		a, err := p.sendToREST(tn.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
		require.NoError(t, err)
		shown = apiclient.DollarBalance(a)
		number := func(name string) int64 { n, _ := shown[name].(json.Number).Int64(); return n }
		return number("availableCents")+number("incomingCents") == funds && number("heldCents") == held
	}
	w.counts.reads.Add(1)
	for deadline := time.Now().Add(stateTimeout); !matches(); {
		if time.Now().After(deadline) {
			w.differ("%s: the treasury shows %v; the answers add up to %d available or incoming and %d held",
				where, shown, funds, held)
			return
		}
		require.True(t, retry.Pause(t.Context(), pollInterval))
	}
}

// verifyAll compares all rounds at once: it repeats every request, and requires that the lists hold
// every answered swipe and no other.
func (w *witness) verifyAll(t *testing.T, p *process) {
	t.Helper()
	p.awaitEmptyBacklog(t)
	w.repeatSwipes(p, -1)
	w.checkKeys(p, -1)
	w.checkCards(p)
	for i, tn := range w.tenants {
		forEachConcurrently(tn.posts, func(post *restPost) { w.repeatPost(p, post) })
		p.await(t, "the last deposit", func() bool {
			a, err := p.sendToREST(tn.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
			return err == nil && fmt.Sprint(apiclient.DollarBalance(a)["incomingCents"]) == "0"
		})
		w.checkTreasury(t, p, tn, fmt.Sprintf("at the end, workspace %d", i))
		shown := w.listAuthorizations(t, p, tn, func(map[string]listedAuthorization) bool { return false })
		for _, s := range tn.swipes {
			if e, ok := shown[s.id]; ok {
				w.compareListed(s, e)
				delete(shown, s.id)
			} else if s.messages[0].answered {
				w.differ("swipe %s was answered and is not listed", s.id)
			}
		}
		for id, e := range shown {
			w.differ("swipe %s is listed and no client sent it: %+v", id, e)
		}
	}
}
