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

// withPayouts adds a settled payout of 100.00, and on the next day a failed one of 50.00 and an open
// one of 20.00. The number behind each line is the journal position of its event.
func withPayouts() *auditedStores {
	s := newAuditedStores()
	created := func(payout string, cents int, order string) {
		s.event("balance", workspace, "balance.payout_created.v1",
			fmt.Sprintf(`{"payout":{"id":%q,"status":"reserved","amountCents":%d,%s}}`, payout, cents, order))
	}
	moved := func(payout string, cents int, from, to, postings string) {
		s.event("balance", workspace, "balance.payout_moved.v1",
			fmt.Sprintf(`{"payout":%q,"from":%q,"to":%q,"amountCents":%d,"postings":[%s]}`, payout, from, to, cents,
				postings))
	}
	created(paid, 10000, `"key":"key_1","createdAt":"2026-11-20T12:00:00Z"`)                                       // 8
	created(back, 5000, `"key":"key_2","createdAt":"2026-11-21T12:00:00Z"`)                                        // 9
	created(open, 2000, `"key":"key_1","createdAt":"2026-11-21T12:00:00Z"`)                                        // 10
	moved(paid, 10000, "reserved", "submitting", "")                                                               // 11
	moved(back, 5000, "reserved", "submitting", "")                                                                // 12
	moved(open, 2000, "reserved", "submitting", "")                                                                // 13
	moved(paid, 10000, "submitting", "settled", posting("paid", "usd", -10000)+","+posting("paid", "bank", 10000)) // 14
	moved(back, 5000, "submitting", "failed", "")                                                                  // 15
	s.follow = 15
	editDocument("balance", `"usdCents"`, `"paidOut":{"day":"2026-11-21","cents":2000,"keys":{"key_1":2000}},"usdCents"`)(s)
	s.rules[0].Version, s.rules[0].State = 2, "frozen"
	editDocument("balance", `"usdCents":97500`, `"usdCents":87500,"reservedCents":2000`)(s)
	editDocument("balance", `"ledgerCents":100000`, `"ledgerCents":88000`)(s)
	editDocument("balance", `"openDeposits"`, `"openPayouts":1,"openDeposits"`)(s)
	s.version("balance", 12)
	for payout, document := range map[string]string{paid: `"settled","amountCents":10000`,
		back: `"failed","amountCents":5000`,
		open: `"submitting","amountCents":2000`} {
		s.record("payout", payout, 0, fmt.Sprintf(`{"id":%q,"status":%s}`, payout, document))
	}
	s.record("ledger_entry", id(ident.LedgerEntry, "paid"), 0, fmt.Sprintf(
		`{"direction":"debit","amountCents":10000,"balanceCents":87500,"transferGroup":%q}`, id(ident.TransferGroup, "paid")))
	s.funds[0].Ledger = 88000
	return s
}

func TestEveryCorruptionOfAPayoutIsNamed(t *testing.T) {
	requireFindings(t, withPayouts, map[string]storeDamage{
		"payout's record says more": {editDocument("payout", `"amountCents":2000`, `"amountCents":2001`),
			"payout", "document"},
		"payout's record says otherwise": {editDocument("payout", "settled", "returned"), "payout", "document"},
		"balance says more is paid out": {editDocument("balance", `"cents":2000`, `"cents":2001`), "balance",
			"paid out"},
		"balance says a key paid more": {editDocument("balance", `"key_1":2000`, `"key_1":1000`),
			"balance", "paid out"},
		"balance says another day": {editDocument("balance", `11-21"`, `11-22"`), "balance", "paid out"},
		"payouts' records gone":    {dropRecords("payout"), "payout", "record"},
		"reservation without a payout": {editDocument("balance", `"reservedCents":2000`, `"reservedCents":2001`),
			"balance",
			"reserved"},
		"payout without a reservation": {editDocument("balance", `"reservedCents":2000`, `"reservedCents":0`),
			"balance",
			"reserved"},
		"balance forgot an open payout": {editDocument("balance", `"openPayouts":1`, `"openPayouts":0`), "balance", "open payouts"},
		"nothing was reserved":          {editPayload(8, `10000`, `0`), "payout", "created"},
		"created twice":                 {editPayload(9, back, paid), "payout", "created"},
		"created as settled":            {editPayload(9, "reserved", "settled"), "payout", "created"},
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

const quoted = `"counterpartyId":"rcp_1","sell":{"currency":"USD","amountMinor":10980},` +
	`"buy":{"currency":"EUR","amountMinor":10000},"rate":"0.910724","lockExpiresAt":"2026-11-20T12:02:00Z"`

// withQuotes adds a quote that is locked, and one that an open payout of 109.80 uses.
func withQuotes() *auditedStores {
	s := newAuditedStores()
	for _, quote := range []string{"fxq_1", "fxq_2"} {
		s.event("balance", workspace, "balance.fx_quote_locked.v1", // 8, 9
			fmt.Sprintf(`{"quote":{"id":%q,"status":"locked",%s}}`, quote, quoted))
	}
	s.event("balance", workspace, "balance.payout_created.v1", fmt.Sprintf(`{"payout":{"id":%q,"status":"held",
		"amountCents":10980,"quoteId":"fxq_2","key":"key_1","createdAt":"2026-11-20T12:00:00Z"}}`, open)) // 10
	editDocument("balance", `"ledgerCents":100000`, `"reservedCents":10980,"openPayouts":1,"ledgerCents":89020,
		"paidOut":{"day":"2026-11-20","cents":10980,"keys":{"key_1":10980}}`)(s)
	s.version("balance", 7)
	s.follow, s.rules[0].Version, s.rules[0].State, s.funds[0].Ledger = 10, 2, "frozen", 89020
	s.record("payout", open, 0, fmt.Sprintf(`{"id":%q,"status":"held","amountCents":10980}`, open))
	s.record("fx_quote", "fxq_1", 0, `{"id":"fxq_1","status":"locked",`+quoted+`}`)
	s.record("fx_quote", "fxq_2", 0, `{"id":"fxq_2","status":"used",`+quoted+`}`)
	return s
}

func TestEveryCorruptionOfAPayoutsQuoteIsNamed(t *testing.T) {
	requireFindings(t, withQuotes, map[string]storeDamage{
		"sells less":          {editDocument("fx_quote", `10980`, `1098`), "fx_quote", "document"},
		"buys more":           {editDocument("fx_quote", `10000`, `90000`), "fx_quote", "document"},
		"of another rate":     {editDocument("fx_quote", `0.91`, `0.19`), "fx_quote", "document"},
		"of another currency": {editDocument("fx_quote", `EUR`, `GBP`), "fx_quote", "document"},
		"of another person":   {editDocument("fx_quote", `rcp_1`, `rcp_2`), "fx_quote", "document"},
		"locked for longer":   {editDocument("fx_quote", `12:02`, `12:52`), "fx_quote", "document"},
		"locked again":        {editDocument("fx_quote", `used`, `locked`), "fx_quote", "document"},
		"records gone":        {dropRecords("fx_quote"), "fx_quote", "record"},
		"used by two":         {editPayload(9, `"status":"locked"`, `"status":"used"`), "payout", "its quote"},
		"of another amount":   {editPayload(9, `10980`, `10981`), "payout", "amount of its quote"},
		"made twice":          {editPayload(9, `fxq_2`, `fxq_1`), "fx_quote", "made before"},
	})
}
