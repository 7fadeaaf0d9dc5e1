package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
)

// Each filter selects by its field, and filters together select what each of them does.
func TestAuthorizationsAreFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fund(tn, 100_000)
	card := w.mint(tn, "").text("card", "id")
	swipe := func(name string, cents int, merchant string) {
		r := w.ok(w.post(tn.all, "/api/dev/cards/"+card+"/simulate/authorization", fmt.Sprintf(
			`{"id":%q,"amountCents":%d,"currency":"USD","merchant":{"name":%q,"mcc":"5812"}}`, name, cents, merchant)))
		require.NotEmpty(t, r.text("decision"), r.raw)
	}
	start := w.clock.now()
	swipe("a", 100, "Cafe Aroma")
	swipe("b", 200, "cafe zero")
	w.clock.turn(48 * time.Hour)
	later := w.clock.now()
	swipe("c", 300, "Tea House")
	swipe("d", 10_000_000, "Cafe Aroma") // declined
	w.relayed()
	names := func(query string) (found string) {
		for _, within := range []string{"", "&cardId=" + card} {
			l := authorizationLog{w: w, tn: tn}
			page, _ := l.page(query+within, "")
			found = ""
			for _, name := range page {
				found += name
			}
		}
		return found
	}
	require.Equal(t, "dcba", names("limit=10"))
	reason := w.ok(w.get(tn.all, "/api/authorizations?decision=declined")).text("data", 0, "reason")
	stamp := func(at time.Time) string { return url.QueryEscape(at.UTC().Format(time.RFC3339Nano)) }
	for query, want := range map[string]string{
		"decision=approved":                       "cba",
		"reason=approved":                         "cba",
		"reason=" + reason:                        "d",
		"reason=timeout":                          "",
		"merchant=CAFE":                           "dba",
		"merchant=aroma":                          "",
		"merchant=Tea+House&decision=approved":    "c",
		"amountFromCents=200":                     "dcb",
		"amountToCents=200":                       "ba",
		"amountFromCents=200&amountToCents=200":   "b",
		"from=" + stamp(later):                    "dc",
		"to=" + stamp(later):                      "ba",
		"to=" + stamp(start):                      "",
		"from=" + stamp(later.Add(time.Second)):   "",
		"from=" + start.Format(time.DateOnly):     "dcba",
		"to=" + start.Format(time.DateOnly):       "ba",
		"to=" + later.Format(time.DateOnly):       "dcba",
		"from=" + later.Format(time.DateOnly):     "dc",
		"from=" + stamp(start) + "&merchant=Cafe": "dba",
	} {
		require.Equal(t, want, names(query), query)
	}
}

func TestABadFilterOfAuthorizationsIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	for query, field := range map[string]string{"decision=": "decision", "decision=no": "decision",
		"reason=Card+Frozen": "reason", "reason=": "reason", "merchant=": "merchant",
		"amountFromCents=-1": "amountFromCents", "amountFromCents=1.5": "amountFromCents",
		"amountToCents=01": "amountToCents", "amountToCents=1000000000001": "amountToCents",
		"amountFromCents=2&amountToCents=1": "amountToCents", "from=yesterday": "from", "from=2026-02-30": "from",
		"to=12:00": "to", "from=2026-11-02T10:00:00%2B24:00": "from", "to=2026-11-02T1:00:00Z": "to",
		"from=2026-11-02&to=2026-11-01": "to"} {
		r := w.get(tn.all, "/api/authorizations?"+query)
		w.fails(r, 400, "invalid_query")
		require.Contains(t, r.text("message"), field+" must", query)
	}
}

// A list by time starts at its period, however many authorizations are newer, and ends with it.
func TestAListByTimeReadsItsPeriodAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := newAuthorizationLog(w)
	l.every = 0
	l.addRun(balance.MaxRelay)
	w.clock.turn(24 * time.Hour)
	day := w.clock.now().Format(time.DateOnly)
	l.addRun(1)
	l.addRun(2)
	want := slices.Clone(l.all[:3])
	w.clock.turn(24 * time.Hour)
	for range 3 {
		w.mint(l.tn, "") // the next run has another position
		l.addRun(balance.MaxRelay)
	}
	for _, card := range []string{"", "&cardId=" + l.card} {
		names, cursor := l.page("limit=100&from="+day+"&to="+day+card, "")
		require.Equal(t, want, names)
		require.Empty(t, cursor)
		names, cursor = l.page("limit=2&from="+day+"&to="+day+card, "")
		rest, end := l.page("limit=2&from="+day+"&to="+day+card, cursor)
		require.Equal(t, want, append(names, rest...))
		require.Empty(t, end)
		w.fails(w.get(l.tn.all, "/api/authorizations?limit=2&from="+day+card+"&cursor="+cursor), 400, "invalid_query")
	}
}

func TestAnAuthorizationIsShownWithItsCard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.newTenant("ada"), w.newTenant("eve")
	w.fund(tn, 100_000)
	card := w.mint(tn, "").text("card", "id")
	simulate := "/api/dev/cards/" + card + "/simulate/"
	likeAnID := balance.SimulatedID(tn.workspace, "Shop") // a merchant's name is nobody's id
	answered := w.ok(w.post(tn.all, simulate+"authorization",
		`{"id":"n1","amountCents":500,"currency":"USD","merchant":{"name":"`+likeAnID+`","mcc":"5411"}}`))
	require.Equal(t, "n1", answered.text("id"))
	id := answered.text("authorizationId")
	w.ok(w.post(tn.all, simulate+"clearing",
		`{"originalId":"n1","amountCents":200,"currency":"USD","merchant":{"name":"Shop","mcc":"5411"}}`))
	shown := w.ok(w.get(tn.all, "/api/authorizations/"+id))
	require.Equal(t, card, shown.text("cardId"))
	require.Equal(t, "n1", shown.text("authorization", "networkId"))
	require.Equal(t, likeAnID, shown.text("authorization", "merchant", "name"))
	require.Equal(t, "partially_cleared", shown.text("authorization", "status"))
	require.Equal(t, 200, shown.cents("authorization", "clearedCents"))
	for _, r := range []testReply{w.get(other.all, "/api/authorizations/"+id),
		w.get(tn.all, "/api/authorizations/"+card),
		w.get(tn.all, "/api/authorizations/x")} {
		w.fails(r, 404, "not_found")
	}
}
