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
	dealClients     = 4
	dealMinor       = 1_000 // euro cents, before the ending
	dealtFrom       = 1_000_000
	dealCrashEvery  = 3
	dealCrashPoints = 24
	dealRemembered  = 7 * 24 * time.Hour // longer than the test's clock goes
)

// dealEndings are what the desk makes of the conversions of a client, one after another.
var dealEndings = []int64{0, sandbox.EndingAnswersLost, sandbox.EndingRefused, sandbox.EndingTwice, sandbox.EndingFails,
	sandbox.EndingUnreported}

// dealer is a workspace that converts euros into yen, and what its clients were told.
type dealer struct {
	*treasury
	ws    string
	notes *notebook
}

func newDealer(t *testing.T, w *treasury, notes *notebook) *dealer {
	x := w.newExchange(t, w.newWorkspace(77), "EUR", "JPY")
	x.payIn("EUR", dealtFrom)
	return &dealer{treasury: w, ws: x.ws, notes: notes}
}

// told asks with a key, again while nothing has changed, and notes the answer.
func (d *dealer) told(key string, command any) (any, error) {
	k := d.keyed(key)
	k.Expires = d.clock.now().Add(dealRemembered)
	reply, err := d.ask("balance", d.ws, d.ws, command, k)
	for fault.Is(err, fault.Unavailable) && !d.notes.over.Load() {
		reply, err = d.ask("balance", d.ws, d.ws, command, k)
	}
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(reply)
	if err == nil {
		d.notes.write(acked{rest: &restCall{"balance", d.ws, d.ws, key, command}, reply: body})
	}
	return reply, err
}

// convert locks a rate, uses it, and tries to use it again.
func (d *dealer) convert(name string, minor money.Minor) error {
	rate, err := money.ParseRate("162.54")
	if err != nil {
		return err
	}
	quoted, err := d.told("quote "+name, balance.QuoteConversion{Workspace: d.ws, ID: d.newID(ident.CurrencyQuote, slotOf(d.ws)),
		Rate: rate, Firm: balance.ConversionLock,
		Pair: balance.QuotePair{Sell: "EUR", Buy: "JPY", FixedSide: "sell", AmountMinor: minor}})
	if err != nil {
		return err
	}
	use := func() balance.CreateConversion {
		return balance.CreateConversion{Workspace: d.ws, ID: d.newID(ident.Conversion, slotOf(d.ws)),
			Quote: quoted.(balance.ConversionQuote)}
	}
	if _, err = d.told("convert "+name, use()); err != nil {
		return err
	}
	if _, err = d.told("convert again "+name, use()); fault.Is(err, fault.QuoteUsed) {
		return nil
	}
	return fmt.Errorf("a quote is used again: %w", err)
}

// clients begin to convert. They end at the first error, which over allows.
func (d *dealer) clients() *sync.WaitGroup {
	var working sync.WaitGroup
	for client := range dealClients {
		working.Go(func() {
			for i, ending := range dealEndings {
				if err := d.convert(fmt.Sprint(client, "/", i), dealMinor+ending); err != nil {
					if !d.notes.over.Load() {
						d.t.Error(err)
					}
					return
				}
			}
		})
	}
	return &working
}

func (d *dealer) conversions() []balance.Conversion {
	records, err := d.journal.Records(context.Background(), slotOf(d.ws).Shard(), balance.RecordConversion, "", 1000)
	require.NoError(d.t, err)
	all := make([]balance.Conversion, len(records))
	for i, r := range records {
		require.NoError(d.t, json.Unmarshal(r.Document, &all[i]))
	}
	return all
}

// deskHas waits until the desk has every conversion, or has refused it: from then on its clock counts.
func (d *dealer) deskHas() {
	d.eventually(func(v balance.Conversion) bool {
		orders, err := d.sandbox.Paid(v.ID)
		return err == nil && (orders > 0 || v.Status == balance.ConversionRejected)
	}, 0)
}

// finish has the desk settle its deals, and then a day pass. Afterwards the conversions that never
// reached the desk are given up. A conversion that the desk has and does not report stays. A
// conversion that reached the desk only after it was given up, and that the desk fails or does not
// report, stays given up.
func (d *dealer) finish() {
	heard := func(quiet ...string) func(balance.Conversion) bool {
		return func(v balance.Conversion) bool {
			switch v.Status {
			case balance.ConversionCompleted, balance.ConversionRejected, balance.ConversionFailed, balance.ConversionCancelled:
				return true
			}
			orders, err := d.sandbox.Paid(v.ID)
			ending := v.Sell.AmountMinor % 100
			stays := orders == 0 || ending == sandbox.EndingUnreported ||
				ending == sandbox.EndingFails && v.Status == balance.ConversionAbandoned
			return slices.Contains(quiet, v.Status) && err == nil && stays
		}
	}
	d.eventually(heard(balance.ConversionUnknown, balance.ConversionAbandoned), time.Second)
	d.clock.turn(balance.LapseAfter)
	over := heard(balance.ConversionAbandoned)
	d.eventually(func(v balance.Conversion) bool { return over(v) || d.kept(v) }, time.Second)
}

// kept reports whether the desk has a conversion of unknown outcome and does not report it.
func (d *dealer) kept(v balance.Conversion) bool {
	orders, err := d.sandbox.Paid(v.ID)
	return err == nil && orders > 0 && v.Status == balance.ConversionUnknown &&
		v.Sell.AmountMinor%100 == sandbox.EndingUnreported
}

// eventually turns the clock and lets the desk report until something holds of every conversion. It does so itself, so that
// nothing reads the stores any more when it has failed.
func (d *dealer) eventually(holds func(balance.Conversion) bool, turn time.Duration) {
	d.t.Helper()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for until := time.Now().Add(comesWithin); ; <-look.C {
		d.clock.turn(turn)
		d.bankWorks()
		all := d.conversions()
		not := slices.IndexFunc(all, func(v balance.Conversion) bool { return !holds(v) })
		if not < 0 {
			return
		}
		require.True(d.t, time.Now().Before(until), "still %+v", all[not])
	}
}

// afterAll has the desk report, late and twice, the completion of abandoned and of unreported
// conversions.
func (d *dealer) afterAll() {
	for _, v := range d.conversions() {
		for range 2 {
			if v.Status == balance.ConversionAbandoned || v.Status == balance.ConversionUnknown {
				require.NoError(d.t, d.reportConversion(v.ID, "late-"+v.ID, balance.ConversionCompleted))
			}
		}
	}
}

// dealings is what a power failure left of conversions, and what the clock showed.
type dealings struct {
	crash
	at time.Time
}

// conversionCrashes has conversions made, reported, given up and reported after all, on a disk that is photographed.
func conversionCrashes(t *testing.T, every int64) (ws string, crashes []dealings) {
	c := &crasher{disk: vfs.NewCrashableMem(), notes: &notebook{}, every: every}
	w := newTreasuryOf(t, c.fs(), newClock(), "", nil)
	c.take = func() {
		p := dealings{crash: crash{write: c.writes.Load(), told: c.notes.copy()}} // before the picture: it must be in it
		p.fs, p.at = c.disk.CrashClone(vfs.CrashCloneCfg{}), w.clock.now()
		c.mu.Lock()
		defer c.mu.Unlock()
		crashes = append(crashes, p)
	}
	d := newDealer(t, w, c.notes)
	c.armed.Store(true)
	d.clients().Wait()
	d.deskHas()
	d.finish()
	for _, v := range d.conversions() { // the desk had it in time
		fails := v.Sell.AmountMinor%100 == sandbox.EndingFails
		require.Equal(t, fails, v.Status == balance.ConversionFailed)
	}
	d.afterAll()
	c.take() // and after the last acknowledgement
	c.armed.Store(false)
	w.close()
	return d.ws, crashes
}

// survives goes on after the power failure: what was answered is answered again, to the letter, and what the desk was told it was
// told once.
func (p *dealings) survives(t *testing.T, ws string) {
	at := newClock()
	at.turn(p.at.Sub(at.now()))
	w := newTreasuryOf(t, p.fs, at, p.database, nil)
	defer w.close()
	for _, a := range p.told {
		require.Empty(t, w.repeats(a), "power failure at write %d", p.write)
	}
	d := &dealer{treasury: w, ws: ws}
	d.finish()
	d.agrees(p)
	d.afterAll()
	d.agrees(p)
	w.requireClean()
}

// agrees compares the conversions with what was told, with the desk and with the balances.
func (d *dealer) agrees(p *dealings) {
	d.t.Helper()
	orders, err := d.sandbox.Orders("", 1000)
	require.NoError(d.t, err)
	atDesk := map[string]int{}
	for _, o := range orders {
		atDesk[o.Reference] = o.Orders
	}
	known, used := map[string]bool{}, map[string]bool{}
	sold, bought, held := money.Minor(0), money.Minor(0), money.Minor(0)
	for _, v := range d.conversions() {
		require.False(d.t, used[v.QuoteID], "a quote is used twice after a power failure at write %d", p.write)
		known[v.ID], used[v.QuoteID] = true, true
		switch told := atDesk[v.ID]; v.Status {
		case balance.ConversionRejected, balance.ConversionCancelled:
			require.Zero(d.t, told)
		case balance.ConversionFailed:
			require.Equal(d.t, 1, told)
		case balance.ConversionUnknown:
			require.Equal(d.t, 1, told)
			held += v.Sell.AmountMinor
		case balance.ConversionCompleted:
			require.LessOrEqual(d.t, told, 1)
			sold, bought = sold+v.Sell.AmountMinor, bought+v.Buy.AmountMinor
		}
	}
	for id, told := range atDesk {
		require.True(d.t, known[id])
		require.Equal(d.t, 1, told, "the desk was told of %s so often after a power failure at write %d", id, p.write)
	}
	for _, a := range p.told {
		if c, made := a.rest.command.(balance.CreateConversion); made {
			require.True(d.t, known[c.ID], "an acknowledged conversion is gone after a power failure at write %d", p.write)
		}
	}
	x := &exchange{world: d.world, t: d.t, ws: d.ws}
	eur, jpy := x.holding("EUR"), x.holding("JPY")
	require.Equal(d.t, []money.Minor{dealtFrom - sold - held, held, bought, 0},
		[]money.Minor{eur.AvailableMinor, eur.HeldMinor, jpy.AvailableMinor, jpy.HeldMinor}, "power failure at write %d", p.write)
}

// Power fails at writes of the journal, the authorizer and the bank, before, during and after conversions and what the desk
// reports of them, also late and twice.
func TestAConversionIsToldOnceWhenThePowerFails(t *testing.T) {
	ws, crashes := conversionCrashes(t, dealCrashEvery)
	points := dealCrashPoints
	if testing.Short() {
		points /= 4
	}
	require.Greater(t, len(crashes), points)
	began, answers := time.Now(), 0
	last := len(crashes) - 1
	for _, i := range append(rand.New(rand.NewPCG(1, 2)).Perm(last)[:points-1], last) {
		crashes[i].survives(t, ws)
		answers += len(crashes[i].told)
	}
	t.Logf("%d power failures of %d writes, %d answers repeated, in %v", points, crashes[last].write, answers,
		time.Since(began).Round(time.Second))
}

// The same when Postgres loses its power too.
func TestAConversionIsToldOnceWhenPostgresCrashesToo(t *testing.T) {
	server := pgtest.Own(t, "conversions and a power failure with Postgres", true)
	if server == nil {
		return
	}
	notes, disk := &notebook{}, vfs.NewCrashableMem()
	database := makeDatabase(t, server, "deals")
	w := newTreasuryOf(t, disk, newClock(), database, nil)
	d := newDealer(t, w, notes)
	w.options.patient = false // with a journal that is gone
	working := d.clients()
	least := 10 + rand.N(dealClients*len(dealEndings))
	require.Eventually(t, func() bool { return len(notes.copy()) >= least }, comesWithin, lookEvery)
	notes.over.Store(true)
	p := &dealings{crash: crash{told: notes.copy(), database: database}}
	require.NoError(t, server.Crash())
	p.fs, p.at = disk.CrashClone(vfs.CrashCloneCfg{}), w.clock.now()
	working.Wait()
	w.close()
	require.NoError(t, server.Restart())
	p.survives(t, d.ws)
	t.Logf("%d answers repeated", len(p.told))
}
