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
		step  int // that is not done; 4 for none
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
