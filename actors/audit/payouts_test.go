package audit_test

import (
	"fmt"
	"testing"

	"purser/persistence/ident"
)

var (
	paid = id(ident.Payout, "paid")
	back = id(ident.Payout, "back")
	open = id(ident.Payout, "open")
)

// withPayouts adds a settled payout of 100.00, a failed one of 50.00 and an open one of 20.00. The
// number behind each line is the journal position of its event.
func withPayouts() *auditedStores {
	s := newAuditedStores()
	created := func(payout string, cents int) {
		s.event("balance", workspace, "balance.payout_created.v1",
			fmt.Sprintf(`{"payout":{"id":%q,"status":"reserved","amountCents":%d}}`, payout, cents))
	}
	moved := func(payout string, cents int, from, to, postings string) {
		s.event("balance", workspace, "balance.payout_moved.v1",
			fmt.Sprintf(`{"payout":%q,"from":%q,"to":%q,"amountCents":%d,"postings":[%s]}`, payout, from, to, cents,
				postings))
	}
	created(paid, 10000)                                                                                           // 8
	created(back, 5000)                                                                                            // 9
	created(open, 2000)                                                                                            // 10
	moved(paid, 10000, "reserved", "submitting", "")                                                               // 11
	moved(back, 5000, "reserved", "submitting", "")                                                                // 12
	moved(open, 2000, "reserved", "submitting", "")                                                                // 13
	moved(paid, 10000, "submitting", "settled", posting("paid", "usd", -10000)+","+posting("paid", "bank", 10000)) // 14
	moved(back, 5000, "submitting", "failed", "")                                                                  // 15
	s.follow = 15
	s.rules[0].Version, s.rules[0].State = 2, "frozen"
	editDocument("balance", `"usdCents":97500`, `"usdCents":87500,"reservedCents":2000`)(s)
	editDocument("balance", `"ledgerCents":100000`, `"ledgerCents":88000`)(s)
	editDocument("balance", `"deposits"`,
		fmt.Sprintf(`"payouts":[{"id":%q,"status":"submitting","amountCents":2000}],"deposits"`,
			open))(s)
	s.version("balance", 12)
	for payout, document := range map[string]string{paid: `"settled","amountCents":10000`,
		back: `"failed","amountCents":5000`,
		open: `"submitting","amountCents":2000`} {
		s.record("payout", payout, 0, fmt.Sprintf(`{"id":%q,"status":%s}`, payout, document))
	}
	s.record("ledger_entry", id(ident.LedgerEntry, "paid"), 0, fmt.Sprintf(
		`{"direction":"debit","amountCents":10000,"transferGroup":%q}`, id(ident.TransferGroup, "paid")))
	s.funds[0].Ledger = 88000
	return s
}

func TestEveryCorruptionOfAPayoutIsNamed(t *testing.T) {
	requireFindings(t, withPayouts, map[string]storeDamage{
		"payout's record says more": {editDocument("payout", `"amountCents":2000`, `"amountCents":2001`),
			"payout", "document"},
		"payout's record says otherwise": {editDocument("payout", "settled", "returned"), "payout", "document"},
		"payouts' records gone":          {dropRecords("payout"), "payout", "record"},
		"reservation without a payout": {editDocument("balance", `"reservedCents":2000`, `"reservedCents":2001`),
			"balance",
			"reserved"},
		"payout without a reservation": {editDocument("balance", `"reservedCents":2000`, `"reservedCents":0`),
			"balance",
			"reserved"},
		"balance forgot an open payout": {editDocument("balance", `"payouts":[`, `"was":[`), "balance", "open payouts"},
		"balance has another status": {editDocument("balance", `"submitting"`, `"submitted"`), "balance",
			"open payout"},
		"nothing was reserved": {editPayload(8, `10000`, `0`), "payout", "created"},
		"created twice":        {editPayload(9, back, paid), "payout", "created"},
		"created as settled":   {editPayload(9, "reserved", "settled"), "payout", "created"},
		"moved from where it was not": {editPayload(14, `"from":"submitting"`, `"from":"submitted"`), "payout",
			"moved from"},
		"moved with another amount": {editPayload(15, `5000`, `5001`), "payout", "moved from"},
		"a move that there is not": {editPayload(15, `"to":"failed"`, `"to":"returned"`), "payout",
			"may go from submitting to returned"},
		"settled without the bank": {editPayload(14, `"bank"`, `"network"`), "event", "postings to bank"},
		"settled for less":         {editPayload(14, `-10000`, `-9999`), "event", "postings to usd"},
		"authorizer has not the debit": {func(s *auditedStores) { s.funds[0].Ledger += 2000 }, "funds",
			"ledger cents"},
		"authorizer still has reservations": {func(s *auditedStores) { s.debits = reservation() }, "reservation",
			"of " + workspace},
	})
}
