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
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

func (w *world) physicalOrder(ws, unlock string) balance.OrderPhysicalCard {
	token, err := ident.NewToken(slotOf(ws), rand.Reader)
	require.NoError(w.t, err)
	return balance.OrderPhysicalCard{Workspace: ws, Order: balance.PhysicalOrder{
		ID: w.newID(ident.PhysicalOrder, slotOf(ws)), Finish: balance.FinishMetal, UnlockMethod: unlock,
		Card: balance.OrderedCard{ID: w.newID(ident.Card, slotOf(ws)), Token: token.String(), Last4: "6811",
			MonthlyLimitUsdCents: 500_000, PerTxnLimitUsdCents: 50_000, Fixture: true},
	}, Text: balance.PhysicalText{HolderLabel: "Ada", Shipping: balance.Shipping{
		Line1: "1 Main St", City: "Oakland", Region: "CA", PostalCode: "94607", Country: "US"}}}
}

// awaitMinted waits until the reaction has minted the card of an order.
func (w *world) awaitMinted(o balance.OrderPhysicalCard) (view card.View) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		reply, err := w.ask("card", o.Order.Card.ID, o.Workspace, decision.Read{}, nil)
		if err == nil {
			view = reply.(card.View)
		}
		return err == nil
	}, time.Minute, time.Millisecond)
	return view
}

func (w *world) orders(ws string) (orders []balance.PhysicalOrder) {
	records, err := w.journal.Records(w.t.Context(), slotOf(ws).Shard(), balance.RecordPhysicalOrder, "", 1000)
	require.NoError(w.t, err)
	orders = make([]balance.PhysicalOrder, len(records))
	for i, r := range records {
		require.NoError(w.t, json.Unmarshal(r.Document, &orders[i]))
	}
	return orders
}

// Nobody waits for the card: the reaction mints it, as it was promised.
func TestAnOrderedCardIsMinted(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	ws := w.newWorkspace(77)
	w.deposit(ws, 9_900+500)
	o := w.physicalOrder(ws, balance.UnlockPremium99)
	placed := w.must("balance", ws, ws, o).(balance.PhysicalOrder)
	promised, err := actors.OrderedCard(ws, placed, "Ada")
	require.NoError(t, err)
	w.clock.turn(time.Minute)
	require.Equal(t, promised, w.awaitMinted(o))
	again, err := w.system.MintOrdered(t.Context(), ws, o.Order.ID)
	require.NoError(t, err)
	require.Equal(t, promised, again, "minted once more it is the same card")

	token, err := ident.ParseToken([]byte(promised.PartnerCardToken))
	require.NoError(t, err)
	require.Equal(t, hold.Approved, w.submit(message(hold.Authorization, "n1", plastic{token: token}, 500)).Decision)
	require.Equal(t, hold.Declined, w.submit(message(hold.Authorization, "n2", plastic{token: token}, 1)).Decision,
		"the fee is gone")
	_, err = w.ask("balance", ws, ws, w.physicalOrder(ws, balance.UnlockPremium99), nil)
	require.True(t, fault.Is(err, fault.InsufficientFunds))
	w.requireClean()
}

// sold is a kind of card that cannot be minted any more.
type sold struct{ card.State }

func (s *sold) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if _, mint := command.(card.Mint); mint {
		return decision.Decision{}, fault.New(fault.LimitExceeded, "")
	}
	return s.State.Decide(m, command)
}

// The workspace has all the cards that it may have: the fee comes back, once, and there is no order.
func TestAnOrderWhoseCardCanNeverBeMintedIsUndone(t *testing.T) {
	w := &world{t: t, fs: vfs.NewMem(), clock: newClock(), bank: &quietBank{expected: map[string]int{}}}
	w.options.fatal = func(err error) { t.Errorf("fatal: %v", err) }
	w.options.kinds = actors.Kinds()
	for i, kind := range w.options.kinds {
		if kind.Name == "card" {
			w.options.kinds[i].New = func() actors.State { return new(sold) }
		}
	}
	w.start()
	defer func() { w.stop() }()
	ws := w.newWorkspace(77)
	w.deposit(ws, 9_900)
	o := w.physicalOrder(ws, balance.UnlockPremium99)
	w.must("balance", ws, ws, o)
	_, err := w.system.MintOrdered(t.Context(), ws, o.Order.ID)
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
	require.Eventually(t, func() bool { return len(w.orders(ws)) == 0 && w.available(ws) == 9_900 }, comesWithin,
		lookEvery)
	_, err = w.system.MintOrdered(t.Context(), ws, o.Order.ID)
	require.True(t, fault.Is(err, fault.LimitExceeded))
	w.restart()
	require.Equal(t, int64(9_900), w.balance(ws).Balances[0].AvailableCents)
	w.requireClean()
}

// Power fails at writes of the journal and the authorizer, before, during and after the charge, the mint and the order. What was
// acknowledged is there; every order has its card, every card its order, and each was charged once.
func TestAPhysicalCardIsChargedAndMintedOnceWhenThePowerFails(t *testing.T) {
	c := &crasher{disk: vfs.NewCrashableMem(), notes: &notebook{}, every: 1}
	w := newWorld(t, c.fs(), worldOptions{})
	ws := w.newWorkspace(77)
	w.deposit(ws, 600_000)
	c.armed.Store(true)
	for _, unlock := range []string{balance.UnlockPremium99, balance.UnlockBalanceCommit5000, balance.UnlockPremium99} {
		o := w.physicalOrder(ws, unlock)
		_, err := w.ask("balance", ws, ws, o, w.keyed(o.Order.ID))
		require.NoError(t, err)
		c.notes.write(acked{rest: &restCall{key: o.Order.ID}})
		w.awaitMinted(o)
	}
	c.photograph(c.writes.Load() + 1)
	c.armed.Store(false)
	w.stop()
	require.Greater(t, len(c.crashes), 3*3, "a reservation, a charge and a mint of each")
	visited := c.visited()
	for i := range visited {
		visited[i].keepsOrders(t, ws)
	}
	t.Logf("%d power failures of %d", len(visited), len(c.crashes))
}

// keepsOrders goes on after the power failure until every order has its card.
func (c *crash) keepsOrders(t *testing.T, ws string) {
	w := newWorld(t, c.fs, worldOptions{})
	defer w.stop()
	orders, charged := w.orders(ws), int64(0)
	placed := map[string]bool{}
	for _, o := range orders {
		w.awaitMinted(balance.OrderPhysicalCard{Workspace: ws, Order: o})
		placed[o.ID], charged = true, charged+o.FeeCents
	}
	for _, told := range c.told {
		require.True(t, placed[told.rest.key], "an acknowledged order is gone after a power failure at write %d", c.write)
	}
	cards, err := w.journal.Records(t.Context(), slotOf(ws).Shard(), "card", "", 1000)
	require.NoError(t, err)
	require.Len(t, cards, len(orders), "after a power failure at write %d", c.write)
	require.Equal(t, 600_000-charged, w.balance(ws).Balances[0].AvailableCents, "after a power failure at write %d", c.write)
	require.Equal(t, 600_000-charged, w.available(ws))
	w.requireClean()
}
