package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
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
	"purser/actors/partner/sandbox"
	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// bankStack is a testStack with the sandbox bank, on one file system and one clock.
type bankStack struct {
	*testStack
	sandbox           *sandbox.Bank
	sandboxStore      *sandbox.Store
	wrapBank          func(*sandbox.Bank) partner.Bank // wraps the bank that the product calls; nil: no wrapper
	mu                sync.Mutex
	lateSettlements   int            // settlements reported after the payout was released
	answeredInquiries map[string]int // answered inquiries, by payment reference
}

// countingBank is a bank that counts its answers to inquiries.
type countingBank struct {
	partner.Bank
	w *bankStack
}

func (b countingBank) Standing(ctx context.Context, reference string) (partner.Standing, error) {
	standing, err := b.Bank.Standing(ctx, reference)
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.answeredInquiries[reference]++
	return standing, err
}

// awaitStandings waits for two answered inquiries about a payout: one before it is sent, one after
// its outcome is unknown. A later answer may differ.
func (w *bankStack) awaitStandings(id string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.answeredInquiries[id] >= 2
	}, eventuallyWithin, pollEvery)
}

const bankDelay = 2 * time.Second

func newBankStack(t testing.TB, fs vfs.FS) *bankStack { return newBankStackWith(t, fs, nil) }

func newBankStackWith(t testing.TB, fs vfs.FS, between func(*sandbox.Bank) partner.Bank) *bankStack {
	return newBankStackOn(t, fs, newClock(), "", between)
}

// newBankStackOn starts a bankStack whose journal is in the Postgres database of that URL, or on
// the file system when database is empty.
func newBankStackOn(t testing.TB, fs vfs.FS, at *clock, database string,
	between func(*sandbox.Bank) partner.Bank) *bankStack {
	w := &bankStack{wrapBank: between, answeredInquiries: map[string]int{}, testStack: &testStack{
		t: t, fs: fs, clock: at, bank: &recordingBank{expected: map[string]int{}},
		options: stackOptions{database: database, retryUnavailable: database != ""},
	}}
	w.options.fatal = func(err error) { t.Errorf("fatal: %v", err) }
	w.openBankAndStart()
	return w
}

func (w *bankStack) openBankAndStart() {
	var err error
	w.sandboxStore, err = sandbox.OpenStore(w.fs, "sandbox")
	require.NoError(w.t, err)
	w.sandbox, err = sandbox.NewBank(sandbox.Config{Store: w.sandboxStore, Delay: bankDelay,
		Report: w.deliverBankReport, Clock: w.clock.now})
	require.NoError(w.t, err)
	w.bankOverride = w.sandbox
	if w.wrapBank != nil {
		w.bankOverride = w.wrapBank(w.sandbox)
	}
	w.bankOverride = countingBank{w.bankOverride, w}
	w.start()
}

func (w *bankStack) stopAndCloseBank() {
	w.stop()
	require.NoError(w.t, w.sandboxStore.Close())
}

// deliverBankReport applies a report of the bank to the balance, as the inbound webhook does.
func (w *bankStack) deliverBankReport(_ context.Context, body []byte) (int, error) {
	var r struct {
		ID, Type string
		Data     struct{ PayoutID, ConversionID string }
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return 0, err
	}
	if outcome, conversion := strings.CutPrefix(r.Type, "conversion."); conversion {
		err := w.deliverConversionReport(r.Data.ConversionID, r.ID, outcome)
		if fault.Is(err, fault.ConversionConflict) {
			return http.StatusOK, nil // stored as an unmatched report
		}
		return http.StatusOK, err
	}
	outcome, payout := strings.CutPrefix(r.Type, "payout.")
	if !payout {
		return http.StatusOK, nil
	}
	known, workspace := w.readPayout(r.Data.PayoutID)
	reply, err := w.ask("balance", workspace, workspace,
		balance.ReportPayout{EventID: r.ID, ID: known.ID, Outcome: outcome}, nil)
	if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.OutcomeUnknown) {
		return http.StatusServiceUnavailable, nil
	}
	if fault.Is(err, fault.PayoutConflict) {
		return http.StatusOK, nil // stored as an unmatched report
	}
	if reported, ok := reply.(balance.ReportedPayout); ok && reported.Late {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lateSettlements++
	}
	return http.StatusOK, err
}

func (w *bankStack) readPayout(id string) (p balance.Payout, workspace string) {
	record, err := w.system.Find(context.Background(), slotOf(id), balance.RecordPayout, id)
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(record.Document, &p))
	return p, record.Workspace
}

// spendableCents returns what the authorizer approves, after it has followed the journal.
func (w *bankStack) spendableCents(ws string) money.Cents {
	w.settledBalance(ws)
	return w.availableCents(ws)
}

func (w *bankStack) newRecipient(ws, name string) string {
	w.t.Helper()
	id := w.newID(ident.Counterparty, slotOf(ws))
	w.mustAsk("counterparty", id, ws, counterparty.Save{ID: id, Workspace: ws, Account: counterparty.Account{Name: name,
		RoutingNumber: "021000021", AccountNumber: "000987654321", AccountType: "checking"}})
	return id
}

func (w *bankStack) newPayout(ws, recipient string, cents money.Cents) balance.CreatePayout {
	return balance.CreatePayout{Workspace: ws, ID: w.newID(ident.Payout, slotOf(ws)), Key: "key_1",
		Rail:      balance.RailACH,
		Recipient: balance.Recipient{ID: recipient, Currency: "USD"}, AmountCents: cents, Description: "rent",
		ExpectedOn: w.clock.now().Format(time.DateOnly),
		Limits:     balance.PayoutLimits{KeyCents: 1 << 50, WorkspaceCents: 1 << 50}}
}

// awaitStatus steps the bank until the payout has one of the statuses.
func (w *bankStack) awaitStatus(id string, statuses ...string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		w.stepBank()
		p, _ := w.readPayout(id)
		return slices.Contains(statuses, p.Status)
	}, eventuallyWithin, pollEvery, "the payout does not get to %s", statuses)
}

// awaitBankOrder waits until the bank has the payout's order or has refused it. The bank's delay
// counts from then on.
func (w *bankStack) awaitBankOrder(id string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		orders, err := w.sandbox.Paid(id)
		p, _ := w.readPayout(id)
		return err == nil && (orders > 0 || p.Status == balance.PayoutFailed)
	}, eventuallyWithin, pollEvery)
}

func (w *bankStack) stepBank() {
	if _, err := w.sandbox.Step(context.Background()); err != nil {
		w.t.Error(err)
	}
}

// TestPayoutStatusByBankOutcome turns the clock step by step, and compares the status of a payout
// after each step, for every outcome of the sandbox bank.
func TestPayoutStatusByBankOutcome(t *testing.T) {
	type turn struct {
		by     time.Duration
		status string
	}
	const lapse = balance.LapseAfter
	for name, c := range map[string]struct {
		ending          money.Cents
		turns           []turn
		available, held money.Cents
		orders, late    int
	}{
		"settles":        {0, []turn{{0, "submitted"}, {bankDelay, "settled"}}, -1, 0, 1, 0},
		"reported twice": {sandbox.EndingTwice, []turn{{0, "submitted"}, {bankDelay, "settled"}}, -1, 0, 1, 0},
		"reported late": {sandbox.EndingLate, []turn{{bankDelay, "submitted"}, {9 * bankDelay, "settled"}},
			-1, 0, 1, 0},
		"fails": {sandbox.EndingFails, []turn{{0, "submitted"}, {bankDelay, "failed"}}, 0, 0, 1, 0},
		"is returned": {sandbox.EndingReturned, []turn{{bankDelay, "settled"}, {bankDelay, "returned"}}, 0,
			0, 1, 0},
		"is refused": {sandbox.EndingRefused, []turn{{0, "failed"}}, 0, 0, 0, 0},
		"the answer lost": {sandbox.EndingAnswersLost, []turn{{0, "outcome_unknown"}, {bankDelay, "settled"}},
			-1, 0, 1, 0},
		"never reported": {sandbox.EndingUnreported,
			[]turn{{0, "submitted"}, {time.Hour, "submitted"}, {lapse, "submitted"}},
			-1, 1, 1, 0},
		"silent, then held": {sandbox.EndingNever, []turn{{0, "submitting"},
			{balance.AnswerWithin, "outcome_unknown"}}, -1, 1, 1,
			0},
		"silent for ever": {sandbox.EndingNever, []turn{{0, "submitting"}, {balance.AnswerWithin, "outcome_unknown"},
			{lapse, "released"}}, 0, 0, 1, 0},
		"settled after all": {sandbox.EndingAfterLapse, []turn{{0, "submitting"}, {lapse, "released"},
			{2 * time.Hour, "settled"}}, -1, 0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBankStack(t, vfs.NewMem())
			defer w.stopAndCloseBank()
			ws := w.newWorkspace(77)
			w.deposit(ws, 1_000_000)
			cents := 500_000 + c.ending
			order := w.newPayout(ws, w.newRecipient(ws, "Ada"), cents)
			w.mustAsk("balance", ws, ws, order)
			for _, turn := range c.turns {
				w.awaitBankOrder(order.ID)
				w.clock.turn(turn.by)
				w.awaitStatus(order.ID, turn.status)
				if turn.status == balance.PayoutReleased && c.late > 0 {
					w.awaitStandings(order.ID)
				}
			}
			require.Equal(t, 1_000_000+c.available*cents, w.spendableCents(ws))
			require.Equal(t, c.held*cents, w.settledBalance(ws).Balances[0].HeldCents)
			orders, err := w.sandbox.Paid(order.ID)
			require.NoError(t, err)
			require.Equal(t, c.orders, orders)
			require.Equal(t, c.late, w.lateSettlements)
			w.requireCleanAudit()
		})
	}
}

// TestAHeldWireIsSentWhenItIsReleased: a released wire is sent, a cancelled one is not.
func TestAHeldWireIsSentWhenItIsReleased(t *testing.T) {
	w := newBankStack(t, vfs.NewMem())
	defer w.stopAndCloseBank()
	ws := w.newWorkspace(77)
	w.deposit(ws, 1_000)
	recipient := w.newID(ident.Counterparty, 77)
	w.mustAsk("counterparty", recipient, ws, counterparty.Save{ID: recipient, Workspace: ws,
		Account: counterparty.Account{
			Kind: counterparty.International, Name: "Grace", BIC: "DEUTDEFF", IBAN: "DE89370400440532013000",
			Currency: "EUR",
			Address:  &counterparty.Address{Line1: "1", City: "Berlin", PostalCode: "10115", Country: "DE"}}})
	var wires []balance.CreatePayout
	for range 2 {
		order := w.newPayout(ws, recipient, 400)
		order.Rail, order.Recipient.International, order.UETR = balance.RailIntlWire, true, "uetr"
		w.mustAsk("balance", ws, ws, order)
		wires = append(wires, order)
	}
	require.Equal(t, money.Cents(200), w.spendableCents(ws), "both are reserved")
	w.mustAsk("balance", ws, ws, balance.DirectPayout{ID: wires[0].ID, Release: true})
	w.mustAsk("balance", ws, ws, balance.DirectPayout{ID: wires[1].ID})
	w.awaitStatus(wires[0].ID, "submitted")
	w.clock.turn(bankDelay)
	w.awaitStatus(wires[0].ID, "settled")
	for i, want := range []int{1, 0} {
		orders, err := w.sandbox.Paid(wires[i].ID)
		require.NoError(t, err)
		require.Equal(t, want, orders)
	}
	require.Equal(t, money.Cents(600), w.spendableCents(ws))
	w.requireCleanAudit()
}

// TestAnOrderThatTheBankHasIsNotSentAgain: after the journal is restored to an older state, a wire
// that was released and paid is held again. A second release sends nothing to the bank.
func TestAnOrderThatTheBankHasIsNotSentAgain(t *testing.T) {
	for ending, want := range map[int64]struct {
		status    string
		available money.Cents
	}{0: {"settled", 6_000}, sandbox.EndingFails: {"failed", 10_000 + sandbox.EndingFails},
		sandbox.EndingReturned: {"returned", 10_000 +
			sandbox.EndingReturned}} {
		w := newBankStack(t, vfs.NewMem())
		ws := w.newWorkspace(77)
		w.deposit(ws, 10_000+money.Cents(ending))
		order := w.newPayout(ws, w.newRecipient(ws, "Ada"), 4_000+money.Cents(ending))
		order.Rail, order.Recipient.International, order.UETR = balance.RailIntlWire, true, "uetr"
		w.mustAsk("balance", ws, ws, order)
		var token string
		require.Eventually(t, func() bool {
			token = w.mustAsk("counterparty", order.Recipient.ID, ws, decision.Read{}).(counterparty.State).Token
			return token != ""
		}, eventuallyWithin, pollEvery)
		require.NoError(t, w.sandbox.Pay(t.Context(), partner.Payment{Reference: order.ID, Account: token,
			Rail:        order.Rail,
			AmountMinor: order.AmountCents.Minor()}))
		for range 2 { // these reports concern an order that the balance still holds
			w.clock.turn(bankDelay)
			w.stepBank()
		}
		w.mustAsk("balance", ws, ws, balance.DirectPayout{ID: order.ID, Release: true})
		w.awaitStatus(order.ID, want.status)
		orders, err := w.sandbox.Paid(order.ID)
		require.NoError(t, err)
		require.Equal(t, 1, orders)
		require.Equal(t, want.available, w.spendableCents(ws))
		w.requireCleanAudit()
		w.stopAndCloseBank()
	}
}

// TestFundsOfAFailedPayoutCanBePaidOutAgain: a read that shows a payout as failed waits until the
// authorizer has the dollars again, so the next payout of them succeeds.
func TestFundsOfAFailedPayoutCanBePaidOutAgain(t *testing.T) {
	w := newBankStack(t, vfs.NewMem())
	defer w.stopAndCloseBank()
	ws := w.newWorkspace(77)
	const cents = 4_000 + sandbox.EndingRefused
	w.deposit(ws, cents)
	recipient := w.newRecipient(ws, "Ada")
	for range 50 {
		order := w.newPayout(ws, recipient, cents)
		w.mustAsk("balance", ws, ws, order)
		w.awaitStatus(order.ID, "failed")
	}
}

func TestAPayoutToAnAccountThatTheBankRefusesFails(t *testing.T) {
	w := newBankStack(t, vfs.NewMem())
	defer w.stopAndCloseBank()
	ws := w.newWorkspace(77)
	w.deposit(ws, 1_000)
	order := w.newPayout(ws, w.newRecipient(ws, sandbox.NameRefused), 400)
	w.mustAsk("balance", ws, ws, order)
	w.awaitStatus(order.ID, "failed")
	require.Equal(t, money.Cents(1_000), w.spendableCents(ws))
	w.requireCleanAudit()
}

// TestAccountNumbersAreDeletedOnceTheBankHasThem: an account number is sealed until the bank has
// tokenized it; afterwards neither the events nor the records contain it.
func TestAccountNumbersAreDeletedOnceTheBankHasThem(t *testing.T) {
	w := newBankStack(t, vfs.NewMem())
	defer w.stopAndCloseBank()
	ws := w.newWorkspace(77)
	id := w.newRecipient(ws, "Ada")
	require.Eventually(t, func() bool {
		_, err := w.journal.Record(t.Context(), slotOf(id), counterparty.RecordAccount, id)
		return err != nil
	}, eventuallyWithin, pollEvery)
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
	w.requireCleanAudit()
}

// TestTheAccountNumberOfARemovedRecipientIsDeleted removes a recipient whose account the bank has
// not tokenized: the number is deleted after RemovedNumberLifetime.
func TestTheAccountNumberOfARemovedRecipientIsDeleted(t *testing.T) {
	w := newBankStack(t, vfs.NewMem())
	defer w.stopAndCloseBank()
	ws := w.newWorkspace(77)
	id := w.newRecipient(ws, sandbox.NameSilent)
	kept := func() bool {
		_, err := w.journal.Record(t.Context(), slotOf(id), counterparty.RecordAccount, id)
		return err == nil
	}
	w.mustAsk("counterparty", id, ws, counterparty.Remove{})
	require.True(t, kept(), "a payout may wait for the bank to take the account")
	w.clock.turn(counterparty.RemovedNumberLifetime)
	require.Eventually(t, func() bool { return !kept() }, eventuallyWithin, pollEvery)
	w.requireCleanAudit()
}

// unansweringBank is a bank that loses its answers to orders. It counts the calls of Tokenize.
type unansweringBank struct {
	partner.Bank
	accounts *atomic.Int64
}

func (b unansweringBank) Pay(ctx context.Context, p partner.Payment) error {
	if err := b.Bank.Pay(ctx, p); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (b unansweringBank) Tokenize(ctx context.Context, a partner.Account) (string, error) {
	b.accounts.Add(1)
	return b.Bank.Tokenize(ctx, a)
}

func newUnansweringBankStack(t *testing.T) (*bankStack, *atomic.Int64) {
	w, accounts := newBankStack(t, vfs.NewMem()), new(atomic.Int64)
	w.stopAndCloseBank()
	w.wrapBank = func(b *sandbox.Bank) partner.Bank { return unansweringBank{b, accounts} }
	w.openBankAndStart()
	return w, accounts
}

// TestAnUnansweredPayoutIsQueriedByReference: without a report, the answer to an inquiry by the
// payout's reference decides its outcome.
func TestAnUnansweredPayoutIsQueriedByReference(t *testing.T) {
	for ending, outcome := range map[int64]string{0: "settled", sandbox.EndingFails: "failed"} {
		w, _ := newUnansweringBankStack(t)
		ws := w.newWorkspace(77)
		w.deposit(ws, 10_000)
		order := w.newPayout(ws, w.newRecipient(ws, "Ada"), 1_000+money.Cents(ending))
		w.mustAsk("balance", ws, ws, order)
		status := func() string { p, _ := w.readPayout(order.ID); return p.Status }
		require.Eventually(t, func() bool {
			orders, err := w.sandbox.Paid(order.ID)
			return err == nil && orders == 1 && status() == "submitting"
		}, eventuallyWithin, pollEvery)
		w.clock.turn(balance.AnswerWithin)
		require.Eventually(t, func() bool { return status() == outcome }, eventuallyWithin, pollEvery)
		w.requireCleanAudit()
		w.stopAndCloseBank()
	}
}

// TestAPayoutWaitsForTheBankToTakeTheAccount: the payout and its dollars stay reserved while the
// bank does not tokenize the account. It then fails, unsent, and delays no other payout.
func TestAPayoutWaitsForTheBankToTakeTheAccount(t *testing.T) {
	w, accounts := newUnansweringBankStack(t)
	defer w.stopAndCloseBank()
	ws := w.newWorkspace(77)
	w.deposit(ws, 1_000)
	order := w.newPayout(ws, w.newRecipient(ws, sandbox.NameSilent), 400)
	w.mustAsk("balance", ws, ws, order)
	require.Eventually(t, func() bool { return accounts.Load() >= 4 }, eventuallyWithin, pollEvery)
	p, _ := w.readPayout(order.ID)
	require.Equal(t, balance.PayoutReserved, p.Status)
	require.Equal(t, money.Cents(600), w.spendableCents(ws))
	w.clock.turn(2 * time.Minute)
	w.awaitStatus(order.ID, "failed")
	require.Equal(t, money.Cents(1_000), w.spendableCents(ws))
	behind := w.newPayout(ws, w.newRecipient(ws, "Ada"), 400)
	w.mustAsk("balance", ws, ws, behind)
	require.Eventually(t, func() bool {
		orders, err := w.sandbox.Paid(behind.ID)
		return err == nil && orders == 1
	}, eventuallyWithin, pollEvery)
}

// TestAPayoutStormNeverOverdraws: clients order payouts and swipe against a balance that covers
// half of them.
func TestAPayoutStormNeverOverdraws(t *testing.T) {
	w := newBankStack(t, vfs.NewMem())
	defer w.stopAndCloseBank()
	ws := w.newWorkspace(77)
	const clients, each, cents = 64, 4, 1_000
	w.deposit(ws, clients*each*cents/2)
	c := w.mintCard(ws, money.MaxAmount, money.MaxAmount)
	recipient := w.newRecipient(ws, "Ada")
	var ids []string
	var refused, swiped money.Cents
	var mu sync.Mutex
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for i := range each {
				order := w.newPayout(ws, recipient, cents)
				_, err := w.ask("balance", ws, ws, order, nil)
				a := w.submit(networkMessage(hold.Authorization, fmt.Sprintf("n%d-%d", client, i), c, 100))
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
				if w.availableCents(ws) < 0 {
					t.Error("below zero")
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, money.Cents(clients*each), money.Cents(len(ids))+refused)
	require.Positive(t, refused)
	require.Positive(t, swiped)
	for _, id := range ids {
		w.awaitStatus(id, "submitted")
	}
	w.clock.turn(bankDelay)
	for _, id := range ids {
		w.awaitStatus(id, "settled")
		orders, err := w.sandbox.Paid(id)
		require.NoError(t, err)
		require.Equal(t, 1, orders)
	}
	require.Equal(t, swiped, w.settledBalance(ws).Balances[0].HeldCents, "no payout holds anything")
	require.Equal(t, money.Cents(clients*each*cents/2)-money.Cents(len(ids))*cents-swiped, w.spendableCents(ws))
	w.requireCleanAudit()
}

// payoutCrash is the disk as a power failure left it, and the payouts acknowledged before it.
type payoutCrash struct {
	write           int64
	fs              *vfs.MemFS
	acknowledgedIDs []string
}

// crashDuringPayouts orders payouts on a snapshotDisk, and returns its power failures.
func crashDuringPayouts(t *testing.T, every int64) (ws string, crashes []payoutCrash) {
	c := &snapshotDisk{disk: vfs.NewCrashableMem(), answers: &answerLog{}, every: every}
	w := newBankStack(t, c.fs())
	ws = w.newWorkspace(77)
	w.deposit(ws, 1_000_000)
	recipient := w.newRecipient(ws, "Ada")
	c.armed.Store(true)
	for _, ending := range []money.Cents{0, sandbox.EndingAnswersLost, sandbox.EndingRefused} {
		order := w.newPayout(ws, recipient, 1_000+ending)
		reply, err := w.ask("balance", ws, ws, order, w.idempotencyKey(order.ID))
		require.NoError(t, err)
		require.Equal(t, order.ID, reply.(balance.Payout).ID)
		c.answers.add(acknowledged{rest: &restCall{key: order.ID}})
		w.awaitBankOrder(order.ID)
		require.Eventually(t, func() bool {
			w.clock.turn(100 * time.Millisecond)
			w.stepBank()
			p, _ := w.readPayout(order.ID)
			return p.Status == balance.PayoutSettled || p.Status == balance.PayoutFailed
		}, eventuallyWithin, pollEvery)
	}
	c.armed.Store(false)
	w.stopAndCloseBank()
	for _, photo := range c.failures {
		p := payoutCrash{write: photo.write, fs: photo.fs}
		for _, answer := range photo.answered {
			p.acknowledgedIDs = append(p.acknowledgedIDs, answer.rest.key)
		}
		crashes = append(crashes, p)
	}
	return ws, crashes
}

// recoverAndCheck restarts the product, waits until every payout has a final status, and compares
// the orders at the bank with the payouts.
func (p *payoutCrash) recoverAndCheck(t *testing.T, ws string) {
	unsent := p.reservedPayouts(t, ws)
	w := newBankStack(t, p.fs)
	defer w.stopAndCloseBank()
	for _, id := range p.acknowledgedIDs {
		w.readPayout(id) // requires that it is stored
	}
	for _, id := range unsent {
		w.awaitBankOrder(id)
	}
	finished := func(also string) func() bool {
		return func() bool {
			w.clock.turn(time.Second)
			w.stepBank()
			for _, payout := range w.listPayouts(ws) {
				switch payout.Status {
				case balance.PayoutSettled, balance.PayoutFailed, balance.PayoutReleased:
				case also:
					orders, err := w.sandbox.Paid(payout.ID)
					require.NoError(t, err)
					if orders > 0 {
						return false // the bank reports it within a day
					}
				default:
					return false
				}
			}
			return true
		}
	}
	require.Eventually(t, finished(balance.PayoutUnknown), eventuallyWithin, pollEvery)
	w.clock.turn(balance.LapseAfter)
	require.Eventually(t, finished(""), eventuallyWithin, pollEvery)
	gone := money.Cents(0)
	for _, payout := range w.listPayouts(ws) {
		orders, err := w.sandbox.Paid(payout.ID)
		require.NoError(t, err)
		want := 0
		if payout.Status == balance.PayoutSettled {
			want, gone = 1, gone+payout.AmountCents
		}
		require.Equal(t, want, orders, "%s after a power failure at write %d", payout.Status, p.write)
	}
	require.Equal(t, 1_000_000-gone, w.spendableCents(ws))
	require.Zero(t, w.settledBalance(ws).Balances[0].HeldCents)
	w.requireCleanAudit()
}

// reservedPayouts returns the payouts that the restart has to send. No other is sent.
func (p *payoutCrash) reservedPayouts(t *testing.T, ws string) (ids []string) {
	w := &bankStack{testStack: &testStack{t: t, fs: p.fs}}
	w.journal = &poweredJournal{Journal: w.openJournal()}
	for _, payout := range w.listPayouts(ws) {
		if payout.Status == balance.PayoutReserved {
			ids = append(ids, payout.ID)
		}
	}
	require.NoError(t, w.journal.Close())
	return ids
}

func (w *bankStack) listPayouts(ws string) []balance.Payout {
	records, err := w.journal.Records(context.Background(), slotOf(ws).Shard(), balance.RecordPayout, "", 1000)
	require.NoError(w.t, err)
	payouts := make([]balance.Payout, len(records))
	for i, r := range records {
		require.NoError(w.t, json.Unmarshal(r.Document, &payouts[i]))
	}
	return payouts
}

// payoutCrashPoints is the number of power failures that the test recovers from, 24 with
// PURSER_TEST_FULL.
const payoutCrashPoints = 10

// TestAPayoutIsNeverPaidTwiceWhenThePowerFails cuts the power at writes of the journal, the
// authorizer and the bank, before, during and after payouts are sent. The bank has each order once,
// and the dollars that left the balance are those of its orders.
func TestAPayoutIsNeverPaidTwiceWhenThePowerFails(t *testing.T) {
	ws, crashes := crashDuringPayouts(t, 1)
	points := atFullLength(payoutCrashPoints, 24)
	require.Greater(t, len(crashes), points)
	began := time.Now()
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(crashes))[:points] {
		crashes[i].recoverAndCheck(t, ws)
	}
	t.Logf("%d power failures of %d writes in %v", points, len(crashes), time.Since(began).Round(time.Second))
}

// TestARebuiltAuthorizerKnowsWhatIsReserved: a rebuild restores the dollars that payouts reserved,
// paid and gave back.
func TestARebuiltAuthorizerKnowsWhatIsReserved(t *testing.T) {
	w := newBankStack(t, vfs.NewMem())
	ws := w.newWorkspace(77)
	w.deposit(ws, 10_000)
	recipient := w.newRecipient(ws, "Ada")
	for i, ending := range []money.Cents{sandbox.EndingUnreported, sandbox.EndingFails, 0} {
		order := w.newPayout(ws, recipient, 1_000+ending)
		w.mustAsk("balance", ws, ws, order)
		w.awaitStatus(order.ID, "submitted")
		if i > 0 {
			w.clock.turn(bankDelay)
			w.awaitStatus(order.ID, "failed", "settled")
		}
	}
	before := w.spendableCents(ws)
	require.Equal(t, money.Cents(10_000-1_090-1_000), before)
	w.stopAndCloseBank()
	require.NoError(t, w.rebuildAuthorizer())
	w.openBankAndStart()
	defer w.stopAndCloseBank()
	require.Equal(t, before, w.spendableCents(ws))
	w.requireCleanAudit()
}
