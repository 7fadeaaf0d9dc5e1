package actors_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/pgjournal/pgtest"
)

// exchange is a workspace with balances in currencies.
type exchange struct {
	*world
	t  require.TestingT
	ws string
	n  int
}

func (w *world) newExchange(t require.TestingT, ws string, currencies ...money.Currency) *exchange {
	x := &exchange{world: w, t: t, ws: ws}
	x.do(balance.Onboard{Workspace: ws})
	for _, c := range currencies {
		x.do(balance.OpenCurrency{Workspace: ws, Currency: c})
	}
	x.await(func() bool {
		return !slices.ContainsFunc(x.view().Accounts,
			func(a balance.CurrencyAccount) bool { return a.Status == balance.CurrencyOpening })
	})
	return x
}

func (x *exchange) try(command any) (any, error) { return x.ask("balance", x.ws, x.ws, command, nil) }

func (x *exchange) do(command any) any {
	reply, err := x.try(command)
	require.NoError(x.t, err)
	return reply
}

func (x *exchange) view() balance.CurrenciesView {
	return x.do(balance.ReadCurrencies{}).(balance.CurrenciesView)
}

func (x *exchange) holding(c money.Currency) balance.CurrencyAccount {
	accounts := x.view().Accounts
	i := slices.IndexFunc(accounts, func(a balance.CurrencyAccount) bool { return a.Currency == c })
	return accounts[i]
}

func (x *exchange) await(condition func() bool) {
	require.Eventually(x.t, condition, time.Minute, 200*time.Microsecond)
}

// payIn announces money that arrives at once.
func (x *exchange) payIn(c money.Currency, minor money.Minor) {
	x.do(balance.AnnouncePayin{Workspace: x.ws, ID: x.newID(ident.Deposit, slotOf(x.ws)), ArrivesAt: x.clock.now(),
		Amount: balance.Amount{Currency: c, AmountMinor: minor}})
	x.await(func() bool { return x.view().Pending[c] == 0 })
}

func (x *exchange) quote(sell, buy money.Currency, side string, minor money.Minor) (balance.ConversionQuote, error) {
	offer, err := sandbox.Desk{}.Offer(context.Background(), partner.Wanted{Sell: string(sell), Buy: string(buy)})
	require.NoError(x.t, err)
	rate, err := money.ParseRate(offer.Rate)
	require.NoError(x.t, err)
	reply, err := x.try(balance.QuoteConversion{Workspace: x.ws, ID: x.newID(ident.CurrencyQuote, slotOf(x.ws)), Rate: rate,
		Firm: offer.Firm, Pair: balance.QuotePair{Sell: sell, Buy: buy, FixedSide: side, AmountMinor: minor}})
	if err != nil {
		return balance.ConversionQuote{}, err
	}
	return reply.(balance.ConversionQuote), nil
}

func (x *exchange) convert(q balance.ConversionQuote) (string, error) {
	id := x.newID(ident.Conversion, slotOf(x.ws))
	_, err := x.try(balance.CreateConversion{Workspace: x.ws, ID: id, Quote: q})
	return id, err
}

func (x *exchange) conversion(id string) balance.Conversion {
	v, err := readRecord[balance.Conversion](x.world, balance.RecordConversion, id)
	require.NoError(x.t, err)
	return v
}

// reportConversion brings what the bank's desk says to the balance, as the inbound webhook does.
func (w *treasury) reportConversion(id, event, outcome string) error {
	record, err := w.system.Find(context.Background(), slotOf(id), balance.RecordConversion, id)
	if err != nil {
		return err
	}
	_, err = w.ask("balance", record.Workspace, record.Workspace,
		balance.ReportConversion{EventID: event, ID: id, Outcome: outcome}, nil)
	return err
}

// What the sandbox's desk makes of a conversion, by the ending of what is sold.
func TestWhatTheDeskMakesOfAConversion(t *testing.T) {
	w := newTreasury(t, vfs.NewMem())
	defer w.close()
	x := w.newExchange(t, w.newWorkspace(77), "EUR", "JPY")
	x.payIn("EUR", 1_000_000)
	await := func(id string, status string) {
		t.Helper()
		require.Eventually(t, func() bool {
			w.bankWorks()
			return x.conversion(id).Status == status
		}, time.Minute, time.Millisecond, "%s is not %s", id, status)
	}
	ids := map[int64]string{}
	for _, ending := range []int64{0, sandbox.EndingTwice, sandbox.EndingFails, sandbox.EndingRefused, sandbox.EndingReturned,
		sandbox.EndingAnswersLost, sandbox.EndingUnreported} {
		q, err := x.quote("EUR", "JPY", "sell", 10_000+ending)
		require.NoError(t, err)
		ids[ending], err = x.convert(q)
		require.NoError(t, err)
	}
	await(ids[sandbox.EndingRefused], balance.ConversionRejected)
	for ending, id := range ids {
		if ending != sandbox.EndingRefused {
			require.Eventually(t, func() bool {
				told, err := w.sandbox.Paid(id)
				return err == nil && told == 1
			}, time.Minute, time.Millisecond)
		}
	}
	w.clock.turn(bankDelay)
	for _, ending := range []int64{0, sandbox.EndingTwice, sandbox.EndingReturned, sandbox.EndingAnswersLost} {
		await(ids[ending], balance.ConversionCompleted)
	}
	await(ids[sandbox.EndingFails], balance.ConversionFailed)
	w.clock.turn(balance.AnswerWithin)
	await(ids[sandbox.EndingUnreported], balance.ConversionUnknown)
	w.clock.turn(balance.LapseAfter)
	await(ids[sandbox.EndingUnreported], balance.ConversionUnknown)
	const kept = 10_000 + sandbox.EndingUnreported // the desk has it
	sold := int64(4*10_000 + sandbox.EndingTwice + sandbox.EndingReturned + sandbox.EndingAnswersLost)
	require.Equal(t, balance.CurrencyAccount{Currency: "EUR", Status: "active", Scope: "ok",
		AvailableMinor: 1_000_000 - sold - kept, HeldMinor: kept, OpenedAt: x.holding("EUR").OpenedAt},
		x.holding("EUR"))
	w.requireClean()
}

// No report ever comes: what the desk says when it is asked by our reference is as good.
func TestADeskThatDidNotAnswerIsAskedByOurReference(t *testing.T) {
	for ending, outcome := range map[int64]string{0: balance.ConversionCompleted, sandbox.EndingFails: balance.ConversionFailed} {
		w, _ := newMuteTreasury(t)
		x := w.newExchange(t, w.newWorkspace(77), "EUR", "JPY")
		x.payIn("EUR", 100_000)
		q, err := x.quote("EUR", "JPY", "sell", 10_000+ending)
		require.NoError(t, err)
		id, err := x.convert(q)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			told, err := w.sandbox.Paid(id)
			return err == nil && told == 1
		}, comesWithin, lookEvery)
		w.clock.turn(balance.AnswerWithin)
		require.Eventually(t, func() bool { return x.conversion(id).Status == outcome }, comesWithin, lookEvery)
		w.requireClean()
		w.close()
	}
}

// 64 clients convert out of one balance: it never goes below zero, each quote is used once, the desk is told of each once.
func TestAConversionStormSellsNoMoreThanThereIs(t *testing.T) { onEachJournal(t, stormOfConversions) }

func stormOfConversions(t *testing.T, database string) {
	w := newTreasuryOf(t, vfs.NewMem(), newClock(), database, nil)
	defer w.close()
	x := w.newExchange(t, w.newWorkspace(77), "EUR", "JPY")
	const clients, each, minor = 64, 4, 1_000
	x.payIn("EUR", clients*each*minor/2)
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	refused := 0
	for range clients {
		wg.Go(func() {
			for range each {
				q, err := x.quote("EUR", "JPY", "sell", minor)
				if err != nil {
					t.Error(err)
					return
				}
				first, firstErr := x.convert(q)
				_, again := x.convert(q)
				if x.holding("EUR").AvailableMinor < 0 {
					t.Error("below zero")
				}
				mu.Lock()
				switch {
				case firstErr == nil:
					ids = append(ids, first)
					if !fault.Is(again, fault.QuoteUsed) {
						t.Error("a quote is used twice: ", again)
					}
				case fault.Is(firstErr, fault.InsufficientFunds):
					refused++
				default:
					t.Error(firstErr)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, ids, clients*each/2)
	require.Equal(t, clients*each/2, refused)
	for _, id := range ids {
		require.Eventually(t, func() bool { told, err := w.sandbox.Paid(id); return err == nil && told == 1 }, comesWithin,
			lookEvery)
	}
	w.clock.turn(bankDelay)
	for _, id := range ids {
		require.Eventually(t, func() bool { w.bankWorks(); return x.conversion(id).Status == balance.ConversionCompleted },
			time.Minute, time.Millisecond)
	}
	require.Zero(t, x.holding("EUR").AvailableMinor+x.holding("EUR").HeldMinor)
	require.Equal(t, int64(len(ids))*x.conversion(ids[0]).Buy.AmountMinor, x.holding("JPY").AvailableMinor)
	w.requireClean()
}

// silentDesk takes every deal but those that the sandbox's desk refuses, and reports nothing: the
// model makes the reports. When the desk is asked, it has the deals of even amounts and not the
// others.
type silentDesk struct{ *heldBank }

func (b silentDesk) Pay(_ context.Context, p partner.Payment) error {
	if p.AmountCents%100 == sandbox.EndingRefused {
		return partner.ErrRefused
	}
	b.take(p)
	return nil
}

func (b silentDesk) Standing(_ context.Context, reference string) (partner.Standing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cents, known := b.orders[reference]; known && deskHas(cents) {
		return partner.Pending, nil
	}
	return "", partner.ErrUnknown
}

// deskHas reports whether the silent desk says that it has a deal.
func deskHas(sold int64) bool { return sold%2 == 0 }

// tradePace: looking at 256 shards more often takes more than the operations do.
const tradePace = 40 * time.Millisecond

// trader is one random life over dollars, stablecoins and five currencies, with an account of its own of what there must be.
type trader struct {
	*exchange
	rt              *rapid.T
	available, held map[money.Currency]int64
	dollars, coins  int64
	card            plastic
	open            []*balance.Conversion // that the desk may report
	abandoned       []*balance.Conversion
	used            []string // ids of quotes
	ramp            *ramper
}

var traded = []money.Currency{"USD", "EUR", "GBP", "JPY", "KWD"}

func TestRandomConversionsAddUp(t *testing.T) {
	var ops atomic.Int64
	each := opsOfLife(modelOps(t, 2_000))
	sideBySide(t, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			trade(t, rt, worldOptions{}, each)
			ops.Add(int64(each))
		})
	})
	t.Logf("%d operations", ops.Load())
}

// The same, on a database for each life: an authorizer that is made anew has no journal of another.
func TestRandomConversionsAddUpOnPostgres(t *testing.T) {
	const drawnBytes, life = 1 << 20, 500 // operations
	server := pgtest.Own(t, "random conversions on Postgres", false)
	if server == nil {
		return
	}
	ops := modelOps(t, 50)
	for done := 0; done < ops; done += life {
		seed, drawn := rand.Uint64(), make([]byte, drawnBytes)
		t.Logf("seed %d", seed)
		source := rand.NewPCG(seed, 0)
		for i := range drawn {
			drawn[i] = byte(source.Uint64())
		}
		database := makeDatabase(t, server, fmt.Sprint("trade_", done))
		rapid.MakeFuzz(func(rt *rapid.T) {
			trade(t, rt, worldOptions{database: database, patient: true}, min(life, ops-done))
		})(t, drawn)
	}
	t.Logf("%d operations", ops)
}

func trade(t *testing.T, rt *rapid.T, o worldOptions, ops int) {
	known := newKnownRamp()
	o.bank, o.ramp, o.pace = silentDesk{heldBank: &heldBank{orders: map[string]int64{}}}, known, tradePace
	w := newWorld(t, vfs.NewMem(), o)
	defer func() { w.stop() }()
	x := &trader{rt: rt, exchange: w.newExchange(rt, w.newWorkspace(5), traded...), available: map[money.Currency]int64{},
		held: map[money.Currency]int64{}}
	x.card = w.mint(x.ws, money.MaxAmount, money.MaxAmount)
	x.openRamp(known)
	for range ops {
		x.step()
		x.agree()
	}
	w.restart()
	x.agree()
	x.rampAgrees()
	require.Empty(rt, w.audit().Findings)
}

func (x *trader) draw(high int, label string) int { return rapid.IntRange(0, high).Draw(x.rt, label) }

func (x *trader) step() {
	switch n := x.draw(26, "op"); {
	case n < 5:
		c, minor := traded[x.draw(4, "currency")], rapid.Int64Range(1, 1_000_000).Draw(x.rt, "minor")
		x.payIn(c, minor)
		x.available[c] += minor
	case n < 12:
		x.sell()
	case n < 16:
		x.deskSays()
	case n < 17 && len(x.used) > 0:
		q, err := readRecord[balance.ConversionQuote](x.world, balance.RecordConversionQuote,
			x.used[x.draw(len(x.used)-1, "used")])
		require.NoError(x.rt, err)
		_, err = x.convert(q)
		require.True(x.rt, fault.Is(err, fault.QuoteUsed), "%v", err)
	case n < 18:
		x.pass()
	case n < 19:
		cents := rapid.Int64Range(1, 1_000).Draw(x.rt, "cents")
		x.deposit(x.ws, cents)
		x.dollars += cents
	case n < 20:
		x.swipe()
	case n > 20:
		x.rampStep()
	default:
		x.n++
		x.do(balance.ReceiveStablecoin{Workspace: x.ws, EventID: fmt.Sprint("s-", x.n), Asset: "USDC", Chain: "polygon",
			TxHash: "0x1", AmountUsdCents: 7})
		x.coins += 7
	}
}

// swipe asks for dollars, as many as there are or more. What is approved is reversed, cleared, or cleared and refunded.
func (x *trader) swipe() {
	x.n++
	cents, id := rapid.Int64Range(1, 1_000).Draw(x.rt, "swiped"), fmt.Sprint("a-", x.n)
	a := x.submit(message(hold.Authorization, id, x.card, cents))
	if cents > x.dollars {
		require.Equal(x.rt, hold.ReasonInsufficientFunds, a.Reason)
		return
	}
	require.Equal(x.rt, hold.Approved, a.Decision)
	follows := [][]hold.Kind{{hold.Reversal}, {hold.Clearing}, {hold.Clearing, hold.Refund}}[x.draw(2, "follows")]
	for _, kind := range follows {
		m := message(kind, fmt.Sprint(id, "-", kind), x.card, cents)
		m.OriginalID = id
		require.Equal(x.rt, hold.StatusOK, x.submit(sealed(m)).Status)
	}
	if len(follows) == 1 && follows[0] == hold.Clearing {
		x.dollars -= cents
	}
	require.NoError(x.rt, x.system.Settle(context.Background()))
}

// sell quotes a pair and converts at it, as much as there is or more.
func (x *trader) sell() {
	sell := traded[x.draw(4, "sell")]
	buy := traded[(slices.Index(traded, sell)+1+x.draw(3, "buy"))%len(traded)]
	side := []string{"sell", "buy"}[x.draw(1, "side")]
	q, err := x.quote(sell, buy, side, rapid.Int64Range(1, 1_500_000).Draw(x.rt, "amount"))
	if fault.Is(err, fault.InvalidBody) {
		return // it comes to nothing
	}
	require.NoError(x.rt, err)
	id, err := x.convert(q)
	if q.Sell.AmountMinor > x.available[sell] {
		require.True(x.rt, fault.Is(err, fault.InsufficientFunds), "%v", err)
		return
	}
	require.NoError(x.rt, err)
	x.used = append(x.used, q.ID)
	if q.Sell.AmountMinor%100 == sandbox.EndingRefused {
		x.exchange.await(func() bool { return x.conversion(id).Status == balance.ConversionRejected })
		return
	}
	x.available[sell] -= q.Sell.AmountMinor
	x.held[sell] += q.Sell.AmountMinor
	x.exchange.await(func() bool { return x.conversion(id).Status == balance.ConversionSubmitted })
	v := x.conversion(id)
	x.open = append(x.open, &v)
}

// deskSays reports a conversion, perhaps late, perhaps twice.
func (x *trader) deskSays() {
	all := slices.Concat(x.open, x.abandoned)
	if len(all) == 0 {
		return
	}
	i := x.draw(len(all)-1, "conversion")
	v, late, outcome := all[i], i >= len(x.open), []string{balance.ConversionCompleted,
		balance.ConversionFailed}[x.draw(1, "outcome")]
	for range 1 + x.draw(1, "twice") {
		x.n++
		_, err := x.try(balance.ReportConversion{EventID: fmt.Sprint("r-", x.n), ID: v.ID, Outcome: outcome})
		if late && outcome == balance.ConversionFailed {
			require.True(x.rt, fault.Is(err, fault.ConversionConflict), "%v", err)
			return
		}
		require.NoError(x.rt, err)
	}
	is := func(o *balance.Conversion) bool { return o == v }
	x.open, x.abandoned = slices.DeleteFunc(x.open, is), slices.DeleteFunc(x.abandoned, is)
	if !late {
		x.held[v.Sell.Currency] -= v.Sell.AmountMinor
		x.available[v.Sell.Currency] += v.Sell.AmountMinor
	}
	if outcome == balance.ConversionCompleted {
		x.available[v.Sell.Currency] -= v.Sell.AmountMinor
		x.available[v.Buy.Currency] += v.Buy.AmountMinor
	}
}

// pass lets a day go by in which the desk reports nothing. The deals that the desk does not have
// are abandoned.
func (x *trader) pass() {
	x.clock.turn(balance.LapseAfter)
	var kept []*balance.Conversion
	for _, v := range x.open {
		if deskHas(v.Sell.AmountMinor) {
			kept = append(kept, v)
			continue
		}
		x.held[v.Sell.Currency] -= v.Sell.AmountMinor
		x.available[v.Sell.Currency] += v.Sell.AmountMinor
		x.abandoned = append(x.abandoned, v)
		x.exchange.await(func() bool { return x.conversion(v.ID).Status == balance.ConversionAbandoned })
	}
	x.open = kept
}

// agree compares the balances with what they must be, to the smallest unit.
func (x *trader) agree() {
	for _, a := range x.view().Accounts {
		require.Equal(x.rt, []int64{x.available[a.Currency], x.held[a.Currency]}, []int64{a.AvailableMinor, a.HeldMinor},
			a.Currency)
	}
	v := x.do(decision.Read{}).(balance.View)
	require.Equal(x.rt, []int64{x.dollars, x.coins}, []int64{v.Snapshot.FiatUsdCents, v.Snapshot.StablecoinUsdCents})
}
