package httpapi

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/query"
	"purser/persistence"
	"purser/persistence/ident"
)

// authorizationLog writes authorizations in the form of relayed runs. It keeps their network ids,
// newest first: all, and the declined ones.
type authorizationLog struct {
	w             *world
	tn            tenant
	card          string
	every         int // declines one authorization in so many; 0 declines none
	all, declined []string
}

func newAuthorizationLog(w *world) *authorizationLog {
	tn := w.newTenant("ada")
	return &authorizationLog{w: w, tn: tn, card: w.mint(tn, "").text("card", "id"), every: 3}
}

// addRun writes n authorizations with one record in the workspace's index.
func (l *authorizationLog) addRun(n int) {
	l.w.t.Helper()
	slot, err := ident.SlotOf(l.tn.workspace)
	require.NoError(l.w.t, err)
	at, ids := l.w.clock.now(), []string{}
	b := &persistence.Batch{Workspace: l.tn.workspace, Slot: slot}
	for range n {
		name := fmt.Sprint("n", len(l.all))
		id := ident.Derive(slot, at, name).Format(ident.Authorization)
		a := balance.Authorization{ID: id, NetworkID: name, Decision: "approved", Reason: "approved",
			ResponseCode: "00",
			AmountCents:  1, Status: "cleared", Merchant: balance.Merchant{Name: "Shop", MCC: "5411"},
			At: decision.StampOf(at)}
		if l.every > 0 && len(l.all)%l.every == 0 {
			a.Decision, a.Reason, a.ResponseCode, a.Status = "declined", "card_frozen", "62", "declined"
			l.declined = slices.Insert(l.declined, 0, name)
		}
		l.all, ids = slices.Insert(l.all, 0, name), append(ids, id)
		b.Records = append(b.Records, l.record(balance.RecordAuthorization, l.card, id, a))
	}
	b.Records = append(b.Records, l.record(balance.RecordAuthorizationIndex, "", ids[0],
		balance.AuthorizationIndex{AuthorizationIDs: ids}))
	epoch := l.w.journal.Head(slot.Shard()).Epoch
	outcomes, err := l.w.journal.Append(context.Background(), slot.Shard(), epoch, at, []*persistence.Batch{b})
	require.NoError(l.w.t, err)
	require.NoError(l.w.t, outcomes[0].Err)
}

func (l *authorizationLog) record(kind, parent, id string, document any) persistence.Record {
	text, err := decision.Encode(document)
	require.NoError(l.w.t, err)
	return persistence.Record{Kind: kind, Parent: parent, ID: id, Document: text}
}

// page reads a page and returns its network ids and the next cursor, "" after the last page.
func (l *authorizationLog) page(query, cursor string) (names []string, next string) {
	l.w.t.Helper()
	if cursor != "" {
		query += "&cursor=" + cursor
	}
	r := l.w.ok(l.w.get(l.tn.all, "/api/authorizations?"+query))
	for i := range r.at("data").([]any) {
		names = append(names, r.text("data", i, "networkId"))
	}
	return names, r.text("nextCursor")
}

// The pages of a list show each authorization once, newest first, for every limit and every
// division into runs. Authorizations that arrive between two pages are not in the later one.
func TestPagesOfAuthorizationsShowEachOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := newAuthorizationLog(w)
	for i, n := range []int{1, 2, 3, 150, 1, 1, 5, 2, 40, 1, 3, 2, 2, 1, 4, 1, 1, 2, 3, 1, 5} {
		if i%4 == 3 {
			w.mint(l.tn, "") // the next runs have another position
		}
		l.addRun(n)
	}
	for _, limit := range []int{1, 2, 3, 100} {
		for _, filter := range []string{"", "&decision=declined", "&decision=declined&cardId=" + l.card,
			"&cardId=" + l.card} {
			want, got, pages := slices.Clone(l.all), []string{}, 0
			if strings.Contains(filter, "declined") {
				want = slices.Clone(l.declined)
			}
			query := fmt.Sprint("limit=", limit, filter)
			for cursor := ""; pages == 0 || cursor != ""; pages++ {
				var names []string
				names, cursor = l.page(query, cursor)
				require.LessOrEqual(t, len(names), limit, query)
				require.LessOrEqual(t, pages, len(want), query)
				got = append(got, names...)
				if pages < 3 {
					l.addRun(pages + 1)
				}
			}
			require.Equal(t, want, got, query)
			if filter == "" {
				require.Equal(t, (len(want)+limit-1)/limit, pages, "%s: no page is short but the last", query)
			}
		}
	}
}

// readLimits records the limits with which records are listed.
type readLimits struct {
	Actors
	limits []int
}

func (r *readLimits) List(
	ctx context.Context, kind, workspace, parent string, page persistence.Page,
) ([]persistence.Record, error) {
	if kind == balance.RecordAuthorizationIndex {
		r.limits = append(r.limits, page.Limit)
	}
	return r.Actors.List(ctx, kind, workspace, parent, page)
}

// A filtered page examines at most maxScanned authorizations. Its cursor continues there, also
// within a run. It reads at most indexRecords of the index at a time.
func TestFilteredPageExaminesBoundedAuthorizations(t *testing.T) {
	t.Parallel()
	read := new(readLimits)
	w := newWorld(t, func(c *Config) { read.Actors, c.Actors = c.Actors, read })
	l := newAuthorizationLog(w)
	l.addRun(2) // the first is declined
	l.every = 0
	l.addRun(balance.MaxRelay)
	within := l.newest()
	l.addRun(balance.MaxRelay)
	names, cursor := l.page("limit=1&decision=declined", "")
	require.Empty(t, names)
	list := listing{kind: balance.RecordAuthorizationIndex, workspace: l.tn.workspace, filter: "declined"}
	require.Equal(t, *list.cursorIn(within, maxScanned-balance.MaxRelay), cursor)
	names, cursor = l.page("limit=1&decision=declined", cursor)
	require.Equal(t, l.declined, names)
	require.Empty(t, cursor)

	read.limits = nil
	l.page("limit=100", "")
	require.Equal(t, []int{indexRecords}, read.limits)
}

// newest returns the place of the newest record of the workspace's index.
func (l *authorizationLog) newest() query.Place {
	l.w.t.Helper()
	records, err := query.AuthorizationIndexes.List(context.Background(), l.w.system, l.tn.workspace, "",
		query.Page{Limit: 1})
	require.NoError(l.w.t, err)
	return records[0].Place
}

// A cursor into a record is accepted only when the record is in the list and has more entries to
// show.
func TestCursorIntoARecordBelongsToItsList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := newAuthorizationLog(w)
	l.addRun(2)
	l.addRun(3)
	workspace := listing{kind: balance.RecordAuthorizationIndex, workspace: l.tn.workspace}
	newest := l.newest()
	at := func(position uint64, ordinal uint32) query.Place {
		return query.Place{Position: position, Ordinal: ordinal}
	}
	names, cursor := l.page("limit=2", "")
	require.Equal(t, l.all[:2], names)
	require.Equal(t, *workspace.cursorIn(newest, 2), cursor)
	names, _ = l.page("limit=5", cursor)
	require.Equal(t, l.all[2:], names)
	names, _ = l.page("limit=5", *workspace.cursorBehind(newest))
	require.Equal(t, l.all[3:], names, "behind the record")

	behind := *workspace.cursorBehind(newest)
	card := listing{kind: balance.RecordAuthorization, workspace: l.tn.workspace, parent: l.card}
	cards := listing{kind: "card", workspace: l.tn.workspace}
	filtered := workspace
	filtered.filter = "declined"
	for path, cursors := range map[string][]string{
		"/api/authorizations?": {
			*workspace.cursorIn(newest, 3), *workspace.cursorIn(newest, 4), *workspace.cursorIn(newest, math.MaxUint16),
			*workspace.cursorIn(at(newest.Position, newest.Ordinal-1), 1),
			*workspace.cursorIn(at(newest.Position, newest.Ordinal+1), 1),
			*workspace.cursorIn(at(newest.Position+1, newest.Ordinal), 1), *workspace.cursorIn(at(1, 1), 1),
			*workspace.cursorIn(at(newest.Position, math.MaxUint32), 1), *workspace.cursorIn(at(math.MaxUint64, 1), 1),
			*workspace.cursorIn(at(0, 1), 1), *filtered.cursorIn(newest, 2),
			*workspace.cursorBehind(newest) + "AA", // 18 bytes, whose count of shown entries is 0
			*workspace.cursorBehind(newest) + "A", cursor + "AA", cursor[:len(cursor)-1],
			cursor + "%0A", "%0D" + cursor, cursor[:3] + "%0D%0A" + cursor[3:], behind[:3] + "%0A" + behind[3:],
			behind[:len(behind)-1] + string(behind[len(behind)-1]+1), // bits that no byte takes
		},
		"/api/authorizations?cardId=" + l.card + "&": {*card.cursorIn(newest, 1), cursor},
		"/api/cards?": {*cards.cursorIn(newest, 1), cursor},
	} {
		for _, bad := range cursors {
			r := w.get(l.tn.all, path+"cursor="+bad)
			w.fails(r, 400, "invalid_query")
			require.Contains(t, r.raw, "cursor must be a nextCursor of this list", bad)
		}
	}
}

// Swipes that the relay stores together are listed in the order of their decisions.
func TestRelayedSwipesAreListedInTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fund(tn, 1000)
	card, want := w.mint(tn, "").text("card", "id"), []string{}
	for i := range 12 {
		name := fmt.Sprint("n", i)
		w.swipe(tn, card, name, 1)
		want = slices.Insert(want, 0, name)
	}
	w.relayed()
	l := authorizationLog{w: w, tn: tn}
	got, cursor := l.page("limit=7", "")
	rest, end := l.page("limit=7", cursor)
	require.Equal(t, want, append(got, rest...))
	require.Empty(t, end)
}
