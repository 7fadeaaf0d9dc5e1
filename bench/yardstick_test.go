package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Writes to a growing file never overwrite; writes to zeroed blocks start again at the first block.
func TestAGrowingFileIsNotWrittenOver(t *testing.T) {
	const blocks = zeroedBytes / blockBytes
	for _, i := range []int{0, 1, blocks - 1, blocks, 3*blocks + 5, maxSyncs} {
		require.EqualValues(t, i*blockBytes, writeOffset(i, false))
		require.EqualValues(t, i%blocks*blockBytes, writeOffset(i, true))
	}
}

// The base of ratios is, for each figure, the faster measurement of the machine.
func TestTheFasterYardstick(t *testing.T) {
	a := Yardstick{SyncZeroedP50Micros: 100, SyncGrowingP50Micros: 300, Empty: []Empty{
		{Connections: 1, PerSecond: 20, P50Micros: 50, P99Micros: 80},
		{Connections: 64, PerSecond: 90, P50Micros: 5, P99Micros: 7}}}
	b := Yardstick{SyncZeroedP50Micros: 200, SyncGrowingP50Micros: 250, Empty: []Empty{
		{Connections: 1, PerSecond: 30, P50Micros: 10, P99Micros: 90},
		{Connections: 64, PerSecond: 80, P50Micros: 6, P99Micros: 6}}}
	want := Yardstick{SyncZeroedP50Micros: 100, SyncGrowingP50Micros: 250, Empty: []Empty{
		{Connections: 1, PerSecond: 30, P50Micros: 10, P99Micros: 80},
		{Connections: 64, PerSecond: 90, P50Micros: 5, P99Micros: 6}}}
	require.Equal(t, want, fasterOf(a, b))
	require.Equal(t, want, fasterOf(b, a))
	require.Equal(t, 50.0, a.Empty[0].P50Micros, "what was measured stays")
}
