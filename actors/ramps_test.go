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
)

// What the partner of the tests makes of an order depends on the last digit of its cents. It takes the others, and reports none.
const (
	rampRefuses = 9
	rampForgets = 8 // to answer, the first time: it has the order
)

// knownRamp remembers what it is told. It outlives the product.
type knownRamp struct {
	mu      sync.Mutex
	orders  map[string]partner.RampOrder
	told    map[string]int // by id, of accounts, wallets and orders
	changed []string       // ids of orders that were not the same when they came again
	refused map[string]bool
	hangs   string // a workspace that is never answered
	mute    bool   // orders are lost on their way
}

func newKnownRamp() *knownRamp {
	return &knownRamp{orders: map[string]partner.RampOrder{}, told: map[string]int{}, refused: map[string]bool{}}
}

func (r *knownRamp) Fee(_ context.Context, direction string, cents int64) (int64, error) {
	switch {
	case direction != balance.RampOn:
		return 0, partner.ErrRefused
	case cents == rampForgets:
		return 0, errors.New("no answer")
	}
	return cents / 200, nil
}

func (r *knownRamp) hear(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[id]++
	if r.refused[id] {
		return partner.ErrRefused
	}
	return nil
}

func (r *knownRamp) Link(_ context.Context, account, _ string) error { return r.hear(account) }

func (r *knownRamp) Approve(_ context.Context, w partner.RampWallet) error { return r.hear(w.ID) }

func (r *knownRamp) Order(ctx context.Context, o partner.RampOrder) error {
	if o.WorkspaceID == r.hangs {
		if err := r.hear(o.ID); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	if o.AmountCents%10 == rampRefuses {
		return partner.ErrRefused
	}
	err := r.hear(o.ID)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mute {
		return errLine
	}
	was, again := r.orders[o.ID]
	if again && !reflect.DeepEqual(was, o) {
		r.changed = append(r.changed, o.ID)
	}
	r.orders[o.ID] = o
	if o.AmountCents%10 == rampForgets && !again {
		return errors.New("the answer is lost")
	}
	return err
}

func (r *knownRamp) heard(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[id]
}

func (r *knownRamp) order(id string) (partner.RampOrder, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, has := r.orders[id]
	return o, has
}

// rampOf is the ramp of a workspace of the tests.
type rampOf struct {
	*world
	t  require.TestingT
	ws string
	n  int
}

func (w *world) rampOf(t require.TestingT, ws string) *rampOf { return &rampOf{world: w, t: t, ws: ws} }

// link links the account and waits for it.
func (r *rampOf) link() {
	r.must("ramp", r.ws, r.ws, ramp.Link{Workspace: r.ws, ID: r.newID(ident.RampAccount, slotOf(r.ws))})
	r.await(func() bool { return r.state().Account.Status == ramp.Linked })
}

func (r *rampOf) state() ramp.State { return r.must("ramp", r.ws, r.ws, decision.Read{}).(ramp.State) }

func (r *rampOf) await(condition func() bool) {
	require.Eventually(r.t, condition, time.Minute, time.Millisecond)
}

// prove registers a wallet of a key that is made of a number, and proves it.
func (r *rampOf) prove(number byte) string {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
	w := r.must("ramp", r.ws, r.ws, ramp.AddWallet{Workspace: r.ws, ID: r.newID(ident.RampWallet, slotOf(r.ws)), Nonce: "n",
		Chain: "solana", Address: base58.Encode(key[ed25519.SeedSize:])}).(ramp.Wallet)
	r.must("ramp", r.ws, r.ws, ramp.ProveWallet{ID: w.ID, Signature: base58.Encode(ed25519.Sign(key, []byte(w.Challenge)))})
	return w.ID
}

func (r *rampOf) approved(wallet string) bool {
	w, err := readRecord[ramp.Wallet](r.world, ramp.RecordWallet, wallet)
	require.NoError(r.t, err)
	return w.Status == ramp.Approved
}

// armed says whether something of the shard's has a timer.
func (r *rampOf) armed(key string) bool {
	timers, err := r.journal.Timers(context.Background(), slotOf(r.ws).Shard(), r.clock.now().Add(time.Hour),
		persistence.Timer{}, 100)
	require.NoError(r.t, err)
	return slices.ContainsFunc(timers, func(t persistence.Timer) bool { return t.Key == key })
}

func (r *rampOf) quote(direction string, cents, fee int64, wallet string) (balance.RampQuote, error) {
	reply, err := r.ask("balance", r.ws, r.ws, balance.QuoteRamp{Workspace: r.ws, ID: r.newID(ident.RampQuote, slotOf(r.ws)),
		Direction: direction, AmountCents: cents, FeeCents: fee, WalletID: wallet}, nil)
	if err != nil {
		return balance.RampQuote{}, err
	}
	return reply.(balance.RampQuote), nil
}

func (r *rampOf) use(q balance.RampQuote) (balance.RampOrder, error) {
	reply, err := r.ask("balance", r.ws, r.ws, balance.CreateRampOrder{Workspace: r.ws, ID: r.newID(ident.RampOrder, slotOf(r.ws)),
		Quote: q, Withdrawal: q.Direction == balance.RampWithdraw}, nil)
	if err != nil {
		return balance.RampOrder{}, err
	}
	return reply.(balance.RampOrder), nil
}

// order quotes and orders.
func (r *rampOf) order(direction string, cents int64, wallet string) string {
	q, err := r.quote(direction, cents, cents/200, wallet)
	require.NoError(r.t, err)
	o, err := r.use(q)
	require.NoError(r.t, err)
	return o.ID
}

func (r *rampOf) read(id string) balance.RampOrder {
	o, err := readRecord[balance.RampOrder](r.world, balance.RecordRampOrder, id)
	require.NoError(r.t, err)
	return o
}

func (r *rampOf) awaits(id, status string) {
	r.await(func() bool { return r.read(id).Status == status })
}

// report brings a report of the partner, under an event id of its own.
func (r *rampOf) report(id, outcome string, fee *int64) error {
	r.n++
	_, err := r.ask("balance", r.ws, r.ws, balance.ReportRamp{EventID: fmt.Sprint("r-", r.n), ID: id, Outcome: outcome,
		FeeCents: fee}, nil)
	return err
}

func (w *world) coins(t require.TestingT, ws string, cents int64) {
	_, err := w.ask("balance", ws, ws, balance.ReceiveStablecoin{Workspace: ws, EventID: w.newID(ident.Event, 0), Asset: "USDC",
		Chain: "polygon", TxHash: "0x1", AmountUsdCents: cents}, nil)
	require.NoError(t, err)
}

func (r *rampOf) has(usd, coins int64) {
	v := r.balance(r.ws)
	require.Equal(r.t, []int64{usd, coins}, []int64{v.Snapshot.FiatUsdCents, v.Snapshot.StablecoinUsdCents})
	require.Equal(r.t, usd, r.available(r.ws))
}

// An account is linked, a wallet approved, orders are given, and what the partner refuses is undone.
func TestTheRampsPartnerIsTold(t *testing.T) {
	known := newKnownRamp()
	w := newWorld(t, vfs.NewMem(), worldOptions{ramp: known})
	defer func() { w.stop() }()
	r := w.rampOf(t, w.newWorkspace(77))
	r.link()
	wallet := r.prove(1)
	r.await(func() bool { return r.approved(wallet) })
	w.deposit(r.ws, 50_000)

	on := r.order(balance.RampOn, 20_000, "")
	r.awaits(on, balance.RampProcessing)
	r.has(30_000, 0)
	given, _ := known.order(on)
	require.Equal(t, partner.RampOrder{ID: on, WorkspaceID: r.ws, Direction: "onramp", AmountCents: 20_000, MaxFeeCents: 100}, given)
	require.NoError(t, r.report(on, balance.RampCompleted, nil))
	require.NoError(t, r.report(on, balance.RampCompleted, nil))
	require.True(t, fault.Is(r.report(on, balance.RampFailed, nil), fault.RampConflict))
	r.has(30_000, 19_900)

	away := r.order(balance.RampWithdraw, 10_000, wallet)
	r.awaits(away, balance.RampProcessing)
	given, _ = known.order(away)
	require.Equal(t, wallet, given.Wallet.ID)
	require.Equal(t, "solana", given.Wallet.Chain)
	require.NoError(t, r.report(away, balance.RampCompleted, nil))
	r.has(30_000, 9_900)

	refused := r.order(balance.RampOn, 10_000+rampRefuses, "")
	r.awaits(refused, balance.RampFailed)
	r.has(30_000, 9_900)
	off := r.order(balance.RampOff, 5_000, "")
	less := int64(1)
	require.NoError(t, r.report(off, balance.RampCompleted, &less))
	r.has(34_999, 4_900)
	token := w.mint(r.ws, 1_000_000, 1_000_000)
	require.Equal(t, hold.Approved, w.submit(message(hold.Authorization, "n1", token, 34_999)).Decision, "cards spend what came")

	_, err := r.ask("balance", r.ws, r.ws, balance.CreateRampOrder{Workspace: r.ws, ID: r.newID(ident.RampOrder, 77),
		Quote: mustQuote(t, r, 1)}, nil)
	require.True(t, fault.Is(err, fault.InsufficientFunds), "%v", err)
	w.requireClean()
	w.restart()
	w.requireClean()
}

func mustQuote(t *testing.T, r *rampOf, cents int64) balance.RampQuote {
	q, err := r.quote(balance.RampOn, cents, 0, "")
	require.NoError(t, err)
	return q
}

// What the partner will not have stays as it is, and it is not asked again; what it has not answered it is told again, the same.
func TestThePartnerIsAskedUntilItAnswers(t *testing.T) {
	known := newKnownRamp()
	w := newWorld(t, vfs.NewMem(), worldOptions{ramp: known})
	defer func() { w.stop() }()
	r := w.rampOf(t, w.newWorkspace(77))
	account := w.newID(ident.RampAccount, 78)
	known.refused[account] = true
	other := w.newWorkspace(78)
	w.must("ramp", other, other, ramp.Link{Workspace: other, ID: account})
	r.await(func() bool { return known.heard(account) == 1 })
	r.await(func() bool { return !r.armed(account) }) // the answer is noted

	r.link()
	w.deposit(r.ws, 50_000)
	lost := r.order(balance.RampOn, 10_000+rampForgets, "")
	r.await(func() bool { return known.heard(lost) == 1 })
	require.Equal(t, balance.RampCreated, r.read(lost).Status)
	w.clock.turn(balance.RampAskEvery)
	r.awaits(lost, balance.RampProcessing)
	require.Equal(t, 2, known.heard(lost))
	require.Empty(t, known.changed)
	w.restart()
	w.clock.turn(ramp.AskEvery)
	w.deposit(other, 2_000)
	for range 2 { // the second is told after whatever was due before the first
		of := w.rampOf(t, other)
		of.awaits(of.order(balance.RampOn, 1_000, ""), balance.RampProcessing)
	}
	require.Equal(t, 1, known.heard(account), "a refused account is asked for again")
	require.Equal(t, ramp.Pending, w.must("ramp", other, other, decision.Read{}).(ramp.State).Account.Status)
	r.has(39_992, 0)
	w.requireClean()
}

// No time releases an order of the ramp. One that the partner has waits for its report and is
// overdue; one that the partner never acknowledged is given again until the partner refuses it.
func TestARampOrderIsNotReleasedByTime(t *testing.T) {
	known := newKnownRamp()
	w := newWorld(t, vfs.NewMem(), worldOptions{ramp: known})
	defer func() { w.stop() }()
	r := w.rampOf(t, w.newWorkspace(77))
	r.link()
	w.deposit(r.ws, 50_000)
	taken := r.order(balance.RampOn, 10_000, "")
	r.awaits(taken, balance.RampProcessing)
	known.setMute(true)
	lost := r.order(balance.RampOn, 20_000, "")
	r.await(func() bool { return known.heard(lost) > 0 })
	require.ErrorContains(t, w.system.ResolveOrder(t.Context(), taken, true), "not overdue before")

	overdue := func() int64 {
		h, err := w.system.Health()
		require.NoError(t, err)
		return h.Overdue
	}
	require.Zero(t, overdue())
	before := known.heard(lost)
	w.clock.turn(30 * 24 * time.Hour)
	r.await(func() bool { return overdue() == 1 && known.heard(lost) > before })
	require.Equal(t, balance.RampProcessing, r.read(taken).Status)
	require.Equal(t, balance.RampCreated, r.read(lost).Status)
	r.has(20_000, 0)
	listed, err := w.system.OverdueOrders(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{taken, lost}, []string{listed[0].ID, listed[1].ID})

	known.refuse(lost)
	w.clock.turn(balance.RampAskEvery)
	r.awaits(lost, balance.RampFailed)
	require.NoError(t, w.system.ResolveOrder(t.Context(), taken, true))
	require.Equal(t, balance.RampCompleted, r.read(taken).Status)
	r.has(40_000, 9_950)
	w.clock.turn(3 * balance.LapseAskEvery)
	require.Zero(t, overdue())
	listed, err = w.system.OverdueOrders(t.Context())
	require.NoError(t, err)
	require.Empty(t, listed)
	w.requireClean()
}

func (r *knownRamp) setMute(mute bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mute = mute
}

// refuse has the partner answer an order that it does not take.
func (r *knownRamp) refuse(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mute, r.refused[id] = false, true
}

// A partner that never answers for one workspace answers for the others of its shard.
func TestASilentRampHoldsUpNobodyElse(t *testing.T) {
	known := newKnownRamp()
	w := newWorld(t, vfs.NewMem(), worldOptions{ramp: known})
	defer func() { w.stop() }()
	silent, r := w.rampOf(t, w.newWorkspace(77)), w.rampOf(t, w.newWorkspace(78))
	require.Equal(t, slotOf(silent.ws).Shard(), slotOf(r.ws).Shard())
	known.hangs = silent.ws
	for _, of := range []*rampOf{silent, r} {
		of.link()
		w.deposit(of.ws, 50_000)
	}
	var waiting []string
	for range 5 {
		waiting = append(waiting, silent.order(balance.RampOn, 1_000, ""))
	}
	r.await(func() bool {
		return slices.ContainsFunc(waiting, func(id string) bool { return known.heard(id) > 0 })
	})
	r.awaits(r.order(balance.RampOn, 1_000, ""), balance.RampProcessing)
	for _, id := range waiting {
		require.Equal(t, balance.RampCreated, silent.read(id).Status)
	}
	require.NoError(t, silent.report(waiting[0], balance.RampCompleted, nil), "a report may come before the answer")
	silent.has(45_000, 995)
	w.requireClean()
}

func TestTheFeeOfTheRamp(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{ramp: newKnownRamp()})
	fee, err := w.system.RampFee(t.Context(), balance.RampOn, 20_000)
	require.NoError(t, err)
	require.Equal(t, int64(100), fee)
	_, err = w.system.RampFee(t.Context(), balance.RampOff, 20_000)
	require.True(t, fault.Is(err, fault.CapabilityUnavailable), "%v", err)
	_, err = w.system.RampFee(t.Context(), balance.RampOn, rampForgets)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	w.stop()
	w = newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	_, err = w.system.RampFee(t.Context(), balance.RampOn, 20_000)
	require.True(t, fault.Is(err, fault.CapabilityUnavailable), "%v", err)
}

// Sessions of the retired routes are brought over once and reported once, however many say so at the same time.
func TestSessionsOfTheRetiredRoutesAreReportedOnce(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer func() { w.stop() }()
	ws := w.newWorkspace(77)
	at := decision.StampOf(w.clock.now())
	session := balance.RampSession{ID: w.newID(ident.RampSession, 77), Direction: balance.RampOn, Status: balance.RampProcessing,
		AmountCents: 700, HostedURL: "https://ramp.example/1", CreatedAt: at, UpdatedAt: at}
	w.must("balance", ws, ws, balance.ImportRampSession{Workspace: ws, Session: session})
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
	w.must("balance", ws, ws, balance.ImportRampSession{Workspace: ws, Session: session})
	known, err := readRecord[balance.RampSession](w, balance.RecordRampSession, session.ID)
	require.NoError(t, err)
	coins := map[string]int64{balance.RampCompleted: 700, balance.RampFailed: 0}
	w.rampOf(t, ws).has(0, coins[known.Status])
	require.Contains(t, outcomes, known.Status, "brought over once more it would be as it was")
	w.requireClean()
}

// Power fails at every write of the journal and the authorizer while orders are made, given and reported. What was acknowledged
// is there, the partner gets every order, and the money is what the reports say.
func TestRampOrdersSurvivePowerFailures(t *testing.T) {
	c := &crasher{disk: vfs.NewCrashableMem(), notes: &notebook{}, every: 1}
	known := newKnownRamp()
	w := newWorld(t, c.fs(), worldOptions{ramp: known})
	r := w.rampOf(t, w.newWorkspace(77))
	r.link()
	wallet := r.prove(1)
	r.await(func() bool { return r.approved(wallet) })
	w.deposit(r.ws, 50_000)
	w.coins(t, r.ws, 50_000)
	r.has(50_000, 50_000)
	c.armed.Store(true)
	for _, o := range []struct {
		direction, wallet string
		cents             int64
		end               string
	}{{balance.RampOn, "", 10_000, balance.RampProcessing}, {balance.RampOff, "", 20_000, balance.RampProcessing},
		{balance.RampOn, "", 3_000 + rampRefuses, balance.RampFailed}, {balance.RampWithdraw, wallet, 4_000, balance.RampProcessing}} {
		id := r.order(o.direction, o.cents, o.wallet)
		c.notes.write(acked{rest: &restCall{key: id}})
		r.awaits(id, o.end)
		if o.end == balance.RampProcessing {
			require.NoError(t, r.report(id, balance.RampCompleted, nil))
			c.notes.write(acked{rest: &restCall{key: id, command: balance.RampCompleted}})
		}
	}
	c.photograph(c.writes.Load() + 1)
	c.armed.Store(false)
	w.stop()
	require.Greater(t, len(c.crashes), 4*3, "an order, its answer and its report of each")
	visited := c.visited()
	for i := range visited {
		visited[i].keepsRampOrders(t, r.ws)
	}
	t.Logf("%d power failures of %d", len(visited), len(c.crashes))
}

// keepsRampOrders goes on after the power failure until every order is reported.
func (c *crash) keepsRampOrders(t *testing.T, ws string) {
	known := newKnownRamp()
	known.mu.Lock() // it takes no order before the records are read: else they would not say what the failure left
	w := newWorld(t, c.fs, worldOptions{ramp: known})
	defer w.stop()
	r := w.rampOf(t, ws)
	r.n = 1000
	for _, told := range c.told {
		o := r.read(told.rest.key)
		if told.rest.command != nil {
			require.Equal(t, told.rest.command, o.Status, "after a power failure at write %d", c.write)
		}
	}
	w.clock.turn(balance.RampAskEvery) // what was asked before the failure is asked again
	records, err := w.journal.Records(t.Context(), slotOf(ws).Shard(), balance.RecordRampOrder, "", 1000)
	known.mu.Unlock()
	require.NoError(t, err)
	usd, coins := int64(50_000), int64(50_000)
	for _, record := range records {
		var was balance.RampOrder
		require.NoError(t, json.Unmarshal(record.Document, &was))
		r.await(func() bool { return r.read(was.ID).Status != balance.RampCreated })
		_, given := known.order(was.ID)
		require.Equal(t, was.Status == balance.RampCreated && was.AmountCents%10 != rampRefuses, given,
			"after a power failure at write %d", c.write)
		o := r.read(was.ID)
		if o.Status == balance.RampFailed {
			continue
		}
		require.NoError(t, r.report(o.ID, balance.RampCompleted, nil))
		switch o.Direction {
		case balance.RampOn:
			usd, coins = usd-o.AmountCents, coins+o.AmountCents-o.FeeCents
		case balance.RampOff:
			usd, coins = usd+o.AmountCents-o.FeeCents, coins-o.AmountCents
		default:
			coins -= o.AmountCents
		}
	}
	r.has(usd, coins)
	w.requireClean()
}
