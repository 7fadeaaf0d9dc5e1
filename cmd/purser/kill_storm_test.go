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
	"purser/persistence/retry"
)

// The size of a storm: concurrent clients of one server, until the server is signalled.
const (
	swipers              = 24 // clients that send authorizations
	minInFlight          = 16 // swipes in flight when the server is signalled
	settlers             = 8  // clients that reverse, clear and refund approved authorizations
	repeatOneIn          = 8  // one swipe in repeatOneIn is repeated at once
	minAnswersBeforeKill = 300
	maxAnswersBeforeKill = 2000
	followUpQueueLimit   = 256 // approved swipes that wait for a settler; further ones stay held
	stormTimeout         = 60 * time.Second
)

// storm is a load of many concurrent clients. The client that receives answer number signalAfter,
// or a later one, signals the server, and every client stops. A storm that ends without such an
// answer signals the server at its end.
type storm struct {
	*witness
	p           *process
	round       int
	signalAfter int64  // answers
	signal      func() // signals the server
	// finished, if set, decides the end of the storm in place of signalAfter.
	finished           func() bool
	pauseBetweenSwipes time.Duration

	ctx                context.Context
	approved           chan *swipe
	signalled          chan struct{} // closed when the server is signalled
	once               sync.Once
	serial             atomic.Int64
	answers            atomic.Int64
	inFlight           atomic.Int64 // authorizations without an answer
	inFlightAtSignal   int64        // 0: the storm ended before the signal
	answersAfterSignal atomic.Int64
}

// run runs the storm. It returns when every client has stopped.
func (s *storm) run(seed uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), stormTimeout)
	defer cancel()
	s.ctx, s.approved, s.signalled = ctx, make(chan *swipe, followUpQueueLimit), make(chan struct{})
	var clients sync.WaitGroup
	stream := uint64(s.round) << 32
	run := func(work func(*rand.Rand)) {
		stream++
		random := rand.New(rand.NewPCG(seed, stream))
		clients.Go(func() { work(random) })
	}
	for range swipers {
		run(s.runSwiper)
	}
	for range settlers {
		run(s.runSettler)
	}
	for _, tn := range s.tenants {
		for _, d := range tn.restClients {
			run(func(r *rand.Rand) { d.run(s, r) })
		}
	}
	clients.Wait()
	s.once.Do(func() {
		close(s.signalled)
		s.signal()
	})
}

func (s *storm) stopped() bool {
	select {
	case <-s.signalled:
		return true
	case <-s.ctx.Done():
		return true
	default:
		return false
	}
}

// send sends a request, and signals the server if its answer is the one to do so. It returns false
// if the connection was cut off.
func (s *storm) send(c *apiclient.Client, r apiclient.Request, inFlight *atomic.Int64) (apiclient.Answer, bool) {
	inFlight.Add(1)
	a, err := c.Send(s.ctx, r)
	inFlight.Add(-1)
	if err != nil {
		s.countCutOff(r, inFlight)
		if !s.stopped() {
			s.differ("round %d: %s %s failed while the server ran: %v", s.round, r.Method, r.Path, err)
		}
		return apiclient.Answer{}, false
	}
	if s.stopped() {
		s.answersAfterSignal.Add(1)
	}
	if waiting := s.inFlight.Load(); s.shouldSignal(s.answers.Add(1), waiting) {
		s.once.Do(func() {
			s.inFlightAtSignal = waiting
			close(s.signalled)
			s.signal()
		})
	}
	return a, true
}

func (s *storm) shouldSignal(answers, waiting int64) bool {
	if s.finished != nil {
		return s.finished()
	}
	return answers >= s.signalAfter && waiting >= minInFlight
}

// countCutOff counts a request without an answer by its kind.
func (s *storm) countCutOff(r apiclient.Request, inFlight *atomic.Int64) {
	switch {
	case inFlight == &s.inFlight:
		s.counts.cutSwipes.Add(1)
	case strings.HasPrefix(r.Path, "/v1/"):
		s.counts.cutFollowUps.Add(1)
	default:
		s.counts.cutREST.Add(1)
	}
}

// sendMessage sends a message of the card network and records its answer. It returns false if the
// connection was cut off.
func (s *storm) sendMessage(m *message, noted, inFlight *atomic.Int64) bool {
	a, answered := s.send(s.p.client(s.p.network, s.p.secret),
		apiclient.Request{Method: "POST", Path: m.route(), Body: m.body}, inFlight)
	if !answered {
		return false
	}
	if apiclient.IsUndecided(a) {
		s.counts.undecided.Add(1)
		return true
	}
	noted.Add(1)
	m.answer, m.answered = a, true
	return true
}

func (s *storm) runSwiper(r *rand.Rand) {
	for !s.stopped() {
		retry.Pause(s.ctx, s.pauseBetweenSwipes)
		tn := s.tenants[r.IntN(len(s.tenants))]
		sw := s.newSwipe(tn, tn.randomToken(r), 1_00+r.Int64N(50_00), r.IntN(4) == 0)
		m := sw.messages[0]
		answered := s.sendMessage(m, &s.counts.swipes, &s.inFlight)
		tn.addSwipe(sw)
		s.checkSwipe(m)
		if !answered || r.IntN(repeatOneIn) == 0 && !s.sendAgain(m) {
			return
		}
		if m.answered && m.answer.Text("decision") == "approved" {
			select {
			case s.approved <- sw:
			default: // the queue is full: the authorization stays held
			}
		}
	}
}

// sendAgain sends a message again during the storm and compares the two answers. It returns false
// if the connection was cut off.
func (s *storm) sendAgain(m *message) bool {
	a, answered := s.send(s.p.client(s.p.network, s.p.secret),
		apiclient.Request{Method: "POST", Path: m.route(), Body: m.body}, &s.inFlight)
	if !answered || !m.answered || apiclient.IsUndecided(a) {
		return answered
	}
	if s.counts.repeated.Add(1); a.Status != m.answer.Status || string(a.Raw) != string(m.answer.Raw) {
		s.differ("round %d: swipe %s was answered %s and then %s", s.round, m.id, m.answer.Raw, a.Raw)
	}
	return true
}

// checkSwipe requires a decision that is possible in a storm. Every swiped card exists, so "unknown
// card" is not among them.
func (s *storm) checkSwipe(m *message) {
	if !m.answered {
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
	sw.addMessage("authorization", sw.id, cents, more)
	return sw
}

// addMessage appends the next message of a swipe.
func (sw *swipe) addMessage(kind, id string, cents int64, more fields) *message {
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

func (s *storm) runSettler(r *rand.Rand) {
	for {
		select {
		case sw := <-s.approved:
			if !s.followUp(sw, r) {
				return
			}
		case <-s.signalled:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// followUp sends up to four further messages of a swipe, and stops at the first without an outcome.
// It returns false if the connection was cut off.
func (s *storm) followUp(sw *swipe, r *rand.Rand) bool {
	for range r.IntN(5) {
		before := sw.state()
		m := sw.nextFollowUp(before, r)
		if m == nil {
			return true
		}
		if !s.sendMessage(m, &s.counts.followUps, new(atomic.Int64)) {
			return false
		}
		if !m.answered {
			return true
		}
		s.checkFollowUp(m, before)
	}
	return true
}

// nextFollowUp appends a message that is valid in the authorization's state. It returns nil if
// there is none.
func (sw *swipe) nextFollowUp(now authorizationState, r *rand.Rand) *message {
	id := fmt.Sprintf("%s-%d", sw.id, len(sw.messages))
	part := func(of int64) int64 { return 1 + r.Int64N(of) }
	switch {
	case now.held > 0 && now.cleared == 0 && r.IntN(4) == 0:
		return sw.addMessage("incremental", id, part(10_00), fields{"kind": "incremental"})
	case now.held > 0 && r.IntN(3) == 0:
		return sw.addMessage("reversal", id, part(now.held), nil)
	case now.held > 0:
		return sw.addMessage("clearing", id, part(now.held), fields{"final": r.IntN(2) == 0})
	case now.cleared > now.refunded:
		return sw.addMessage("refund", id, part(now.cleared-now.refunded), nil)
	}
	return nil
}

func (s *storm) checkFollowUp(m *message, before authorizationState) {
	a := m.answer
	switch m.kind {
	case "incremental":
		s.checkSwipe(m)
		return
	case "reversal":
		if a.Status == 200 && integerAt(a, "heldAmountCents") == before.after(m).held {
			return
		}
	default:
		if a.Status == 200 && a.Text("status") == "posted" {
			return
		}
	}
	s.differ("round %d: %s of %+v was answered %d %s", s.round, m.body, before, a.Status, a.Raw)
}
