package actors_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/fault"
	"purser/actors/webhook"
	"purser/actors/workspace"
	"purser/persistence"
	"purser/persistence/ident"
)

var (
	ann = ident.Derive(1, time.UnixMilli(1), "ann").Format(ident.User)
	bob = ident.Derive(2, time.UnixMilli(1), "bob").Format(ident.User)
	eve = ident.Derive(3, time.UnixMilli(1), "eve").Format(ident.User)
)

func (h *webhookSystem) tellWorkspace(command any) {
	h.t.Helper()
	_, err := h.system.Ask(h.t.Context(), actors.Envelope{Kind: "workspace", Stream: h.owner, Workspace: h.owner,
		Command: command})
	require.NoError(h.t, err)
}

func (h *webhookSystem) registerBy(user, url string) string {
	h.t.Helper()
	id := h.newID(ident.Endpoint)
	h.askEndpoint(id, webhook.Register{ID: id, Workspace: h.owner, URL: url, Secret: endpointSecret, By: user,
		Events: []string{webhook.AllEvents}})
	return id
}

// awaitMaker waits until an endpoint is a user's; "" until it is removed.
func (h *webhookSystem) awaitMaker(endpoint, user string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		record, err := h.system.Record(h.t.Context(), webhook.RecordEndpoint, h.owner, endpoint)
		if fault.Is(err, fault.NotFound) {
			return user == ""
		}
		require.NoError(h.t, err)
		var doc webhook.Endpoint
		require.NoError(h.t, json.Unmarshal(record.Document, &doc))
		return doc.MadeBy(user)
	}, time.Minute, time.Millisecond)
}

func TestEndpointsEndWithTheMembershipOfTheirMaker(t *testing.T) {
	owner := workspace.Principal{UserID: ann}
	for name, ends := range map[string]any{
		"removed": workspace.RemoveMember{UserID: bob, By: owner},
		"left":    workspace.RemoveMember{UserID: bob, By: workspace.Principal{UserID: bob}},
		"demoted": workspace.ChangeRole{UserID: bob, Role: workspace.Member, By: owner},
	} {
		t.Run(name, func(t *testing.T) {
			h, v := newWebhookSystem(t, newSender(t)), newReceiver(t, 200)
			others, older := h.registerBy(ann, v.URL), h.registerEndpoint(v.URL, webhook.AllEvents)
			ending := h.registerBy(bob, v.URL)
			h.awaitDelivered(h.sendPing(ending))
			h.tellWorkspace(ends)
			h.awaitMaker(ending, "")
			h.awaitDelivered(h.sendPing(others))
			h.awaitDelivered(h.sendPing(older))
			require.Len(t, v.requests(), 3)
		})
	}
}

func TestAKeptEndpointBecomesTheOwners(t *testing.T) {
	for name, removes := range map[string]bool{"removed": true, "demoted": false} {
		t.Run(name, func(t *testing.T) {
			h, v := newWebhookSystem(t, newSender(t)), newReceiver(t, 200)
			kept, ending := h.registerBy(bob, v.URL), h.registerBy(bob, v.URL)
			var command any = workspace.RemoveMember{UserID: bob, By: workspace.Principal{UserID: ann},
				KeepEndpoints: []string{kept}}
			if !removes {
				command = workspace.ChangeRole{UserID: bob, Role: workspace.Member,
					By: workspace.Principal{UserID: ann}, KeepEndpoints: []string{kept}}
			}
			h.tellWorkspace(command)
			h.awaitMaker(ending, "")
			h.awaitMaker(kept, ann)
			h.awaitDelivered(h.sendPing(kept))
			verifySignature(t, v.requests()[0], h.clock.now())
		})
	}
}

// An endpoint whose registration passed the checks before its maker was removed, or became a member,
// receives nothing, and ends once the reactions come to it: the list of endpoints fails until then.
func TestAnEndpointOfAStrangerOrMemberReceivesNothingAndEnds(t *testing.T) {
	for name, maker := range map[string]string{"stranger": eve, "member": bob} {
		t.Run(name, func(t *testing.T) {
			h, v, silent := newWebhookSystem(t, newSender(t)), newReceiver(t, 200), newReceiver(t, 200)
			others := h.registerBy(ann, v.URL)
			resume := h.holdDepartures()
			h.tellWorkspace(workspace.ChangeRole{UserID: bob, Role: workspace.Member,
				By: workspace.Principal{UserID: ann}})
			ending := h.registerBy(maker, silent.URL)
			id := h.sendPing(ending)
			for range 3 {
				h.awaitDelivered(h.sendPing(others))
				h.clock.turn(2 * time.Minute)
			}
			require.Empty(t, silent.requests())
			require.Empty(t, h.readDelivery(id).Attempts)
			resume()
			h.awaitMaker(ending, "")
			h.awaitMaker(others, ann)
		})
	}
}

// holdDepartures makes the reactions to departures fail, and with them all later ones of the
// workspace, until resume is called. The workspace has an endpoint already.
func (h *webhookSystem) holdDepartures() (resume func()) {
	h.journal.configure(func(f *faultyJournal) { f.onList = func() error { return persistence.ErrUnavailable } })
	return func() { h.journal.configure(func(f *faultyJournal) { f.onList = nil }) }
}

// The reaction to a registration may come after the departure of the maker, whose reaction then
// decides: the kept endpoint stays, the other one ends.
func TestADelayedReactionToARegistrationLeavesAKeptEndpoint(t *testing.T) {
	h, owner := newWebhookSystem(t, newSender(t)), workspace.Principal{UserID: ann}
	others := h.registerBy(ann, "https://example.com")
	resume := h.holdDepartures()
	h.tellWorkspace(workspace.ChangeRole{UserID: bob, Role: workspace.Member, By: owner})
	h.tellWorkspace(workspace.ChangeRole{UserID: bob, Role: workspace.Admin, By: owner})
	kept, ending := h.registerBy(bob, "https://example.com"), h.registerBy(bob, "https://example.com")
	h.tellWorkspace(workspace.RemoveMember{UserID: bob, By: owner, KeepEndpoints: []string{kept}})
	resume()
	h.awaitMaker(ending, "")
	h.awaitMaker(kept, ann)
	h.awaitMaker(others, ann)
}
