package authorizer_test

import (
	"fmt"
	"maps"

	"github.com/anishathalye/porcupine"
)

// This file specifies the authorizer for one workspace in plain values, call by call. It imports no
// package of the product (TestModelStandsAlone), so that an error of the engine is not repeated
// here. The month does not change.

// Kinds of calls. A take back is not a client's call: it follows an approval that was answered
// "timeout".
const (
	kindAuthorization = "authorization"
	kindIncremental   = "incremental"
	kindReversal      = "reversal"
	kindClearing      = "clearing"
	kindRefund        = "refund"
	kindTakeBack      = "take back"
	kindFollow        = "follow"
	kindReserve       = "reserve"
	kindRelease       = "release"
)

// call is a client's call of the engine.
type call struct {
	Workspace int
	Kind      string
	Number    int // identifies the call, or the undone call of a reversal

	ID string // the message's network id
	content
	Partial, Final bool

	Through uint64 // a follow's position; Card is the card of its rule
	Rule    rule   // Version 0: none
	Credit  int64
	Settle  string // the reservation that ends

	Reservation string
}

// content is the part of a message that its repeats share.
type content struct {
	Card          int
	Cents         int64
	Whole         bool
	Currency      string
	Authorization string
	Original      string
}

type rule struct {
	Version         uint64
	State           string
	PerTxn, Monthly int64
}

// answer is the answer to a call. Unknown stands for "timeout": the call may have had its effect or
// not.
type answer struct {
	Status        int
	Decision      string
	Reason        string
	Approved      int64
	Held          int64
	Authorization string
	Unknown       bool
}

// outcome is a predicted answer. The model cannot predict the id that the engine draws, so it names
// the hold.
type outcome struct {
	Status   int
	Decision string
	Reason   string
	Approved int64
	Held     int64
	Hold     string
}

// tenant is a workspace. A step copies its maps instead of changing them.
type tenant struct {
	through  uint64
	funds    int64 // from the journal and the card decisions, before reservations
	cards    [cardsPerWorkspace]card
	reserved map[string]int64
	holds    map[string]authorization // by the route and id of the message that created them
	seen     map[string]first
	late     map[int]bool // placed calls of unknown outcome
}

const cardsPerWorkspace = 2

type card struct {
	rule
	spent int64
}

type authorization struct {
	name          string // the engine's id, once an answer has named it
	card          int
	held, cleared int64
}

// first is the remembered part of a message for its repeats.
type first struct {
	kind      string
	content   content
	outcome   outcome
	hold      string // the hold of the message
	tombstone bool
	left      int64 // the approved amount of an increment less its reversals
	doubt     int   // the call of unknown outcome behind it, until it is undone
}

// workspaces is the sequential specification. Histories are checked per workspace.
var workspaces = porcupine.Model{
	Partition: partition,
	Init:      func() any { return &tenant{} },
	Step:      func(s, in, out any) (bool, any) { return s.(*tenant).step(in.(call), out.(answer)) },
	Equal:     func(a, b any) bool { return a.(*tenant).equal(b.(*tenant)) },
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%+v -> %+v", in, out)
	},
}

func partition(history []porcupine.Operation) [][]porcupine.Operation {
	byWorkspace := make(map[int][]porcupine.Operation)
	for _, op := range history {
		w := op.Input.(call).Workspace
		byWorkspace[w] = append(byWorkspace[w], op)
	}
	var parts [][]porcupine.Operation
	for _, ops := range byWorkspace {
		parts = append(parts, ops)
	}
	return parts
}

func (s *tenant) equal(o *tenant) bool {
	return s.through == o.through && s.funds == o.funds && s.cards == o.cards && maps.Equal(s.reserved, o.reserved) &&
		maps.Equal(s.holds, o.holds) && maps.Equal(s.seen, o.seen) && maps.Equal(s.late, o.late)
}

func with[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	n := maps.Clone(m)
	if n == nil {
		n = make(map[K]V)
	}
	n[k] = v
	return n
}

func without[K comparable, V any](m map[K]V, k K) map[K]V {
	n := maps.Clone(m)
	delete(n, k)
	return n
}

// step reports whether the call may have this answer in this state, and returns the next state.
func (s *tenant) step(in call, out answer) (bool, *tenant) {
	n := *s
	if in.Kind == kindTakeBack {
		return n.takeBack(in), &n
	}
	want, possible := n.do(in)
	switch {
	case !possible:
		return false, s
	case out.Unknown:
		n.doubt(s, in)
		return true, &n
	}
	told := outcome{
		Status: out.Status, Decision: out.Decision, Reason: out.Reason, Approved: out.Approved, Held: out.Held,
		Hold: want.Hold,
	}
	return told == want && n.named(want.Hold, out.Authorization), &n
}

// doubt records that a call of unknown outcome was placed here, and that its approval will be
// undone.
func (s *tenant) doubt(before *tenant, in call) {
	s.late = with(s.late, in.Number, true)
	own := key(in.Kind, in.ID)
	was, now := before.seen[own], s.seen[own]
	if asks(in.Kind) && was != now {
		now.doubt = in.Number
		s.seen = with(s.seen, own, now)
	}
}

// named checks that the engine always gives the same authorization the same id.
func (s *tenant) named(key, name string) bool {
	h, found := s.holds[key]
	if found && h.name == "" && name != "" {
		h.name = name
		s.holds = with(s.holds, key, h)
	}
	return h.name == name
}

func (s *tenant) do(in call) (outcome, bool) {
	switch in.Kind {
	case kindFollow:
		return s.follow(in), true
	case kindReserve:
		return s.reserve(in), true
	case kindRelease:
		s.reserved = without(s.reserved, in.Reservation)
		return outcome{Decision: "released"}, true
	}
	return s.message(in)
}

func (s *tenant) follow(in call) outcome {
	o := outcome{Decision: "followed"}
	if in.Through <= s.through {
		return o
	}
	s.through = in.Through
	if in.Rule.Version > s.cards[in.Card].Version {
		s.cards[in.Card].rule = in.Rule
	}
	s.funds += in.Credit
	s.reserved = without(s.reserved, in.Settle)
	return o
}

func (s *tenant) reserve(in call) outcome {
	before, found := s.reserved[in.Reservation]
	switch {
	case found && before != in.Cents:
		return outcome{Decision: "mismatch"}
	case !found && in.Cents > s.spendableCents():
		return outcome{Decision: "refused"}
	}
	s.reserved = with(s.reserved, in.Reservation, in.Cents)
	return outcome{Decision: "granted"}
}

func (s *tenant) spendableCents() int64 {
	cents := s.funds
	for _, r := range s.reserved {
		cents -= r
	}
	return cents
}

// key is a message's id within its route. Authorizations and their increments share a route.
func key(kind, id string) string {
	if kind == kindIncremental {
		kind = kindAuthorization
	}
	return kind + " " + id
}

func asks(kind string) bool { return kind == kindAuthorization || kind == kindIncremental }

// message decides a message of the network. A repeat gets the first answer, and waits while that is
// being undone.
func (s *tenant) message(in call) (outcome, bool) {
	own := key(in.Kind, in.ID)
	f, found := s.seen[own]
	switch {
	case !found || f.tombstone:
		return s.decide(in, own, f.tombstone), true
	case f.doubt != 0:
		return outcome{}, false
	case f.kind == in.Kind && f.content == in.content:
		return f.outcome, true
	case asks(in.Kind):
		return outcome{Status: 200, Decision: "declined", Reason: "duplicate_mismatch"}, true
	}
	return outcome{Status: 409, Reason: "duplicate_mismatch"}, true
}

func (s *tenant) decide(in call, own string, tombstoned bool) outcome {
	hold := s.concerned(in)
	if asks(in.Kind) && s.cards[in.Card].Version == 0 {
		return outcome{Status: 200, Decision: "declined", Reason: "card_not_found"} // and not stored
	}
	o := outcome{Status: 200, Reason: "approved", Hold: hold}
	switch in.Kind {
	case kindAuthorization:
		o = s.authorize(in, own, tombstoned)
	case kindIncremental:
		o = s.increment(in, hold, tombstoned)
	case kindReversal:
		s.reverse(in, &o)
	case kindClearing:
		s.clear(in, own, &o)
	case kindRefund:
		s.refund(in, &o)
	}
	o.Held = s.holds[o.Hold].held
	s.seen = with(s.seen, own, first{kind: in.Kind, content: in.content, outcome: o, hold: o.Hold, left: o.Approved})
	return o
}

// concerned returns the authorization that a message names, or "". Another card's counts as none; a
// reversal presents no card.
func (s *tenant) concerned(in call) string {
	hold := s.seen[key(kindAuthorization, in.Original)].hold
	for k, h := range s.holds {
		if in.Authorization != "" && h.name == in.Authorization {
			hold = k
		}
	}
	if in.Kind != kindReversal && s.holds[hold].card != in.Card {
		return ""
	}
	return hold
}

func (s *tenant) authorize(in call, own string, tombstoned bool) outcome {
	s.holds = with(s.holds, own, authorization{card: in.Card})
	o := outcome{Status: 200, Decision: "declined", Hold: own, Reason: s.refusal(in, tombstoned)}
	if o.Reason != "" {
		return o
	}
	least := in.Cents
	if in.Partial && in.Cents > 0 {
		least = 1
	}
	if o.Reason, o.Approved = s.room(in, 0, least); o.Reason == "approved" {
		o.Decision = o.Reason
		s.take(own, o.Approved)
	}
	return o
}

func (s *tenant) increment(in call, hold string, tombstoned bool) outcome {
	h := s.holds[hold]
	o := outcome{Status: 200, Decision: "declined", Hold: hold, Reason: s.refusal(in, tombstoned)}
	if o.Reason == "" && h.held == 0 {
		o.Reason = "authorization_not_found"
	}
	if o.Reason != "" {
		return o
	}
	if o.Reason, o.Approved = s.room(in, h.held+h.cleared, in.Cents); o.Reason == "approved" {
		o.Decision = o.Reason
		s.take(hold, o.Approved)
	}
	return o
}

// refusal returns the reason to decline a message at any amount, or "".
func (s *tenant) refusal(in call, tombstoned bool) string {
	switch c := s.cards[in.Card]; {
	case c.State == "terminated":
		return "card_terminated"
	case c.State == "frozen":
		return "card_frozen"
	case in.Currency != "USD":
		return "currency_not_supported"
	case tombstoned:
		return "reversed_before_arrival"
	}
	return ""
}

// room returns the available part of the requested amount, if it is at least least.
func (s *tenant) room(in call, before, least int64) (string, int64) {
	c := s.cards[in.Card]
	month, funds := min(in.Cents, c.Monthly-c.spent), s.spendableCents()
	switch {
	case before+in.Cents > c.PerTxn:
		return "per_transaction_limit_exceeded", 0
	case in.Cents == 0:
		return "approved", 0
	case month < least:
		return "monthly_limit_exceeded", 0
	case funds < least:
		return "insufficient_funds", 0
	}
	return "approved", min(month, funds)
}

func (s *tenant) take(hold string, cents int64) { s.move(hold, cents, 0) }

// move takes cents into a hold, or releases them when negative, and takes forced cents out of the
// funds beside it.
func (s *tenant) move(hold string, cents, forced int64) {
	h := s.holds[hold]
	h.held += cents
	s.holds = with(s.holds, hold, h)
	s.cards[h.card].spent += cents + forced
	s.funds -= cents + forced
}

func (s *tenant) reverse(in call, o *outcome) {
	o.Decision = "applied"
	if o.Hold == "" {
		before := key(kindAuthorization, in.Original)
		if f, found := s.seen[before]; in.Original != "" && (!found || f.tombstone) {
			s.seen = with(s.seen, before, first{tombstone: true})
		}
		return
	}
	back := s.holds[o.Hold].held
	named, f := key(kindAuthorization, in.Original), s.seen[key(kindAuthorization, in.Original)]
	if f.kind == kindIncremental {
		back = min(back, f.left)
	}
	if !in.Whole {
		back = min(back, in.Cents)
	}
	s.move(o.Hold, -back, 0)
	if f.kind == kindIncremental {
		f.left -= back
		s.seen = with(s.seen, named, f)
	}
}

// unmatched reports a fact that no card takes.
func (s *tenant) unmatched(in call, o *outcome) bool {
	if s.cards[in.Card].Version != 0 && in.Currency == "USD" {
		return false
	}
	o.Decision, o.Hold = "unmatched", ""
	return true
}

func (s *tenant) clear(in call, own string, o *outcome) {
	if s.unmatched(in, o) {
		return
	}
	o.Decision = "posted"
	if o.Hold == "" {
		o.Reason, o.Hold = "forced_post", own
		s.holds = with(s.holds, own, authorization{card: in.Card})
	}
	h := s.holds[o.Hold]
	cleared := min(in.Cents, h.held)
	s.move(o.Hold, 0, in.Cents-cleared)
	h.held -= cleared
	h.cleared += in.Cents
	s.holds = with(s.holds, o.Hold, h)
	if in.Final {
		s.move(o.Hold, -h.held, 0)
	}
}

func (s *tenant) refund(in call, o *outcome) {
	if s.unmatched(in, o) {
		return
	}
	o.Decision = "posted"
	s.funds += in.Cents
}

// takeBack undoes the approval of a call of unknown outcome. It follows the call, if that was
// placed.
func (s *tenant) takeBack(in call) bool {
	own := key(kindAuthorization, in.ID)
	f := s.seen[own]
	if !s.late[in.Number] {
		return false
	}
	if f.doubt != in.Number {
		return true
	}
	f.doubt, f.left = 0, 0
	if f.hold != "" {
		s.move(f.hold, -min(f.outcome.Approved, s.holds[f.hold].held), 0)
		f.outcome = outcome{Status: 200, Decision: "declined", Reason: "timeout"}
	}
	s.seen = with(s.seen, own, f)
	return true
}
