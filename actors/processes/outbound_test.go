package processes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The kinds of outbound calls together take no more than the descriptors that the start has kept
// for them, and a kind never more than its own limit.
func TestOutboundCallsFitTheirDescriptors(t *testing.T) {
	for _, calls := range []int{8, 64, 448, 1472} {
		c := Config{OutboundCalls: calls}
		require.LessOrEqual(t, c.webhookCalls()+c.bankCalls()+c.rampCalls(), calls)
	}
	for _, c := range []Config{{}, {OutboundCalls: 1472}} {
		require.Equal(t, []int{maxSending, maxBankCalls, maxRampCalls}, []int{c.webhookCalls(), c.bankCalls(),
			c.rampCalls()})
	}
}
