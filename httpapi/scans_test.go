package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/checkout"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/workspace"
	"purser/persistence"
	"purser/persistence/ident"
)

// storedLinks is a Reader of the checkout links of one workspace, oldest first.
type storedLinks struct {
	Actors
	links, texts []persistence.Record
}

// addLink adds a link with a merchant's reference, whose text has at least length bytes.
func (s *storedLinks) addLink(t *testing.T, reference string, length int) (id string) {
	t.Helper()
	at := time.Date(2026, 11, 20, 0, 0, len(s.links), 0, time.UTC)
	id = ident.Derive(1, at, fmt.Sprint(len(s.links))).Format(ident.Checkout)
	state, err := json.Marshal(checkout.State{ID: id, Workspace: "ws", CreatedAt: decision.StampOf(at)})
	require.NoError(t, err)
	text, err := json.Marshal(checkout.Text{MerchantReference: reference, Description: strings.Repeat("d", length)})
	require.NoError(t, err)
	s.links = append(s.links, persistence.Record{ID: id, Position: uint64(len(s.links) + 1), Document: state})
	s.texts = append(s.texts, persistence.Record{ID: id, Document: text})
	return id
}

func (s *storedLinks) List(_ context.Context, kind, _, _ string, page persistence.Page) (read []persistence.Record,
	err error) {
	if kind != actors.KindCheckout {
		return nil, fault.New(fault.Unavailable, kind)
	}
	for i := len(s.links) - 1; i >= 0 && len(read) < page.Limit; i-- {
		if page.AfterPosition == 0 || s.links[i].Position < page.AfterPosition {
			read = append(read, s.links[i])
		}
	}
	return read, nil
}

func (s *storedLinks) Record(_ context.Context, _, _, id string) (persistence.Record, error) {
	for _, text := range s.texts {
		if text.ID == id {
			return text, nil
		}
	}
	return persistence.Record{}, fault.New(fault.NotFound, "")
}

// documentBytes returns the bytes of records' documents.
func documentBytes(records []persistence.Record) (n int) {
	for _, r := range records {
		n += len(r.Document)
	}
	return n
}

// listOf answers a page of the links through the limits, and returns the call.
func (s *storedLinks) listOf(t *testing.T, e *edge, query ...string) (page, *call) {
	t.Helper()
	h := &checkoutHandlers{edge: e}
	c := &call{ctx: t.Context(), now: time.Date(2026, 11, 20, 1, 0, 0, 0, time.UTC), query: map[string]string{},
		method: "GET", route: &route{method: "GET", handle: h.listCheckouts},
		who: caller{access: workspace.Access{Workspace: "ws"}}}
	for i := 0; i < len(query); i += 2 {
		c.query[query[i]] = query[i+1]
	}
	a, err := e.limits.runHandler(c)
	require.NoError(t, err)
	var out page
	require.NoError(t, json.Unmarshal(a.body, &out))
	return out, c
}

func (s *storedLinks) newEdge() *edge {
	return &edge{actors: s, limits: newStillLimits()}
}

// newStillLimits returns limits for two processors whose clock does not advance.
func newStillLimits() *requestLimits {
	return newRequestLimits(Config{Processors: 2, RateLimits: DefaultRateLimits(),
		Elapsed: func() time.Duration { return 0 }})
}

// The bytes of links that a list reads and does not show count, with those of their texts.
func TestLinksThatAreReadAndNotShownCount(t *testing.T) {
	t.Parallel()
	s := &storedLinks{}
	for range 60 {
		s.addLink(t, "theirs", 8_000)
	}
	e := s.newEdge()
	out, c := s.listOf(t, e, "reference", "none", "limit", "1")
	require.Empty(t, out.Data)
	require.Equal(t, documentBytes(s.texts), c.read)
	require.Equal(t, documentBytes(s.links), c.passed)
	units := (c.read + c.passed + len(`{"data":[],"nextCursor":null}`)) / byteUnit
	require.Greater(t, units, 20)
	for _, b := range c.byteLimits() {
		require.Positive(t, e.limits.counts.untilFree(b.caller, units), b.caller)
		require.Zero(t, e.limits.counts.untilFree(b.caller, units+1), b.caller)
	}
}

// A page ends at maxReadBytes of links that it does not show, and the pages together show each link
// that matches once.
func TestAPageEndsAtTheBytesThatItReads(t *testing.T) {
	t.Parallel()
	for first := range 3 { // so that the record behind a page matches in one of them
		requireEveryThirdLink(t, first)
	}
}

// requireEveryThirdLink requires that the pages show the links that match, each third from the first
// on, once each.
func requireEveryThirdLink(t *testing.T, first int) {
	t.Helper()
	s, want := &storedLinks{}, []string{}
	for i := range 400 {
		reference := "theirs"
		if i%3 == first {
			reference = "mine"
		}
		if id := s.addLink(t, reference, 8_000); reference == "mine" {
			want = append([]string{id}, want...)
		}
	}
	longest := len(s.links[399].Document) + len(s.texts[399].Document)
	got, pages, asked := []string{}, 0, []string{"reference", "mine", "limit", "100"}
	for more := true; more; pages++ {
		require.Less(t, pages, 10)
		out, c := s.listOf(t, s.newEdge(), asked...)
		require.LessOrEqual(t, c.read, maxReadBytes+longest)
		for _, one := range out.Data {
			got = append(got, one.(map[string]any)["id"].(string))
		}
		if more = out.NextCursor != nil; more {
			asked = []string{"reference", "mine", "limit", "100", "cursor", *out.NextCursor}
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, 3, pages, "2.1 MB of links that do not match are three pages")
}

// A list that shows every record it reads counts the bytes of its answer alone.
func TestAListThatShowsItsRecordsCountsItsAnswer(t *testing.T) {
	t.Parallel()
	s := &storedLinks{}
	for i := range 5 {
		s.addLink(t, fmt.Sprint("order ", i), 500)
	}
	for shown, asked := range map[int][]string{5: nil, 2: {"limit", "2"}, 1: {"reference", "order 4", "limit", "1"}} {
		e := s.newEdge()
		out, c := s.listOf(t, e, asked...)
		require.Len(t, out.Data, shown)
		if asked == nil || asked[0] == "limit" {
			require.Equal(t, []int{0, 0}, []int{c.read, c.passed}, asked)
		}
		for _, b := range c.byteLimits() {
			require.Zero(t, e.limits.counts.untilFree(b.caller, 1), "a short list counts no unit")
		}
	}
}

// Authorizations that a list or the totals read and do not show count, but not for a page of the
// dashboard.
func TestAuthorizationsThatAreNotShownCount(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t)
	l := newAuthorizationLog(w)
	l.every = 0
	for range 3 {
		l.addRun(200)
	}
	until429 := func(path string, most int) (answered int) {
		for who := w.keyOf(l.tn, "read:cards"); answered < most && w.get(who, path).status == 200; answered++ {
		}
		return answered
	}
	const most = 60
	require.Equal(t, most, until429("/api/authorizations?limit=1", most))
	w.clock.turn(rateWindow)
	require.Less(t, until429("/api/authorizations?limit=1&decision=declined", most), most)
	w.clock.turn(rateWindow)
	require.Less(t, until429("/api/authorizations?limit=1&decision=declined&cardId="+l.card, most), most)
	w.clock.turn(rateWindow)
	require.Less(t, until429("/api/authorizations/totals", most), most)
	page := &call{ofPage: true, read: 1, passed: 20}
	require.Equal(t, 1, page.readBytes())
}

// The bytes that a tool reads count before the next tool of its batch, and only once.
func TestBytesThatAToolReadsCountOnce(t *testing.T) {
	t.Parallel()
	l := newStillLimits()
	c := &call{who: caller{access: workspace.Access{Workspace: "ws"}}}
	l.chargeTool(c, 100, 4*byteUnit)
	name := c.byteLimits()[1].caller
	require.Positive(t, l.counts.untilFree(name, 4))
	require.Zero(t, l.counts.untilFree(name, 5))
	require.Zero(t, 100+c.readBytes()-c.charged)
}

// Long scans of all workspaces together leave a processor free. A short scan takes no place.
func TestLongScansLeaveAProcessorFree(t *testing.T) {
	t.Parallel()
	l := newStillLimits()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	of := func(ctx context.Context, name string, read int) (*scan, error) {
		c := &call{ctx: ctx, who: caller{access: workspace.Access{Workspace: name}}}
		s := l.newScan(c)
		c.passed += read
		_, err := s.isOver()
		return s, err
	}
	first, err := of(t.Context(), "ada", longScan+1)
	require.NoError(t, err)
	_, err = of(over, "bob", longScan+1)
	require.True(t, fault.Is(err, fault.Unavailable), err)
	_, err = of(over, "bob", longScan)
	require.NoError(t, err)
	first.endScan()
	again, err := of(t.Context(), "bob", longScan+1)
	require.NoError(t, err)
	again.endScan()
}
