package authorizer_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// standing is the fixed time of these tests, so that a history has one month.
var standing = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// checkWithin bounds the search for an order of one history; a search that does not end fails.
// Three clients of a workspace keep it to a second or two: with eight, calls that a busy machine
// made overlap took it ten minutes.
const checkWithin = 10 * time.Minute

// engine is the interface of the clients, which the mutants wrap.
type engine interface {
	Submit(m *hold.Message) hold.Answer
	Follow(shard ident.Shard, f authorizer.Follow) error
	Reserve(workspace, reservation ident.UUID, cents money.Cents) (bool, error)
	Release(workspace, reservation ident.UUID) error
}

// openEngine opens an engine in memory. Answers are late only by deadline.
func openEngine(t testing.TB, deadline func() <-chan time.Time) *authorizer.Engine {
	t.Helper()
	if deadline == nil {
		deadline = func() <-chan time.Time { return nil }
	}
	e, err := authorizer.Open(authorizer.Options{
		FS: vfs.NewMem(), Dir: "store", Deployment: ident.Derive(0, standing, "deployment"), CacheBytes: 64 << 20,
		SegmentBytes: 1 << 20,
		Clock:        func() time.Time { return standing }, Entropy: rand.NewChaCha8([32]byte{7}), Deadline: deadline,
		Fatal: func(err error) { t.Errorf("fatal: %v", err) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// account is a workspace with its cards, for the network and the journal. Each account has its own
// shard, because a shard has one follower.
type account struct {
	number    int
	workspace ident.UUID
	cards     [cardsPerWorkspace]plastic

	following sync.Mutex // orders the follows
	through   uint64
	rules     [cardsPerWorkspace]rule

	mu       sync.Mutex
	messages int
	sent     []sentMessage
	holds    []ident.UUID // named by answers
}

type plastic struct {
	card  ident.UUID
	token ident.Token
}

// sentMessage is a message with its recorded call.
type sentMessage struct {
	message hold.Message
	call    call
}

func newAccount(number int) *account {
	slot := ident.Slot(16 * (number + 1)) // shard number+1
	a := &account{number: number, workspace: ident.Derive(slot, standing, "workspace")}
	for i := range a.cards {
		var seed [32]byte
		copy(seed[:], fmt.Sprintf("%d/%d", number, i))
		token, err := ident.NewToken(slot, bytes.NewReader(seed[:]))
		if err != nil {
			panic(err)
		}
		a.cards[i] = plastic{card: ident.Derive(slot, standing, fmt.Sprint("card", i)), token: token}
	}
	return a
}

func (a *account) reservation(name string) ident.UUID {
	if name == "" {
		return ident.UUID{}
	}
	return ident.Derive(a.workspace.Slot(), standing, name)
}

var cardStates = map[string]hold.CardState{"active": hold.CardActive, "frozen": hold.CardFrozen,
	"terminated": hold.CardTerminated}

// ruleOf converts a rule to the engine's type.
func (a *account) ruleOf(i int, r rule) hold.Rule {
	return hold.Rule{
		Token: a.cards[i].token, Card: a.cards[i].card, Workspace: a.workspace, Version: r.Version,
		State:       cardStates[r.State],
		PerTxnCents: money.Cents(r.PerTxn), MonthCents: money.Cents(r.Monthly),
	}
}

// recorder assigns times and numbers to calls.
type recorder struct {
	time    atomic.Int64
	numbers atomic.Int64
}

// client is one caller: a stream of calls drawn from a seed, with their results.
type client struct {
	id       int
	draw     *rand.Rand
	engine   engine
	account  *account
	recorder *recorder
	history  []porcupine.Operation
	err      error
}

func (c *client) run(calls int) {
	for range calls {
		a := c.account
		switch n := c.draw.IntN(100); {
		case n < 10:
			c.follow(a)
		case n < 16:
			c.reserve(a)
		case n < 26:
			c.repeat(a)
		default:
			c.submit(a, c.message(a))
		}
	}
}

// record makes a call and records its start, its end and its answer.
func (c *client) record(in call, do func() answer) answer {
	in.Number = int(c.recorder.numbers.Add(1))
	began := c.recorder.time.Add(1)
	out := do()
	ended := c.recorder.time.Add(1)
	if out.Unknown {
		ended = math.MaxInt64 // its effect may come at any time, or never
	}
	c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: in, Call: began, Output: out,
		Return: ended})
	if out.Unknown && asks(in.Kind) {
		in.Kind = kindTakeBack
		c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: in, Call: began, Output: out,
			Return: ended})
	}
	return out
}

func (c *client) submit(a *account, s sentMessage) {
	c.record(s.call, func() answer {
		told := c.engine.Submit(&s.message)
		if !told.Authorization.IsZero() {
			a.mu.Lock()
			a.holds = append(a.holds, told.Authorization)
			a.mu.Unlock()
		}
		return plain(told)
	})
}

// plain converts an answer from the engine's types.
func plain(a hold.Answer) answer {
	if a.Reason == hold.ReasonTimeout && a.Status != hold.StatusConflict {
		return answer{Unknown: true}
	}
	out := answer{Status: a.Status, Reason: a.Reason.String(), Approved: int64(a.Approved), Held: int64(a.Held)}
	if a.Decision != 0 {
		out.Decision = a.Decision.String()
	}
	if !a.Authorization.IsZero() {
		out.Authorization = a.Authorization.Format(ident.Authorization)
	}
	return out
}

// message draws a new message, which may name a recent or a future one.
func (c *client) message(a *account) sentMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.messages++
	in := call{Workspace: a.number, Kind: c.kind(), ID: fmt.Sprintf("w%d-%d", a.number, a.messages)}
	in.Card, in.Cents, in.Currency = c.draw.IntN(cardsPerWorkspace), c.draw.Int64N(900), "USD"
	in.Partial, in.Final = c.draw.IntN(3) == 0, c.draw.IntN(3) == 0
	m := hold.Message{Kind: hold.Authorization, ID: in.ID, PartialApproval: in.Partial, Final: in.Final}
	if in.Kind != kindAuthorization {
		if n := len(a.holds); n > 0 && c.draw.IntN(4) == 0 {
			m.AuthorizationID = a.holds[max(0, n-1-c.draw.IntN(8))]
			in.Authorization = m.AuthorizationID.Format(ident.Authorization)
		} else {
			in.Original, in.Card = c.original(a, in.Card)
		}
	}
	switch {
	case in.Kind == kindReversal:
		in.Card, in.Currency, in.Whole = 0, "", c.draw.IntN(2) == 0
		if in.Whole {
			in.Cents = 0
		}
	case in.Kind != kindAuthorization && in.Kind != kindIncremental:
		in.Cents++ // a posted amount is never zero
	}
	if in.Currency != "" && c.draw.IntN(30) == 0 {
		in.Currency = "EUR"
	}
	s := a.sentOf(in, m)
	a.sent = append(a.sent, s)
	return s
}

// original draws the message that another one names: usually a recent authorization or increment of
// the same card, or else any past or future number, so that reversals also come first.
func (c *client) original(a *account, card int) (string, int) {
	if n := len(a.sent); n > 0 && c.draw.IntN(4) > 0 {
		for i := n - 1 - c.draw.IntN(min(n, 6)); i >= 0; i-- {
			if s := a.sent[i].call; asks(s.Kind) {
				return s.ID, s.Card
			}
		}
	}
	return fmt.Sprintf("w%d-%d", a.number, max(1, a.messages+2-c.draw.IntN(12))), card
}

// kind draws a kind of message, by its frequency.
func (c *client) kind() string {
	switch n := c.draw.IntN(20); {
	case n < 10:
		return kindAuthorization
	case n < 13:
		return kindIncremental
	case n < 16:
		return kindReversal
	case n < 19:
		return kindClearing
	}
	return kindRefund
}

// sentOf completes a message from its recorded call.
func (a *account) sentOf(in call, m hold.Message) sentMessage {
	var kind hold.Kind
	if err := kind.UnmarshalText([]byte(in.Kind)); err != nil {
		panic(err)
	}
	m.Kind, m.OriginalID, m.Amount, m.WholeHold = kind, in.Original, money.Cents(in.Cents), in.Whole
	copy(m.Currency[:], in.Currency)
	if kind != hold.Reversal {
		m.Token, m.Merchant = a.cards[in.Card].token, hold.Merchant{Name: "Shop", MCC: 5411}
	}
	m.Fingerprint = m.Sum()
	return sentMessage{message: m, call: in}
}

// repeat sends a recent message again, of any client and perhaps unanswered, sometimes with another
// amount.
func (c *client) repeat(a *account) {
	a.mu.Lock()
	if len(a.sent) == 0 {
		a.mu.Unlock()
		return
	}
	s := a.sent[max(0, len(a.sent)-1-c.draw.IntN(10))]
	a.mu.Unlock()
	if c.draw.IntN(6) == 0 {
		s.call.Cents += 7
		s = a.sentOf(s.call, s.message)
	}
	c.submit(a, s)
}

// follow sends the journal's next change: a card's rule, a credit, or a debit that ends a
// reservation. Some changes repeat, and some rules come late.
func (c *client) follow(a *account) {
	a.following.Lock()
	defer a.following.Unlock()
	in := call{Workspace: a.number, Kind: kindFollow}
	if a.through == 0 || c.draw.IntN(8) > 0 {
		a.through++
	}
	in.Through = a.through
	if c.draw.IntN(3) > 0 {
		in.Card = c.draw.IntN(cardsPerWorkspace)
		in.Rule = c.rule(a.rules[in.Card])
		a.rules[in.Card].Version = max(a.rules[in.Card].Version, in.Rule.Version)
	}
	if c.draw.IntN(2) == 0 {
		in.Credit = c.draw.Int64N(2500)
	}
	if c.draw.IntN(3) == 0 {
		in.Settle = c.reservation()
		in.Credit -= c.draw.Int64N(300)
	}
	c.sendFollow(a, in)
}

func (c *client) rule(last rule) rule {
	r := rule{Version: last.Version + 1, State: "active"}
	if last.Version > 2 && c.draw.IntN(8) == 0 {
		r.Version -= 2
	}
	switch c.draw.IntN(8) {
	case 0:
		r.State = "frozen"
	case 1:
		r.State = []string{"active", "terminated"}[c.draw.IntN(2)]
	}
	r.PerTxn, r.Monthly = 300+c.draw.Int64N(1500), int64(r.Version+1)*(500+c.draw.Int64N(1500))
	return r
}

func (c *client) sendFollow(a *account, in call) {
	f := authorizer.Follow{Through: in.Through}
	if in.Rule.Version > 0 {
		f.Rules = []hold.Rule{a.ruleOf(in.Card, in.Rule)}
	}
	switch {
	case in.Credit != 0:
		f.Credits = []authorizer.Credit{{Workspace: a.workspace, Cents: money.Cents(in.Credit),
			Settles: a.reservation(in.Settle)}}
	case in.Settle != "":
		f.Settles = []authorizer.Settle{{Workspace: a.workspace, Reservation: a.reservation(in.Settle)}}
	}
	c.record(in, func() answer {
		c.fails(c.engine.Follow(a.workspace.Shard(), f))
		return answer{Decision: "followed"}
	})
}

func (c *client) fails(err error) { c.err = errors.Join(c.err, err) }

func (c *client) reservation() string { return fmt.Sprint("reservation", c.draw.IntN(12)) }

func (c *client) reserve(a *account) {
	in := call{Workspace: a.number, Kind: kindReserve, Reservation: c.reservation()}
	id := a.reservation(in.Reservation)
	if c.draw.IntN(2) == 0 {
		in.Kind = kindRelease
		c.record(in, func() answer {
			c.fails(c.engine.Release(a.workspace, id))
			return answer{Decision: "released"}
		})
		return
	}
	in.Cents = 100 + c.draw.Int64N(2)*150
	c.record(in, func() answer {
		granted, err := c.engine.Reserve(a.workspace, id, money.Cents(in.Cents))
		switch {
		case errors.Is(err, authorizer.ErrReservationMismatch):
			return answer{Decision: "mismatch"}
		case granted:
			return answer{Decision: "granted"}
		}
		c.fails(err)
		return answer{Decision: "refused"}
	})
}

// load describes a history: the clients, spread evenly over the workspaces, all move to new
// workspaces for each round. Each workspace is checked by itself. The search for an order grows
// with two to the number of overlapping calls: with 8 clients it takes milliseconds, with 32 it may
// not end.
type load struct {
	clients, calls, workspaces, rounds int
	seed                               uint64
}

// history runs the clients and returns all recorded operations. The workspaces are new to the
// engine.
func (l load) history(t testing.TB, e engine) []porcupine.Operation {
	t.Helper()
	t.Logf("%+v", l)
	recorder := &recorder{}
	clients := make([]*client, l.clients)
	for i := range clients {
		clients[i] = &client{id: i, draw: rand.New(rand.NewPCG(l.seed, uint64(i))), engine: e, recorder: recorder}
	}
	for round := range l.rounds {
		for i := range l.workspaces {
			a := newAccount(round*l.workspaces + i)
			for n := i; n < l.clients; n += l.workspaces {
				clients[n].account = a
			}
			clients[i].open()
		}
		var running sync.WaitGroup
		for _, c := range clients {
			running.Go(func() { c.run(l.calls) })
		}
		running.Wait()
		for i := range l.workspaces {
			clients[i].probe()
		}
	}
	var all []porcupine.Operation
	for _, c := range clients {
		require.NoError(t, c.err)
		all = append(all, c.history...)
	}
	return all
}

// open brings a card and some money. The other card is unknown until a follow brings it.
func (c *client) open() {
	a := c.account
	a.through, a.rules[0] = 1, rule{Version: 1, State: "active", PerTxn: 800, Monthly: 4000}
	c.sendFollow(a, call{Workspace: a.number, Kind: kindFollow, Through: 1, Rule: a.rules[0], Credit: 3000})
}

// probe ends a history with calls that show each rule and the funds to the cent, for any drawn
// history: a swipe of an active card and of the same card frozen, one past each limit, and one for
// more than all funds, which gets them all.
func (c *client) probe() {
	const plenty = int64(money.MaxAmount)
	for i, p := range []struct {
		state                     string
		perTxn, month, asked, add int64
	}{
		{"active", plenty, plenty, 1, 1_000_000},
		{"frozen", plenty, plenty, 1, 0},
		{"active", 500, plenty, 501, 0},
		{"active", plenty, 1, 2, 0},
		{"active", plenty, plenty, plenty, 0},
	} {
		a := c.account
		a.through++
		a.rules[0] = rule{Version: a.rules[0].Version + 1, State: p.state, PerTxn: p.perTxn, Monthly: p.month}
		c.sendFollow(a, call{Workspace: a.number, Kind: kindFollow, Through: a.through, Rule: a.rules[0],
			Credit: p.add})
		in := call{Workspace: a.number, Kind: kindAuthorization, ID: fmt.Sprintf("w%d-probe%d", a.number, i)}
		in.Cents, in.Currency, in.Partial = p.asked, "USD", p.asked == plenty
		c.submit(a, a.sentOf(in, hold.Message{ID: in.ID, PartialApproval: in.Partial}))
	}
}

// requireSomeOrder checks that a sequential order of the calls explains the history.
func requireSomeOrder(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(workspaces, history, checkWithin))
}

func TestHistoriesAreLinearizable(t *testing.T) {
	told := make(map[string]int)
	for seed := range uint64(2) {
		history := load{clients: 24, calls: 55, workspaces: 8, rounds: 8, seed: seed}.history(t, openEngine(t, nil))
		require.GreaterOrEqual(t, len(history), 10_000)
		for _, op := range history {
			out := op.Output.(answer)
			require.False(t, out.Unknown, "an answer was late though no deadline passes: %+v", op.Input)
			told[op.Input.(call).Kind+" "+out.Decision+" "+out.Reason]++
		}
		requireSomeOrder(t, history)
	}
	t.Log(told)
	for _, answer := range []string{
		"authorization approved approved", "authorization declined card_frozen",
		"authorization declined card_not_found",
		"authorization declined card_terminated", "authorization declined duplicate_mismatch",
		"authorization declined insufficient_funds", "authorization declined monthly_limit_exceeded",
		"authorization declined per_transaction_limit_exceeded", "authorization declined reversed_before_arrival",
		"incremental approved approved", "clearing posted approved", "clearing posted forced_post",
		"clearing unmatched approved",
		"refund posted approved", "reserve granted ", "reserve refused ", "reserve mismatch ",
	} {
		require.NotZero(t, told[answer], "the histories never came to %q", answer)
	}
}

// lateNowAndThen lets the deadline of some messages pass at once, and of some when the next message
// comes.
type lateNowAndThen struct {
	mu       sync.Mutex
	messages int
	next     chan time.Time
}

func (l *lateNowAndThen) deadline() <-chan time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != nil {
		close(l.next)
		l.next = nil
	}
	c := make(chan time.Time)
	switch l.messages++; {
	case l.messages%80 == 0:
		close(c)
	case l.messages%20 == 0:
		l.next = c
	}
	return c
}

// Deadlines pass: the effect of a message that was answered "timeout" is unknown, and its approval
// is undone. Each such answer overlaps with all later calls, so the histories are short.
func TestLateAnswersAreLinearizable(t *testing.T) {
	late := &lateNowAndThen{}
	e := openEngine(t, late.deadline)
	history := load{clients: 8, calls: 25, workspaces: 4, rounds: 60, seed: 1}.history(t, e)
	requireSomeOrder(t, history)
	unknown := 0
	for _, op := range history {
		if op.Output.(answer).Unknown {
			unknown++
		}
	}
	t.Logf("%d operations, %d of unknown outcome", len(history), unknown)
	require.NotZero(t, unknown)
	require.Eventually(t, func() bool { return takenBack(e) > 0 }, time.Minute, time.Millisecond)
}

// takenBack counts the undone approvals in the logs.
func takenBack(e *authorizer.Engine) (count int) {
	for shard := range ident.Shards {
		entries, err := e.ReadLog(ident.Shard(shard), 0, authorizer.MaxRead)
		if err != nil {
			return 0
		}
		for i := range entries {
			if entries[i].Kind == hold.TimeoutReturn {
				count++
			}
		}
	}
	return count
}

// lateFreeze answers a freeze at once and applies it some messages later.
type lateFreeze struct {
	engine
	mu      sync.Mutex
	shard   ident.Shard
	waiting *authorizer.Follow
	after   int
}

const lateMessages = 6

func (m *lateFreeze) Follow(shard ident.Shard, f authorizer.Follow) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.apply(); err != nil {
		return err
	}
	for _, r := range f.Rules {
		if r.State == hold.CardFrozen {
			m.shard, m.waiting, m.after = shard, &f, lateMessages
			return nil
		}
	}
	return m.engine.Follow(shard, f)
}

func (m *lateFreeze) Submit(message *hold.Message) hold.Answer {
	m.mu.Lock()
	if m.after--; m.after <= 0 {
		if err := m.apply(); err != nil {
			panic(err)
		}
	}
	m.mu.Unlock()
	return m.engine.Submit(message)
}

func (m *lateFreeze) apply() error {
	if m.waiting == nil {
		return nil
	}
	f := *m.waiting
	m.waiting = nil
	return m.engine.Follow(m.shard, f)
}

// changedFollow changes a Follow on its way to the engine.
type changedFollow struct {
	engine
	change func(f *authorizer.Follow)
}

func (m *changedFollow) Follow(shard ident.Shard, f authorizer.Follow) error {
	m.change(&f)
	return m.engine.Follow(shard, f)
}

// centOff answers an approval with one cent less than was held.
type centOff struct{ engine }

func (m *centOff) Submit(message *hold.Message) hold.Answer {
	a := m.engine.Submit(message)
	if a.Approved > 1 {
		a.Approved--
	}
	return a
}

// The check detects each of these defective engines.
func TestMutantsAreFound(t *testing.T) {
	raised := func(limit func(r *hold.Rule)) func(e engine) engine {
		return func(e engine) engine {
			return &changedFollow{e, func(f *authorizer.Follow) {
				for i := range f.Rules {
					limit(&f.Rules[i])
				}
			}}
		}
	}
	mutants := []struct {
		name   string
		mutate func(e engine) engine
	}{
		{"a freeze applied late", func(e engine) engine { return &lateFreeze{engine: e} }},
		{"a cent off in an approval", func(e engine) engine { return &centOff{e} }},
		{"a cent too much in the funds", func(e engine) engine {
			return &changedFollow{e, func(f *authorizer.Follow) {
				if f.Through == 1 {
					f.Credits[0].Cents++
				}
			}}
		}},
		{"the limit of a transaction unchecked", raised(func(r *hold.Rule) { r.PerTxnCents = money.MaxAmount })},
		{"the limit of a month unchecked", raised(func(r *hold.Rule) { r.MonthCents = money.MaxAmount })},
	}
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			l := load{clients: 4, calls: 100, workspaces: 1, rounds: 1, seed: uint64(i)}
			requireSomeOrder(t, l.history(t, openEngine(t, nil)))
			history := l.history(t, m.mutate(openEngine(t, nil)))
			require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(workspaces, history, checkWithin))
		})
	}
}

// begin gives an account money and a card with these limits.
func (a *account) begin(t testing.TB, e engine, funds, perTxn, month money.Cents) {
	t.Helper()
	a.rules[0] = rule{Version: 1, State: "active", PerTxn: int64(perTxn), Monthly: int64(month)}
	a.through = 1
	require.NoError(t, e.Follow(a.workspace.Shard(), authorizer.Follow{
		Through: 1, Rules: []hold.Rule{a.ruleOf(0, a.rules[0])},
		Credits: []authorizer.Credit{{Workspace: a.workspace, Cents: funds}},
	}))
}

// become changes the card's state, durably when it returns.
func (a *account) become(t testing.TB, e engine, state string) {
	t.Helper()
	a.through++
	a.rules[0].Version++
	a.rules[0].State = state
	f := authorizer.Follow{Through: a.through, Rules: []hold.Rule{a.ruleOf(0, a.rules[0])}}
	require.NoError(t, e.Follow(a.workspace.Shard(), f))
}

func (a *account) swipe(e engine, id string, cents money.Cents) hold.Answer {
	in := call{Kind: kindAuthorization, content: content{Cents: int64(cents), Currency: "USD"}}
	m := a.sentOf(in, hold.Message{ID: id}).message
	return e.Submit(&m)
}

// swipeDry swipes until not even one cent is approved, and returns the sum and the reason of the
// last decline.
func swipeDry(a *account, e engine, client int, draw *rand.Rand, most money.Cents) (sum money.Cents, last hold.Reason) {
	for n := 0; ; n++ {
		asked := 1 + money.Cents(draw.Int64N(int64(most)))
		told := a.swipe(e, fmt.Sprintf("%d-%d", client, n), asked)
		switch {
		case told.Decision == hold.Approved:
			sum += told.Approved
		case asked == 1:
			return sum, told.Reason
		default:
			most = max(1, asked/2)
		}
	}
}

// spentBy returns the counter of a card in the store of now.
func spentBy(t *testing.T, e *authorizer.Engine, card ident.UUID) (cents money.Cents) {
	s := e.Snapshot()
	require.NoError(t, errors.Join(s.WalkSpends(func(c ident.UUID, spend hold.Spend) error {
		if c == card {
			cents = spend.Cents
		}
		return nil
	}), s.Close()))
	return cents
}

func TestClientsSwipeOneCardDry(t *testing.T) {
	const clients, perTxn = 32, 900
	for i, f := range []struct {
		funds, month money.Cents
		reason       hold.Reason
	}{
		{123_457, 1_000_000, hold.ReasonInsufficientFunds},
		{1_000_000, 98_765, hold.ReasonMonthlyLimitExceeded},
		{55_555, 55_555, hold.ReasonMonthlyLimitExceeded},
	} {
		e, a := openEngine(t, nil), newAccount(i)
		a.begin(t, e, f.funds, perTxn, f.month)
		var running sync.WaitGroup
		var sums [clients]money.Cents
		var reasons [clients]hold.Reason
		for c := range clients {
			draw := rand.New(rand.NewPCG(uint64(i), uint64(c)))
			running.Go(func() { sums[c], reasons[c] = swipeDry(a, e, c, draw, perTxn) })
		}
		running.Wait()
		sum := money.Cents(0)
		for c := range clients {
			sum += sums[c]
			require.Equal(t, f.reason, reasons[c])
		}
		require.Equal(t, min(f.funds, f.month), sum, "all of it and not a cent more")
		left, _ := e.Funds(a.workspace)
		require.Equal(t, authorizer.Funds{LedgerCents: f.funds, CardCents: -sum}, left)
		require.Equal(t, sum, spentBy(t, e, a.cards[0].card))
	}
}

// freezeRace is one freeze of a card during swipes.
type freezeRace struct {
	underway sync.WaitGroup // until every swiper has an answer
	frozen   atomic.Bool    // the freeze has been answered
	approved atomic.Int64
	overtook atomic.Int64 // declined swipes that began before the freeze's answer
	wrong    atomic.Int64
}

// swipe swipes until a swipe that began after the freeze's answer is answered.
func (r *freezeRace) swipe(a *account, e engine, id string) {
	for n := 0; ; n++ {
		after := r.frozen.Load()
		told := a.swipe(e, fmt.Sprintf("%s-%d", id, n), 1)
		declined := told.Decision == hold.Declined && told.Reason == hold.ReasonCardFrozen
		switch {
		case after && !declined, !declined && told.Decision != hold.Approved:
			r.wrong.Add(1)
		case !declined:
			r.approved.Add(1)
		case !after:
			r.overtook.Add(1)
		}
		if n == 0 {
			r.underway.Done()
		}
		if after {
			return
		}
	}
}

func TestNoApprovalAfterTheFreezeAnswered(t *testing.T) {
	const swipers = 16
	races := 1000
	if testing.Short() { // the race detector makes each race twenty times as long
		races = 100
	}
	e, a := openEngine(t, nil), newAccount(1)
	a.begin(t, e, money.MaxAmount, 1000, money.MaxAmount)
	approved, overtook := int64(0), int64(0)
	for n := range races {
		r := &freezeRace{}
		var running sync.WaitGroup
		r.underway.Add(swipers)
		for s := range swipers {
			running.Go(func() { r.swipe(a, e, fmt.Sprintf("%d-%d", n, s)) })
		}
		r.underway.Wait()
		a.become(t, e, "frozen")
		r.frozen.Store(true)
		running.Wait()
		require.Zero(t, r.wrong.Load(), "race %d", n)
		approved, overtook = approved+r.approved.Load(), overtook+r.overtook.Load()
		a.become(t, e, "active")
	}
	t.Logf("%d approvals before the freezes, %d swipes overtaken by them", approved, overtook)
	require.NotZero(t, approved)
	require.NotZero(t, overtook)
}

func TestModelStandsAlone(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "linear_model_test.go", nil, parser.ImportsOnly)
	require.NoError(t, err)
	require.NotEmpty(t, file.Imports)
	for _, i := range file.Imports {
		require.False(t, strings.HasPrefix(i.Path.Value, `"purser/`), "the model imports %s", i.Path.Value)
	}
}
