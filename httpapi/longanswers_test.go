package httpapi

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"purser/actors/fault"
	"purser/actors/workspace"
	"purser/persistence"

	"github.com/stretchr/testify/require"
)

// longCards mints n cards whose allowlists have 1,000 merchants of 80 characters. It turns the clock
// after every few cards, because their commits count in the limits of bytes.
func (w *world) longCards(tn tenant, n int) {
	w.t.Helper()
	names := make([]string, 1_000)
	for i := range names {
		names[i] = fmt.Sprintf(`"%04d%s"`, i, strings.Repeat("m", 76))
	}
	for i := range n {
		w.mint(tn, `,"allowedMerchants":[`+strings.Join(names, ",")+`]`)
		if i%4 == 3 {
			w.clock.turn(rateWindow)
		}
	}
}

// A page ends near maxPageBytes, and the pages together have every card once.
func TestAPageOfLongRecordsEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	const cards = 40 // about 84 kB each
	w.longCards(tn, cards)
	seen, pages := map[string]bool{}, 0
	for cursor := ""; ; pages++ {
		got := w.ok(w.get(tn.all, "/api/cards?limit=100"+cursor))
		require.Less(t, len(got.raw), 2*maxPageBytes)
		for _, one := range got.at("data").([]any) {
			id := one.(map[string]any)["id"].(string)
			require.False(t, seen[id], id)
			seen[id] = true
		}
		next, more := got.at("nextCursor").(string)
		if !more {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(next)
	}
	require.Len(t, seen, cards)
	require.GreaterOrEqual(t, pages, 2)
}

// byKeys returns three keys of a tenant that read and write cards, and one that only reads them.
func (w *world) byKeys(tn tenant) (writers []as, reader as) {
	for range 3 {
		writers = append(writers, w.keyOf(tn, "read:cards", "write:cards"))
	}
	return writers, w.keyOf(tn, "read:cards")
}

// limitedWorld has request limits that no test reaches, so that only the limits of bytes apply.
func limitedWorld(t *testing.T, change ...func(*Config)) *world {
	limits := func(c *Config) { c.RateLimits = RateLimits{PerKey: 10_000, PerWorkspace: 10_000, PerAddress: 10_000} }
	return newWorld(t, append(change, limits)...)
}

// Bytes of requests and answers count against the key: a batch of tools ends with rate_limited, and
// so does the key's next request within a minute. Other keys, other workspaces and a DELETE are
// answered.
func TestLongAnswersCountByTheirBytes(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t)
	ada, bob := w.newTenant("ada"), w.newTenant("bob")
	w.longCards(ada, 12)
	w.clock.turn(rateWindow)
	writers, reader := w.byKeys(ada)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_cards","arguments":{"limit":100}}}`
	status, batch := w.rpc(reader, "["+strings.Repeat(call+",", 31)+call+"]")
	require.Equal(t, 200, status)
	require.Contains(t, batch, "rate_limited")
	require.Less(t, len(batch), 2*byteUnit*(unitsPerKey+maxPageBytes/byteUnit))
	w.fails(w.get(reader, "/api/cards?limit=1"), 429, "rate_limited")
	w.ok(w.get(writers[0], "/api/cards?limit=1"))
	w.ok(w.get(bob.all, "/api/cards?limit=1"))
	w.clock.turn(rateWindow)
	w.ok(w.get(reader, "/api/cards?limit=1"))
}

// The keys of a workspace share its bytes. The workspace can still revoke one of them.
func TestBytesOfAWorkspace(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t)
	ada := w.newTenant("ada")
	w.longCards(ada, 12)
	w.clock.turn(rateWindow)
	writers, reader := w.byKeys(ada)
	made := w.ok(w.post(session(ada.cookie), "/api/auth/keys", `{"label":"k","scopes":["read:cards"]}`))
	for _, who := range append(writers, reader) {
		for w.get(who, "/api/cards").status == 200 { // until its share is used up
		}
	}
	w.fails(w.get(key(made.text("secret")), "/api/cards?limit=1"), 429, "rate_limited")
	w.ok(w.do(session(ada.cookie), "DELETE", "/api/dashboard/keys?id="+made.text("apiKey", "id"), ""))
	w.clock.turn(rateWindow)
	w.fails(w.get(key(made.text("secret")), "/api/cards?limit=1"), 401, "unauthorized")
}

// Refused and anonymous requests count no bytes: a key without the scope cannot use up the bytes of
// its workspace, nor a stranger those of an address.
func TestRefusedRequestsCountNoBytes(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t)
	ada := w.newTenant("ada")
	_, reader := w.byKeys(ada)
	body := strings.Repeat(" ", wideBody-1) + "{"
	for range 2 * unitsPerWorkspace * byteUnit / wideBody {
		w.fails(w.post(reader, "/api/cards", body), 403, "missing_scope:write:cards")
	}
	for range 2 * unitsPerAddress / 16 {
		w.ok(w.get(nil, "/api/v1/openapi.json"))
	}
	w.ok(w.get(reader, "/api/cards?limit=1"))
	w.ok(w.get(ada.all, "/api/cards?limit=1"))
}

// gatedActors delays every list of cards until release is closed.
type gatedActors struct {
	Actors
	inside, most atomic.Int64
	release      chan struct{}
}

func (g *gatedActors) List(ctx context.Context, kind, workspace, parent string,
	page persistence.Page) ([]persistence.Record, error) {
	if kind == "card" {
		n := g.inside.Add(1)
		defer g.inside.Add(-1)
		for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
		}
		<-g.release
	}
	return g.Actors.List(ctx, kind, workspace, parent, page)
}

// A burst of long answers is limited before the first of them counts: a workspace has
// runsPerWorkspace concurrent reads, and each checks the bytes after it has its place.
func TestABurstOfLongAnswersCounts(t *testing.T) {
	t.Parallel()
	gate := &gatedActors{release: make(chan struct{})}
	release := sync.OnceFunc(func() { close(gate.release) })
	defer release()
	w := limitedWorld(t, func(c *Config) { gate.Actors, c.Actors = c.Actors, gate })
	ada, bob := w.newTenant("ada"), w.newTenant("bob")
	w.longCards(ada, 12)
	w.clock.turn(rateWindow)
	writers, reader := w.byKeys(ada)
	keys := append(writers, reader)
	const burst = 4 * runsPerWorkspace
	var passed atomic.Int64
	var all sync.WaitGroup
	for i := range burst {
		all.Go(func() {
			if w.get(keys[i%len(keys)], "/api/cards").status == 200 {
				passed.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return gate.inside.Load() >= runsPerWorkspace }, waitFor, pause)
	other := make(chan testReply, 1)
	go func() { other <- w.get(bob.all, "/api/cards") }()
	require.Eventually(t, func() bool { return gate.inside.Load() > runsPerWorkspace }, waitFor, pause)
	release()
	all.Wait()
	w.ok(<-other)
	require.EqualValues(t, runsPerWorkspace+1, gate.most.Load())
	require.Less(t, passed.Load(), int64(runsPerWorkspace+unitsPerWorkspace*byteUnit/maxPageBytes+len(keys)))
}

// A workspace makes one statement at a time, and leaves the other places to other workspaces.
func TestAWorkspaceHasOnePlaceForStatements(t *testing.T) {
	t.Parallel()
	h := newTreasuryHandlers(nil, nil)
	of := func(ctx context.Context, name string) *call {
		return &call{ctx: ctx, who: caller{access: workspace.Access{Workspace: name}}}
	}
	done, err := h.statementTurn(of(t.Context(), "ada"))
	require.NoError(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.statementTurn(of(over, "ada"))
	require.True(t, fault.Is(err, fault.Unavailable), err)
	other, err := h.statementTurn(of(t.Context(), "bob"))
	require.NoError(t, err)
	other()
	done()
	again, err := h.statementTurn(of(t.Context(), "ada"))
	require.NoError(t, err)
	again()
}
