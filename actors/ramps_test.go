package actors_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/address/v2/base58"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/ramp"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// scriptedRamp decides by the last digit of an order's cents. It accepts orders of other digits and
// reports none.
const (
	rampRefusedDigit  = 9
	rampNoAnswerDigit = 8 // the first answer is lost; the partner has the order
)

// scriptedRamp is a ramp partner that records its calls. It outlives restarts of the product.
type scriptedRamp struct {
	mu               sync.Mutex
	orders           map[string]partner.RampOrder
	calls            map[string]int // by id of the account, wallet or order
	changedOrders    []string       // ids of orders that differed when they were sent again
	refused          map[string]bool
	hangingWorkspace string // calls for this workspace do not return
	losesOrders      bool   // orders do not arrive
}

func newScriptedRamp() *scriptedRamp {
	return &scriptedRamp{orders: map[string]partner.RampOrder{}, calls: map[string]int{}, refused: map[string]bool{}}
}

func (r *scriptedRamp) Fee(_ context.Context, direction string, cents money.Cents) (money.Cents, error) {
	switch {
	case direction != balance.RampOn:
		return 0, partner.ErrRefused
	case cents == rampNoAnswerDigit:
		return 0, errors.New("no answer")
	}
	return cents / 200, nil
}

func (r *scriptedRamp) recordCall(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[id]++
	if r.refused[id] {
		return partner.ErrRefused
	}
	return nil
}

func (r *scriptedRamp) Link(_ context.Context, account, _ string) error { return r.recordCall(account) }

func (r *scriptedRamp) Approve(_ context.Context, w partner.RampWallet) error {
	return r.recordCall(w.ID)
}

func (r *scriptedRamp) Order(ctx context.Context, o partner.RampOrder) error {
	if o.WorkspaceID == r.hangingWorkspace {
		if err := r.recordCall(o.ID); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	if o.AmountCents%10 == rampRefusedDigit {
		return partner.ErrRefused
	}
	err := r.recordCall(o.ID)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.losesOrders {
		return errConnectionLost
	}
	was, again := r.orders[o.ID]
	if again && !reflect.DeepEqual(was, o) {
		r.changedOrders = append(r.changedOrders, o.ID)
	}
	r.orders[o.ID] = o
	if o.AmountCents%10 == rampNoAnswerDigit && !again {
		return errors.New("the answer is lost")
	}
	return err
}

func (r *scriptedRamp) callCount(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[id]
}

func (r *scriptedRamp) receivedOrder(id string) (partner.RampOrder, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, has := r.orders[id]
	return o, has
}

// rampCustomer is a workspace that uses the ramp.
type rampCustomer struct {
	*testStack
	t  require.TestingT
	ws string
	n  int
}

func (w *testStack) newRampCustomer(t require.TestingT, ws string) *rampCustomer {
	return &rampCustomer{testStack: w, t: t, ws: ws}
}

// linkAccount links the ramp account and waits until the partner has confirmed it.
func (r *rampCustomer) linkAccount() {
	r.mustAsk("ramp", r.ws, r.ws, ramp.Link{Workspace: r.ws, ID: r.newID(ident.RampAccount, slotOf(r.ws))})
	r.awaitCondition(func() bool { return r.readState().Account.Status == ramp.Linked })
}

func (r *rampCustomer) readState() ramp.State {
	return r.mustAsk("ramp", r.ws, r.ws, decision.Read{}).(ramp.State)
}

func (r *rampCustomer) awaitCondition(condition func() bool) {
	require.Eventually(r.t, condition, eventuallyWithin, pollEvery)
}

// addProvenWallet registers a wallet whose key is made of a number, and proves its ownership.
func (r *rampCustomer) addProvenWallet(number byte) string {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
	w := r.mustAsk("ramp", r.ws, r.ws, ramp.AddWallet{Workspace: r.ws,
		ID: r.newID(ident.RampWallet, slotOf(r.ws)), Nonce: "n",
		Chain: "solana", Address: base58.Encode(key[ed25519.SeedSize:])}).(ramp.Wallet)
	r.mustAsk("ramp", r.ws, r.ws, ramp.ProveWallet{ID: w.ID,
		Signature: base58.Encode(ed25519.Sign(key, []byte(w.Challenge)))})
	return w.ID
}

func (r *rampCustomer) walletApproved(wallet string) bool {
	w, err := readRecord[ramp.Wallet](r.testStack, ramp.RecordWallet, wallet)
	require.NoError(r.t, err)
	return w.Status == ramp.Approved
}

// timerArmed reports whether a timer of that key is set in the shard.
func (r *rampCustomer) timerArmed(key string) bool {
	timers, err := r.journal.Timers(context.Background(), slotOf(r.ws).Shard(), r.clock.now().Add(time.Hour),
		persistence.Timer{}, 100)
	require.NoError(r.t, err)
	return slices.ContainsFunc(timers, func(t persistence.Timer) bool { return t.Key == key })
}

func (r *rampCustomer) requestQuote(direction string, cents, fee money.Cents, wallet string) (balance.RampQuote,
	error) {
	reply, err := r.ask("balance", r.ws, r.ws, balance.QuoteRamp{Workspace: r.ws,
		ID:        r.newID(ident.RampQuote, slotOf(r.ws)),
		Direction: direction, AmountCents: cents, FeeCents: fee, WalletID: wallet}, nil)
	if err != nil {
		return balance.RampQuote{}, err
	}
	return reply.(balance.RampQuote), nil
}

func (r *rampCustomer) useQuote(q balance.RampQuote) (balance.RampOrder, error) {
	reply, err := r.ask("balance", r.ws, r.ws, balance.CreateRampOrder{Workspace: r.ws,
		ID:    r.newID(ident.RampOrder, slotOf(r.ws)),
		Quote: q, Withdrawal: q.Direction == balance.RampWithdraw}, nil)
	if err != nil {
		return balance.RampOrder{}, err
	}
	return reply.(balance.RampOrder), nil
}

// placeOrder requests a quote and uses it.
func (r *rampCustomer) placeOrder(direction string, cents money.Cents, wallet string) string {
	q, err := r.requestQuote(direction, cents, cents/200, wallet)
	require.NoError(r.t, err)
	o, err := r.useQuote(q)
	require.NoError(r.t, err)
	return o.ID
}

func (r *rampCustomer) readOrder(id string) balance.RampOrder {
	o, err := readRecord[balance.RampOrder](r.testStack, balance.RecordRampOrder, id)
	require.NoError(r.t, err)
	return o
}

func (r *rampCustomer) awaitOrderStatus(id, status string) {
	r.awaitCondition(func() bool { return r.readOrder(id).Status == status })
}

// reportOrder applies a report of the partner, under an event id of its own.
func (r *rampCustomer) reportOrder(id, outcome string, fee *money.Cents) error {
	r.n++
	_, err := r.ask("balance", r.ws, r.ws, balance.ReportRamp{EventID: fmt.Sprint("r-", r.n), ID: id, Outcome: outcome,
		FeeCents: fee}, nil)
	return err
}

func (w *testStack) receiveStablecoins(t require.TestingT, ws string, cents money.Cents) {
	event := w.newID(ident.Event, 0)
	_, err := w.ask("balance", ws, ws, balance.ReceiveStablecoin{Workspace: ws, EventID: event, Asset: "USDC",
		Chain: "polygon", TxHash: event, AmountUsdCents: cents}, nil)
	require.NoError(t, err)
}

func (r *rampCustomer) requireBalances(usd, coins money.Cents) {
	v := r.settledBalance(r.ws)
	require.Equal(r.t, []money.Cents{usd, coins}, []money.Cents{v.Snapshot.FiatUsdCents, v.Snapshot.StablecoinUsdCents})
	require.Equal(r.t, usd, r.availableCents(r.ws))
}

// TestTheRampPartnerReceivesOrders links an account, approves a wallet, and places orders; an order
// that the partner refuses fails and gives its money back.
func TestTheRampPartnerReceivesOrders(t *testing.T) {
	known := newScriptedRamp()
	w := newTestStack(t, vfs.NewMem(), stackOptions{ramp: known})
	defer func() { w.stop() }()
	r := w.newRampCustomer(t, w.newWorkspace(77))
	r.linkAccount()
	wallet := r.addProvenWallet(1)
	r.awaitCondition(func() bool { return r.walletApproved(wallet) })
	w.deposit(r.ws, 50_000)

	on := r.placeOrder(balance.RampOn, 20_000, "")
	r.awaitOrderStatus(on, balance.RampProcessing)
	r.requireBalances(30_000, 0)
	given, _ := known.receivedOrder(on)
	require.Equal(t, partner.RampOrder{ID: on, WorkspaceID: r.ws, Direction: "onramp", AmountCents: 20_000,
		MaxFeeCents: 100}, given)
	require.NoError(t, r.reportOrder(on, balance.RampCompleted, nil))
	require.NoError(t, r.reportOrder(on, balance.RampCompleted, nil))
	require.True(t, fault.Is(r.reportOrder(on, balance.RampFailed, nil), fault.RampConflict))
	r.requireBalances(30_000, 19_900)

	away := r.placeOrder(balance.RampWithdraw, 10_000, wallet)
	r.awaitOrderStatus(away, balance.RampProcessing)
	given, _ = known.receivedOrder(away)
	require.Equal(t, wallet, given.Wallet.ID)
	require.Equal(t, "solana", given.Wallet.Chain)
	require.NoError(t, r.reportOrder(away, balance.RampCompleted, nil))
	r.requireBalances(30_000, 9_900)

	refused := r.placeOrder(balance.RampOn, 10_000+rampRefusedDigit, "")
	r.awaitOrderStatus(refused, balance.RampFailed)
	r.requireBalances(30_000, 9_900)
	off := r.placeOrder(balance.RampOff, 5_000, "")
	less := money.Cents(1)
	require.NoError(t, r.reportOrder(off, balance.RampCompleted, &less))
	r.requireBalances(34_999, 4_900)
	token := w.mintCard(r.ws, 1_000_000, 1_000_000)
	require.Equal(t, hold.Approved, w.submit(networkMessage(hold.Authorization, "n1", token, 34_999)).Decision,
		"cards spend what came")

	_, err := r.ask("balance", r.ws, r.ws, balance.CreateRampOrder{Workspace: r.ws, ID: r.newID(ident.RampOrder, 77),
		Quote: mustQuote(t, r, 1)}, nil)
	require.True(t, fault.Is(err, fault.InsufficientFunds), "%v", err)
	w.requireCleanAudit()
	w.restart()
	w.requireCleanAudit()
}

func mustQuote(t *testing.T, r *rampCustomer, cents money.Cents) balance.RampQuote {
	q, err := r.requestQuote(balance.RampOn, cents, 0, "")
	require.NoError(t, err)
	return q
}

// TestTheRampPartnerIsCalledUntilItAnswers: a refused account stays as it is and is not sent again;
// an order without an answer is sent again, unchanged.
func TestTheRampPartnerIsCalledUntilItAnswers(t *testing.T) {
	known := newScriptedRamp()
	w := newTestStack(t, vfs.NewMem(), stackOptions{ramp: known})
	defer func() { w.stop() }()
	r := w.newRampCustomer(t, w.newWorkspace(77))
	account := w.newID(ident.RampAccount, 78)
	known.refused[account] = true
	other := w.newWorkspace(78)
	w.mustAsk("ramp", other, other, ramp.Link{Workspace: other, ID: account})
	r.awaitCondition(func() bool { return known.callCount(account) == 1 })
	r.awaitCondition(func() bool { return !r.timerArmed(account) }) // the answer is stored

	r.linkAccount()
	w.deposit(r.ws, 50_000)
	lost := r.placeOrder(balance.RampOn, 10_000+rampNoAnswerDigit, "")
	r.awaitCondition(func() bool { return known.callCount(lost) == 1 })
	require.Equal(t, balance.RampCreated, r.readOrder(lost).Status)
	w.clock.turn(balance.RampAskEvery)
	r.awaitOrderStatus(lost, balance.RampProcessing)
	require.Equal(t, 2, known.callCount(lost))
	require.Empty(t, known.changedOrders)
	w.restart()
	w.clock.turn(ramp.PartnerRetryInterval)
	w.deposit(other, 2_000)
	for range 2 { // the second order follows every call that was due before the first
		of := w.newRampCustomer(t, other)
		of.awaitOrderStatus(of.placeOrder(balance.RampOn, 1_000, ""), balance.RampProcessing)
	}
	require.Equal(t, 1, known.callCount(account), "a refused account was sent again")
	require.Equal(t, ramp.Pending, w.mustAsk("ramp", other, other, decision.Read{}).(ramp.State).Account.Status)
	r.requireBalances(39_992, 0)
	w.requireCleanAudit()
}

// TestARampOrderIsNotReleasedByTime: an order that the partner has waits for its report and becomes
// overdue. An order that the partner never acknowledged is sent again, an old one once an hour,
// until the partner refuses it.
func TestARampOrderIsNotReleasedByTime(t *testing.T) {
	known := newScriptedRamp()
	w := newTestStack(t, vfs.NewMem(), stackOptions{ramp: known})
	defer func() { w.stop() }()
	r := w.newRampCustomer(t, w.newWorkspace(77))
	r.linkAccount()
	w.deposit(r.ws, 50_000)
	taken := r.placeOrder(balance.RampOn, 10_000, "")
	r.awaitOrderStatus(taken, balance.RampProcessing)
	known.setLosingOrders(true)
	lost := r.placeOrder(balance.RampOn, 20_000, "")
	r.awaitCondition(func() bool { return known.callCount(lost) > 0 })
	require.ErrorContains(t, w.system.ResolveOrder(t.Context(), taken, true), "not overdue before")

	overdue := w.system.OverdueCount
	require.Zero(t, overdue())
	before := known.callCount(lost)
	w.clock.turn(30 * 24 * time.Hour)
	r.awaitCondition(func() bool { return overdue() == 1 && known.callCount(lost) > before })
	require.Equal(t, balance.RampProcessing, r.readOrder(taken).Status)
	require.Equal(t, balance.RampCreated, r.readOrder(lost).Status)
	r.requireBalances(20_000, 0)
	listed, err := w.system.ListOverdue(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{taken, lost}, []string{listed[0].ID, listed[1].ID})

	known.refuse(lost)
	w.clock.turn(balance.LapseAskEvery)
	r.awaitOrderStatus(lost, balance.RampFailed)
	require.NoError(t, w.system.ResolveOrder(t.Context(), taken, true))
	require.Equal(t, balance.RampCompleted, r.readOrder(taken).Status)
	r.requireBalances(40_000, 9_950)
	w.clock.turn(3 * balance.LapseAskEvery)
	require.Zero(t, overdue())
	listed, err = w.system.ListOverdue(t.Context())
	require.NoError(t, err)
	require.Empty(t, listed)
	w.requireCleanAudit()
}

func (r *scriptedRamp) setLosingOrders(mute bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losesOrders = mute
}

// refuse makes the partner refuse an order from now on.
func (r *scriptedRamp) refuse(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losesOrders, r.refused[id] = false, true
}

// TestASilentRampDelaysItsWorkspaceAlone: a partner that does not answer for one workspace answers
// for another workspace of the shard.
func TestASilentRampDelaysItsWorkspaceAlone(t *testing.T) {
	known := newScriptedRamp()
	w := newTestStack(t, vfs.NewMem(), stackOptions{ramp: known})
	defer func() { w.stop() }()
	silent, r := w.newRampCustomer(t, w.newWorkspace(77)), w.newRampCustomer(t, w.newWorkspace(78))
	require.Equal(t, slotOf(silent.ws).Shard(), slotOf(r.ws).Shard())
	known.hangingWorkspace = silent.ws
	for _, of := range []*rampCustomer{silent, r} {
		of.linkAccount()
		w.deposit(of.ws, 50_000)
	}
	var waiting []string
	for range 5 {
		waiting = append(waiting, silent.placeOrder(balance.RampOn, 1_000, ""))
	}
	r.awaitCondition(func() bool {
		return slices.ContainsFunc(waiting, func(id string) bool { return known.callCount(id) > 0 })
	})
	r.awaitOrderStatus(r.placeOrder(balance.RampOn, 1_000, ""), balance.RampProcessing)
	for _, id := range waiting {
		require.Equal(t, balance.RampCreated, silent.readOrder(id).Status)
	}
	require.NoError(t, silent.reportOrder(waiting[0], balance.RampCompleted, nil),
		"a report may come before the answer")
	silent.requireBalances(45_000, 995)
	w.requireCleanAudit()
}

func TestTheRampFee(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{ramp: newScriptedRamp()})
	fee, err := w.system.RampFee(t.Context(), balance.RampOn, 20_000)
	require.NoError(t, err)
	require.Equal(t, money.Cents(100), fee)
	_, err = w.system.RampFee(t.Context(), balance.RampOff, 20_000)
	require.True(t, fault.Is(err, fault.CapabilityUnavailable), "%v", err)
	_, err = w.system.RampFee(t.Context(), balance.RampOn, rampNoAnswerDigit)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	w.stop()
	w = newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	_, err = w.system.RampFee(t.Context(), balance.RampOn, 20_000)
	require.True(t, fault.Is(err, fault.CapabilityUnavailable), "%v", err)
}

// TestSessionsOfTheRetiredRoutesAreReportedOnce: a session of the retired routes is imported once
// and reported once, although 16 reports of it arrive at the same time.
func TestSessionsOfTheRetiredRoutesAreReportedOnce(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer func() { w.stop() }()
	ws := w.newWorkspace(77)
	at := decision.StampOf(w.clock.now())
	session := balance.RampSession{ID: w.newID(ident.RampSession, 77), Direction: balance.RampOn,
		Status:      balance.RampProcessing,
		AmountCents: 700, HostedURL: "https://ramp.example/1", CreatedAt: at, UpdatedAt: at}
	w.mustAsk("balance", ws, ws, balance.ImportRampSession{Workspace: ws, Session: session})
	var reports sync.WaitGroup
	outcomes := []string{balance.RampCompleted, balance.RampFailed}
	for i := range 16 {
		reports.Go(func() {
			_, err := w.ask("balance", ws, ws, balance.ReportRamp{EventID: fmt.Sprint("r-", i), ID: session.ID,
				Outcome: outcomes[i%2], Session: &session}, nil)
			if err != nil && !fault.Is(err, fault.Unavailable) {
				t.Error(err)
			}
		})
	}
	reports.Wait()
	w.mustAsk("balance", ws, ws, balance.ImportRampSession{Workspace: ws, Session: session})
	known, err := readRecord[balance.RampSession](w, balance.RecordRampSession, session.ID)
	require.NoError(t, err)
	coins := map[string]money.Cents{balance.RampCompleted: 700, balance.RampFailed: 0}
	w.newRampCustomer(t, ws).requireBalances(0, coins[known.Status])
	require.Contains(t, outcomes, known.Status, "a second import would have reset it")
	w.requireCleanAudit()
}

// TestRampOrdersSurvivePowerFailures cuts the power at writes of the journal and the
// authorizer while orders are placed, sent and reported. Acknowledged orders are stored, the
// partner gets every order, and the balances are those of the reports.
func TestRampOrdersSurvivePowerFailures(t *testing.T) {
	c := &snapshotDisk{disk: vfs.NewCrashableMem(), answers: &answerLog{}, every: 1}
	known := newScriptedRamp()
	w := newTestStack(t, c.fs(), stackOptions{ramp: known})
	r := w.newRampCustomer(t, w.newWorkspace(77))
	r.linkAccount()
	wallet := r.addProvenWallet(1)
	r.awaitCondition(func() bool { return r.walletApproved(wallet) })
	w.deposit(r.ws, 50_000)
	w.receiveStablecoins(t, r.ws, 50_000)
	r.requireBalances(50_000, 50_000)
	c.armed.Store(true)
	for _, o := range []struct {
		direction, wallet string
		cents             money.Cents
		end               string
	}{{balance.RampOn, "", 10_000, balance.RampProcessing}, {balance.RampOff, "", 20_000, balance.RampProcessing},
		{balance.RampOn, "", 3_000 + rampRefusedDigit, balance.RampFailed},
		{balance.RampWithdraw, wallet, 4_000, balance.RampProcessing}} {
		id := r.placeOrder(o.direction, o.cents, o.wallet)
		c.answers.add(acknowledged{rest: &restCall{key: id}})
		r.awaitOrderStatus(id, o.end)
		if o.end == balance.RampProcessing {
			require.NoError(t, r.reportOrder(id, balance.RampCompleted, nil))
			c.answers.add(acknowledged{rest: &restCall{key: id, command: balance.RampCompleted}})
		}
	}
	c.captureDisk(c.writes.Load() + 1)
	c.armed.Store(false)
	w.stop()
	require.Greater(t, len(c.failures), 4*3, "an order, its answer and its report of each")
	step := atFullLength(4, 1)
	for i := len(c.failures) - 1; i >= 0; i -= step {
		c.failures[i].requireRampOrdersKept(t, r.ws)
	}
	t.Logf("every power failure of %d by %d", len(c.failures), step)
}

// requireRampOrdersKept recovers from the power failure and reports every order.
func (c *powerFailure) requireRampOrdersKept(t *testing.T, ws string) {
	known := newScriptedRamp()
	known.mu.Lock() // the partner accepts no order before the records are read, so these show the state at the failure
	w := newTestStack(t, c.fs, stackOptions{ramp: known})
	defer w.stop()
	r := w.newRampCustomer(t, ws)
	r.n = 1000
	for _, told := range c.answered {
		o := r.readOrder(told.rest.key)
		if told.rest.command != nil {
			require.Equal(t, told.rest.command, o.Status, "after a power failure at write %d", c.write)
		}
	}
	w.clock.turn(balance.RampAskEvery) // calls made before the failure are made again
	records, err := w.journal.Records(t.Context(), slotOf(ws).Shard(), balance.RecordRampOrder, "", 1000)
	known.mu.Unlock()
	require.NoError(t, err)
	usd, coins := money.Cents(50_000), money.Cents(50_000)
	for _, record := range records {
		var was balance.RampOrder
		require.NoError(t, json.Unmarshal(record.Document, &was))
		r.awaitCondition(func() bool { return r.readOrder(was.ID).Status != balance.RampCreated })
		_, given := known.receivedOrder(was.ID)
		require.Equal(t, was.Status == balance.RampCreated && was.AmountCents%10 != rampRefusedDigit, given,
			"after a power failure at write %d", c.write)
		o := r.readOrder(was.ID)
		if o.Status == balance.RampFailed {
			continue
		}
		require.NoError(t, r.reportOrder(o.ID, balance.RampCompleted, nil))
		switch o.Direction {
		case balance.RampOn:
			usd, coins = usd-o.AmountCents, coins+o.AmountCents-o.FeeCents
		case balance.RampOff:
			usd, coins = usd+o.AmountCents-o.FeeCents, coins-o.AmountCents
		default:
			coins -= o.AmountCents
		}
	}
	r.requireBalances(usd, coins)
	w.requireCleanAudit()
}
