package actors_test

import (
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/processes"
	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

func (w *testStack) newPhysicalOrder(ws, unlock string) balance.OrderPhysicalCard {
	token, err := ident.NewToken(slotOf(ws), rand.Reader)
	require.NoError(w.t, err)
	return balance.OrderPhysicalCard{Workspace: ws, Order: balance.PhysicalOrder{
		ID: w.newID(ident.PhysicalOrder, slotOf(ws)), Finish: balance.FinishMetal, UnlockMethod: unlock,
		Card: balance.OrderedCard{ID: w.newID(ident.Card, slotOf(ws)), Token: token.String(), Last4: "6811",
			MonthlyLimitUsdCents: 500_000, PerTxnLimitUsdCents: 50_000, Fixture: true},
	}, Text: balance.PhysicalText{HolderLabel: "Ada", Shipping: balance.Shipping{
		Line1: "1 Main St", City: "Oakland", Region: "CA", PostalCode: "94607", Country: "US"}}}
}

// awaitMinted waits until the reaction has minted the card of an order, and returns the card.
func (w *testStack) awaitMinted(o balance.OrderPhysicalCard) (view card.View) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		reply, err := w.ask("card", o.Order.Card.ID, o.Workspace, decision.Read{}, nil)
		if err == nil {
			view = reply.(card.View)
		}
		return err == nil
	}, eventuallyWithin, pollEvery)
	return view
}

func (w *testStack) readPhysicalOrders(ws string) (orders []balance.PhysicalOrder) {
	records, err := w.journal.Records(w.t.Context(), slotOf(ws).Shard(), balance.RecordPhysicalOrder, "", 1000)
	require.NoError(w.t, err)
	orders = make([]balance.PhysicalOrder, len(records))
	for i, r := range records {
		require.NoError(w.t, json.Unmarshal(r.Document, &orders[i]))
	}
	return orders
}

// TestAnOrderedCardIsMinted: the answer to the order does not wait for the card; a reaction mints
// the card that OrderedCard describes.
func TestAnOrderedCardIsMinted(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(77)
	w.deposit(ws, 9_900+500)
	o := w.newPhysicalOrder(ws, balance.UnlockPremium99)
	placed := w.mustAsk("balance", ws, ws, o).(balance.PhysicalOrder)
	promised, err := processes.OrderedCard(ws, placed, "Ada")
	require.NoError(t, err)
	w.clock.turn(time.Minute)
	require.Equal(t, promised, w.awaitMinted(o))
	again, err := w.system.MintOrdered(t.Context(), ws, o.Order.ID)
	require.NoError(t, err)
	require.Equal(t, promised, again, "a second mint returns the same card")

	token, err := ident.ParseToken([]byte(promised.PartnerCardToken))
	require.NoError(t, err)
	require.Equal(t, hold.Approved, w.submit(networkMessage(hold.Authorization, "n1", testCard{token: token},
		500)).Decision)
	require.Equal(t, hold.Declined, w.submit(networkMessage(hold.Authorization, "n2", testCard{token: token},
		1)).Decision,
		"the fee was charged")
	_, err = w.ask("balance", ws, ws, w.newPhysicalOrder(ws, balance.UnlockPremium99), nil)
	require.True(t, fault.Is(err, fault.InsufficientFunds))
	w.requireCleanAudit()
}

// unmintableCard is a card that refuses to be minted.
type unmintableCard struct{ card.State }

func (s *unmintableCard) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if _, mint := command.(card.Mint); mint {
		return decision.Decision{}, fault.New(fault.LimitExceeded, "")
	}
	return s.State.Decide(m, command)
}

// TestAnOrderWhoseCardCanNeverBeMintedIsUndone: when the card limit refuses the mint, the fee is
// given back once and the order is deleted.
func TestAnOrderWhoseCardCanNeverBeMintedIsUndone(t *testing.T) {
	w := &testStack{t: t, fs: vfs.NewMem(), clock: newClock(), bank: &recordingBank{expected: map[string]int{}}}
	w.options.fatal = func(err error) { t.Errorf("fatal: %v", err) }
	w.options.kinds = processes.Kinds()
	for i, kind := range w.options.kinds {
		if kind.Name == "card" {
			w.options.kinds[i].New = func() actors.State { return new(unmintableCard) }
		}
	}
	w.start()
	defer func() { w.stop() }()
	ws := w.newWorkspace(77)
	w.deposit(ws, 9_900)
	o := w.newPhysicalOrder(ws, balance.UnlockPremium99)
	w.mustAsk("balance", ws, ws, o)
	_, err := w.system.MintOrdered(t.Context(), ws, o.Order.ID)
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
	require.Eventually(t, func() bool {
		return len(w.readPhysicalOrders(ws)) == 0 &&
			w.availableCents(ws) == 9_900
	}, eventuallyWithin,
		pollEvery)
	_, err = w.system.MintOrdered(t.Context(), ws, o.Order.ID)
	require.True(t, fault.Is(err, fault.LimitExceeded))
	w.restart()
	require.Equal(t, money.Cents(9_900), w.settledBalance(ws).Balances[0].AvailableCents)
	w.requireCleanAudit()
}

// TestAPhysicalCardIsChargedAndMintedOnceWhenThePowerFails cuts the power at writes of the journal
// and the authorizer, before, during and after the charge, the order and the mint. Acknowledged
// orders are stored; every order has its card, every card its order, and each is charged once.
func TestAPhysicalCardIsChargedAndMintedOnceWhenThePowerFails(t *testing.T) {
	c := &snapshotDisk{disk: vfs.NewCrashableMem(), answers: &answerLog{}, every: 1}
	w := newTestStack(t, c.fs(), stackOptions{})
	ws := w.newWorkspace(77)
	w.deposit(ws, 600_000)
	c.armed.Store(true)
	for _, unlock := range []string{balance.UnlockPremium99, balance.UnlockBalanceCommit5000, balance.UnlockPremium99} {
		o := w.newPhysicalOrder(ws, unlock)
		_, err := w.ask("balance", ws, ws, o, w.idempotencyKey(o.Order.ID))
		require.NoError(t, err)
		c.answers.add(acknowledged{rest: &restCall{key: o.Order.ID}})
		w.awaitMinted(o)
	}
	c.captureDisk(c.writes.Load() + 1)
	c.armed.Store(false)
	w.stop()
	require.Greater(t, len(c.failures), 3*3, "a reservation, a charge and a mint of each")
	step := atFullLength(3, 1)
	for i := len(c.failures) - 1; i >= 0; i -= step {
		c.failures[i].requirePhysicalOrdersKept(t, ws)
	}
	t.Logf("every power failure of %d by %d", len(c.failures), step)
}

// requirePhysicalOrdersKept recovers from the power failure and waits until every order has its
// card.
func (c *powerFailure) requirePhysicalOrdersKept(t *testing.T, ws string) {
	w := newTestStack(t, c.fs, stackOptions{})
	defer w.stop()
	orders, charged := w.readPhysicalOrders(ws), money.Cents(0)
	placed := map[string]bool{}
	for _, o := range orders {
		w.awaitMinted(balance.OrderPhysicalCard{Workspace: ws, Order: o})
		placed[o.ID], charged = true, charged+o.FeeCents
	}
	for _, told := range c.answered {
		require.True(t, placed[told.rest.key],
			"an acknowledged order is gone after a power failure at write %d", c.write)
	}
	cards, err := w.journal.Records(t.Context(), slotOf(ws).Shard(), "card", "", 1000)
	require.NoError(t, err)
	require.Len(t, cards, len(orders), "after a power failure at write %d", c.write)
	require.Equal(t, 600_000-charged, w.settledBalance(ws).Balances[0].AvailableCents,
		"after a power failure at write %d", c.write)
	require.Equal(t, 600_000-charged, w.availableCents(ws))
	w.requireCleanAudit()
}
