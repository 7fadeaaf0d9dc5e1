package actors

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/fairshare"
	"purser/actors/webhook"
)

// TestEndpointsThatHangLeaveRoomForOthers: endpoints that hang, each with as many pending
// deliveries as it may have, leave room for another endpoint.
func TestEndpointsThatHangLeaveRoomForOthers(t *testing.T) {
	s := &System{}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	none := fairshare.New(0, maxWorkspaceSending) // nothing is sent
	d := newDispatcher(s, none, s.deliver, func(d webhook.Due) (line, workspace string) {
		return d.Endpoint,
			d.Workspace
	})
	for endpoint := range 2 * maxDue / webhook.MaxPending {
		for delivery := range webhook.MaxPending {
			d.offer(webhook.Due{Endpoint: fmt.Sprint("hanging ", endpoint), Delivery: fmt.Sprint(delivery)})
		}
	}
	require.LessOrEqual(t, d.due, maxDue)
	other := webhook.Due{Endpoint: "another", Delivery: "1"}
	d.offer(other)
	require.Equal(t, []webhook.Due{other}, d.lines["another"])
	s.cancel()
	s.loops.Wait()
}
