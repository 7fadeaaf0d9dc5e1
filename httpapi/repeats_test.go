package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors"
	"purser/actors/fault"
	"purser/actors/user"
	"purser/actors/webhook"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// A repeat is answered from the stored answer, whatever the limits are now: a user at the limit of
// workspaces still gets the answer for the last one.
func TestARepeatIsAnsweredWhenNoMoreMayBeMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cookie := w.ok(w.signup("ada@example.com")).cookie
	once := session(cookie).with("Idempotency-Key", someUUID)
	first := w.ok(w.post(once, "/api/workspaces", `{"name":"The last"}`))
	w.fillWorkspaces(w.ok(w.get(session(cookie), "/api/dashboard/me")).text("user", "id"))
	w.fails(w.post(session(cookie), "/api/workspaces", `{"name":"One more"}`), 422, "limit_exceeded")
	again := w.ok(w.post(once, "/api/workspaces", `{"name":"The last"}`))
	require.Equal(t, first.raw, again.raw)
	require.Equal(t, "true", again.header("Idempotent-Replayed"))
}

// fillWorkspaces writes user.MaxOwn own workspaces into a user's record, beside the system.
func (w *world) fillWorkspaces(id string) {
	w.fillList(id, user.MaxOwn, user.Membership{Name: "of old", Role: "owner"})
}

// fillMemberships writes user.MaxForeign workspaces of others into a user's record.
func (w *world) fillMemberships(id string) {
	w.fillList(id, user.MaxForeign, user.Membership{Name: "others", Role: "admin", Foreign: true})
}

func (w *world) fillList(id string, most int, entry user.Membership) {
	w.t.Helper()
	slot, err := ident.SlotOf(id)
	require.NoError(w.t, err)
	w.settled() // no other writer is active
	record, err := w.journal.Record(w.t.Context(), slot, "user", id)
	require.NoError(w.t, err)
	var state user.State
	require.NoError(w.t, json.Unmarshal(record.Document, &state))
	for i := 0; i < most && user.HasRoom(state.Workspaces, entry.Foreign); i++ {
		entry.ID = ident.Derive(slot, time.UnixMilli(1), fmt.Sprint("listed ", i)).Format(ident.Workspace)
		state.Workspaces = append(state.Workspaces, entry)
	}
	require.GreaterOrEqual(w.t, len(state.Workspaces), most)
	record.Document, err = json.Marshal(state)
	require.NoError(w.t, err)
	other := w.newTenant("other")
	other.workspace = id // the batch belongs to the user
	w.write(other, slot, record)
	require.Eventually(w.t, func() bool { // the user's shard is taken back by a write
		w.n++
		_, err := w.system.Ask(context.Background(), actors.Envelope{Kind: "user", Stream: id, Workspace: id,
			Command: user.StartSession{SecretHash: fmt.Sprint("back ", w.n), Life: time.Hour}})
		return err == nil
	}, waitFor, pause)
}

// The answer for a fixture card is replayed after the deployment was connected to an issuer,
// although it would now mint none.
func TestARepeatOutlivesTheDeploymentsSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	once := tn.all.with("Idempotency-Key", someUUID)
	first := w.ok(w.post(once, "/api/cards", plainCard))
	w.serveAnew(connected)
	again := w.ok(w.post(once, "/api/cards", plainCard))
	require.Equal(t, first.raw, again.raw)
	w.fails(w.post(tn.all, "/api/cards", plainCard), 409, "cardholder_required")
}

// The answer to a physical order is replayed likewise.
func TestARepeatOfAnOrderOutlivesTheDeploymentsSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fund(tn, 9_900)
	once := tn.all.with("Idempotency-Key", someUUID)
	first := w.ok(w.orderPhysical(once, physicalOrder))
	w.serveAnew(connected)
	again := w.ok(w.orderPhysical(once, physicalOrder))
	require.Equal(t, first.raw, again.raw)
	w.fails(w.orderPhysical(tn.all, physicalOrder), 409, "cardholder_required")
}

// serveAnew points the world's client to another server over the same actors, with other settings.
func (w *world) serveAnew(change func(*Config)) {
	w.t.Helper()
	config := w.server.cfg
	config.Registry = prometheus.NewRegistry()
	change(&config)
	server, err := New(config)
	require.NoError(w.t, err)
	w.judgeAnswers(server)
	listen, done := fasthttputil.NewInmemoryListener(), make(chan error, 1)
	go func() { done <- server.Serve(listen) }()
	client, before := dial(listen), w.client
	w.client = client
	w.t.Cleanup(func() {
		client.CloseIdleConnections()
		require.NoError(w.t, server.Shutdown(context.Background()))
		require.NoError(w.t, <-done)
		w.client = before
	})
}

// Of concurrent requests under one key one asks the desk, and a later repeat does not ask it. The
// desk answers once every request has tried to acquire the key.
func TestRepeatsReachNoPartner(t *testing.T) {
	t.Parallel()
	const callers = 8
	w := newWorld(t)
	tn := w.newTenant("ada")
	who := w.keyed(tn)
	lock := `{"counterpartyId":"` + w.newRecipientAbroad(tn) + `","currency":"EUR","amountMinor":"100000"}`
	all := w.actors.acquires.Load() + callers
	asked := 0
	w.actors.firmRate = func() {
		asked++
		assert.Eventually(t, func() bool { return w.actors.acquires.Load() == all }, waitFor, pause)
	}
	quote := func() testReply { return w.post(who, "/api/treasury/fx-quotes", lock) }
	first := w.ok(atOnce(slices.Repeat([]func() testReply{quote}, callers)...)[0])
	for range callers {
		require.Equal(t, first.raw, w.ok(quote()).raw)
	}
	w.fails(w.post(who, "/api/treasury/fx-quotes", strings.Replace(lock, "EUR", "JPY", 1)), 422,
		"idempotency_key_mismatch")
	require.Equal(t, 1, asked)
}

// AcquireKey counts the calls.
func (h *hooked) AcquireKey(ctx context.Context, e actors.Envelope) (func(), any, error) {
	h.acquires.Add(1)
	return h.Actors.AcquireKey(ctx, e)
}

// FirmRate lets a test delay the desk.
func (h *hooked) FirmRate(ctx context.Context, currency money.Currency) (money.Rate, error) {
	if h.firmRate != nil {
		h.firmRate()
	}
	return h.Actors.FirmRate(ctx, currency)
}

// A replay that meets another change of its delivery reads the delivery again, a few times.
func TestAReplayReadsAChangedDeliveryAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := session(w.newTenant("mia").cookie)
	endpoint := w.ok(w.post(who, endpointsPath, endpointBody(hookURL, `["*"]`))).text("endpoint", "id")
	pinged := w.ok(w.post(who, endpointsPath+"/"+endpoint+"/test", ""))
	path := "/api/webhooks/deliveries/" + pinged.text("delivery", "id") + "/replay"
	for _, changes := range []int{maxReplayReads - 1, maxReplayReads} {
		changed := 0
		w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
			if _, replays := e.Command.(webhook.Replay); replays && changed < changes {
				changed++
				return nil, fault.New(fault.Stale, "")
			}
			return w.system.Ask(ctx, e)
		})
		if answered := w.post(who, path, ""); changes < maxReplayReads {
			require.Equal(t, pinged.at("delivery"), w.ok(answered).at("delivery"))
		} else {
			w.fails(answered, 503, "unavailable")
		}
		require.Equal(t, changes, changed)
	}
}
