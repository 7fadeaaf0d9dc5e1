package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/webhook"
	"purser/actors/workspace"
	"purser/persistence"
	"purser/persistence/ident"
)

// publicHosts resolves every name to one public address, except private.example.com.
type publicHosts struct{}

func (publicHosts) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host == "private.example.com" {
		return []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("10.0.0.7")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

const (
	endpointsPath = "/api/webhooks/endpoints"
	hookURL       = "https://hooks.example.com/purser?token=of-the-receiver"
)

func endpointBody(url, events string) string {
	return fmt.Sprintf(`{"url":%q,"events":%s}`, url, events)
}

// newEndpoint registers an endpoint after it removes the existing ones, because a workspace has a
// limited number.
func (w *world) newEndpoint(tn tenant, events string) testReply {
	w.t.Helper()
	who := session(tn.cookie).with("X-Workspace-Id", tn.workspace)
	old, _ := w.ok(w.get(who, endpointsPath)).at("data").([]any)
	for _, endpoint := range old {
		w.ok(w.do(who, "DELETE", endpointsPath+"/"+endpoint.(map[string]any)["id"].(string), ""))
	}
	return w.ok(w.post(who, endpointsPath, endpointBody(hookURL, events)))
}

func TestAnEndpointIsRegisteredListedAndRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mia")
	who := session(tn.cookie)
	made := w.newEndpoint(tn, `["checkout.session.completed"]`)
	id := made.text("endpoint", "id")
	require.Equal(t, hookURL, made.text("endpoint", "url"))
	require.True(t, strings.HasPrefix(made.text("secret"), ident.SigningSecret+"_"))
	list := w.ok(w.get(who, endpointsPath))
	require.Equal(t, made.at("endpoint"), list.at("data", 0))
	require.NotContains(t, list.raw, made.text("secret"))
	one := w.ok(w.get(who, endpointsPath+"/"+id))
	require.Equal(t, made.at("endpoint"), one.at("endpoint"))
	require.NotContains(t, one.raw, made.text("secret"))
	w.fails(w.get(session(w.newTenant("eve").cookie), endpointsPath+"/"+id), 404, "not_found")

	pinged := w.ok(w.post(who, endpointsPath+"/"+id+"/test", ""))
	require.Equal(t, "pending", pinged.text("delivery", "status"))
	require.Equal(t, "ping", pinged.text("delivery", "payload", "type"))
	deliveries := w.ok(w.get(who, endpointsPath+"/"+id+"/deliveries"))
	require.Equal(t, pinged.at("delivery"), deliveries.at("data", 0))
	delivery := "/api/webhooks/deliveries/" + pinged.text("delivery", "id")
	require.Equal(t, pinged.at("delivery"), w.ok(w.get(who, delivery)).at("delivery"))
	w.fails(w.get(session(w.newTenant("zoe").cookie), delivery), 404, "not_found")
	replayed := w.ok(w.post(who, "/api/webhooks/deliveries/"+pinged.text("delivery", "id")+"/replay", ""))
	require.Equal(t, pinged.at("delivery"), replayed.at("delivery"), "a pending delivery is answered as it stands")

	for range 2 {
		require.Equal(t, true, w.ok(w.do(who, "DELETE", endpointsPath+"/"+id, "")).at("removed"))
	}
	require.Empty(t, w.ok(w.get(who, endpointsPath)).at("data"))
	w.fails(w.get(who, endpointsPath+"/"+id), 404, "not_found")
	w.fails(w.get(who, endpointsPath+"/"+id+"/deliveries"), 404, "not_found")
	w.fails(w.post(who, endpointsPath+"/"+id+"/test", ""), 404, "not_found")
	require.Equal(t, pinged.at("delivery"), w.ok(w.get(who, delivery)).at("delivery"))
	w.fails(w.post(who, "/api/webhooks/deliveries/"+pinged.text("delivery", "id")+"/replay", ""), 404, "not_found")
}

func TestTheSecretIsShownOnceAndSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mia")
	once := session(tn.cookie).with("Idempotency-Key", someUUID)
	first := w.ok(w.post(once, endpointsPath, endpointBody(hookURL, `["*"]`)))
	again := w.ok(w.post(once, endpointsPath, endpointBody(hookURL, `["*"]`)))
	require.Equal(t, first.raw, again.raw)
	require.Equal(t, "true", again.header("Idempotent-Replayed"))
	w.ok(w.post(session(tn.cookie), endpointsPath+"/"+first.text("endpoint", "id")+"/test", ""))

	var stored strings.Builder
	slot, err := ident.SlotOf(tn.workspace)
	require.NoError(t, err)
	events, err := w.journal.Events(t.Context(), slot.Shard(), 0, 1000)
	require.NoError(t, err)
	for _, e := range events {
		stored.Write(e.Payload)
	}
	require.Contains(t, stored.String(), first.text("endpoint", "id"))
	for _, kind := range []string{"webhook", webhook.RecordEndpoint, webhook.RecordDelivery} {
		records, err := w.journal.List(t.Context(), slot, kind, tn.workspace, "", persistence.Page{Limit: 100})
		require.NoError(t, err)
		for _, r := range records {
			stored.Write(r.Document)
		}
	}
	require.Contains(t, stored.String(), `"sealed"`)
	require.NotContains(t, stored.String(), first.text("secret"))
	require.NotContains(t, stored.String(), "of-the-receiver")
}

func TestASeventeenthEndpointIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mia")
	who := session(tn.cookie)
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range webhook.MaxPerWorkspace + 4 {
		wg.Go(func() {
			r := w.post(who, endpointsPath, endpointBody(hookURL, `["*"]`))
			mu.Lock()
			defer mu.Unlock()
			statuses[r.status]++
		})
	}
	wg.Wait()
	require.Equal(t, map[int]int{200: webhook.MaxPerWorkspace, 422: 4}, statuses)
	w.fails(w.post(who, endpointsPath, endpointBody(hookURL, `["*"]`)), 422, "limit_exceeded")
	oldest := w.ok(w.get(who, endpointsPath)).text("data", webhook.MaxPerWorkspace-1, "id")
	w.ok(w.do(who, "DELETE", endpointsPath+"/"+oldest, ""))
	w.ok(w.do(who, "DELETE", endpointsPath+"/"+oldest, ""))
	w.ok(w.post(who, endpointsPath, endpointBody(hookURL, `["*"]`)))
	w.fails(w.post(who, endpointsPath, endpointBody(hookURL, `["*"]`)), 422, "limit_exceeded")
}

func TestEndpointsAreJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mia")
	who := session(tn.cookie)
	f := func(url, events, says string) {
		t.Helper()
		r := w.post(who, endpointsPath, endpointBody(url, events))
		w.fails(r, 400, "invalid_body")
		require.Contains(t, r.text("message"), says)
	}
	f("http://hooks.example.com", `["*"]`, "url must begin with https://")
	f("https://private.example.com", `["*"]`, "url leads to an address that is not public")
	f("https://user:pass@hooks.example.com", `["*"]`, "url")
	f(hookURL, `["checkout.session.began"]`, "events")
	f(hookURL, `[]`, "events")
	f(hookURL, `["*","*"]`, "events")
	body, err := json.Marshal(map[string]any{"url": "https://a.example.com/" + strings.Repeat("a", webhook.MaxURL),
		"events": []string{"*"}})
	require.NoError(t, err)
	w.fails(w.post(who, endpointsPath, string(body)), 400, "invalid_body")
	f("HTTP://hooks.example.com", `["*"]`, "url must begin with https://")
	upper := w.ok(w.post(who, endpointsPath, endpointBody("HTTPS"+strings.TrimPrefix(hookURL, "https"), `["*"]`)))
	w.ok(w.do(who, "DELETE", endpointsPath+"/"+upper.text("endpoint", "id"), ""))
	require.Empty(t, w.ok(w.get(who, endpointsPath)).at("data"))
}

func TestEndpointsEndWithTheirMakersMembership(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	olga := w.ok(w.get(session(tn.cookie), "/api/dashboard/me")).text("user", "id")
	bobID, bob := w.person(tn, workspace.Owner)
	at := session(bob).with("X-Workspace-Id", tn.workspace)
	made := func() string {
		r := w.ok(w.post(at, endpointsPath, endpointBody(hookURL, `["*"]`)))
		require.Equal(t, bobID, r.text("endpoint", "createdBy"))
		return r.text("endpoint", "id")
	}
	ending, kept := made(), made()
	removal := members + "/" + bobID + "?keepEndpoints="
	w.fails(w.do(session(tn.cookie), "DELETE", removal+kept+",whe_x", ""), 404, "not_found")
	w.fails(w.do(at, "DELETE", removal+kept, ""), 400, "invalid_query")
	w.fails(w.do(session(tn.cookie), "DELETE", removal+strings.Repeat("x,", webhook.MaxPerWorkspace), ""), 400,
		"invalid_query")
	gone := w.ok(w.do(session(tn.cookie), "DELETE", removal+kept, ""))
	require.Equal(t, []any{ending}, gone.at("removedEndpoints"))
	require.Eventually(t, func() bool {
		list := w.ok(w.get(session(tn.cookie), endpointsPath))
		return len(list.at("data").([]any)) == 1 && list.text("data", 0, "createdBy") == olga
	}, waitFor, time.Millisecond)

	_, ada := w.person(tn, workspace.Admin)
	at = session(ada).with("X-Workspace-Id", tn.workspace)
	last := w.ok(w.post(at, endpointsPath, endpointBody(hookURL, `["*"]`))).text("endpoint", "id")
	require.Equal(t, []any{last}, w.ok(w.post(at, members+"/leave", "")).at("removedEndpoints"))
}
