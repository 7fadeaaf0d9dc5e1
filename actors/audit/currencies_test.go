package audit_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/audit"
	"purser/persistence/ident"
)

var (
	paidIn    = id(ident.Deposit, "paid in")
	converted = id(ident.Conversion, "converted")
)

// withCurrencies adds 500.00 euros, of which 100.00 were converted to 16,000 yen.
func withCurrencies() *auditedStores {
	s := newAuditedStores()
	leg := func(group, account, currency string, minor int) string {
		return fmt.Sprintf(`{"transfer":%q,"account":%q,"currency":%q,"cents":%d}`, group, account, currency, minor)
	}
	event := func(what, payload string) { s.event("balance", workspace, "balance."+what+".v1", payload) }
	const sides = `"sell":{"currency":"EUR","amountMinor":10000},"buy":{"currency":"JPY","amountMinor":16000}`
	event("currency_opened", `{"currency":"EUR"}`) // 8
	event("currency_opened", `{"currency":"JPY"}`) // 9
	event("payin_announced",
		fmt.Sprintf(`{"payin":{"id":%q,"status":"pending","amount":{"currency":"EUR","amountMinor":50000}}}`,
			paidIn))
	// 11
	event("payin_arrived",
		fmt.Sprintf(`{"payin":%q,"amount":{"currency":"EUR","amountMinor":50000},"postings":[%s,%s]}`, paidIn,
			leg("t1", "bank", "EUR", -50000), leg("t1", "currency", "EUR", 50000)))
	event("conversion_quoted", `{"quote":{"id":"mcq_1","status":"locked",`+sides+`,"rate":"1.6"}}`) // 12
	event("conversion_created",
		fmt.Sprintf(`{"conversion":{"id":%q,"quoteId":"mcq_1","status":"held",%s},"postings":[%s,%s]}`,
			converted, sides, leg("t2", "currency", "EUR", -10000), leg("t2", "currency_held", "EUR", 10000)))
	event("conversion_moved",
		fmt.Sprintf(`{"conversion":%q,"from":"held","to":"provider_submitted",%s,"postings":[]}`, converted,
			sides)) // 14
	event("conversion_moved",
		fmt.Sprintf(`{"conversion":%q,"from":"provider_submitted","to":"completed",%s,"postings":[%s,%s,%s,%s,%s,%s]}`, converted,
			sides, leg("t3", "currency_held", "EUR", -10000), leg("t3", "currency", "EUR", 10000),
			leg("t3", "currency", "EUR", -10000), leg("t3", "fx", "EUR", 10000), leg("t3", "fx", "JPY", -16000),
			leg("t3", "currency", "JPY", 16000))) // 15
	s.follow = 15
	s.rules[0].Version, s.rules[0].State = 2, "frozen"
	editDocument("balance", `"usdCents":97500`,
		`"currencies":[{"currency":"EUR","availableMinor":40000},{"currency":"JPY","availableMinor":16000}],"usdCents":97500`)(s)
	for i := range s.records {
		if s.records[i].Kind == "balance" {
			s.records[i].Version = 12
		}
	}
	s.record("payin", paidIn, 0,
		fmt.Sprintf(`{"id":%q,"status":"arrived","amount":{"currency":"EUR","amountMinor":50000}}`,
			paidIn))
	s.record("conversion_quote", "mcq_1", 0, `{"id":"mcq_1","status":"used",`+sides+`,"rate":"1.6"}`)
	s.record("conversion", converted, 0, fmt.Sprintf(`{"id":%q,"status":"completed",%s}`, converted, sides))
	for i, line := range []struct {
		transfer, currency, direction string
		minor                         int
	}{{"t1", "EUR", "credit", 50000}, {"t2", "EUR", "debit", 10000}, {"t3", "EUR", "credit", 10000},
		{"t3", "EUR", "debit", 10000},
		{"t3", "JPY", "credit", 16000}} {
		s.record("currency_activity", id(ident.LedgerEntry, fmt.Sprint("activity ", i)), 0, fmt.Sprintf(
			`{"currency":%q,"direction":%q,"amountMinor":%d,"transfer":%q}`, line.currency, line.direction, line.minor,
			line.transfer))
	}
	return s
}

func TestSoundCurrenciesAreClean(t *testing.T) {
	require.Empty(t, withCurrencies().runAudit(t).Findings)
}

func TestEveryCorruptionOfACurrencyIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		damage     func(*auditedStores)
		kind, what string
	}{
		"balance says more": {editDocument("balance", `"availableMinor":40000`, `"availableMinor":40001`), "currency",
			"available and held"},
		"balance has another": {editDocument("balance", `"currency":"JPY"`, `"currency":"GBP"`), "currency",
			"opened"},
		"opened twice":             {editPayload(9, "JPY", "EUR"), "currency", "opened before"},
		"payin's record gone":      {dropRecords("payin"), "payin", "record"},
		"payin's record says more": {editDocument("payin", "50000", "50001"), "payin", "document"},
		"more arrives": {editPayload(11, `"amountMinor":50000`, `"amountMinor":50001`), "payin",
			"arrived from"},
		"a leg is off": {editPayload(15, `"cents":16000`, `"cents":16001`), "transfer",
			"sum of postings in JPY"},
		"another account": {editPayload(15, `"fx","currency":"JPY"`, `"bank","currency":"JPY"`), "event",
			"postings to fx in JPY"},
		"less is held": {editPayload(13, `"cents":10000`, `"cents":9999`), "event",
			"postings to currency_held in EUR"},
		"a move that is not": {editPayload(15, `"from":"provider_submitted"`, `"from":"held"`), "conversion",
			"moved from"},
		"an end that is not": {editPayload(14, `"to":"provider_submitted"`, `"to":"completed"`), "conversion",
			"may go from held to completed"},
		"conversion's record gone": {dropRecords("conversion"), "conversion", "record"},
		"conversion's record":      {editDocument("conversion", "completed", "failed"), "conversion", "document"},
		"a quote sells less":       {editDocument("conversion_quote", "10000", "9000"), "conversion_quote", "document"},
		"a quote buys more": {editDocument("conversion_quote", "16000", "86000"),
			"conversion_quote", "document"},
		"a quote's rate": {editDocument("conversion_quote", "1.6", "2.6"), "conversion_quote", "document"},
		"a quote unused": {editDocument("conversion_quote", "used", "locked"),
			"conversion_quote", "document"},
		"more than its quote": {editPayload(12, "16000", "15999"), "conversion", "amounts of its quote"},
		"a line of no direction": {editDocument("currency_activity", "credit", "credis"), "currency_activity",
			"direction"},
		"a line is gone": {dropRecords("currency_activity"), "currency_activity",
			"remainder of the lines in EUR"},
		"a line says more": {editDocument("currency_activity", "50000", "50001"), "currency_activity",
			"remainder of the lines in EUR"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withCurrencies()
			c.damage(s)
			report := s.runAudit(t)
			require.True(t, slices.ContainsFunc(report.Findings, func(f audit.Finding) bool {
				return f.Kind == c.kind && f.What == c.what && f.Expected != f.Actual
			}), "%+v", report.Findings)
		})
	}
}
