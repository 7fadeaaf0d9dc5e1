package httpapi

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/query"
	"purser/actors/webhook"
	"purser/actors/workspace"
)

// A person makes an endpoint, copies its secret from the one page that shows it, sends a ping,
// sends it again and deletes the endpoint.
func TestAWebhookEndpointByForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	who, list := session(tn.cookie), "/dashboard/"+tn.workspace+"/webhooks"
	made := w.visit(who, list+"/create", url.Values{"url": {hookURL + `&x=<b>"`}, "events": {"*"}})
	require.Equal(t, 200, made.status, made.text)
	requireOnlyOurs(t, made.text)
	requireOnlyOurs(t, w.visit(who, list, nil).text)
	made = w.visit(who, list+"/create", url.Values{"url": {hookURL}, "events": {"*", "checkout.session.completed"}})
	require.Equal(t, 200, made.status, made.text)
	secret := regexp.MustCompile(`<code id="secret">(whsec_\w+)</code>`).FindStringSubmatch(made.text)
	require.NotNil(t, secret, made.text)
	id := w.ok(w.get(who, endpointsPath)).text("data", 0, "id")
	for _, address := range []string{list, list + "/" + id} {
		page := w.visit(who, address, nil)
		require.Contains(t, page.text, "hooks.example.com")
		require.NotContains(t, page.text, secret[1])
	}
	maker := w.ok(w.get(who, endpointsPath)).text("data", 0, "createdBy")
	_, admin := w.person(tn, workspace.Admin)
	for _, address := range []string{list, list + "/" + id} {
		require.Contains(t, w.visit(who, address, nil).text, `<a href="/dashboard/`+tn.workspace+`/team/members/`+maker+
			`">olga@example.com</a>`, "an owner sees the person")
		require.Contains(t, w.visit(session(admin), address, nil).text, "<code>"+maker+"</code>",
			"others may not read the members")
	}
	pinged := w.visit(who, list+"/"+id+"/ping", url.Values{})
	require.Equal(t, 303, pinged.status, pinged.text)
	pending := w.visit(who, pinged.location, nil)
	require.Contains(t, pending.text, `<span class="k">&#34;type&#34;</span>:<span class="s">&#34;ping&#34;`)
	require.NotContains(t, pending.text, "Send it again", "a pending delivery is sent by its schedule")
	require.Contains(t, w.visit(who, list+"/"+id, nil).text, pinged.location)

	gone := w.visit(who, list+"/"+id+"/delete", url.Values{})
	require.Equal(t, list, gone.location, gone.text)
	require.NotContains(t, w.visit(who, list, nil).text, id)
	require.Equal(t, 200, w.visit(who, pinged.location, nil).status, "its deliveries remain")
}

// A finished delivery is sent again from its page.
func TestADeliveryIsSentAgainByForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	who := session(tn.cookie)
	endpoint := w.newEndpoint(tn, `["*"]`).text("endpoint", "id")
	id := w.ok(w.post(who, endpointsPath+"/"+endpoint+"/test", "")).text("delivery", "id")
	w.endDelivery(tn, endpoint, id)
	address := "/dashboard/" + tn.workspace + "/webhooks/deliveries/" + id
	page := w.visit(who, address, nil)
	require.Contains(t, page.text, "410 Gone")
	require.Contains(t, page.text, "Send it again")
	list := "/dashboard/" + tn.workspace + "/webhooks"
	require.Contains(t, w.visit(who, list, nil).text, "Failing")
	failed := w.visit(who, list+"/"+endpoint+"?status=failed", nil).text
	require.Contains(t, failed, "The server says that the endpoint is gone.")
	require.Contains(t, failed, id)
	require.NotContains(t, w.visit(who, list+"/"+endpoint+"?status=delivered", nil).text, id)
	again := w.visit(who, address+"/resend", url.Values{})
	require.Equal(t, address+"?done=resend", again.location, again.text)
	d, err := query.Deliveries.Read(t.Context(), w.system, tn.workspace, id)
	require.NoError(t, err)
	require.Equal(t, 2, d.Runs)
}

// An unknown id, a malformed one and a refused filter show the list with the reason, not an empty
// page.
func TestAnUnknownRecordShowsTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.newTenant("olga"), w.newTenant("mallory")
	theirs := w.newEstate(other)
	home := "/dashboard/" + tn.workspace
	for _, p := range w.sitePages() {
		kind := p.kinds["id"]
		if kind == "" {
			continue
		}
		for _, id := range []string{theirs.id(kind), "garbage", "%00", `%3Cscript%3Ealert(1)`} {
			address := strings.ReplaceAll(strings.ReplaceAll(p.Address, "{workspace}", tn.workspace), "{id}", id)
			page := w.visit(session(tn.cookie), address, nil)
			require.Equal(t, 404, page.status, address)
			require.Contains(t, page.text, "There is no ", address)
			require.NotContains(t, page.text, "There is no such page", address)
			requireOnlyOurs(t, page.text)
		}
	}
	for _, filter := range []string{"swipes?decision=maybe", "keys?cursor=x", "webhooks?cursor=x",
		"payouts?cursor=x"} {
		page := w.visit(session(tn.cookie), home+"/"+filter, nil)
		require.Equal(t, 400, page.status)
		require.Contains(t, page.text, "All are shown.", filter)
		require.NotContains(t, page.text, "Something went wrong", filter)
	}
}

// endDelivery reports an attempt of a pending delivery at the end of its three days, which fails
// it.
func (w *world) endDelivery(tn tenant, endpoint, id string) {
	w.t.Helper()
	d, err := query.Deliveries.Read(w.t.Context(), w.system, tn.workspace, id)
	require.NoError(w.t, err)
	status := 410
	_, err = w.system.Ask(w.t.Context(), actors.Envelope{Kind: actors.KindWebhook, Stream: endpoint,
		Workspace: tn.workspace, Command: webhook.Attempted{Delivery: d, Attempt: webhook.Attempt{
			At: decision.StampOf(w.clock.now().Add(72 * time.Hour)), StatusCode: &status, DurationMs: 12}}})
	require.NoError(w.t, err)
}
