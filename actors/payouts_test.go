package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/partner/bankhttp"
	"purser/actors/partner/sandbox"
	"purser/authorizer/hold"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// treasury is the product with the sandbox bank beside it, on one file system and one clock.
type treasury struct {
	*world
	sandbox *sandbox.Bank
	between func(*sandbox.Bank) partner.Bank // what stands between the product and the bank; nil: nothing
	mu      sync.Mutex
	late    int            // settlements reported after the release
	told    map[string]int // how often the bank has said what has become of a payment, by reference
}

// telling is a bank that counts what it has said.
type telling struct {
	partner.Bank
	w *treasury
}

func (b telling) Standing(ctx context.Context, reference string) (partner.Standing, error) {
	standing, err := b.Bank.Standing(ctx, reference)
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.told[reference]++
	return standing, err
}

// awaitTold waits until the bank has said what has become of a payout, before it was sent and when its outcome was unknown: what
// it would say later may be something else.
func (w *treasury) awaitTold(id string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.told[id] >= 2
	}, comesWithin, lookEvery)
}

const bankDelay = 2 * time.Second

func newTreasury(t testing.TB, fs vfs.FS) *treasury { return newTreasuryAt(t, fs, nil) }

func newTreasuryAt(t testing.TB, fs vfs.FS, between func(*sandbox.Bank) partner.Bank) *treasury {
	return newTreasuryOf(t, fs, newClock(), "", between)
}

// newTreasuryOf is a treasury whose journal is in a database, on the file system when that is empty.
func newTreasuryOf(t testing.TB, fs vfs.FS, at *clock, database string, between func(*sandbox.Bank) partner.Bank) *treasury {
	w := &treasury{between: between, told: map[string]int{}, world: &world{
		t: t, fs: fs, clock: at, bank: &quietBank{expected: map[string]int{}},
		options: worldOptions{database: database, patient: database != ""},
	}}
	w.options.fatal = func(err error) { t.Errorf("fatal: %v", err) }
	w.open()
	return w
}

func (w *treasury) open() {
	var err error
	w.sandbox, err = sandbox.NewBank(sandbox.Config{Dir: "sandbox-bank", FS: w.fs, Delay: bankDelay,
		Report: w.report, Clock: w.clock.now})
	require.NoError(w.t, err)
	w.paying = w.sandbox
	if w.between != nil {
		w.paying = w.between(w.sandbox)
	}
	w.paying = telling{w.paying, w}
	w.start()
}

func (w *treasury) close() {
	w.stop()
	require.NoError(w.t, w.sandbox.Close())
}

// report brings what the bank says to the balance, as the inbound webhook does.
func (w *treasury) report(_ context.Context, body []byte) (int, error) {
	var r struct {
		ID, Type string
		Data     struct{ PayoutID, ConversionID string }
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return 0, err
	}
	if outcome, conversion := strings.CutPrefix(r.Type, "conversion."); conversion {
		err := w.reportConversion(r.Data.ConversionID, r.ID, outcome)
		if fault.Is(err, fault.ConversionConflict) {
			return http.StatusOK, nil // it is kept as unmatched
		}
		return http.StatusOK, err
	}
	outcome, payout := strings.CutPrefix(r.Type, "payout.")
	if !payout {
		return http.StatusOK, nil
	}
	known, workspace := w.payout(r.Data.PayoutID)
	reply, err := w.ask("balance", workspace, workspace,
		balance.ReportPayout{EventID: r.ID, ID: known.ID, Outcome: outcome}, nil)
	if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.OutcomeUnknown) {
		return http.StatusServiceUnavailable, nil
	}
	if fault.Is(err, fault.PayoutConflict) {
		return http.StatusOK, nil // it is kept as unmatched
	}
	if reported, ok := reply.(balance.ReportedPayout); ok && reported.Late {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.late++
	}
	return http.StatusOK, err
}

func (w *treasury) payout(id string) (p balance.Payout, workspace string) {
	record, err := w.system.Find(context.Background(), slotOf(id), balance.RecordPayout, id)
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(record.Document, &p))
	return p, record.Workspace
}

// spendable is what the authorizer would let go, once it has followed everything.
func (w *treasury) spendable(ws string) int64 {
	w.balance(ws)
	return w.available(ws)
}

func (w *treasury) recipient(ws, name string) string {
	w.t.Helper()
	id := w.newID(ident.Counterparty, slotOf(ws))
	w.must("counterparty", id, ws, counterparty.Save{ID: id, Workspace: ws, Account: counterparty.Account{Name: name,
		RoutingNumber: "021000021", AccountNumber: "000987654321", AccountType: "checking"}})
	return id
}

func (w *treasury) order(ws, recipient string, cents int64) balance.CreatePayout {
	return balance.CreatePayout{Workspace: ws, ID: w.newID(ident.Payout, slotOf(ws)), Key: "key_1", Rail: balance.RailACH,
		Recipient: balance.Recipient{ID: recipient, Currency: "USD"}, AmountCents: cents, Description: "rent",
		Limits: balance.PayoutLimits{KeyCents: 1 << 50, WorkspaceCents: 1 << 50}}
}

// await does what the bank has to do until a payout has one of the statuses.
func (w *treasury) await(id string, statuses ...string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		w.bankWorks()
		p, _ := w.payout(id)
		return slices.Contains(statuses, p.Status)
	}, time.Minute, time.Millisecond, "the payout does not get to %s", statuses)
}

// awaitOrder waits until the bank has a payout's order, or has refused it: from then on its clock counts.
func (w *treasury) awaitOrder(id string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		orders, err := w.sandbox.Paid(id)
		p, _ := w.payout(id)
		return err == nil && (orders > 0 || p.Status == balance.PayoutFailed)
	}, time.Minute, time.Millisecond)
}

func (w *treasury) bankWorks() {
	if _, err := w.sandbox.Step(context.Background()); err != nil {
		w.t.Error(err)
	}
}

// A minute after the order has been given the clock is turned; what the payout is after each turn.
func TestWhatTheBankMakesOfAPayout(t *testing.T) { everyEnding(t, nil) }

// The same, of a bank that is asked over HTTP.
func TestWhatABankElsewhereMakesOfAPayout(t *testing.T) {
	everyEnding(t, func(b *sandbox.Bank) partner.Bank {
		const secret = "secret"
		sign := func(message []byte) string { return webhook.Sign(secret, time.UnixMilli(0), message) }
		server := httptest.NewServer(bankhttp.NewHandler(b, func(signature string, message []byte) error {
			if signature != sign(message) {
				return errors.New("another's")
			}
			return nil
		}))
		client := bankhttp.NewClient(server.URL, sign)
		t.Cleanup(func() {
			client.Close()
			server.Close()
		})
		return client
	})
}

func everyEnding(t *testing.T, between func(*sandbox.Bank) partner.Bank) {
	type turn struct {
		by     time.Duration
		status string
	}
	const lapse = balance.LapseAfter
	for name, c := range map[string]struct {
		ending          int64
		turns           []turn
		available, held int64
		orders, late    int
	}{
		"settles":         {0, []turn{{0, "submitted"}, {bankDelay, "settled"}}, -1, 0, 1, 0},
		"reported twice":  {sandbox.EndingTwice, []turn{{0, "submitted"}, {bankDelay, "settled"}}, -1, 0, 1, 0},
		"reported late":   {sandbox.EndingLate, []turn{{bankDelay, "submitted"}, {9 * bankDelay, "settled"}}, -1, 0, 1, 0},
		"fails":           {sandbox.EndingFails, []turn{{0, "submitted"}, {bankDelay, "failed"}}, 0, 0, 1, 0},
		"is returned":     {sandbox.EndingReturned, []turn{{bankDelay, "settled"}, {bankDelay, "returned"}}, 0, 0, 1, 0},
		"is refused":      {sandbox.EndingRefused, []turn{{0, "failed"}}, 0, 0, 0, 0},
		"the answer lost": {sandbox.EndingAnswersLost, []turn{{0, "outcome_unknown"}, {bankDelay, "settled"}}, -1, 0, 1, 0},
		"never reported": {sandbox.EndingUnreported,
			[]turn{{0, "submitted"}, {time.Hour, "submitted"}, {lapse, "submitted"}},
			-1, 1, 1, 0},
		"silent, then held": {sandbox.EndingNever, []turn{{0, "submitting"}, {balance.AnswerWithin, "outcome_unknown"}}, -1, 1, 1,
			0},
		"silent for ever": {sandbox.EndingNever, []turn{{0, "submitting"}, {balance.AnswerWithin, "outcome_unknown"},
			{lapse, "released"}}, 0, 0, 1, 0},
		"settled after all": {sandbox.EndingAfterLapse, []turn{{0, "submitting"}, {lapse, "released"},
			{2 * time.Hour, "settled"}}, -1, 0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTreasuryAt(t, vfs.NewMem(), between)
			defer w.close()
			ws := w.newWorkspace(77)
			w.deposit(ws, 1_000_000)
			cents := 500_000 + c.ending
			order := w.order(ws, w.recipient(ws, "Ada"), cents)
			w.must("balance", ws, ws, order)
			for _, turn := range c.turns {
				w.awaitOrder(order.ID)
				w.clock.turn(turn.by)
				w.await(order.ID, turn.status)
				if turn.status == balance.PayoutReleased && c.late > 0 {
					w.awaitTold(order.ID)
				}
			}
			require.Equal(t, 1_000_000+c.available*cents, w.spendable(ws))
			require.Equal(t, c.held*cents, w.balance(ws).Balances[0].HeldCents)
			orders, err := w.sandbox.Paid(order.ID)
			require.NoError(t, err)
			require.Equal(t, c.orders, orders)
			require.Equal(t, c.late, w.late)
			w.requireClean()
		})
	}
}

// Held wires wait; a released one is sent, a cancelled one never was.
func TestAHeldWireIsSentWhenItIsReleased(t *testing.T) {
	w := newTreasury(t, vfs.NewMem())
	defer w.close()
	ws := w.newWorkspace(77)
	w.deposit(ws, 1_000)
	recipient := w.newID(ident.Counterparty, 77)
	w.must("counterparty", recipient, ws, counterparty.Save{ID: recipient, Workspace: ws, Account: counterparty.Account{
		Kind: counterparty.International, Name: "Grace", BIC: "DEUTDEFF", IBAN: "DE89370400440532013000", Currency: "EUR",
		Address: &counterparty.Address{Line1: "1", City: "Berlin", PostalCode: "10115", Country: "DE"}}})
	var wires []balance.CreatePayout
	for range 2 {
		order := w.order(ws, recipient, 400)
		order.Rail, order.Recipient.International, order.UETR = balance.RailIntlWire, true, "uetr"
		w.must("balance", ws, ws, order)
		wires = append(wires, order)
	}
	require.Equal(t, int64(200), w.spendable(ws), "both are reserved")
	w.must("balance", ws, ws, balance.DirectPayout{ID: wires[0].ID, Release: true})
	w.must("balance", ws, ws, balance.DirectPayout{ID: wires[1].ID})
	w.await(wires[0].ID, "submitted")
	w.clock.turn(bankDelay)
	w.await(wires[0].ID, "settled")
	for i, want := range []int{1, 0} {
		orders, err := w.sandbox.Paid(wires[i].ID)
		require.NoError(t, err)
		require.Equal(t, want, orders)
	}
	require.Equal(t, int64(600), w.spendable(ws))
	w.requireClean()
}

// A journal that was restored to an older state holds a wire that was released, and paid, since: who releases it again pays
// nothing.
func TestAnOrderThatTheBankHasIsNotSentAgain(t *testing.T) {
	for ending, want := range map[int64]struct {
		status    string
		available int64
	}{0: {"settled", 6_000}, sandbox.EndingFails: {"failed", 10_000 + sandbox.EndingFails},
		sandbox.EndingReturned: {"returned", 10_000 +
			sandbox.EndingReturned}} {
		w := newTreasury(t, vfs.NewMem())
		ws := w.newWorkspace(77)
		w.deposit(ws, 10_000+ending)
		order := w.order(ws, w.recipient(ws, "Ada"), 4_000+ending)
		order.Rail, order.Recipient.International, order.UETR = balance.RailIntlWire, true, "uetr"
		w.must("balance", ws, ws, order)
		var token string
		require.Eventually(t, func() bool {
			token = w.must("counterparty", order.Recipient.ID, ws, decision.Read{}).(counterparty.State).Token
			return token != ""
		}, time.Minute, time.Millisecond)
		require.NoError(t, w.sandbox.Pay(t.Context(), partner.Payment{Reference: order.ID, Account: token, Rail: order.Rail,
			AmountCents: order.AmountCents}))
		for range 2 { // what the bank reports now is of no order that is known to be given
			w.clock.turn(bankDelay)
			w.bankWorks()
		}
		w.must("balance", ws, ws, balance.DirectPayout{ID: order.ID, Release: true})
		w.await(order.ID, want.status)
		orders, err := w.sandbox.Paid(order.ID)
		require.NoError(t, err)
		require.Equal(t, 1, orders)
		require.Equal(t, want.available, w.spendable(ws))
		w.requireClean()
		w.close()
	}
}

// Who has read that dollars came back can spend them: the authorizer, which follows the journal, is waited for.
func TestDollarsThatCameBackCanBeOrderedAgain(t *testing.T) {
	w := newTreasury(t, vfs.NewMem())
	defer w.close()
	ws := w.newWorkspace(77)
	const cents = 4_000 + sandbox.EndingRefused
	w.deposit(ws, cents)
	recipient := w.recipient(ws, "Ada")
	for range 50 {
		order := w.order(ws, recipient, cents)
		w.must("balance", ws, ws, order)
		w.await(order.ID, "failed")
	}
}

func TestAPayoutToAnAccountThatTheBankRefusesFails(t *testing.T) {
	w := newTreasury(t, vfs.NewMem())
	defer w.close()
	ws := w.newWorkspace(77)
	w.deposit(ws, 1_000)
	order := w.order(ws, w.recipient(ws, sandbox.NameRefused), 400)
	w.must("balance", ws, ws, order)
	w.await(order.ID, "failed")
	require.Equal(t, int64(1_000), w.spendable(ws))
	w.requireClean()
}

// An account number is sealed until the bank has it; then it is nowhere.
func TestAccountNumbersGoToTheBankAndNowhereElse(t *testing.T) {
	w := newTreasury(t, vfs.NewMem())
	defer w.close()
	ws := w.newWorkspace(77)
	id := w.recipient(ws, "Ada")
	require.Eventually(t, func() bool {
		_, err := w.journal.Record(t.Context(), slotOf(id), counterparty.RecordAccount, id)
		return err != nil
	}, time.Minute, time.Millisecond)
	events, err := w.journal.Events(t.Context(), slotOf(ws).Shard(), 0, 1000)
	require.NoError(t, err)
	for _, e := range events {
		require.NotContains(t, string(e.Payload), "987654321")
		require.NotContains(t, string(e.Payload), "Ada")
	}
	for _, kind := range []string{"counterparty", counterparty.RecordView, counterparty.RecordAccount} {
		records, err := w.journal.Records(t.Context(), slotOf(ws).Shard(), kind, "", 1000)
		require.NoError(t, err)
		for _, r := range records {
			require.False(t, bytes.Contains(r.Document, []byte("4321")), kind)
		}
	}
	w.requireClean()
}

// So is the number of a recipient who was removed before the bank has taken it.
func TestTheNumberOfARemovedRecipientIsForgotten(t *testing.T) {
	w := newTreasury(t, vfs.NewMem())
	defer w.close()
	ws := w.newWorkspace(77)
	id := w.recipient(ws, sandbox.NameSilent)
	kept := func() bool {
		_, err := w.journal.Record(t.Context(), slotOf(id), counterparty.RecordAccount, id)
		return err == nil
	}
	w.must("counterparty", id, ws, counterparty.Remove{})
	require.True(t, kept(), "a payout may wait for the bank to take the account")
	w.clock.turn(counterparty.KeptRemoved)
	require.Eventually(t, func() bool { return !kept() }, time.Minute, time.Millisecond)
	w.requireClean()
}

// mute is a bank whose answers to orders are lost, and the calls counted that hand an account over.
type mute struct {
	partner.Bank
	accounts *atomic.Int64
}

func (b mute) Pay(ctx context.Context, p partner.Payment) error {
	if err := b.Bank.Pay(ctx, p); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (b mute) Tokenize(ctx context.Context, a partner.Account) (string, error) {
	b.accounts.Add(1)
	return b.Bank.Tokenize(ctx, a)
}

func newMuteTreasury(t *testing.T) (*treasury, *atomic.Int64) {
	w, accounts := newTreasury(t, vfs.NewMem()), new(atomic.Int64)
	w.close()
	w.between = func(b *sandbox.Bank) partner.Bank { return mute{b, accounts} }
	w.open()
	return w, accounts
}

// No report ever comes: what the bank says when it is asked by our reference is as good.
func TestABankThatDidNotAnswerIsAskedByOurReference(t *testing.T) {
	for ending, outcome := range map[int64]string{0: "settled", sandbox.EndingFails: "failed"} {
		w, _ := newMuteTreasury(t)
		ws := w.newWorkspace(77)
		w.deposit(ws, 10_000)
		order := w.order(ws, w.recipient(ws, "Ada"), 1_000+ending)
		w.must("balance", ws, ws, order)
		status := func() string { p, _ := w.payout(order.ID); return p.Status }
		require.Eventually(t, func() bool {
			orders, err := w.sandbox.Paid(order.ID)
			return err == nil && orders == 1 && status() == "submitting"
		}, time.Minute, time.Millisecond)
		w.clock.turn(balance.AnswerWithin)
		require.Eventually(t, func() bool { return status() == outcome }, time.Minute, time.Millisecond)
		w.requireClean()
		w.close()
	}
}

// While the bank does not take the account, the payout waits as reserved, and its dollars with it; then it fails, unsent, and
// holds up nobody.
func TestAPayoutWaitsForTheBankToTakeTheAccount(t *testing.T) {
	w, accounts := newMuteTreasury(t)
	defer w.close()
	ws := w.newWorkspace(77)
	w.deposit(ws, 1_000)
	order := w.order(ws, w.recipient(ws, sandbox.NameSilent), 400)
	w.must("balance", ws, ws, order)
	require.Eventually(t, func() bool { return accounts.Load() >= 4 }, time.Minute, time.Millisecond)
	p, _ := w.payout(order.ID)
	require.Equal(t, balance.PayoutReserved, p.Status)
	require.Equal(t, int64(600), w.spendable(ws))
	w.clock.turn(2 * time.Minute)
	w.await(order.ID, "failed")
	require.Equal(t, int64(1_000), w.spendable(ws))
	behind := w.order(ws, w.recipient(ws, "Ada"), 400)
	w.must("balance", ws, ws, behind)
	require.Eventually(t, func() bool {
		orders, err := w.sandbox.Paid(behind.ID)
		return err == nil && orders == 1
	}, time.Minute, time.Millisecond)
}

// Clients order payouts and swipe against a balance that covers half of it.
func TestAPayoutStormTakesNoMoreThanThereIs(t *testing.T) {
	w := newTreasury(t, vfs.NewMem())
	defer w.close()
	ws := w.newWorkspace(77)
	const clients, each, cents = 64, 4, 1_000
	w.deposit(ws, clients*each*cents/2)
	c := w.mint(ws, money.MaxAmount, money.MaxAmount)
	recipient := w.recipient(ws, "Ada")
	var ids []string
	var refused, swiped int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for i := range each {
				order := w.order(ws, recipient, cents)
				_, err := w.ask("balance", ws, ws, order, nil)
				a := w.submit(message(hold.Authorization, fmt.Sprintf("n%d-%d", client, i), c, 100))
				mu.Lock()
				switch {
				case err == nil:
					ids = append(ids, order.ID)
				case fault.Is(err, fault.InsufficientFunds):
					refused++
				default:
					t.Error(err)
				}
				if a.Decision == hold.Approved {
					swiped += 100
				}
				mu.Unlock()
				if w.available(ws) < 0 {
					t.Error("below zero")
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(clients*each), int64(len(ids))+refused)
	require.Positive(t, refused)
	require.Positive(t, swiped)
	for _, id := range ids {
		w.await(id, "submitted")
	}
	w.clock.turn(bankDelay)
	for _, id := range ids {
		w.await(id, "settled")
		orders, err := w.sandbox.Paid(id)
		require.NoError(t, err)
		require.Equal(t, 1, orders)
	}
	require.Equal(t, swiped, w.balance(ws).Balances[0].HeldCents, "no payout holds anything")
	require.Equal(t, int64(clients*each*cents/2)-int64(len(ids))*cents-swiped, w.spendable(ws))
	w.requireClean()
}

// paying is a disk as a power failure left it, with the payouts that had been acknowledged by then.
type paying struct {
	write int64
	fs    *vfs.MemFS
	acked []string
}

// payoutCrashes orders payouts on a disk that is photographed at its writes.
func payoutCrashes(t *testing.T, every int64) (ws string, crashes []paying) {
	c := &crasher{disk: vfs.NewCrashableMem(), notes: &notebook{}, every: every}
	w := newTreasury(t, c.fs())
	ws = w.newWorkspace(77)
	w.deposit(ws, 1_000_000)
	recipient := w.recipient(ws, "Ada")
	c.armed.Store(true)
	for _, ending := range []int64{0, sandbox.EndingAnswersLost, sandbox.EndingRefused} {
		order := w.order(ws, recipient, 1_000+ending)
		reply, err := w.ask("balance", ws, ws, order, w.keyed(order.ID))
		require.NoError(t, err)
		require.Equal(t, order.ID, reply.(balance.Payout).ID)
		c.notes.write(acked{rest: &restCall{key: order.ID}})
		w.awaitOrder(order.ID)
		require.Eventually(t, func() bool {
			w.clock.turn(100 * time.Millisecond)
			w.bankWorks()
			p, _ := w.payout(order.ID)
			return p.Status == balance.PayoutSettled || p.Status == balance.PayoutFailed
		}, time.Minute, time.Millisecond)
	}
	c.armed.Store(false)
	w.close()
	for _, photo := range c.crashes {
		p := paying{write: photo.write, fs: photo.fs}
		for _, told := range photo.told {
			p.acked = append(p.acked, told.rest.key)
		}
		crashes = append(crashes, p)
	}
	return ws, crashes
}

// survives goes on after the power failure until every payout is finished, and looks at what was paid.
func (p *paying) survives(t *testing.T, ws string) {
	unsent := p.unsent(t, ws)
	w := newTreasury(t, p.fs)
	defer w.close()
	for _, id := range p.acked {
		w.payout(id) // it is there
	}
	for _, id := range unsent {
		w.awaitOrder(id)
	}
	finished := func(also string) func() bool {
		return func() bool {
			w.clock.turn(time.Second)
			w.bankWorks()
			for _, payout := range w.payouts(ws) {
				switch payout.Status {
				case balance.PayoutSettled, balance.PayoutFailed, balance.PayoutReleased:
				case also:
					orders, err := w.sandbox.Paid(payout.ID)
					require.NoError(t, err)
					if orders > 0 {
						return false // the bank has yet to report it, which it does within a day
					}
				default:
					return false
				}
			}
			return true
		}
	}
	require.Eventually(t, finished(balance.PayoutUnknown), time.Minute, time.Millisecond)
	w.clock.turn(balance.LapseAfter)
	require.Eventually(t, finished(""), time.Minute, time.Millisecond)
	gone := int64(0)
	for _, payout := range w.payouts(ws) {
		orders, err := w.sandbox.Paid(payout.ID)
		require.NoError(t, err)
		want := 0
		if payout.Status == balance.PayoutSettled {
			want, gone = 1, gone+payout.AmountCents
		}
		require.Equal(t, want, orders, "%s after a power failure at write %d", payout.Status, p.write)
	}
	require.Equal(t, 1_000_000-gone, w.spendable(ws))
	require.Zero(t, w.balance(ws).Balances[0].HeldCents)
	w.requireClean()
}

// unsent are the payouts that the failure left to be sent. Nobody sends the others.
func (p *paying) unsent(t *testing.T, ws string) (ids []string) {
	w := &treasury{world: &world{t: t, fs: p.fs}}
	w.journal = &power{Journal: w.openJournal()}
	for _, payout := range w.payouts(ws) {
		if payout.Status == balance.PayoutReserved {
			ids = append(ids, payout.ID)
		}
	}
	require.NoError(t, w.journal.Close())
	return ids
}

func (w *treasury) payouts(ws string) []balance.Payout {
	records, err := w.journal.Records(context.Background(), slotOf(ws).Shard(), balance.RecordPayout, "", 1000)
	require.NoError(w.t, err)
	payouts := make([]balance.Payout, len(records))
	for i, r := range records {
		require.NoError(w.t, json.Unmarshal(r.Document, &payouts[i]))
	}
	return payouts
}

// Extent of the crash test: how many of the photographs are looked at.
const payoutCrashPoints = 24

// Power fails at writes of the journal, the authorizer and the bank, before, during and after the sending of payouts. What the
// bank was ordered it was ordered once, and the dollars that are gone are those that it has.
func TestAPayoutIsNeverPaidTwiceWhenThePowerFails(t *testing.T) {
	ws, crashes := payoutCrashes(t, 1)
	points := payoutCrashPoints
	if testing.Short() {
		points /= 4
	}
	require.Greater(t, len(crashes), points)
	began := time.Now()
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(crashes))[:points] {
		crashes[i].survives(t, ws)
	}
	t.Logf("%d power failures of %d writes in %v", points, len(crashes), time.Since(began).Round(time.Second))
}

// The authorizer's store is lost: what is reserved, gone and given back is in the journal.
func TestARebuiltAuthorizerKnowsWhatIsReserved(t *testing.T) {
	w := newTreasury(t, vfs.NewMem())
	ws := w.newWorkspace(77)
	w.deposit(ws, 10_000)
	recipient := w.recipient(ws, "Ada")
	for i, ending := range []int64{sandbox.EndingUnreported, sandbox.EndingFails, 0} {
		order := w.order(ws, recipient, 1_000+ending)
		w.must("balance", ws, ws, order)
		w.await(order.ID, "submitted")
		if i > 0 {
			w.clock.turn(bankDelay)
			w.await(order.ID, "failed", "settled")
		}
	}
	before := w.spendable(ws)
	require.Equal(t, int64(10_000-1_090-1_000), before)
	w.close()
	require.NoError(t, w.rebuildAuthorizer())
	w.open()
	defer w.close()
	require.Equal(t, before, w.spendable(ws))
	w.requireClean()
}
