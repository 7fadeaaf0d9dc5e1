package actors

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
)

// The commits of the relay, which carries every swipe, pay no allocation for the meter.
func TestCountingACommitAllocatesNothing(t *testing.T) {
	batch := &persistence.Batch{Events: []persistence.Event{{Payload: make([]byte, 10)}},
		Records: []persistence.Record{{Document: make([]byte, 20)}}, Onces: []persistence.Once{{Answer: make([]byte, 30)}}}
	unmetered, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	require.Zero(t, testing.AllocsPerRun(100, func() { countCommit(unmetered, batch) }))
	var meter CommitMeter
	metered := WithCommitMeter(unmetered, &meter)
	require.Zero(t, testing.AllocsPerRun(100, func() { countCommit(metered, batch) }))
	require.Equal(t, 101*60, meter.Bytes())
}
