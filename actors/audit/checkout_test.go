package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"purser/persistence/ident"
)

var (
	soldID    = id(ident.Checkout, "sold")
	waitingID = id(ident.Checkout, "waiting")
)

const (
	soldTerms = `"toleranceCents":12,"pairs":[{"asset":"ETH","chain":"base","address":"0xa"}],"prices":{"ETH":"2500"},` +
		`"expiresAt":"2026-11-20T13:00:00Z"`
	soldPayment = `{"chain":"base","asset":"ETH","address":"0xa","txHash":"0x1","index":0,"units":"10000000000000000",` +
		`"sightings":[{"blockHash":"0xb","block":7,"shown":3}]}`
	soldBy = `"txHash":"0x1","payerAddress":"0x2"`
)

// withCheckouts adds a session of 25.00 that is paid and credited, one of 7.00 whose credit is
// pending, and a deposit of 10.00 in stablecoins.
func withCheckouts() *auditedStores {
	s := newAuditedStores()
	coins := func(group string, cents int) string {
		return posting(group, "stablecoin", cents) + "," + posting(group, "chain", -cents)
	}
	s.event("checkout", soldID, "checkout.created.v1", `{"amountUsdCents":2500,`+soldTerms+`}`) // 8
	s.event("checkout", soldID, "checkout.payment_seen.v1", `{"payment":`+soldPayment+`}`)      // 9
	s.event("checkout", soldID, "checkout.completed.v1", `{"amountUsdCents":2500,`+soldBy+`}`)  // 10
	s.event("balance", workspace, "balance.checkout_credited.v1",                               // 11
		fmt.Sprintf(`{"session":%q,"amountUsdCents":2500,"postings":[%s]}`, soldID, coins("sold", 2500)))
	s.event("checkout", soldID, "checkout.credited.v1", `{"amountUsdCents":2500,"at":"2026-11-20T12:00:00Z"}`) // 12
	s.event("checkout", waitingID, "checkout.created.v1", `{"amountUsdCents":700}`)                            // 13
	s.event("checkout", waitingID, "checkout.completed.v1", `{"amountUsdCents":700,"simulated":true}`)         // 14
	s.event("balance", workspace, "balance.stablecoin_received.v1",                                            // 15
		fmt.Sprintf(`{"amountUsdCents":1000,"postings":[%s]}`, coins("received", 1000)))
	editDocument("balance", `"suspenseCents":0`, `"suspenseCents":0,"stablecoinCents":3500`)(s)
	s.version("balance", 6)
	s.record("checkout", soldID, 4, `{"status":"completed","creditedAt":"2026-11-20T12:00:00Z","amountUsdCents":2500,`+
		soldTerms+`,`+soldBy+`,"payments":[`+soldPayment+`]}`)
	s.record("tally_checkout_open", workspace, 0, fmt.Sprintf(`{"count":0,"first":%q}`, soldID))
	s.record("checkout", waitingID, 2, `{"status":"completed","amountUsdCents":700,"simulated":true}`)
	for group, cents := range map[string]int{"sold": 2500, "received": 1000} {
		s.record("ledger_entry", id(ident.LedgerEntry, group), 0,
			fmt.Sprintf(`{"direction":"credit","amountCents":%d,"transferGroup":%q}`, cents, id(ident.TransferGroup,
				group)))
	}
	return s
}

// A session accepted with a shortfall is credited without the shortfall.
func TestAShortfallIsNotCredited(t *testing.T) {
	short := func() *auditedStores {
		s := newAuditedStores()
		s.event("checkout", soldID, "checkout.created.v1", `{"amountUsdCents":2500,`+soldTerms+`}`)         // 8
		payment := strings.Replace(soldPayment, `"10000`, `"09952`, 1)                                      // 12 cents less
		s.event("checkout", soldID, "checkout.payment_seen.v1", `{"payment":`+payment+`}`)                  // 9
		s.event("checkout", soldID, "checkout.completed.v1", `{"amountUsdCents":2500,"shortfallCents":12}`) // 10
		s.event("balance", workspace, "balance.checkout_credited.v1",                                       // 11
			fmt.Sprintf(`{"session":%q,"amountUsdCents":2488,"postings":[%s,%s]}`, soldID,
				posting("sold", "stablecoin", 2488), posting("sold", "chain", -2488)))
		s.event("checkout", soldID, "checkout.credited.v1", `{"amountUsdCents":2500,"shortfallCents":12}`) // 12
		editDocument("balance", `"suspenseCents":0`, `"suspenseCents":0,"stablecoinCents":2488`)(s)
		s.version("balance", 5)
		editPayload(12, `"amount`, `"at":"2026-11-20T12:00:00Z","amount`)(s)
		s.record("checkout", soldID, 4, `{"status":"completed","creditedAt":"2026-11-20T12:00:00Z","amountUsdCents":2500,`+
			soldTerms+`,"shortfallCents":12,"payments":[`+payment+`]}`)
		s.record("tally_checkout_open", workspace, 0, fmt.Sprintf(`{"count":0,"first":%q}`, soldID))
		s.record("ledger_entry", id(ident.LedgerEntry, "sold"), 0, fmt.Sprintf(
			`{"direction":"credit","amountCents":2488,"transferGroup":%q}`, id(ident.TransferGroup, "sold")))
		return s
	}
	requireFindings(t, short, map[string]storeDamage{
		"credited in full": {editPayload(11, `"amountUsdCents":2488`, `"amountUsdCents":2500`), "checkout",
			"before its credit"},
		"told in full": {editPayload(12, `"shortfallCents":12`, `"other":12`),
			"checkout", "recorded credit"},
		"record forgot it": {editDocument("checkout", `"shortfallCents":12`, `"other":12`),
			"checkout", "completion"},
		"beyond the tolerance": {editPayload(8, `"toleranceCents":12`, `"toleranceCents":11`),
			"checkout", "shortfall"},
		"negative": {editPayload(10, `"shortfallCents":12`, `"shortfallCents":-1`),
			"checkout", "shortfall"},
		"paid less than the rest": {editPayload(9, `"09952`, `"09951`), "checkout", "confirmed payments"},
	})
}

// A link is counted while it is open.
func TestOpenLinksAreCounted(t *testing.T) {
	move := func(s *auditedStores, session, from, to string) {
		s.event("checkout", session, "checkout.moved.v1", fmt.Sprintf(`{"from":%q,"to":%q}`, from, to))
	}
	counted := func() *auditedStores {
		s := newAuditedStores()
		s.event("checkout", waitingID, "checkout.created.v1", `{}`) // 8
		move(s, waitingID, "pending", "expired")                    // 9
		move(s, waitingID, "expired", "confirming")                 // 10
		s.record("checkout", waitingID, 3, `{"status":"confirming"}`)
		s.record("tally_checkout_open", workspace, 0, fmt.Sprintf(`{"count":1,"first":%q}`, waitingID))
		return s
	}
	requireFindings(t, counted, map[string]storeDamage{
		"counts too many": {editDocument("tally_checkout_open", `"count":1`, `"count":2`), "tally_checkout_open", "document"},
		"never reopened":  {editPayload(10, "confirming", "failed"), "tally_checkout_open", "document"},
		"completed": {func(s *auditedStores) {
			s.event("checkout", waitingID, "checkout.completed.v1", `{"amountUsdCents":700}`)
		}, "tally_checkout_open", "document"},
	})
}

func TestEveryCorruptionOfACheckoutIsNamed(t *testing.T) {
	requireFindings(t, withCheckouts, map[string]storeDamage{
		"completed twice": {func(s *auditedStores) {
			s.event("checkout", soldID, "checkout.completed.v1", `{"amountUsdCents":2500}`)
		}, "checkout", "completed before"},
		"credited without a completion": {editPayload(11, soldID, waitingID), "checkout", "before its credit"},
		"credited with another amount": {editPayload(11, `"amountUsdCents":2500`, `"amountUsdCents":2501`), "checkout",
			"before its credit"},
		"posted another amount":     {editPayload(11, `2500}`, `2499}`), "event", "postings to stablecoin"},
		"posted to dollars":         {editPayload(15, `"stablecoin"`, `"usd"`), "event", "postings to usd"},
		"told of another amount":    {editPayload(12, `2500`, `2400`), "checkout", "recorded credit"},
		"session forgot its credit": {editDocument("checkout", `"creditedAt"`, `"was"`), "checkout", "credited"},
		"session is not completed":  {editDocument("checkout", `"completed"`, `"expired"`), "checkout", "completed"},
		"amount of the record": {editDocument("checkout", `"amountUsdCents":2500`, `"amountUsdCents":9500`),
			"checkout", "amount"},
		"tolerance of the record": {editDocument("checkout", `"toleranceCents":12`, `"toleranceCents":92`),
			"checkout", "tolerance"},
		"price of the record": {editDocument("checkout", `"ETH":"2500"`, `"ETH":"9500"`), "checkout", "prices"},
		"address of the record": {editDocument("checkout", `"address":"0xa"`, `"address":"0xc"`),
			"checkout", "pairs"},
		"expiry of the record":        {editDocument("checkout", `T13`, `T23`), "checkout", "creation and expiry"},
		"units of the record":         {editDocument("checkout", `"units":"1`, `"units":"9`), "checkout", "payments"},
		"confirmations of the record": {editDocument("checkout", `"shown":3`, `"shown":1`), "checkout", "payments"},
		"block of the record":         {editDocument("checkout", `"0xb"`, `"0xc"`), "checkout", "payments"},
		"reason of the record": {editDocument("checkout", `"index":0`, `"index":0,"reason":"too_late"`),
			"checkout", "payments"},
		"payer of the record": {editDocument("checkout", `"0x2"`, `"0x3"`), "checkout", "completion"},
		"simulation of the record": {editDocument("checkout", `"payerAddress"`, `"simulated":true,"payerAddress"`),
			"checkout", "completion"},
		"time of the credit": {editDocument("checkout", `T12:00`, `T12:01`), "checkout", "times of its end"},
		"cancelled in the record": {editDocument("checkout", `"creditedAt"`, `"cancelledAt":"2026-11-20T11:00:00Z","creditedAt"`),
			"checkout", "times of its end"},
		"completed with more": {editPayload(10, `2500`, `9500`), "checkout", "completed amount"},
		"paid at another price": {editPayload(8, `"ETH":"2500"`, `"ETH":"2400"`),
			"checkout", "confirmed payments"},
		"paid with another coin": {editPayload(9, `"chain":"base"`, `"chain":"ethereum"`),
			"checkout", "confirmed payments"},
		"paid too late": {editPayload(9, `"index":0`, `"reason":"too_late"`),
			"checkout", "confirmed payments"},
		"paid without confirmations": {editPayload(9, `"shown":3`, `"shown":2`), "checkout", "confirmed payments"},
		"paid in a dropped block": {editPayload(9, `"shown":3`, `"shown":3,"withdrawn":true`),
			"checkout", "confirmed payments"},
		"paid no number": {editPayload(9, `"units":"1`, `"units":"x`), "checkout", "confirmed payments"},
		"not simulated": {editPayload(14, `"simulated":true`, `"simulated":false`),
			"checkout", "confirmed payments"},
		"confirmed in an unknown block": {func(s *auditedStores) {
			s.event("checkout", soldID, "checkout.payment_confirmed.v1", `{"chain":"base","txHash":"0x1","blockHash":"0xd"}`)
		}, "checkout", "payment in block 0xd"},
		"session's record gone":        {dropRecords("checkout"), "checkout", "record"},
		"balance has more stablecoins": {editDocument("balance", `3500`, `3501`), "balance", "stablecoins"},
		"a line of the ledger says less": {editDocument("ledger_entry", `"amountCents":2500`, `"amountCents":2400`),
			"ledger_entry",
			"amount"},
	})
}
