package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/partner/sandbox"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/pgjournal/pgtest"
)

// Extent of the crash test of conversions.
const (
	converterCount        = 4
	conversionMinor       = 1_000 // euro cents, to which the ending is added
	openingEuroCents      = 1_000_000
	conversionCrashEvery  = 3
	conversionCrashPoints = 10                 // 24 with PURSER_TEST_FULL
	answersKept           = 7 * 24 * time.Hour // longer than the test turns its clock
)

// conversionEndings selects the desk's outcomes of a client's conversions, in their order.
var conversionEndings = []money.Minor{0, sandbox.EndingAnswersLost, sandbox.EndingRefused, sandbox.EndingTwice,
	sandbox.EndingFails,
	sandbox.EndingUnreported}

// conversionClients is a workspace whose clients convert euros into yen, and their answers.
type conversionClients struct {
	*bankStack
	ws    string
	notes *answerLog
}

func newConversionClients(t *testing.T, w *bankStack, notes *answerLog) *conversionClients {
	x := w.newCurrencyWorkspace(t, w.newWorkspace(77), "EUR", "JPY")
	x.payIn("EUR", openingEuroCents)
	return &conversionClients{bankStack: w, ws: x.ws, notes: notes}
}

// askAndNoteAnswer asks with an idempotency key, repeats the command while it is unavailable, and
// logs the answer.
func (d *conversionClients) askAndNoteAnswer(key string, command any) (any, error) {
	k := d.idempotencyKey(key)
	k.Expires = d.clock.now().Add(answersKept)
	reply, err := d.ask("balance", d.ws, d.ws, command, k)
	for fault.Is(err, fault.Unavailable) && !d.notes.stopping.Load() {
		reply, err = d.ask("balance", d.ws, d.ws, command, k)
	}
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(reply)
	if err == nil {
		d.notes.add(acknowledged{rest: &restCall{"balance", d.ws, d.ws, key, command}, reply: body})
	}
	return reply, err
}

// convert quotes an amount, converts it, and requires that a second use of the quote fails.
func (d *conversionClients) convert(name string, minor money.Minor) error {
	rate, err := money.ParseRate("162.54")
	if err != nil {
		return err
	}
	quoted, err := d.askAndNoteAnswer("quote "+name, balance.QuoteConversion{Workspace: d.ws,
		ID:   d.newID(ident.CurrencyQuote, slotOf(d.ws)),
		Rate: rate, Firm: balance.ConversionLock,
		Pair: balance.QuotePair{Sell: "EUR", Buy: "JPY", FixedSide: "sell", AmountMinor: minor}})
	if err != nil {
		return err
	}
	use := func() balance.CreateConversion {
		return balance.CreateConversion{Workspace: d.ws, ID: d.newID(ident.Conversion, slotOf(d.ws)),
			Quote: quoted.(balance.ConversionQuote)}
	}
	if _, err = d.askAndNoteAnswer("convert "+name, use()); err != nil {
		return err
	}
	if _, err = d.askAndNoteAnswer("convert again "+name, use()); fault.Is(err, fault.QuoteUsed) {
		return nil
	}
	return fmt.Errorf("a quote is used again: %w", err)
}

// startConverters starts converterCount clients. Each stops at its first error, which fails the
// test unless the log's stopping flag is set.
func (d *conversionClients) startConverters() *sync.WaitGroup {
	var working sync.WaitGroup
	for client := range converterCount {
		working.Go(func() {
			for i, ending := range conversionEndings {
				if err := d.convert(fmt.Sprint(client, "/", i), conversionMinor+ending); err != nil {
					if !d.notes.stopping.Load() {
						d.t.Error(err)
					}
					return
				}
			}
		})
	}
	return &working
}

func (d *conversionClients) listConversions() []balance.Conversion {
	records, err := d.journal.Records(context.Background(), slotOf(d.ws).Shard(), balance.RecordConversion, "", 1000)
	require.NoError(d.t, err)
	all := make([]balance.Conversion, len(records))
	for i, r := range records {
		require.NoError(d.t, json.Unmarshal(r.Document, &all[i]))
	}
	return all
}

// awaitDeskOrders waits until the desk has or has refused every conversion. Its delay counts from
// then on.
func (d *conversionClients) awaitDeskOrders() {
	d.awaitAllConversions(func(v balance.Conversion) bool {
		orders, err := d.sandbox.Paid(v.ID)
		return err == nil && (orders > 0 || v.Status == balance.ConversionRejected)
	}, 0)
}

// settleAndLapse has the desk report its deals and turns the clock by LapseAfter. Afterwards a
// conversion that never reached the desk is abandoned; one that the desk has and does not report
// stays unknown. A conversion that reached the desk after it was abandoned, and that the desk fails
// or does not report, stays abandoned.
func (d *conversionClients) settleAndLapse() {
	settledOr := func(quiet ...string) func(balance.Conversion) bool {
		return func(v balance.Conversion) bool {
			switch v.Status {
			case balance.ConversionCompleted, balance.ConversionRejected, balance.ConversionFailed,
				balance.ConversionCancelled:
				return true
			}
			orders, err := d.sandbox.Paid(v.ID)
			ending := v.Sell.AmountMinor % 100
			stays := orders == 0 || ending == sandbox.EndingUnreported ||
				ending == sandbox.EndingFails && v.Status == balance.ConversionAbandoned
			return slices.Contains(quiet, v.Status) && err == nil && stays
		}
	}
	d.awaitAllConversions(settledOr(balance.ConversionUnknown, balance.ConversionAbandoned), time.Second)
	d.clock.turn(balance.LapseAfter)
	finished := settledOr(balance.ConversionAbandoned)
	d.awaitAllConversions(func(v balance.Conversion) bool { return finished(v) || d.heldByDesk(v) }, time.Second)
}

// heldByDesk reports whether the desk has a conversion of unknown outcome that it does not report.
func (d *conversionClients) heldByDesk(v balance.Conversion) bool {
	orders, err := d.sandbox.Paid(v.ID)
	return err == nil && orders > 0 && v.Status == balance.ConversionUnknown &&
		v.Sell.AmountMinor%100 == sandbox.EndingUnreported
}

// awaitAllConversions turns the clock and steps the desk until holds is true of every conversion.
// It polls itself instead of using require.Eventually, so that no goroutine reads the stores after
// a failure.
func (d *conversionClients) awaitAllConversions(holds func(balance.Conversion) bool, turn time.Duration) {
	d.t.Helper()
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	for until := time.Now().Add(eventuallyWithin); ; <-look.C {
		d.clock.turn(turn)
		d.stepBank()
		all := d.listConversions()
		not := slices.IndexFunc(all, func(v balance.Conversion) bool { return !holds(v) })
		if not < 0 {
			return
		}
		require.True(d.t, time.Now().Before(until), "still %+v", all[not])
	}
}

// reportLateCompletions reports abandoned and unknown conversions as completed, twice each.
func (d *conversionClients) reportLateCompletions() {
	for _, v := range d.listConversions() {
		for range 2 {
			if v.Status == balance.ConversionAbandoned || v.Status == balance.ConversionUnknown {
				require.NoError(d.t, d.deliverConversionReport(v.ID, "late-"+v.ID, balance.ConversionCompleted))
			}
		}
	}
}

// conversionCrash is a power failure during conversions, and the time of the clock at it.
type conversionCrash struct {
	powerFailure
	at time.Time
}

// crashDuringConversions makes, reports, abandons and late-reports conversions on a snapshotDisk,
// and returns its power failures.
func crashDuringConversions(t *testing.T, every int64) (ws string, crashes []conversionCrash) {
	c := &snapshotDisk{disk: vfs.NewCrashableMem(), answers: &answerLog{}, every: every}
	w := newBankStackOn(t, c.fs(), newClock(), "", nil)
	c.onCapture = func() {
		// The answers before the clone, which must contain their effects.
		p := conversionCrash{powerFailure: powerFailure{write: c.writes.Load(),
			answered: c.answers.snapshot()}}
		p.fs, p.at = c.disk.CrashClone(vfs.CrashCloneCfg{}), w.clock.now()
		c.mu.Lock()
		defer c.mu.Unlock()
		crashes = append(crashes, p)
	}
	d := newConversionClients(t, w, c.answers)
	c.armed.Store(true)
	d.startConverters().Wait()
	d.awaitDeskOrders()
	d.settleAndLapse()
	for _, v := range d.listConversions() { // the desk received every order in time
		fails := v.Sell.AmountMinor%100 == sandbox.EndingFails
		require.Equal(t, fails, v.Status == balance.ConversionFailed)
	}
	d.reportLateCompletions()
	c.onCapture() // and one failure after the last answer
	c.armed.Store(false)
	w.stopAndCloseBank()
	return d.ws, crashes
}

// recoverAndCheckConversions restarts the product on the disk. Every answer is given again, byte
// for byte, and the desk has each order once.
func (p *conversionCrash) recoverAndCheckConversions(t *testing.T, ws string) {
	at := newClock()
	at.turn(p.at.Sub(at.now()))
	w := newBankStackOn(t, p.fs, at, p.database, nil)
	defer w.stopAndCloseBank()
	for _, a := range p.answered {
		require.Empty(t, w.verifyRepeat(a), "power failure at write %d", p.write)
	}
	d := &conversionClients{bankStack: w, ws: ws}
	d.settleAndLapse()
	d.checkAgainst(p)
	d.reportLateCompletions()
	d.checkAgainst(p)
	w.requireCleanAudit()
}

// checkAgainst compares the conversions with the answers, the desk's orders and the balances.
func (d *conversionClients) checkAgainst(p *conversionCrash) {
	d.t.Helper()
	atDesk, err := d.sandbox.Orders()
	require.NoError(d.t, err)
	known, used := map[string]bool{}, map[string]bool{}
	sold, bought, held := money.Minor(0), money.Minor(0), money.Minor(0)
	for _, v := range d.listConversions() {
		require.False(d.t, used[v.QuoteID], "a quote is used twice after a power failure at write %d", p.write)
		known[v.ID], used[v.QuoteID] = true, true
		switch sent := atDesk[v.ID]; v.Status {
		case balance.ConversionRejected, balance.ConversionCancelled:
			require.Zero(d.t, sent)
		case balance.ConversionFailed:
			require.Equal(d.t, 1, sent)
		case balance.ConversionUnknown:
			require.Equal(d.t, 1, sent)
			held += v.Sell.AmountMinor
		case balance.ConversionCompleted:
			require.LessOrEqual(d.t, sent, 1)
			sold, bought = sold+v.Sell.AmountMinor, bought+v.Buy.AmountMinor
		}
	}
	for id, sent := range atDesk {
		require.True(d.t, known[id])
		require.Equal(d.t, 1, sent, "orders at the desk of %s after a power failure at write %d", id, p.write)
	}
	for _, a := range p.answered {
		if c, made := a.rest.command.(balance.CreateConversion); made {
			require.True(d.t, known[c.ID], "an acknowledged conversion is gone after a power failure at write %d",
				p.write)
		}
	}
	x := &currencyWorkspace{testStack: d.testStack, t: d.t, ws: d.ws}
	eur, jpy := x.currencyAccount("EUR"), x.currencyAccount("JPY")
	require.Equal(d.t, []money.Minor{openingEuroCents - sold - held, held, bought, 0},
		[]money.Minor{eur.AvailableMinor, eur.HeldMinor, jpy.AvailableMinor, jpy.HeldMinor},
		"power failure at write %d", p.write)
}

// TestAConversionIsSentOnceWhenThePowerFails cuts the power at writes of the journal, the
// authorizer and the bank, before, during and after conversions and their reports, some late and
// twice.
func TestAConversionIsSentOnceWhenThePowerFails(t *testing.T) {
	ws, crashes := crashDuringConversions(t, conversionCrashEvery)
	points := atFullLength(conversionCrashPoints, 24)
	require.Greater(t, len(crashes), points)
	began, answers := time.Now(), 0
	last := len(crashes) - 1
	for _, i := range append(rand.New(rand.NewPCG(1, 2)).Perm(last)[:points-1], last) {
		crashes[i].recoverAndCheckConversions(t, ws)
		answers += len(crashes[i].answered)
	}
	t.Logf("%d power failures of %d writes, %d answers repeated, in %v", points, crashes[last].write, answers,
		time.Since(began).Round(time.Second))
}

// TestAConversionIsSentOnceWhenPostgresCrashesToo cuts the power of Postgres at the same time.
func TestAConversionIsSentOnceWhenPostgresCrashesToo(t *testing.T) {
	server := pgtest.Own(t, "conversions and a power failure with Postgres", true)
	if server == nil {
		return
	}
	notes, disk := &answerLog{}, vfs.NewCrashableMem()
	database := createDatabase(t, server, "deals")
	w := newBankStackOn(t, disk, newClock(), database, nil)
	d := newConversionClients(t, w, notes)
	w.options.retryUnavailable = false // the journal goes away
	working := d.startConverters()
	least := 10 + rand.N(converterCount*len(conversionEndings))
	require.Eventually(t, func() bool { return len(notes.snapshot()) >= least }, eventuallyWithin, pollEvery)
	notes.stopping.Store(true)
	p := &conversionCrash{powerFailure: powerFailure{answered: notes.snapshot(), database: database}}
	require.NoError(t, server.Crash())
	p.fs, p.at = disk.CrashClone(vfs.CrashCloneCfg{}), w.clock.now()
	working.Wait()
	w.stopAndCloseBank()
	require.NoError(t, server.Restart())
	p.recoverAndCheckConversions(t, d.ws)
	t.Logf("%d answers repeated", len(p.answered))
}
