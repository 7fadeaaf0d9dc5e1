package dashboard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each state that a list offers as a filter has a stepper and a meaning.
func TestStatesHaveSteppers(t *testing.T) {
	for _, status := range []string{"pending", "awaiting_payment", "confirming", "completed", "underpaid", "failed",
		"expired"} {
		require.NotEmpty(t, linkWays[status][0], status)
		require.NotEmpty(t, linkMeanings[status], status)
	}
	for _, status := range []string{"held", "provider_submitted", "outcome_unknown", "completed", "rejected",
		"failed",
		"cancelled", "abandoned"} {
		require.NotEmpty(t, conversionWays[status][0], status)
	}
	for _, status := range []string{"created", "processing", "completed", "failed"} {
		require.NotEmpty(t, rampWays[status][0], status)
		require.NotEmpty(t, rampMeanings[status], status)
	}
	for _, status := range []string{"unproven", "pending_approval", "approved"} {
		require.NotEmpty(t, walletWays[status][0], status)
		require.NotEmpty(t, walletMeanings[status], status)
	}
}
