package pgjournal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLanesFollowTheProcessors(t *testing.T) {
	for processors, lanes := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 7: 2, 8: 4, 64: 4} {
		require.Equal(t, lanes, lanesFor(processors), "%d processors", processors)
	}
}
