package processes

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/fairshare"
	"purser/actors/webhook"
)

// goroutines is a Runtime that only runs goroutines.
type goroutines struct {
	Runtime
	ctx     context.Context
	running sync.WaitGroup
}

func (g *goroutines) Go(run func(context.Context)) { g.running.Go(func() { run(g.ctx) }) }

// Endpoints that hang, each with as many attempts waiting as it may have, leave room for others.
func TestEndpointsThatHangLeaveRoomForOthers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runtime := &goroutines{ctx: ctx}
	none := fairshare.New(0, maxWorkspaceSending) // no attempt begins
	d := newDispatcher(runtime, none, func(context.Context, webhook.Due) {},
		func(d webhook.Due) (line, workspace string) { return d.Endpoint, d.Workspace })
	for endpoint := range 2 * maxDue / webhook.MaxPending {
		for delivery := range webhook.MaxPending {
			d.offer(webhook.Due{Endpoint: fmt.Sprint("hanging ", endpoint), Delivery: fmt.Sprint(delivery)})
		}
	}
	require.LessOrEqual(t, d.due, maxDue)
	other := webhook.Due{Endpoint: "another", Delivery: "1"}
	d.offer(other)
	require.Equal(t, []webhook.Due{other}, d.lines["another"])
	cancel()
	runtime.running.Wait()
}

// Workspaces whose endpoints hang fill all places, and the attempts of another one still wait in
// line, up to keptDue of them.
func TestEachWorkspaceKeepsRoomForItsAttempts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runtime := &goroutines{ctx: ctx}
	none := fairshare.New(0, maxWorkspaceSending) // no attempt begins
	d := newDispatcher(runtime, none, func(context.Context, webhook.Due) {},
		func(d webhook.Due) (line, workspace string) { return d.Endpoint, d.Workspace })
	for endpoint := range maxDue {
		for delivery := range 2 {
			d.offer(webhook.Due{Endpoint: fmt.Sprint("hanging ", endpoint), Workspace: fmt.Sprint(endpoint % 100),
				Delivery: fmt.Sprint(delivery)})
		}
	}
	require.Equal(t, maxDue, d.due)
	for delivery := range 2 * keptDue {
		d.offer(webhook.Due{Endpoint: "another", Workspace: "another", Delivery: fmt.Sprint(delivery)})
	}
	require.Len(t, d.lines["another"], keptDue)
	for range keptDue {
		d.nextInLine("another", "another")
	}
	require.NotContains(t, d.dueOf, "another")
	cancel()
	runtime.running.Wait()
}
