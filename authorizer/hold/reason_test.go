package hold

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryReasonHasANameAndACode(t *testing.T) {
	for reason := range reasons {
		_, err := reason.MarshalText()
		require.NoError(t, err)
		require.NotEmpty(t, responseCodes[reason], reason)
	}
}
