package dashboard

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/httpapi/openapi"
)

// Every reason for which the interface refuses an intent has its name in words, and what to do.
func TestEveryIntentReasonHasWordsAndAdvice(t *testing.T) {
	t.Parallel()
	d, err := openapi.Load()
	require.NoError(t, err)
	var described struct {
		Components struct {
			Schemas struct{ IntentReason struct{ Enum []string } }
		}
	}
	require.NoError(t, json.Unmarshal(d.JSON(), &described))
	known := described.Components.Schemas.IntentReason.Enum
	require.NotEmpty(t, known)
	require.Len(t, intentReasons, len(known))
	for _, name := range known {
		words, advice := intentReason(name)
		require.NotEmpty(t, words)
		require.NotEmpty(t, advice, name)
	}
}
