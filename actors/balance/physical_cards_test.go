package balance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
)

// physicalStep orders a physical card, or refuses one whose card cannot be minted.
func (s *scenario) physicalStep(t *testing.T, a arguments) string {
	if a.d.Cmd == "never-minted" {
		return s.send(t, balance.RefusePhysicalCard{Order: s.orders[a.text("id")]})
	}
	c := physicalOrder(a.text("unlock"))
	c.Order.ID = ident.Derive(77, s.authorizer.now, a.text("id")).Format(ident.PhysicalOrder)
	if a.d.HasArg("finish") {
		c.Order.Finish = a.text("finish")
	}
	s.names[c.Order.ID] = a.text("id")
	s.names[c.Order.Card.ID] = "its card"
	return s.send(t, c)
}

func physicalOrder(unlock string) balance.OrderPhysicalCard {
	return balance.OrderPhysicalCard{Workspace: workspaceID.Format(ident.Workspace), Order: balance.PhysicalOrder{
		ID: ident.Derive(77, start, "order").Format(ident.PhysicalOrder), Finish: balance.FinishMetal,
		UnlockMethod: unlock,
		Card: balance.OrderedCard{ID: cardID.Format(ident.Card), Last4: "6811", MonthlyLimitUsdCents: 500_000,
			PerTxnLimitUsdCents: 50_000},
	}, Text: balance.PhysicalText{HolderLabel: "Ada", Shipping: balance.Shipping{
		Line1: "1 Main St", City: "Oakland", Region: "CA", PostalCode: "94607", Country: "US",
	}}}
}

func TestAPhysicalCardOrderWithABadFieldIsInvalidBody(t *testing.T) {
	for _, spoil := range []func(c *balance.OrderPhysicalCard){
		func(c *balance.OrderPhysicalCard) { c.Order.Finish = "gold" },
		func(c *balance.OrderPhysicalCard) { c.Order.UnlockMethod = "" },
		func(c *balance.OrderPhysicalCard) { c.Text.Shipping.Line1 = "1" },
		func(c *balance.OrderPhysicalCard) { c.Text.Shipping.City = "" },
		func(c *balance.OrderPhysicalCard) { c.Text.Shipping.Region = "" },
		func(c *balance.OrderPhysicalCard) { c.Text.Shipping.PostalCode = "9" },
		func(c *balance.OrderPhysicalCard) { c.Text.Shipping.Country = "USA" },
	} {
		c := physicalOrder(balance.UnlockPremium99)
		spoil(&c)
		_, err := new(balance.State).Decide(decision.Meta{At: start}, c)
		require.True(t, fault.Is(err, fault.InvalidBody), "%+v", c)
	}
}
