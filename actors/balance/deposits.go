package balance

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Statuses of a deposit.
const (
	DepositPending = "pending"
	DepositDone    = "settled"
)

// ScopeBank is the scope of a bank's event ids. Each is claimed once within BankRetention.
const (
	ScopeBank     = "bank"
	BankRetention = 90 * 24 * time.Hour
)

const sourceDeposit = "bank_deposit"

// deposits has the decisions and folds of deposits in dollars.
type deposits struct{ *State }

// createDeposit stores a pending deposit. It fails with invalid_body for a wrong rail or amount,
// and with limit_exceeded for too many pending deposits or no room in the balance.
func (b deposits) createDeposit(m decision.Meta, c CreateDeposit) (decision.Decision, error) {
	if err := checkDeposit(c.Rail, c.AmountUsdCents); err != nil {
		return decision.Decision{}, err
	}
	if b.OpenDeposits >= MaxOpenDeposits {
		return decision.Decision{}, fault.New(fault.LimitExceeded,
			fmt.Sprintf("at most %d deposits may be pending", MaxOpenDeposits))
	}
	if !b.canAddCents(b.IncomingCents, c.AmountUsdCents) {
		return decision.Decision{}, balanceFull()
	}
	if _, known := b.orders.deposits.findOrder(c.ID); known {
		panic("BUG: deposit created twice")
	}
	deposit := Deposit{
		ID: c.ID, Status: DepositPending, Rail: c.Rail, AmountUsdCents: c.AmountUsdCents,
		ExpectedAt: decision.StampOf(c.ExpectedAt),
	}
	return decision.Decision{
		Events:  []decision.Event{DepositCreated{Workspace: c.Workspace, Deposit: deposit, At: decision.StampOf(m.At)}},
		Reply:   deposit,
		Records: []decision.Record{{Kind: RecordDeposit, ID: deposit.ID, Document: deposit}},
	}, nil
}

// settleDeposit credits an announced deposit on the bank's report; a settled one is replied again.
// It fails with invalid_body for an EventID of a wrong length, with not_found, and with
// limit_exceeded when the balance has no room.
func (b deposits) settleDeposit(m decision.Meta, c SettleDeposit) (decision.Decision, error) {
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	deposit, known := b.orders.deposits.findOrder(c.DepositID)
	switch {
	case !known:
		return decision.Decision{}, fault.New(fault.NotFound, "")
	case deposit.Status == DepositDone:
		return decision.Decision{Reply: deposit}, nil
	}
	if !b.canAddCents(deposit.AmountUsdCents) {
		return decision.Decision{}, balanceFull()
	}
	deposit.Status = DepositDone
	credit := b.bankCredit(b.Workspace, deposit, deposit.ID, m.At)
	return depositArrival(m, c.EventID, deposit, credit, DepositSettled{
		Workspace: b.Workspace, Deposit: deposit.ID, EventID: c.EventID, AmountUsdCents: deposit.AmountUsdCents,
		Postings: credit.balancedPostings(), At: decision.StampOf(m.At),
	}), nil
}

// receiveDeposit credits a transfer without an announcement, on the bank's report. It fails with
// invalid_body for a wrong EventID, rail, amount or reference, and with limit_exceeded when the
// balance has no room.
func (b deposits) receiveDeposit(m decision.Meta, c ReceiveDeposit) (decision.Decision, error) {
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	if err := checkDeposit(c.Rail, c.AmountUsdCents); err != nil {
		return decision.Decision{}, err
	}
	if utf8.RuneCountInString(c.Reference) > MaxReference {
		return decision.Decision{}, fault.New(fault.InvalidBody, fmt.Sprintf("reference: at most %d characters",
			MaxReference))
	}
	if !b.canAddCents(b.IncomingCents, c.AmountUsdCents) {
		return decision.Decision{}, balanceFull()
	}
	at := decision.StampOf(m.At)
	deposit := Deposit{
		ID:     ident.Derive(slotOf(c.Workspace), m.At, "deposit/"+c.EventID).Format(ident.Deposit),
		Status: DepositDone, Rail: c.Rail, AmountUsdCents: c.AmountUsdCents, ExpectedAt: at,
	}
	reference := c.Reference
	if reference == "" {
		reference = deposit.ID
	}
	credit := b.bankCredit(c.Workspace, deposit, reference, m.At)
	return depositArrival(m, c.EventID, deposit, credit, DepositReceived{
		Workspace: c.Workspace, Deposit: deposit, EventID: c.EventID, Postings: credit.balancedPostings(), At: at,
	}), nil
}

// bankCredit is the transfer of a deposit from the bank to the workspace's dollars.
func (b deposits) bankCredit(workspace string, d Deposit, reference string, at time.Time) transfer {
	return transfer{
		workspace: workspace, account: AccountUSD, counterpart: AccountBank, cents: d.AmountUsdCents,
		source:    sourceDeposit,
		reference: reference, cause: "deposit/" + d.ID, at: at,
	}
}

// depositArrival builds the decision on an arrived deposit: its event, its record, its ledger line
// and the claim of the bank's event id.
func depositArrival(m decision.Meta, eventID string, d Deposit, credit transfer, e decision.Event) decision.Decision {
	return decision.Decision{
		Events:  []decision.Event{e},
		Reply:   d,
		Records: []decision.Record{{Kind: RecordDeposit, ID: d.ID, Document: d}, credit.ledgerRecord()},
		Onces:   []decision.Once{{Scope: ScopeBank, Key: eventID, Expires: m.At.Add(BankRetention)}},
	}
}

func (b deposits) applyDepositCreated(e DepositCreated) {
	b.Workspace = e.Workspace
	b.orders.deposits.storeOrder(e.Deposit.ID, e.Deposit)
	b.OpenDeposits++
	b.IncomingCents = money.MustAdd(b.IncomingCents, e.Deposit.AmountUsdCents)
}

// applyDepositSettled folds the event: the deposit is no longer pending and its dollars arrive. It
// panics when the deposit is not loaded or not pending.
func (b deposits) applyDepositSettled(e DepositSettled) {
	d, known := b.orders.deposits.findOrder(e.Deposit)
	if !known || d.Status != DepositPending {
		panic("BUG: settled a deposit that is not pending")
	}
	b.OpenDeposits--
	b.IncomingCents = money.MustAdd(b.IncomingCents, -d.AmountUsdCents)
	b.applyDepositArrival(d)
}

func (b deposits) applyDepositReceived(e DepositReceived) {
	b.Workspace = e.Workspace
	b.applyDepositArrival(e.Deposit)
}

// applyDepositArrival adds a deposit's dollars and stores it as settled. An overflow panics.
func (s *State) applyDepositArrival(d Deposit) {
	if err := s.addLedgerCents(d.AmountUsdCents); err != nil {
		panic("BUG: deposit after its check: " + err.Error())
	}
	d.Status = DepositDone
	s.orders.deposits.storeOrder(d.ID, d)
}

// canAddCents reports whether the balance can add all amounts without an overflow.
func (s *State) canAddCents(amounts ...money.Cents) bool {
	after := *s
	for _, cents := range amounts {
		if after.addLedgerCents(cents) != nil {
			return false
		}
	}
	return true
}

// checkDeposit fails with invalid_body for a rail other than ach, fednow and wire, or an amount
// that is not 1 to money.MaxAmount.
func checkDeposit(rail string, cents money.Cents) error {
	if !slices.Contains([]string{"ach", "fednow", "wire"}, rail) {
		return fault.New(fault.InvalidBody, "rail: ach, fednow or wire")
	}
	if cents <= 0 || cents > money.MaxAmount {
		return fault.New(fault.InvalidBody, fmt.Sprintf("amountUsdCents: 1 to %d", money.MaxAmount))
	}
	return nil
}

// checkEventID fails with invalid_body for an id that is not 1 to MaxEventID bytes.
func checkEventID(id string) error {
	if len(id) < 1 || len(id) > MaxEventID {
		return fault.New(fault.InvalidBody, fmt.Sprintf("id: 1 to %d bytes", MaxEventID))
	}
	return nil
}

func balanceFull() error {
	return fault.New(fault.LimitExceeded, "the balance cannot grow beyond what an account can hold")
}
