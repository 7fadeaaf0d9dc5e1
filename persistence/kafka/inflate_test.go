package kafka

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The count of records depends on their lengths alone, and not on the pieces in which they come.
func TestRecordsAreCountedAcrossPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(0, 300), 0, fullEvents).Draw(t, "lengths")
		var batch []byte
		for _, n := range lengths {
			batch = append(binary.AppendVarint(batch, int64(n)), make([]byte, n)...)
		}
		var c recordCount
		for len(batch) > 0 {
			n := rapid.IntRange(1, len(batch)).Draw(t, "piece")
			c.countRecords(batch[:n])
			batch = batch[n:]
		}
		require.Equal(t, len(lengths), c.begun)
		require.Equal(t, len(lengths)+1, c.countRecords([]byte{0}))
	})
}
