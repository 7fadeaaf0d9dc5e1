package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/processes"
)

// A kind of actor without a row is not audited.
func TestEveryKindHasARow(t *testing.T) {
	for _, k := range processes.Kinds() {
		require.Contains(t, stateKinds, k.Name)
	}
}
