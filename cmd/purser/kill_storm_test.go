package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"purser/cmd/purser/apiclient"
	"purser/persistence"
)

// The size of a storm.
const (
	swipers       = 24 // clients that send authorizations
	leastInFlight = 16 // of them are waiting for an answer when the server is struck
	settlers      = 8  // clients that reverse, clear and refund what was approved
	againOneIn    = 8  // swipes is sent again at once
	leastAnswers  = 300
	mostAnswers   = 2000 // after so many answers at most it is struck
	openApprovals = 256  // waiting for a settler; more are left as they are
	stormWithin   = 60 * time.Second
)

// storm is many clients at work until the server is struck by one of them: the one that gets the chosen answer.
type storm struct {
	*witness
	p        *process
	round    int
	strikeAt int64  // answers
	strike   func() // a signal to the server
	// enough ends the storm in the place of strikeAt; rest is what a swiper does between two swipes.
	enough func() bool
	rest   time.Duration

	ctx      context.Context
	approved chan *swipe
	over     chan struct{} // closed when it is struck
	once     sync.Once
	serial   atomic.Int64
	answers  atomic.Int64
	inFlight atomic.Int64 // authorizations
	atStrike int64        // of them when it was struck; 0: never
	late     atomic.Int64 // answers after the strike
}

// rage runs the storm; it returns when every client has stopped.
func (s *storm) rage(seed uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), stormWithin)
	defer cancel()
	s.ctx, s.approved, s.over = ctx, make(chan *swipe, openApprovals), make(chan struct{})
	var clients sync.WaitGroup
	stream := uint64(s.round) << 32
	run := func(work func(*rand.Rand)) {
		stream++
		random := rand.New(rand.NewPCG(seed, stream))
		clients.Go(func() { work(random) })
	}
	for range swipers {
		run(s.swipeOn)
	}
	for range settlers {
		run(s.settleOn)
	}
	for _, tn := range s.tenants {
		for _, d := range tn.desks {
			run(func(r *rand.Rand) { d.workOn(s, r) })
		}
	}
	clients.Wait()
}

func (s *storm) struck() bool {
	select {
	case <-s.over:
		return true
	case <-s.ctx.Done():
		return true
	default:
		return false
	}
}

// send returns false when the request was cut off. The chosen answer makes its client strike.
func (s *storm) send(c *apiclient.Client, r apiclient.Request, inFlight *atomic.Int64) (apiclient.Answer, bool) {
	inFlight.Add(1)
	a, err := c.Send(s.ctx, r)
	inFlight.Add(-1)
	if err != nil {
		s.cut(r, inFlight)
		if !s.struck() {
			s.differ("round %d: %s %s failed while the server ran: %v", s.round, r.Method, r.Path, err)
		}
		return apiclient.Answer{}, false
	}
	if s.struck() {
		s.late.Add(1)
	}
	if waiting := s.inFlight.Load(); s.ripe(s.answers.Add(1), waiting) {
		s.once.Do(func() {
			s.atStrike = waiting
			close(s.over)
			s.strike()
		})
	}
	return a, true
}

func (s *storm) ripe(answers, waiting int64) bool {
	if s.enough != nil {
		return s.enough()
	}
	return answers >= s.strikeAt && waiting >= leastInFlight
}

// cut counts a request without an answer.
func (s *storm) cut(r apiclient.Request, inFlight *atomic.Int64) {
	switch {
	case inFlight == &s.inFlight:
		s.counts.cutSwipes.Add(1)
	case strings.HasPrefix(r.Path, "/v1/"):
		s.counts.cutFollowUps.Add(1)
	default:
		s.counts.cutREST.Add(1)
	}
}

// post sends a message of the network and notes its answer. It is false when the client was cut off.
func (s *storm) post(m *message, noted, inFlight *atomic.Int64) bool {
	a, answered := s.send(s.p.as(s.p.network, s.p.secret), apiclient.Request{Method: "POST", Path: m.path(), Body: m.body}, inFlight)
	if !answered {
		return false
	}
	if apiclient.IsUndecided(a) {
		s.counts.undecided.Add(1)
		return true
	}
	noted.Add(1)
	m.answer, m.told = a, true
	return true
}

func (s *storm) swipeOn(r *rand.Rand) {
	for !s.struck() {
		persistence.Pause(s.ctx, s.rest)
		tn := s.tenants[r.IntN(len(s.tenants))]
		sw := s.newSwipe(tn, tn.token(r), 1_00+r.Int64N(50_00), r.IntN(4) == 0)
		m := sw.messages[0]
		answered := s.post(m, &s.counts.swipes, &s.inFlight)
		tn.keep(sw)
		s.checkSwipe(m)
		if !answered || r.IntN(againOneIn) == 0 && !s.again(m) {
			return
		}
		if m.told && m.answer.Text("decision") == "approved" {
			select {
			case s.approved <- sw:
			default: // it stays held
			}
		}
	}
}

// again sends a message once more in the middle of the storm. It is false when the client was cut off.
func (s *storm) again(m *message) bool {
	a, answered := s.send(s.p.as(s.p.network, s.p.secret), apiclient.Request{Method: "POST", Path: m.path(), Body: m.body}, &s.inFlight)
	if !answered || !m.told || apiclient.IsUndecided(a) {
		return answered
	}
	if s.counts.repeated.Add(1); a.Status != m.answer.Status || string(a.Raw) != string(m.answer.Raw) {
		s.differ("round %d: swipe %s was answered %s and then %s", s.round, m.id, m.answer.Raw, a.Raw)
	}
	return true
}

// checkSwipe holds the answer against what must be so whatever the storm does: every card that is swiped was minted.
func (s *storm) checkSwipe(m *message) {
	if !m.told {
		return
	}
	switch reason := m.answer.Text("reason"); reason {
	case "approved", "card_frozen", "per_transaction_limit_exceeded", "monthly_limit_exceeded", "insufficient_funds":
	default:
		s.differ("round %d: swipe %s was answered %s", s.round, m.id, m.answer.Raw)
	}
}

func (s *storm) newSwipe(tn *tenant, token string, cents int64, partial bool) *swipe {
	sw := &swipe{tenant: tn, id: fmt.Sprintf("r%d-%d", s.round, s.serial.Add(1)), token: token, round: s.round}
	more := fields{}
	if partial {
		more["partialApproval"] = true
	}
	sw.add("authorization", sw.id, cents, more)
	return sw
}

// add makes the next message of a swipe.
func (sw *swipe) add(kind, id string, cents int64, more fields) *message {
	m := &message{kind: kind, id: id, cents: cents, final: more["final"] == true}
	f := fields{"id": id, "amountCents": cents}
	if kind != "reversal" {
		f["cardToken"], f["currency"] = sw.token, "USD"
		f["merchant"] = fields{"id": "m-1", "name": "Corner Grocer 12", "mcc": "5411", "country": "US"}
	}
	if kind != "authorization" {
		f["originalId"] = sw.id
	}
	for name, value := range more {
		f[name] = value
	}
	m.body = marshal(f)
	sw.messages = append(sw.messages, m)
	return m
}

// fields is a JSON object that a test sends.
type fields = map[string]any

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}

func (s *storm) settleOn(r *rand.Rand) {
	for {
		select {
		case sw := <-s.approved:
			if !s.followUp(sw, r) {
				return
			}
		case <-s.over:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// followUp sends up to four messages about a swipe and stops at the first without an outcome.
func (s *storm) followUp(sw *swipe, r *rand.Rand) bool {
	for range r.IntN(5) {
		before := sw.stands()
		m := sw.next(before, r)
		if m == nil {
			return true
		}
		if !s.post(m, &s.counts.followUps, new(atomic.Int64)) {
			return false
		}
		if !m.told {
			return true
		}
		s.checkFollowUp(m, before)
	}
	return true
}

// next makes a message that fits how the authorization stands; nil when there is nothing more to say.
func (sw *swipe) next(now standing, r *rand.Rand) *message {
	id := fmt.Sprintf("%s-%d", sw.id, len(sw.messages))
	part := func(of int64) int64 { return 1 + r.Int64N(of) }
	switch {
	case now.held > 0 && now.cleared == 0 && r.IntN(4) == 0:
		return sw.add("incremental", id, part(10_00), fields{"kind": "incremental"})
	case now.held > 0 && r.IntN(3) == 0:
		return sw.add("reversal", id, part(now.held), nil)
	case now.held > 0:
		return sw.add("clearing", id, part(now.held), fields{"final": r.IntN(2) == 0})
	case now.cleared > now.refunded:
		return sw.add("refund", id, part(now.cleared-now.refunded), nil)
	}
	return nil
}

func (s *storm) checkFollowUp(m *message, before standing) {
	a := m.answer
	switch m.kind {
	case "incremental":
		s.checkSwipe(m)
		return
	case "reversal":
		if a.Status == 200 && a.Integer("heldAmountCents") == before.after(m).held {
			return
		}
	default:
		if a.Status == 200 && a.Text("status") == "posted" {
			return
		}
	}
	s.differ("round %d: %s of %+v was answered %d %s", s.round, m.body, before, a.Status, a.Raw)
}
