package audit_test

import (
	"fmt"
	"testing"

	"purser/persistence/ident"
)

var (
	rampLink    = id(ident.RampAccount, "account")
	rampWallet  = id(ident.RampWallet, "wallet")
	rampSession = id(ident.RampSession, "session")
	rampOrders  = func(name string) string { return id(ident.RampOrder, name) }
	rampQuotes  = func(name string) string { return id(ident.RampQuote, name) }
)

// rampStory adds events and records of the ramp to stores.
type rampStory struct {
	*auditedStores
	dollars int // cents after the newest ledger line
}

func (r *rampStory) addBalanceEvent(what, payload string, args ...any) {
	r.event("balance", workspace, "balance."+what+".v1", fmt.Sprintf(payload, args...))
}

// addLedgerLine adds the line of a credit, or of a debit when cents is negative. A line of dollars
// has the balance after it.
func (r *rampStory) addLedgerLine(group, account string, cents int) {
	line := fmt.Sprintf(`"direction":"credit","amountCents":%d`, cents)
	if cents < 0 {
		line = fmt.Sprintf(`"direction":"debit","amountCents":%d`, -cents)
	}
	if account == "usd" {
		r.dollars += cents
		line += fmt.Sprintf(`,"balanceCents":%d`, r.dollars)
	}
	r.record("ledger_entry", id(ident.LedgerEntry, group), 0, fmt.Sprintf(`{%s,"transferGroup":%q}`, line,
		id(ident.TransferGroup, group)))
}

// addOrder adds a quote and an order that debits an account: two events.
func (r *rampStory) addOrder(name, direction, wallet, from string, cents, fee int) {
	terms := fmt.Sprintf(`"direction":%q,"amountCents":%d,"maxFeeCents":%d,"walletId":%q`, direction, cents, fee,
		wallet)
	r.addBalanceEvent("ramp_quoted", `{"quote":{"id":%q,"status":"locked",%s}}`, rampQuotes(name), terms)
	r.addBalanceEvent("ramp_ordered",
		`{"order":{"id":%q,"quoteId":%q,"status":"created","feeCents":%d,%s},"postings":[%s,%s]}`,
		rampOrders(name), rampQuotes(name), fee, terms, posting(name, from, -cents), posting(name, "ramp", cents))
	r.record("ramp_quote", rampQuotes(name), 0, fmt.Sprintf(`{"id":%q,"status":"used",%s}`, rampQuotes(name), terms))
	r.addLedgerLine(name, from, -cents)
}

func (r *rampStory) addMove(name, direction, from, to string, cents, fee int, rest string) {
	r.addBalanceEvent("ramp_moved", `{"order":%q,"direction":%q,"from":%q,"to":%q,"amountCents":%d,"feeCents":%d,%s}`,
		rampOrders(name),
		direction, from, to, cents, fee, rest)
}

func (r *rampStory) addOrderRecord(name, direction, status string, cents, most, fee int, rest string) {
	r.record("ramp_order", rampOrders(name), 0, fmt.Sprintf(
		`{"id":%q,"quoteId":%q,"status":%q,"direction":%q,"amountCents":%d,"maxFeeCents":%d,"feeCents":%d%s}`,
		rampOrders(name),
		rampQuotes(name), status, direction, cents, most, fee, rest))
}

// creditPostings are the postings of an order's credit; its ledger line is added.
func (r *rampStory) creditPostings(name, account string, cents int) string {
	r.addLedgerLine(name+" ends", account, cents)
	return fmt.Sprintf(`"postings":[%s,%s]`, posting(name+" ends", account, cents), posting(name+" ends", "ramp",
		-cents))
}

// unused is the document of a locked quote.
const unused = `"id":%q,"status":"locked","direction":"onramp","amountCents":500,"maxFeeCents":3`

// withRamp adds a completed on-ramp, a completed off-ramp, a completed withdrawal, an open
// off-ramp, a failed on-ramp, a failed session of the retired routes, and an unused quote. The
// numbers behind the lines are the journal positions of the events.
func withRamp() *auditedStores {
	const session = `"id":%q,"direction":"offramp","status":%q,"amountCents":700`
	s := newAuditedStores()
	r := &rampStory{s, 97500}
	account := func(what string) { // 8, 9
		s.event("ramp", workspace, "ramp.account_"+what+".v1", fmt.Sprintf(`{"account":%q}`, rampLink))
	}
	account("asked")
	account("linked")
	s.event("ramp", workspace, "ramp.wallet_added.v1", fmt.Sprintf( // 10
		`{"wallet":{"id":%q,"chain":"base","address":"0x1","status":"unproven"}}`, rampWallet))
	for _, what := range []string{"proven", "approved"} { // 11, 12
		s.event("ramp", workspace, "ramp.wallet_"+what+".v1", fmt.Sprintf(`{"wallet":%q}`, rampWallet))
	}
	r.addBalanceEvent("stablecoin_received", `{"amountUsdCents":20000,"postings":[%s,%s]}`,
		posting("coins", "stablecoin", 20000), // 13
		posting("coins", "chain", -20000))
	r.addLedgerLine("coins", "stablecoin", 20000)
	r.addOrder("on", "onramp", "", "usd", 10000, 50)                               // 14, 15
	r.addMove("on", "onramp", "created", "processing", 10000, 50, `"postings":[]`) // 16
	r.addMove("on", "onramp", "processing", "completed", 10000, 25,
		r.creditPostings("on", "stablecoin", 9975)) // 17
	r.addOrder("away", "withdraw", rampWallet, "stablecoin", 3000, 10)                              // 18, 19
	r.addMove("away", "withdraw", "created", "completed", 3000, 10, `"txHash":"0x2","postings":[]`) // 20
	r.addOrder("open", "offramp", "", "stablecoin", 4000, 20)                                       // 21, 22
	r.addOrder("returned", "onramp", "", "usd", 2000, 0)                                            // 23, 24
	r.addMove("returned", "onramp", "created", "failed", 2000, 0,
		r.creditPostings("returned", "usd", 2000)) // 25
	r.addBalanceEvent("ramp_session_imported", `{"session":{`+session+`}}`, rampSession, "processing")                // 26
	r.addBalanceEvent("ramp_session_moved", `{"session":%q,"direction":"offramp","from":"processing","to":"failed",`+ // 27
		`"amountCents":700,%s}`, rampSession, r.creditPostings("session", "stablecoin", 700))
	r.addOrder("off", "offramp", "", "stablecoin", 1000, 5)                                           // 28, 29
	r.addMove("off", "offramp", "created", "completed", 1000, 5, r.creditPostings("off", "usd", 995)) // 30
	s.rules[0].Version, s.rules[0].State = 2, "frozen"
	r.addBalanceEvent("ramp_quoted", `{"quote":{`+unused+`}}`, rampQuotes("unused")) // 31
	r.record("ramp_quote", rampQuotes("unused"), 0, fmt.Sprintf(`{`+unused+`}`, rampQuotes("unused")))
	s.follow = 31
	editDocument("balance", `"usdCents":97500`,
		`"stablecoinCents":22675,"rampCents":4000,"openRampOrders":1,"usdCents":88495`)(s)
	editDocument("balance", `"ledgerCents":100000`, `"ledgerCents":90995`)(s)
	s.version("balance", 23)
	s.funds[0].Ledger = 90995
	s.record("ramp", workspace, 5,
		fmt.Sprintf(`{"account":{"id":%q,"status":"linked"},"wallets":[{"id":%q,"chain":"base",`+
			`"address":"0x1","status":"approved"}]}`, rampLink, rampWallet))
	s.record("ramp_account", rampLink, 0, fmt.Sprintf(`{"id":%q,"status":"linked"}`, rampLink))
	s.record("ramp_wallet", rampWallet, 0, fmt.Sprintf(`{"id":%q,"chain":"base","address":"0x1","status":"approved"}`,
		rampWallet))
	s.record("ramp_session", rampSession, 0, fmt.Sprintf(`{`+session+`}`, rampSession, "failed"))
	r.addOrderRecord("on", "onramp", "completed", 10000, 50, 25, "")
	r.addOrderRecord("away", "withdraw", "completed", 3000, 10, 10, fmt.Sprintf(`,"walletId":%q,"txHash":"0x2"`,
		rampWallet))
	r.addOrderRecord("open", "offramp", "created", 4000, 20, 20, "")
	r.addOrderRecord("returned", "onramp", "failed", 2000, 0, 0, "")
	r.addOrderRecord("off", "offramp", "completed", 1000, 5, 5, "")
	return s
}

func TestEveryCorruptionOfTheRampIsNamed(t *testing.T) {
	requireFindings(t, withRamp, map[string]storeDamage{
		"order's record gone": {dropRecords("ramp_order"), "ramp_order", "record"},
		"order's record says otherwise": {editDocument("ramp_order", `"completed"`, `"failed"`),
			"ramp_order", "document"},
		"order's record has another fee": {editDocument("ramp_order", `"feeCents":25`, `"feeCents":24`),
			"ramp_order", "document"},
		"order's record names another transaction": {editDocument("ramp_order", `0x2`, `0x3`), "ramp_order",
			"document"},
		"quote's record is free again": {editDocument("ramp_quote", "used", "locked"), "ramp_quote",
			"document"},
		"quotes' records gone": {dropRecords("ramp_quote"), "ramp_quote", "record"},
		"account's record": {editDocument("ramp_account", "linked", "pending"),
			"ramp_account", "document"},
		"wallet's record has another address": {editDocument("ramp_wallet", "0x1", "0x2"), "ramp_wallet",
			"document"},
		"session's record": {editDocument("ramp_session", "failed", "processing"),
			"ramp_session", "document"},
		"state of the ramp gone":                {dropRecords("ramp"), "ramp", "record"},
		"state of the ramp has another account": {editDocument("ramp", "linked", "pending"), "ramp", "account"},
		"state of the ramp has another address": {editDocument("ramp", "0x1", "0x2"), "ramp", "wallet"},
		"balance has more USDC":                 {editDocument("balance", "22675", "22676"), "balance", "stablecoins"},
		"balance has more dollars":              {editDocument("balance", "88495", "88496"), "balance", "usd by postings"},
		"the ramp has less": {editDocument("balance", `"rampCents":4000`, `"rampCents":3999`),
			"balance", "ramp and its open orders"},
		"balance forgot an open order": {editDocument("balance", `"openRampOrders":1`, `"openRampOrders":0`),
			"balance", "ramp and its open orders"},
		"authorizer has not the debit": {func(s *auditedStores) { s.funds[0].Ledger += 10000 }, "funds",
			"ledger cents"},
		"linked before it was asked": {editPayload(9, rampLink, "ramp_1"), "ramp_account",
			"before it was linked"},
		"added as approved": {editPayload(10, "unproven", "approved"), "ramp_wallet", "added as"},
		"approved without a proof": {editPayload(11, rampWallet, "wal_1"), "ramp_wallet",
			"before it was approved"},
		"withdrawn to a wallet nobody approved": {editPayload(12, rampWallet, "wal_1"), "ramp_order", "wallet"},
		"an order of more than its quote":       {editPayload(14, `10000`, `9999`), "ramp_order", "quote"},
		"a quote that is made used":             {editPayload(14, `locked`, `used`), "ramp_quote", "made"},
		"created twice": {editPayload(24, rampOrders("returned"), rampOrders("on")),
			"ramp_order", "created before"},
		"a quote used twice": {editPayload(24, rampQuotes("returned"), rampQuotes("on")), "ramp_order",
			"quote"},
		"created as processing":      {editPayload(15, `"created"`, `"processing"`), "ramp_order", "created"},
		"taken from another account": {editPayload(15, `"usd"`, `"stablecoin"`), "event", "postings to usd"},
		"less is taken":              {editPayload(15, `-10000`, `-9999`), "event", "postings to usd"},
		"moved from where it was not": {editPayload(17, `"from":"processing"`, `"from":"created"`),
			"ramp_order", "moved from"},
		"moved another way": {editPayload(17, `"onramp"`, `"offramp"`), "ramp_order", "moved from"},
		"moved with another amount": {editPayload(17, `"amountCents":10000`, `"amountCents":10001`),
			"ramp_order", "moved from"},
		"a move that there is not": {editPayload(16, `"processing"`, `"created"`),
			"ramp_order", "may go from created to created"},
		"a fee over the most": {editPayload(17, `"feeCents":25`, `"feeCents":51`), "ramp_order", "fee"},
		"more arrives than the fee leaves": {editPayload(17, `"feeCents":25`, `"feeCents":26`), "event",
			"postings to stablecoin"},
		"what left comes back": {editPayload(20, `"completed"`, `"failed"`), "event",
			"postings to stablecoin"},
		"failed and charged": {editPayload(25, `"feeCents":0`, `"feeCents":1`), "ramp_order", "fee"},
		"failed and not given back": {editPayload(25, `"to":"failed"`, `"to":"completed"`), "event",
			"postings to usd"},
		"brought over twice": {editPayload(27, `"from":"processing"`, `"from":"completed"`),
			"ramp_session", "moved from"},
		"confirmed and given back": {editPayload(27, `"to":"failed"`, `"to":"completed"`),
			"event", "postings to stablecoin"},
		"a session that goes on": {editPayload(27, `"to":"failed"`, `"to":"created"`), "ramp_session",
			"may go from processing to created"},
		"dollars from nowhere": {editPayload(30, `"ramp"`, `"bank"`), "event", "postings to ramp"},
		"an event that the ramp has none": {func(s *auditedStores) { s.events[8].Type = "ramp.account_lost.v1" },
			"event", "type"},
		"a line says more": {editDocument("ledger_entry", "9975", "9976"), "ledger_entry", "amount"},
	})
}
