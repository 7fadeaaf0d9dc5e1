package actors

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWorkspaceCannotExceedItsShareOfALane(t *testing.T) {
	l := newLane(&System{}, &shard{}, 1)
	l.running = true // nothing leaves the queue
	of := func(workspace string) *op { return &op{req: &request{env: Envelope{Workspace: workspace}}} }
	for range laneShare {
		require.True(t, l.submit(of("crowd")))
	}
	require.False(t, l.submit(of("crowd")), "the workspace has its share")
	for range laneQueue - laneShare {
		require.True(t, l.submit(of("other")))
	}
	require.False(t, l.submit(of("third")), "the lane is full")
	require.True(t, l.awaitWork(context.Background()))
	require.True(t, l.submit(of("crowd")), "an op that left made room")
	for len(l.queue) > 0 {
		require.True(t, l.awaitWork(context.Background()))
	}
	require.Empty(t, l.queued)
}
