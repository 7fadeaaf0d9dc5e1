package audit_test

import (
	"fmt"
	"testing"

	"purser/persistence/ident"
)

var (
	plastic = id(ident.PhysicalOrder, "plastic")
	undone  = id(ident.PhysicalOrder, "undone")
)

// withPhysicalCards makes the card a physical one ordered for 99.00, and adds a refused order.
func withPhysicalCards() *auditedStores {
	s := newAuditedStores()
	editPayload(4, `"token"`, `"physical":true,"token"`)(s)
	legs := func(group string, cents int) string {
		return posting(group, "usd", -cents) + "," + posting(group, "fees", cents)
	}
	ordered := func(order, card string) {
		s.event("balance", workspace, "balance.physical_card_ordered.v1", fmt.Sprintf(
			`{"order":{"id":%q,"unlockMethod":"premium_99","feeCents":9900,"card":{"id":%q}},"postings":[%s]}`, order,
			card,
			legs(order, 9900)))
	}
	ordered(plastic, card)                                                         // 8
	ordered(undone, id(ident.Card, "never"))                                       // 9
	s.event("balance", workspace, "balance.physical_card_refused.v1", fmt.Sprintf( // 10
		`{"order":%q,"feeCents":9900,"postings":[%s]}`, undone, legs("back again", -9900)))
	s.follow = 10
	s.rules[0].Version, s.rules[0].State = 2, "frozen"
	editDocument("balance", `"usdCents":97500`, `"usdCents":87600`)(s)
	editDocument("balance", `"ledgerCents":100000`, `"ledgerCents":90100`)(s)
	s.version("balance", 7)
	s.record("physical_order", plastic, 0, fmt.Sprintf(
		`{"id":%q,"unlockMethod":"premium_99","feeCents":9900,"card":{"id":%q}}`, plastic, card))
	for _, line := range []struct {
		group, direction string
		after            int
	}{{plastic, "debit", 87600}, {undone, "debit", 77700}, {"back again", "credit", 87600}} {
		s.record("ledger_entry", id(ident.LedgerEntry, line.group), 0, fmt.Sprintf(
			`{"direction":%q,"amountCents":9900,"balanceCents":%d,"transferGroup":%q}`, line.direction, line.after,
			id(ident.TransferGroup, line.group)))
	}
	s.funds[0].Ledger = 90100
	return s
}

func TestEveryCorruptionOfAPhysicalCardIsNamed(t *testing.T) {
	requireFindings(t, withPhysicalCards, map[string]storeDamage{
		"order's record gone":      {dropRecords("physical_order"), "physical_order", "record"},
		"order's record says more": {editDocument("physical_order", "9900", "0"), "physical_order", "document"},
		"another fee":              {editPayload(8, `"feeCents":9900`, `"feeCents":9901`), "physical_order", "fee"},
		"a fee for a balance":      {editPayload(8, "premium_99", "balance_commit_5000"), "physical_order", "fee"},
		"ordered twice":            {editPayload(9, undone, plastic), "physical_order", "ordered before"},
		"less is taken":            {editPayload(8, "-9900", "-9899"), "event", "postings to usd"},
		"another account":          {editPayload(8, `"fees"`, `"bank"`), "event", "postings to fees"},
		"more comes back": {editPayload(10, `"feeCents":9900`, `"feeCents":9901`), "physical_order",
			"refunded fee"},
		"minted for nobody": {editPayload(8, card, id(ident.Card, "never")), "card",
			"order of a physical card"},
		"authorizer has not the debit": {func(s *auditedStores) { s.funds[0].Ledger += 9900 }, "funds", "ledger cents"},
	})
}
