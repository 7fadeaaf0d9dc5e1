package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"purser/cmd/purser/apiclient"
)

// witness records every request and answer of the clients of a storm, and every difference between
// those answers and a later state of the server. It is safe for concurrent use.
type witness struct {
	tenants []*tenant
	counts  counts

	mu          sync.Mutex
	differences []string
}

// counts are logged at the end of the test.
type counts struct {
	swipes, followUps, deposits, mints, patches, keysMade, keysRevoked atomic.Int64 // answers recorded
	undecided                                                          atomic.Int64 // answers that promise nothing
	cutSwipes, cutFollowUps, cutREST                                   atomic.Int64 // requests without an answer
	repeated, reads                                                    atomic.Int64 // comparisons with recorded answers
}

func (c *counts) recorded() int64 {
	return c.swipes.Load() + c.followUps.Load() + c.deposits.Load() + c.mints.Load() + c.patches.Load() +
		c.keysMade.Load() + c.keysRevoked.Load()
}

// differ records a difference between an answer and a later state.
func (w *witness) differ(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.differences = append(w.differences, fmt.Sprintf(format, args...))
}

// tenant is one workspace and the records of its clients.
type tenant struct {
	bearer      string // an API key with every scope of the test
	restClients []*restClient

	mu     sync.Mutex
	tokens []string // the tokens of all cards that the clients may swipe
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

// swipe is one authorization and its later messages, in order. One client at a time owns it. Only
// its last message can have an unknown outcome.
type swipe struct {
	tenant   *tenant
	id       string // the network id of the authorization
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
	answered bool // answer holds the known outcome
	answer   apiclient.Answer
}

func (m *message) route() string {
	switch m.kind {
	case "authorization", "incremental":
		return "/v1/authorizations"
	}
	return "/v1/" + m.kind + "s"
}

// authorizationState is the state of an authorization, amounts in cents.
type authorizationState struct {
	declined                bool
	held, cleared, refunded int64
}

// after returns the state after a message. Without a known outcome an authorization counts as
// declined, and any other message as accepted in full.
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

func (m *message) approvedCents() int64 { return integerAt(m.answer, "approvedAmountCents") }

// state returns the state after all messages with a known outcome.
func (s *swipe) state() (now authorizationState) {
	for _, m := range s.messages {
		if m.answered {
			now = now.after(m)
		}
	}
	return now
}

// possibleStates lists the states that agree with the answers. A last message without a known
// outcome has taken effect or has not.
func (s *swipe) possibleStates() []authorizationState {
	now := s.state()
	if last := s.messages[len(s.messages)-1]; !last.answered {
		return []authorizationState{now, now.after(last)}
	}
	return []authorizationState{now}
}

// restPost is a POST to the REST API with an Idempotency-Key, and its answer.
type restPost struct {
	tenant   *tenant
	request  apiclient.Request
	status   int // the status of success
	round    int
	cents    int64 // the amount of a deposit
	answered bool  // answer holds the known outcome
	refused  bool  // answered with 503, which changes nothing
	answer   apiclient.Answer
}

// createdKey is an API key and the state of its revocation.
type createdKey struct {
	tenant                  *tenant
	round                   int
	id, secret              string
	revoked, revocationSent bool // revoked: the revocation was answered
}

// cardTerms are the fields of a card that a PATCH sets.
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
