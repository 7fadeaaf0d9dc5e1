package settings

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence/ident"
)

// A secret or token of Purser is not in a line of the log, in whichever kind of value it comes.
func TestTheLogHasNoSecret(t *testing.T) {
	for _, format := range []string{LogText, LogJSON} {
		for _, prefix := range ident.SecretPrefixes() {
			var out bytes.Buffer
			token := prefix + "_0123456789abcdefghjkmnpqrstvwxyz"
			NewLogger(&out, Config{LogFormat: format}).With("path", "/dashboard/reset?token="+token).Warn("failed "+token,
				"err", errors.New("refused: "+token+"."), "all", []string{token}, "text", fmt.Appendf(nil, "%s", token))
			require.NotContains(t, out.String(), "0123456789abcdefghjkmnpqrstvwxyz", prefix)
			require.Contains(t, out.String(), prefix+"_[redacted]", "the reader learns what it was")
		}
	}
}

// Words that begin like a secret, and ids, stay as they are.
func TestTheLogKeepsWordsAndIDs(t *testing.T) {
	var out bytes.Buffer
	NewLogger(&out, Config{}).Warn("reset_issued", "id", "card_01kagj5fkve16r6sydcvyx2dnv", "n", 7)
	require.Contains(t, out.String(), "msg=reset_issued id=card_01kagj5fkve16r6sydcvyx2dnv n=7")
}
