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

// deskRate returns the rate of the desk's firm offer.
func deskRate(t require.TestingT, sell, buy money.Currency) money.Rate {
	offer, err := sandbox.Desk{}.Offer(context.Background(),
		partner.OfferRequest{Sell: string(sell), Buy: string(buy)})
	require.NoError(t, err)
	rate, err := money.ParseRate(offer.Rate)
	require.NoError(t, err)
	return rate
}

// At constant rates no conversions of any amounts, in parts and through any currencies, end with
// more of the first currency than there was.
func TestNoCycleOfConversionsGains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		currency := rapid.SampledFrom(money.Codes())
		amount := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 1_000_000_000))
		first, began := currency.Draw(t, "first"), money.Minor(amount.Draw(t, "amount"))
		held := map[money.Currency]money.Minor{first: began}
		convert := func(sell, buy money.Currency, side string, minor money.Minor) {
			sold, bought, err := balance.Sides(deskRate(t, sell, buy), sell, buy, side, minor)
			if err == nil && sold.AmountMinor <= held[sell] {
				held[sell] -= sold.AmountMinor
				held[buy] += bought.AmountMinor
			}
		}
		for range rapid.IntRange(1, 8).Draw(t, "conversions") {
			sell, buy := currency.Draw(t, "sell"), currency.Draw(t, "buy")
			if sell == buy || held[sell] == 0 {
				continue
			}
			side := rapid.SampledFrom([]string{"sell", "buy"}).Draw(t, "side")
			part := money.Minor(amount.Draw(t, "part"))
			for range rapid.IntRange(1, 40).Draw(t, "parts") {
				convert(sell, buy, side, part)
			}
		}
		for _, c := range money.Codes() {
			if c != first && held[c] > 0 {
				convert(c, first, "sell", held[c])
			}
		}
		require.LessOrEqual(t, held[first], began)
	})
}

// currencyWorkspace is a workspace with balances in currencies.
type currencyWorkspace struct {
	*testStack
	t  require.TestingT
	ws string
	n  int
}

func (w *testStack) newCurrencyWorkspace(t require.TestingT, ws string,
	currencies ...money.Currency) *currencyWorkspace {
	x := &currencyWorkspace{testStack: w, t: t, ws: ws}
	x.mustAskBalance(balance.Onboard{Workspace: ws})
	for _, c := range currencies {
		x.mustAskBalance(balance.OpenCurrency{Workspace: ws, Currency: c})
	}
	x.await(func() bool {
		return !slices.ContainsFunc(x.readCurrencies().Accounts,
			func(a balance.CurrencyAccount) bool { return a.Status == balance.CurrencyOpening })
	})
	return x
}

func (x *currencyWorkspace) askBalance(command any) (any, error) {
	return x.ask("balance", x.ws, x.ws, command, nil)
}

func (x *currencyWorkspace) mustAskBalance(command any) any {
	reply, err := x.askBalance(command)
	require.NoError(x.t, err)
	return reply
}

func (x *currencyWorkspace) readCurrencies() balance.CurrenciesView {
	return x.mustAskBalance(balance.ReadCurrencies{}).(balance.CurrenciesView)
}

func (x *currencyWorkspace) currencyAccount(c money.Currency) balance.CurrencyAccount {
	accounts := x.readCurrencies().Accounts
	i := slices.IndexFunc(accounts, func(a balance.CurrencyAccount) bool { return a.Currency == c })
	return accounts[i]
}

func (x *currencyWorkspace) await(condition func() bool) {
	require.Eventually(x.t, condition, time.Minute, 200*time.Microsecond)
}

// payIn announces a payin that arrives at once, and waits until it is booked.
func (x *currencyWorkspace) payIn(c money.Currency, minor money.Minor) {
	x.mustAskBalance(balance.AnnouncePayin{Workspace: x.ws, ID: x.newID(ident.Deposit, slotOf(x.ws)),
		ArrivesAt: x.clock.now(),
		Amount:    balance.Amount{Currency: c, AmountMinor: minor}})
	x.await(func() bool { return x.readCurrencies().Pending[c] == 0 })
}

func (x *currencyWorkspace) requestQuote(sell, buy money.Currency, side string,
	minor money.Minor) (balance.ConversionQuote, error) {
	offer, err := sandbox.Desk{}.Offer(context.Background(), partner.OfferRequest{Sell: string(sell), Buy: string(buy)})
	require.NoError(x.t, err)
	rate, err := money.ParseRate(offer.Rate)
	require.NoError(x.t, err)
	reply, err := x.askBalance(balance.QuoteConversion{Workspace: x.ws,
		ID: x.newID(ident.CurrencyQuote, slotOf(x.ws)), Rate: rate,
		Firm: offer.Firm, Pair: balance.QuotePair{Sell: sell, Buy: buy, FixedSide: side, AmountMinor: minor}})
	if err != nil {
		return balance.ConversionQuote{}, err
	}
	return reply.(balance.ConversionQuote), nil
}

func (x *currencyWorkspace) convert(q balance.ConversionQuote) (string, error) {
	id := x.newID(ident.Conversion, slotOf(x.ws))
	_, err := x.askBalance(balance.CreateConversion{Workspace: x.ws, ID: id, Quote: q})
	return id, err
}

func (x *currencyWorkspace) readConversion(id string) balance.Conversion {
	v, err := readRecord[balance.Conversion](x.testStack, balance.RecordConversion, id)
	require.NoError(x.t, err)
	return v
}

// deliverConversionReport applies a report of the currency desk to the balance, as the inbound
// webhook does.
func (w *bankStack) deliverConversionReport(id, event, outcome string) error {
	record, err := w.system.Find(context.Background(), slotOf(id), balance.RecordConversion, id)
	if err != nil {
		return err
	}
	_, err = w.ask("balance", record.Workspace, record.Workspace,
		balance.ReportConversion{EventID: event, ID: id, Outcome: outcome}, nil)
	return err
}

// TestConversionStatusByDeskOutcome converts once for each outcome of the sandbox's desk, which the
// last digits of the sold amount select.
func TestConversionStatusByDeskOutcome(t *testing.T) {
	w := newBankStack(t, vfs.NewMem())
	defer w.stopAndCloseBank()
	x := w.newCurrencyWorkspace(t, w.newWorkspace(77), "EUR", "JPY")
	x.payIn("EUR", 1_000_000)
	await := func(id string, status string) {
		t.Helper()
		require.Eventually(t, func() bool {
			w.stepBank()
			return x.readConversion(id).Status == status
		}, eventuallyWithin, pollEvery, "%s is not %s", id, status)
	}
	ids := map[money.Minor]string{}
	for _, ending := range []money.Minor{0, sandbox.EndingTwice, sandbox.EndingFails, sandbox.EndingRefused,
		sandbox.EndingReturned,
		sandbox.EndingAnswersLost, sandbox.EndingUnreported} {
		q, err := x.requestQuote("EUR", "JPY", "sell", 10_000+ending)
		require.NoError(t, err)
		ids[ending], err = x.convert(q)
		require.NoError(t, err)
	}
	await(ids[sandbox.EndingRefused], balance.ConversionRejected)
	for ending, id := range ids {
		if ending != sandbox.EndingRefused {
			require.Eventually(t, func() bool {
				orders, err := w.sandbox.Paid(id)
				return err == nil && orders == 1
			}, eventuallyWithin, pollEvery)
		}
	}
	w.clock.turn(bankDelay)
	for _, ending := range []money.Minor{0, sandbox.EndingTwice, sandbox.EndingReturned, sandbox.EndingAnswersLost} {
		await(ids[ending], balance.ConversionCompleted)
	}
	await(ids[sandbox.EndingFails], balance.ConversionFailed)
	w.clock.turn(balance.AnswerWithin)
	await(ids[sandbox.EndingUnreported], balance.ConversionUnknown)
	w.clock.turn(balance.LapseAfter)
	await(ids[sandbox.EndingUnreported], balance.ConversionUnknown)
	const kept = 10_000 + sandbox.EndingUnreported // held: the desk has the order
	sold := money.Minor(4*10_000 + sandbox.EndingTwice + sandbox.EndingReturned + sandbox.EndingAnswersLost)
	require.Equal(t, balance.CurrencyAccount{Currency: "EUR", Status: "active", Scope: "ok",
		AvailableMinor: 1_000_000 - sold - kept, HeldMinor: kept, OpenedAt: x.currencyAccount("EUR").OpenedAt},
		x.currencyAccount("EUR"))
	w.requireCleanAudit()
}

// TestAnUnansweredConversionIsQueriedByReference: without a report, the answer to an inquiry by the
// conversion's reference decides its outcome.
func TestAnUnansweredConversionIsQueriedByReference(t *testing.T) {
	for ending, outcome := range map[money.Minor]string{0: balance.ConversionCompleted,
		sandbox.EndingFails: balance.ConversionFailed} {
		w, _ := newUnansweringBankStack(t)
		x := w.newCurrencyWorkspace(t, w.newWorkspace(77), "EUR", "JPY")
		x.payIn("EUR", 100_000)
		q, err := x.requestQuote("EUR", "JPY", "sell", 10_000+ending)
		require.NoError(t, err)
		id, err := x.convert(q)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			orders, err := w.sandbox.Paid(id)
			return err == nil && orders == 1
		}, eventuallyWithin, pollEvery)
		w.clock.turn(balance.AnswerWithin)
		require.Eventually(t, func() bool { return x.readConversion(id).Status == outcome }, eventuallyWithin,
			pollEvery)
		w.requireCleanAudit()
		w.stopAndCloseBank()
	}
}

// TestAConversionStormNeverOverdraws has 64 clients convert out of one balance. The balance never
// falls below zero, each quote is used once, and the desk receives each conversion once.
func TestAConversionStormNeverOverdraws(t *testing.T) { onEachJournal(t, convertConcurrently) }

func convertConcurrently(t *testing.T, database string) {
	w := newBankStackOn(t, vfs.NewMem(), newClock(), database, nil)
	defer w.stopAndCloseBank()
	x := w.newCurrencyWorkspace(t, w.newWorkspace(77), "EUR", "JPY")
	const clients, each, minor = 64, 4, 1_000
	x.payIn("EUR", clients*each*minor/2)
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	refused := 0
	for range clients {
		wg.Go(func() {
			for range each {
				q, err := x.requestQuote("EUR", "JPY", "sell", minor)
				if err != nil {
					t.Error(err)
					return
				}
				first, firstErr := x.convert(q)
				_, again := x.convert(q)
				if x.currencyAccount("EUR").AvailableMinor < 0 {
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
		require.Eventually(t, func() bool { orders, err := w.sandbox.Paid(id); return err == nil && orders == 1 },
			eventuallyWithin,
			pollEvery)
	}
	w.clock.turn(bankDelay)
	for _, id := range ids {
		require.Eventually(t, func() bool {
			w.stepBank()
			return x.readConversion(id).Status == balance.ConversionCompleted
		},
			eventuallyWithin, pollEvery)
	}
	require.Zero(t, x.currencyAccount("EUR").AvailableMinor+x.currencyAccount("EUR").HeldMinor)
	require.Equal(t, money.Minor(len(ids))*x.readConversion(ids[0]).Buy.AmountMinor,
		x.currencyAccount("JPY").AvailableMinor)
	w.requireCleanAudit()
}

// nonReportingDesk takes every deal but those that the sandbox's desk refuses, and reports nothing:
// the model makes the reports. It answers inquiries about deals of even amounts, and denies the
// others.
type nonReportingDesk struct{ *scriptedBank }

func (b nonReportingDesk) Pay(_ context.Context, p partner.Payment) error {
	if p.AmountMinor%100 == sandbox.EndingRefused {
		return partner.ErrRefused
	}
	b.recordOrder(p)
	return nil
}

func (b nonReportingDesk) Standing(_ context.Context, reference string) (partner.Standing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cents, known := b.orders[reference]; known && deskHasDeal(cents) {
		return partner.Pending, nil
	}
	return "", partner.ErrUnknown
}

// deskHasDeal reports whether nonReportingDesk confirms a deal of that amount.
func deskHasDeal(sold money.Minor) bool { return sold%2 == 0 }

// tradeLoopInterval is long because the loops visit 256 shards, which costs more than the
// operations.
const tradeLoopInterval = 40 * time.Millisecond

// conversionModel is one random run over dollars, stablecoins and five currencies, with the
// expected balances.
type conversionModel struct {
	*currencyWorkspace
	rt              *rapid.T
	available, held map[money.Currency]money.Minor
	dollars, coins  money.Cents
	card            testCard
	open            []*balance.Conversion // not reported yet
	abandoned       []*balance.Conversion
	used            []string // ids of quotes
	ramp            *rampModel
}

var modelCurrencies = []money.Currency{"USD", "EUR", "GBP", "JPY", "KWD"}

func TestRandomConversionsAddUp(t *testing.T) {
	var ops atomic.Int64
	each := opsPerRun(modelOps(t, 480))
	runInParallel(t, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			runConversionModel(t, rt, stackOptions{}, each)
			ops.Add(int64(each))
		})
	})
	t.Logf("%d operations", ops.Load())
}

// TestRandomConversionsAddUpOnPostgres runs the model on Postgres, one database for each run: a new
// authorizer needs a new journal.
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
		database := createDatabase(t, server, fmt.Sprint("trade_", done))
		rapid.MakeFuzz(func(rt *rapid.T) {
			runConversionModel(t, rt, stackOptions{database: database, retryUnavailable: true}, min(life, ops-done))
		})(t, drawn)
	}
	t.Logf("%d operations", ops)
}

func runConversionModel(t *testing.T, rt *rapid.T, o stackOptions, ops int) {
	known := newScriptedRamp()
	o.bank, o.ramp, o.loopInterval = nonReportingDesk{scriptedBank: &scriptedBank{orders: map[string]money.Minor{}}},
		known, tradeLoopInterval
	w := newTestStack(t, vfs.NewMem(), o)
	defer func() { w.stop() }()
	x := &conversionModel{rt: rt, currencyWorkspace: w.newCurrencyWorkspace(rt, w.newWorkspace(5),
		modelCurrencies...), available: map[money.Currency]money.Minor{},
		held: map[money.Currency]money.Minor{}}
	x.card = w.mintCard(x.ws, money.MaxAmount, money.MaxAmount)
	x.setUpRamp(known)
	for range ops {
		x.step()
		x.checkBalances()
	}
	w.restart()
	x.checkBalances()
	x.checkRampOrders()
	require.Empty(rt, w.runAudit().Findings)
}

func (x *conversionModel) drawUpTo(high int, label string) int {
	return rapid.IntRange(0, high).Draw(x.rt, label)
}

func (x *conversionModel) step() {
	switch n := x.drawUpTo(26, "op"); {
	case n < 5:
		c := modelCurrencies[x.drawUpTo(4, "currency")]
		minor := money.Minor(rapid.Int64Range(1, 1_000_000).Draw(x.rt, "minor"))
		x.payIn(c, minor)
		x.available[c] += minor
	case n < 12:
		x.convertRandomly()
	case n < 16:
		x.reportConversion()
	case n < 17 && len(x.used) > 0:
		q, err := readRecord[balance.ConversionQuote](x.testStack, balance.RecordConversionQuote,
			x.used[x.drawUpTo(len(x.used)-1, "used")])
		require.NoError(x.rt, err)
		_, err = x.convert(q)
		require.True(x.rt, fault.Is(err, fault.QuoteUsed), "%v", err)
	case n < 18:
		x.passLapse()
	case n < 19:
		cents := money.Cents(rapid.Int64Range(1, 1_000).Draw(x.rt, "cents"))
		x.deposit(x.ws, cents)
		x.dollars += cents
	case n < 20:
		x.swipe()
	case n > 20:
		x.stepRamp()
	default:
		x.n++
		x.mustAskBalance(balance.ReceiveStablecoin{Workspace: x.ws, EventID: fmt.Sprint("s-", x.n),
			Asset: "USDC", Chain: "polygon",
			TxHash: fmt.Sprint("0x", x.n), AmountUsdCents: 7})
		x.coins += 7
	}
}

// swipe authorizes an amount that the balance may not cover. An approval is reversed, cleared, or
// cleared and refunded.
func (x *conversionModel) swipe() {
	x.n++
	cents, id := money.Cents(rapid.Int64Range(1, 1_000).Draw(x.rt, "swiped")), fmt.Sprint("a-", x.n)
	a := x.submit(networkMessage(hold.Authorization, id, x.card, cents))
	if cents > x.dollars {
		require.Equal(x.rt, hold.ReasonInsufficientFunds, a.Reason)
		return
	}
	require.Equal(x.rt, hold.Approved, a.Decision)
	follows := [][]hold.Kind{{hold.Reversal}, {hold.Clearing}, {hold.Clearing, hold.Refund}}[x.drawUpTo(2, "follows")]
	for _, kind := range follows {
		m := networkMessage(kind, fmt.Sprint(id, "-", kind), x.card, cents)
		m.OriginalID = id
		require.Equal(x.rt, hold.StatusOK, x.submit(withFingerprint(m)).Status)
	}
	if len(follows) == 1 && follows[0] == hold.Clearing {
		x.dollars -= cents
	}
	require.NoError(x.rt, x.system.Settle(context.Background()))
}

// convertRandomly quotes a pair and converts an amount that the balance may not cover.
func (x *conversionModel) convertRandomly() {
	sell := modelCurrencies[x.drawUpTo(4, "sell")]
	buy := modelCurrencies[(slices.Index(modelCurrencies, sell)+1+x.drawUpTo(3, "buy"))%len(modelCurrencies)]
	side := []string{"sell", "buy"}[x.drawUpTo(1, "side")]
	q, err := x.requestQuote(sell, buy, side, money.Minor(rapid.Int64Range(1, 1_500_000).Draw(x.rt, "amount")))
	if fault.Is(err, fault.InvalidBody) {
		return // the amount rounds to zero
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
		x.currencyWorkspace.await(func() bool { return x.readConversion(id).Status == balance.ConversionRejected })
		return
	}
	x.available[sell] -= q.Sell.AmountMinor
	x.held[sell] += q.Sell.AmountMinor
	x.currencyWorkspace.await(func() bool { return x.readConversion(id).Status == balance.ConversionSubmitted })
	v := x.readConversion(id)
	x.open = append(x.open, &v)
}

// reportConversion reports a conversion, perhaps late, perhaps twice.
func (x *conversionModel) reportConversion() {
	all := slices.Concat(x.open, x.abandoned)
	if len(all) == 0 {
		return
	}
	i := x.drawUpTo(len(all)-1, "conversion")
	v, late, outcome := all[i], i >= len(x.open), []string{balance.ConversionCompleted,
		balance.ConversionFailed}[x.drawUpTo(1, "outcome")]
	for range 1 + x.drawUpTo(1, "twice") {
		x.n++
		_, err := x.askBalance(balance.ReportConversion{EventID: fmt.Sprint("r-", x.n), ID: v.ID, Outcome: outcome})
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

// passLapse turns the clock by LapseAfter without a report. Deals that the desk does not have are
// abandoned.
func (x *conversionModel) passLapse() {
	x.clock.turn(balance.LapseAfter)
	var kept []*balance.Conversion
	for _, v := range x.open {
		if deskHasDeal(v.Sell.AmountMinor) {
			kept = append(kept, v)
			continue
		}
		x.held[v.Sell.Currency] -= v.Sell.AmountMinor
		x.available[v.Sell.Currency] += v.Sell.AmountMinor
		x.abandoned = append(x.abandoned, v)
		x.currencyWorkspace.await(func() bool { return x.readConversion(v.ID).Status == balance.ConversionAbandoned })
	}
	x.open = kept
}

// checkBalances compares the balances with the model, to the minor unit.
func (x *conversionModel) checkBalances() {
	for _, a := range x.readCurrencies().Accounts {
		require.Equal(x.rt, []money.Minor{x.available[a.Currency], x.held[a.Currency]},
			[]money.Minor{a.AvailableMinor, a.HeldMinor},
			a.Currency)
	}
	v := x.mustAskBalance(decision.Read{}).(balance.View)
	require.Equal(x.rt, []money.Cents{x.dollars, x.coins},
		[]money.Cents{v.Snapshot.FiatUsdCents, v.Snapshot.StablecoinUsdCents})
}
