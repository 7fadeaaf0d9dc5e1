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

// withPayouts adds to the stores of 1,000.00 a payout of 100.00 that settled, one of 50.00 that failed and one of 20.00 that the
// bank has.
func withPayouts() *stores {
	s := newStores()
	created := func(payout string, cents int) {
		s.event("balance", workspace, "balance.payout_created.v1",
			fmt.Sprintf(`{"payout":{"id":%q,"status":"reserved","amountCents":%d}}`, payout, cents))
	}
	moved := func(payout string, cents int, from, to, postings string) {
		s.event("balance", workspace, "balance.payout_moved.v1",
			fmt.Sprintf(`{"payout":%q,"from":%q,"to":%q,"amountCents":%d,"postings":[%s]}`, payout, from, to, cents, postings))
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
	edit("balance", `"usdCents":97500`, `"usdCents":87500,"reservedCents":2000`)(s)
	edit("balance", `"ledgerCents":100000`, `"ledgerCents":88000`)(s)
	edit("balance", `"deposits"`, fmt.Sprintf(`"payouts":[{"id":%q,"status":"submitting","amountCents":2000}],"deposits"`,
		open))(s)
	s.version("balance", 12)
	for payout, document := range map[string]string{paid: `"settled","amountCents":10000`, back: `"failed","amountCents":5000`,
		open: `"submitting","amountCents":2000`} {
		s.record("payout", payout, 0, fmt.Sprintf(`{"id":%q,"status":%s}`, payout, document))
	}
	s.record("ledger_entry", id(ident.LedgerEntry, "paid"), 0, fmt.Sprintf(
		`{"direction":"debit","amountCents":10000,"transferGroup":%q}`, id(ident.TransferGroup, "paid")))
	s.funds[0].Ledger = 88000
	return s
}

func TestEveryCorruptionOfAPayoutIsNamed(t *testing.T) {
	requireNamed(t, withPayouts, map[string]corruption{
		"payout's record says more":      {edit("payout", `"amountCents":2000`, `"amountCents":2001`), "payout", "document"},
		"payout's record says otherwise": {edit("payout", "settled", "returned"), "payout", "document"},
		"payouts' records gone":          {drop("payout"), "payout", "record"},
		"reservation without a payout": {edit("balance", `"reservedCents":2000`, `"reservedCents":2001`), "balance",
			"reserved"},
		"payout without a reservation": {edit("balance", `"reservedCents":2000`, `"reservedCents":0`), "balance",
			"reserved"},
		"balance forgot an open payout": {edit("balance", `"payouts":[`, `"was":[`), "balance", "open payouts"},
		"balance has another status":    {edit("balance", `"submitting"`, `"submitted"`), "balance", "open payout"},
		"nothing was reserved":          {payload(8, `10000`, `0`), "payout", "created"},
		"created twice":                 {payload(9, back, paid), "payout", "created"},
		"created as settled":            {payload(9, "reserved", "settled"), "payout", "created"},
		"moved from where it was not":   {payload(14, `"from":"submitting"`, `"from":"submitted"`), "payout", "moved from"},
		"moved with another amount":     {payload(15, `5000`, `5001`), "payout", "moved from"},
		"a move that there is not": {payload(15, `"to":"failed"`, `"to":"returned"`), "payout",
			"may go from submitting to returned"},
		"settled without the bank":          {payload(14, `"bank"`, `"network"`), "event", "postings to bank"},
		"settled for less":                  {payload(14, `-10000`, `-9999`), "event", "postings to usd"},
		"authorizer has not the debit":      {func(s *stores) { s.funds[0].Ledger += 2000 }, "funds", "ledger cents"},
		"authorizer still has reservations": {func(s *stores) { s.debits = reservation() }, "reservation", "of " + workspace},
	})
}
