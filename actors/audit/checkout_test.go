package audit_test

import (
	"fmt"
	"testing"

	"purser/persistence/ident"
)

var (
	soldID    = id(ident.Checkout, "sold")
	waitingID = id(ident.Checkout, "waiting")
)

// withCheckouts adds a session of 25.00 that is paid and credited, one of 7.00 whose credit is
// pending, and a deposit of 10.00 in stablecoins.
func withCheckouts() *auditedStores {
	s := newAuditedStores()
	coins := func(group string, cents int) string {
		return posting(group, "stablecoin", cents) + "," + posting(group, "chain", -cents)
	}
	s.event("checkout", soldID, "checkout.completed.v1", `{"amountUsdCents":2500}`) // 8
	s.event("balance", workspace, "balance.checkout_credited.v1",                   // 9
		fmt.Sprintf(`{"session":%q,"amountUsdCents":2500,"postings":[%s]}`, soldID, coins("sold", 2500)))
	s.event("checkout", soldID, "checkout.credited.v1", `{"amountUsdCents":2500}`)    // 10
	s.event("checkout", waitingID, "checkout.completed.v1", `{"amountUsdCents":700}`) // 11
	s.event("balance", workspace, "balance.stablecoin_received.v1",                   // 12
		fmt.Sprintf(`{"amountUsdCents":1000,"postings":[%s]}`, coins("received", 1000)))
	editDocument("balance", `"suspenseCents":0`, `"suspenseCents":0,"stablecoinCents":3500`)(s)
	s.version("balance", 6)
	s.record("checkout", soldID, 2, `{"status":"completed","creditedAt":"2026-11-20T12:00:00Z"}`)
	s.record("checkout", waitingID, 1, `{"status":"completed"}`)
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
		s.event("checkout", soldID, "checkout.completed.v1", `{"amountUsdCents":2500,"shortfallCents":12}`) // 8
		s.event("balance", workspace, "balance.checkout_credited.v1",                                       // 9
			fmt.Sprintf(`{"session":%q,"amountUsdCents":2488,"postings":[%s,%s]}`, soldID,
				posting("sold", "stablecoin", 2488), posting("sold", "chain", -2488)))
		s.event("checkout", soldID, "checkout.credited.v1", `{"amountUsdCents":2500,"shortfallCents":12}`) // 10
		editDocument("balance", `"suspenseCents":0`, `"suspenseCents":0,"stablecoinCents":2488`)(s)
		s.version("balance", 5)
		s.record("checkout", soldID, 2, `{"status":"completed","creditedAt":"2026-11-20T12:00:00Z"}`)
		s.record("ledger_entry", id(ident.LedgerEntry, "sold"), 0, fmt.Sprintf(
			`{"direction":"credit","amountCents":2488,"transferGroup":%q}`, id(ident.TransferGroup, "sold")))
		return s
	}
	requireFindings(t, short, map[string]storeDamage{
		"credited in full": {editPayload(9, `"amountUsdCents":2488`, `"amountUsdCents":2500`), "checkout",
			"before its credit"},
		"told in full": {editPayload(10, `"shortfallCents":12`, `"other":12`), "checkout", "recorded credit"},
	})
}

// A counted link is counted while it is open. A link of an earlier version never is.
func TestOpenLinksAreCounted(t *testing.T) {
	move := func(s *auditedStores, session, from, to string) {
		s.event("checkout", session, "checkout.moved.v1", fmt.Sprintf(`{"from":%q,"to":%q}`, from, to))
	}
	counted := func() *auditedStores {
		s := newAuditedStores()
		s.event("checkout", waitingID, "checkout.created.v1", `{"counted":true}`) // 8
		move(s, waitingID, "pending", "expired")                                  // 9
		move(s, waitingID, "expired", "confirming")                               // 10
		s.event("checkout", soldID, "checkout.created.v1", `{}`)                  // 11
		move(s, soldID, "pending", "expired")                                     // 12
		move(s, soldID, "expired", "confirming")                                  // 13
		s.record("checkout", waitingID, 3, `{"status":"confirming"}`)
		s.record("checkout", soldID, 3, `{"status":"confirming"}`)
		s.record("tally_checkout_open", workspace, 0, fmt.Sprintf(`{"count":1,"first":%q}`, waitingID))
		return s
	}
	requireFindings(t, counted, map[string]storeDamage{
		"counts an old link": {editDocument("tally_checkout_open", `"count":1`, `"count":2`), "tally_checkout_open", "count"},
		"never reopened":     {editPayload(10, "confirming", "failed"), "tally_checkout_open", "count"},
		"completed": {func(s *auditedStores) {
			s.event("checkout", waitingID, "checkout.completed.v1", `{"amountUsdCents":700}`)
		}, "tally_checkout_open", "count"},
	})
}

func TestEveryCorruptionOfACheckoutIsNamed(t *testing.T) {
	requireFindings(t, withCheckouts, map[string]storeDamage{
		"completed twice": {func(s *auditedStores) {
			s.event("checkout", soldID, "checkout.completed.v1", `{"amountUsdCents":2500}`)
		}, "checkout", "completed before"},
		"credited without a completion": {editPayload(9, soldID, waitingID), "checkout", "before its credit"},
		"credited with another amount": {editPayload(9, `"amountUsdCents":2500`, `"amountUsdCents":2501`), "checkout",
			"before its credit"},
		"posted another amount":        {editPayload(9, `2500}`, `2499}`), "event", "postings to stablecoin"},
		"posted to dollars":            {editPayload(12, `"stablecoin"`, `"usd"`), "event", "postings to usd"},
		"told of another amount":       {editPayload(10, `2500`, `2400`), "checkout", "recorded credit"},
		"session forgot its credit":    {editDocument("checkout", `"creditedAt"`, `"was"`), "checkout", "credited"},
		"session is not completed":     {editDocument("checkout", `"completed"`, `"expired"`), "checkout", "completed"},
		"session's record gone":        {dropRecords("checkout"), "checkout", "record"},
		"balance has more stablecoins": {editDocument("balance", `3500`, `3501`), "balance", "stablecoins"},
		"a line of the ledger says less": {editDocument("ledger_entry", `"amountCents":2500`, `"amountCents":2400`),
			"ledger_entry",
			"amount"},
	})
}
