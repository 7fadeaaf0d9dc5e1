package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"purser/cmd/purser/apiclient"
)

// witness keeps everything that the clients asked for and what they were told.
type witness struct {
	tenants []*tenant
	counts  counts

	mu          sync.Mutex
	differences []string
}

// counts are printed at the end.
type counts struct {
	swipes, followUps, deposits, mints, patches, keysMade, keysRevoked atomic.Int64 // answers noted
	undecided                                                          atomic.Int64 // answered, with what promises nothing
	cutSwipes, cutFollowUps, cutREST                                   atomic.Int64 // requests that a kill left without an answer
	repeated, reads                                                    atomic.Int64 // compared with what was told
}

func (c *counts) recorded() int64 {
	return c.swipes.Load() + c.followUps.Load() + c.deposits.Load() + c.mints.Load() + c.patches.Load() + c.keysMade.Load() +
		c.keysRevoked.Load()
}

// differ notes a broken promise.
func (w *witness) differ(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.differences = append(w.differences, fmt.Sprintf(format, args...))
}

// tenant is one workspace.
type tenant struct {
	bearer      string // a key that may do all that the test does
	restClients []*restClient

	mu     sync.Mutex
	tokens []string // of all cards that the clients know of
	swipes []*swipe
	posts  []*restPost
	keys   []*createdKey
}

func (tn *tenant) randomToken(r *rand.Rand) string {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	return tn.tokens[r.IntN(len(tn.tokens))]
}

func (tn *tenant) addToken(token string) {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	tn.tokens = append(tn.tokens, token)
}

func (tn *tenant) addSwipe(s *swipe) {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	tn.swipes = append(tn.swipes, s)
}

// swipe is one authorization and the messages that followed it, in their order: at any moment one client has it. Only its last
// message can be one whose outcome is unknown.
type swipe struct {
	tenant   *tenant
	id       string // the network's
	token    string
	round    int
	messages []*message
}

// message is one message of the card network.
type message struct {
	kind     string // authorization, incremental, reversal, clearing or refund
	id       string
	body     []byte
	cents    int64
	final    bool
	answered bool // the outcome is known: it is answer
	answer   apiclient.Answer
}

func (m *message) route() string {
	switch m.kind {
	case "authorization", "incremental":
		return "/v1/authorizations"
	}
	return "/v1/" + m.kind + "s"
}

// authorizationState is an authorization as it stands, amounts in cents.
type authorizationState struct {
	declined                bool
	held, cleared, refunded int64
}

// after is the standing that a message leads to. Of an authorization without an outcome nothing is known to stand; any other
// message is then taken to have been accepted in full.
func (s authorizationState) after(m *message) authorizationState {
	accepted := m.cents
	if m.answered && m.route() == "/v1/authorizations" {
		accepted = m.approvedCents()
	}
	switch m.kind {
	case "authorization":
		if !m.answered {
			return authorizationState{declined: true}
		}
		return authorizationState{declined: m.answer.Text("decision") != "approved", held: accepted}
	case "incremental":
		s.held += accepted
	case "reversal":
		s.held -= min(s.held, m.cents)
	case "clearing":
		s.held -= min(s.held, m.cents)
		s.cleared += m.cents
		if m.final {
			s.held = 0
		}
	case "refund":
		s.refunded += m.cents
	}
	return s
}

func (m *message) approvedCents() int64 { return m.answer.Integer("approvedAmountCents") }

// state folds the messages whose outcome is known.
func (s *swipe) state() (now authorizationState) {
	for _, m := range s.messages {
		if m.answered {
			now = now.after(m)
		}
	}
	return now
}

// possibleStates lists the standings that agree with what was told: the message without an outcome took effect, or did not.
func (s *swipe) possibleStates() []authorizationState {
	now := s.state()
	if last := s.messages[len(s.messages)-1]; !last.answered {
		return []authorizationState{now, now.after(last)}
	}
	return []authorizationState{now}
}

// restPost is a POST of the REST API with an Idempotency-Key.
type restPost struct {
	tenant   *tenant
	request  apiclient.Request
	status   int // that means success
	round    int
	cents    int64 // of a deposit
	answered bool
	refused  bool // with 503: nothing changed
	answer   apiclient.Answer
}

// createdKey is an API key and what became of it.
type createdKey struct {
	tenant                  *tenant
	round                   int
	id, secret              string
	revoked, revocationSent bool // the revocation was answered; it was sent
}

// cardTerms are what a PATCH sets on a card.
type cardTerms struct {
	State   string `json:"state"`
	Monthly int64  `json:"monthlyLimitUsdCents"`
	PerTxn  int64  `json:"perTxnLimitUsdCents"`
}

func decodeCardTerms(a apiclient.Answer) (t cardTerms, err error) {
	var shown struct {
		Card cardTerms `json:"card"`
	}
	err = json.Unmarshal(a.Raw, &shown)
	return shown.Card, err
}
