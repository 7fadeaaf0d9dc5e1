package dashboard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A link's stepper stands at the step that it waits for, and shows its end where it ended.
func TestTheStepperOfALink(t *testing.T) {
	asset, chain := "USDC", "base"
	at := time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		link  checkoutLink
		step  int // the first that is not done; 4 for none
		state string
		name  string
		note  string
	}{
		{checkoutLink{Status: "pending"}, 1, "current", "Coin", "The customer chooses, until 28 Nov, 14:30"},
		{checkoutLink{Status: "awaiting_payment", Asset: &asset, Chain: &chain}, 2, "current", "Payment",
			"Waits for the customer, until 28 Nov, 14:30"},
		{checkoutLink{Status: "confirming", Confirmations: struct{ Seen, Of int }{1, 3}}, 3, "current", "Confirming",
			"1 of 3 confirmations"},
		{checkoutLink{Status: "underpaid", DueUsdCents: 2500}, 2, "waits", "Underpaid", "$25.00 missing"},
		{checkoutLink{Status: "failed"}, 2, "failed", "Failed", "Nothing is credited"},
		{checkoutLink{Status: "expired"}, 1, "failed", "Expired", "28 Nov, 14:30"},
		{checkoutLink{Status: "expired", Cancelled: true, Asset: &asset, Chain: &chain}, 2, "failed", "Cancelled",
			"28 Nov, 14:30"},
		{checkoutLink{Status: "expired", Asset: &asset, Chain: &chain, AmountUsdCents: 2500, ReceivedUsdCents: 2500},
			3,
			"failed", "Expired", "Not confirmed in time"},
		{checkoutLink{Status: "completed", CompletedAt: &at}, 4, "", "", ""},
	} {
		c.link.CreatedAt, c.link.ExpiresAt = at, at.Add(30*time.Minute)
		steps := c.link.stepperSteps()
		require.Len(t, steps, 4, c.link.Status)
		for i, step := range steps {
			switch {
			case i < c.step:
				require.Equal(t, "done", step.State, c.link.Status)
			case i == c.step:
				require.Equal(t, StepperStep{c.name, c.note, c.state}, step, c.link.Status)
			default:
				require.Empty(t, step.State, c.link.Status)
			}
		}
	}
}

// A payment that came in time and was not confirmed is neither called unpaid nor credited. An
// excess is credited in part only once the link is completed.
func TestAPaymentWithoutConfirmationIsNeitherUnpaidNorCredited(t *testing.T) {
	lines := func(c *checkoutLink) (shown []string) {
		for _, line := range c.moneyBlock().Sum {
			shown = append(shown, line.Name+" "+line.Amount)
		}
		return shown
	}
	c := checkoutLink{Status: "expired", AmountUsdCents: 2500, ReceivedUsdCents: 2500}
	require.Equal(t, []string{"Asked for $25.00", "Received in time $25.00", "Not credited $25.00"}, lines(&c))
	require.Equal(t, "A payment was seen, and the network did not confirm it in time.", c.meaning())
	c.ReceivedUsdCents, c.LateUsdCents, c.DueUsdCents, c.Cancelled = 3500, 500, -500, true
	require.Equal(t, []string{"Asked for $25.00", "Received in time $30.00", "Came too late $5.00",
		"Not credited $35.00"}, lines(&c))
	require.Equal(t, unconfirmed, c.meaning())
	notes := refundNotes(&c)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0].Text, "$30.00 came in time, and nothing is credited")

	c = checkoutLink{Status: "confirming", AmountUsdCents: 2500, ReceivedUsdCents: 3000, DueUsdCents: -500}
	require.Contains(t, refundNotes(&c)[0].Text, "Nothing is credited before the network confirms")
	at := time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC)
	c.Status, c.CompletedAt = "completed", &at
	require.Contains(t, refundNotes(&c)[0].Text, "The balance is credited")

	c = checkoutLink{Status: "expired", AmountUsdCents: 2500, ReceivedUsdCents: 500, LateUsdCents: 500,
		DueUsdCents: 2500}
	require.Equal(t, "It has ended without a payment in time.", c.meaning())
	require.Equal(t, "Not paid $25.00", lines(&c)[2])
	c.Cancelled = true
	require.Equal(t, "It was cancelled.", c.meaning())
}
