package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/workspace"
)

const requestsPath = "/api/dashboard/requests"

// The log shows the caller, the route and the status of a request, and nothing that the request
// carried.
func TestTheRequestLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	card := w.mint(tn, "").text("card", "id")
	w.ok(w.get(tn.all.with("X-Request-Id", "mine-1"), "/api/cards?limit=7"))
	w.fails(w.get(tn.all, "/api/cards/"+card+"x"), 404, "not_found")
	w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/cards/"+card+"/freeze", url.Values{})
	w.get(key("apk_unknown"), "/api/cards")
	list := w.ok(w.get(session(tn.cookie), requestsPath+"?limit=3"))
	require.NotContains(t, list.raw, tn.secret)
	require.NotContains(t, list.raw, card)
	require.NotContains(t, list.raw, "limit=7")
	frozen, missing, read := list.at("data", 0), list.at("data", 1), list.at("data", 2)
	require.Equal(t, "PATCH /api/cards/{id} 200", line(frozen))
	require.Nil(t, frozen.(map[string]any)["keyPrefix"])
	require.NotEmpty(t, frozen.(map[string]any)["userId"])
	require.Equal(t, "GET /api/cards/{id} 404", line(missing))
	require.Equal(t, "not_found", missing.(map[string]any)["error"])
	require.Equal(t, "GET /api/cards 200", line(read))
	require.Equal(t, "mine-1", read.(map[string]any)["requestId"])
	require.Equal(t, tn.secret[:prefixChars], read.(map[string]any)["keyPrefix"])
	require.Nil(t, read.(map[string]any)["userId"])

	refused := w.ok(w.get(session(tn.cookie), requestsPath+"?status=4xx"))
	require.Len(t, refused.at("data"), 1)
	require.Equal(t, missing, refused.at("data", 0))
	require.Equal(t, missing, w.ok(w.get(session(tn.cookie), requestsPath+"?status=404")).at("data", 0))
	for _, status := range []string{"x", "1xx", "6xx", "99", "600", "0404", "%2B404", "4xxx"} {
		r := w.get(session(tn.cookie), requestsPath+"?status="+status)
		w.fails(r, 400, "invalid_query")
		require.Contains(t, r.text("message"), "status must be")
	}
	w.fails(w.get(session(tn.cookie), requestsPath+"?cursor=x"), 400, "invalid_query")
	w.fails(w.get(tn.all, requestsPath), 403, "session_required")
	require.NotContains(t, w.ok(w.get(session(w.newTenant("eve").cookie), requestsPath)).raw, "mine-1")
}

// A request has one id: in its answer's header, in the server's log and in the request log, whose
// filters find it.
func TestARequestIsFoundInItsLog(t *testing.T) {
	t.Parallel()
	log, withLog := logged(slog.LevelDebug)
	w := newWorld(t, withLog)
	tn := w.newTenant("olga")
	reader, other := w.keyOf(tn, "read:api_keys"), w.keyOf(tn, "read:cards")
	first := w.clock.now()
	missing := w.get(other, "/api/cards/card_"+strings.Repeat("0", 26)).header("X-Request-Id")
	w.clock.turn(24 * time.Hour)
	w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
		if _, ofTheRequest := e.Command.(workspace.Authenticate); ofTheRequest {
			w.clock.turn(42 * time.Millisecond)
		}
		return w.actors.Actors.Ask(ctx, e)
	})
	slow := w.get(tn.all, "/api/workspaces").header("X-Request-Id")
	w.actors.hook(nil)
	for _, id := range []string{missing, slow} {
		require.Eventually(t, func() bool { return len(log.with(t, "request", id)) > 0 }, waitFor, pause)
	}
	find := func(query string) (ids []string) {
		for _, r := range w.ok(w.get(reader, "/api/requests?"+query)).at("data").([]any) {
			ids = append(ids, r.(map[string]any)["requestId"].(string))
		}
		return ids
	}
	require.Equal(t, []string{slow}, find("requestId="+slow))
	require.Equal(t, []string{slow}, find("route=/api/work&status=2xx"))
	require.Equal(t, []string{missing}, find("error=not_found"))
	require.Equal(t, []string{missing}, find("route=/api/cards"))
	require.Equal(t, []string{missing}, find("method=GET&to="+first.Format(time.DateOnly)))
	nextDay := first.AddDate(0, 0, 1).Format(time.DateOnly)
	require.Equal(t, []string{slow}, find("status=200&route=/api/work&from="+nextDay))
	prefix := w.ok(w.get(reader, "/api/requests?requestId="+missing)).text("data", 0, "keyPrefix")
	require.Equal(t, []string{missing}, find("keyPrefix="+prefix))
	require.Equal(t, []string{slow, missing}, find("route=/api/&keyPrefix=apk_")[:2],
		"the first characters are enough")
	require.Empty(t, find("route=/api/requests"), "the log does not list its own reads")
	require.Empty(t, find("method=DELETE"))
	took := w.ok(w.get(session(tn.cookie), requestsPath+"?requestId="+slow))
	require.EqualValues(t, 42, took.at("data", 0, "durationMs"))
	for query, names := range map[string]string{"method=PUT": "method must be one of GET, ", "route=": "route",
		"from=x": "from", "error=" + strings.Repeat("x", 201): "error"} {
		r := w.get(reader, "/api/requests?"+query)
		w.fails(r, 400, "invalid_query")
		require.Contains(t, r.text("message"), names)
	}
	w.fails(w.get(other, "/api/requests"), 403, "missing_scope:read:api_keys")
}

func line(request any) string {
	r := request.(map[string]any)
	return fmt.Sprintf("%v %v %v", r["method"], r["route"], r["status"])
}

// A member may not read the log, and its page neither.
func TestTheRequestLogIsForOwnersAndAdmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	_, bob := w.person(tn, workspace.Member)
	_, ada := w.person(tn, workspace.Admin)
	page := "/dashboard/" + tn.workspace + "/requests"
	require.Equal(t, 403, w.visit(session(bob), page, nil).status)
	require.NotContains(t, w.visit(session(bob), "/dashboard/"+tn.workspace+"/treasury", nil).text, page)
	w.ok(w.get(tn.all.with("X-Request-Id", "mine-2"), "/api/cards"))
	shown := w.visit(session(ada), page+"?status=2xx", nil)
	require.Contains(t, shown.text, "mine-2")
	require.Contains(t, shown.text, `aria-current="true">2xx, done`)
	wrong := w.visit(session(ada), page+"?status=%3Cb%3E", nil)
	require.Equal(t, 400, wrong.status)
	require.Contains(t, wrong.text, "Status must be a number")
	requireOnlyOurs(t, wrong.text)
}

func newLoggedCall(workspaceID, id string) *call {
	return &call{id: id, route: &route{method: "GET", path: "/api/cards"},
		who: caller{access: workspace.Access{Workspace: workspaceID}}}
}

func anyRequest(*loggedRequest) bool { return true }

// A log holds maxLoggedRequests, and its pages go on behind their last request while new ones
// arrive.
func TestTheRequestLogDropsTheOldest(t *testing.T) {
	t.Parallel()
	l := newRequestLog(time.Now)
	for i := range maxLoggedRequests + 10 {
		l.add(newLoggedCall("ws_1", fmt.Sprint(i)), answer{status: 200 + i%2*204}, 0)
	}
	first, more := l.list("ws_1", 0, 3, anyRequest)
	require.True(t, more)
	require.Equal(t, []string{"1009", "1008", "1007"}, []string{first[0].id, first[1].id, first[2].id})
	l.add(newLoggedCall("ws_1", "later"), answer{status: 200}, 0)
	next, _ := l.list("ws_1", first[2].number, 2, anyRequest)
	require.Equal(t, []string{"1006", "1005"}, []string{next[0].id, next[1].id})
	all, more := l.list("ws_1", 0, maxLoggedRequests, anyRequest)
	require.False(t, more)
	require.Len(t, all, maxLoggedRequests)
	require.Equal(t, "11", all[maxLoggedRequests-1].id)
	gone, more := l.list("ws_1", all[maxLoggedRequests-1].number, 10, anyRequest)
	require.Empty(t, gone)
	require.False(t, more)
	odd, more := l.list("ws_1", 0, 500, func(r *loggedRequest) bool { return r.status == 404 })
	require.Len(t, odd, 500)
	require.False(t, more)
}

// Many workspaces of a stranger do not take the place of a quiet one's log until their requests
// have.
func TestTheRequestLogDropsTheQuietest(t *testing.T) {
	t.Parallel()
	l := newRequestLog(time.Now)
	add := func(name string) { l.add(newLoggedCall(name, "r"), answer{status: 200}, 0) }
	held := func(name string) int {
		found, _ := l.list(name, 0, maxLoggedRequests, anyRequest)
		return len(found)
	}
	add("ws_quiet")
	add("ws_busy")
	for i := range maxLoggedInAll/2 - 2 {
		add(fmt.Sprint("ws_", i))
	}
	require.Equal(t, []int{1, 1}, []int{held("ws_quiet"), held("ws_busy")}, "in the young generation")
	for i := range maxLoggedInAll / 2 {
		add(fmt.Sprint("ws_more_", i))
		if i == maxLoggedInAll/4 {
			require.Equal(t, 1, held("ws_quiet"), "in the old generation")
			add("ws_busy")
		}
	}
	add("ws_last")
	require.Equal(t, []int{0, 2, 1}, []int{held("ws_quiet"), held("ws_busy"), held("ws_last")})
	most := 0
	for name := range l.young {
		most += held(name)
	}
	for name := range l.old {
		most += held(name)
	}
	require.LessOrEqual(t, most, maxLoggedInAll+1)
}

// BenchmarkRequestLog compares requests with and without the log, in alternating rounds of one run:
// with/without is the ratio of their fastest rounds, and add-ns the time of one add alone.
func BenchmarkRequestLog(b *testing.B) {
	w := newWorld(b)
	tn := w.newTenant("ada")
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	req.SetRequestURI("http://purser.test/api/workspaces")
	req.Header.Set("Authorization", "Bearer "+tn.secret)
	log := w.server.requests
	fastest := map[*requestLog]time.Duration{log: time.Hour, nil: time.Hour}
	const round = 100
	b.ResetTimer()
	for range b.N {
		for _, used := range []*requestLog{log, nil} {
			w.server.requests = used
			began := time.Now()
			for range round {
				require.NoError(b, w.client.Do(req, resp))
			}
			fastest[used] = min(fastest[used], time.Since(began))
		}
	}
	b.StopTimer()
	require.Equal(b, 200, resp.StatusCode())
	b.ReportMetric(float64(fastest[log])/float64(fastest[nil]), "with/without")
	c := newLoggedCall("ws_1", "0123456789abcdef")
	c.header.authorization = "Bearer " + strings.Repeat("s", 56)
	began := time.Now()
	for range 1_000_000 {
		log.add(c, answer{status: 200}, 0)
	}
	b.ReportMetric(float64(time.Since(began))/1e6, "add-ns")
	b.ReportMetric(float64(fastest[nil])/round, "request-ns")
}
