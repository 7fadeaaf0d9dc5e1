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
	"purser/persistence"
	"purser/persistence/ident"
)

// authorizationLog writes authorizations as relayed runs leave them, and keeps their network ids,
// newest first: all, and those that were declined.
type authorizationLog struct {
	w             *world
	tn            tenant
	card          string
	every         int // so many of which one is declined; 0: none is
	all, declined []string
}

func newAuthorizationLog(w *world) *authorizationLog {
	tn := w.newTenant("ada")
	return &authorizationLog{w: w, tn: tn, card: w.mint(tn, "").text("card", "id"), every: 3}
}

// run writes a run of so many authorizations with one record in the workspace's list. An earlier
// version wrote one for each.
func (l *authorizationLog) run(n int, earlier bool) {
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
		if earlier { // first, so that its place is the one behind that of the run before
			b.Records = append(b.Records, persistence.Record{Kind: balance.RecordAuthorizationIndex, ID: id,
				Document: []byte(`{"authorizationId":"` + id + `"}`)})
		}
		b.Records = append(b.Records, l.record(balance.RecordAuthorization, l.card, id, a))
	}
	if !earlier {
		b.Records = append(b.Records, l.record(balance.RecordAuthorizationIndex, "", ids[0],
			balance.AuthorizationIndex{AuthorizationIDs: ids}))
	}
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

// page reads one and returns the network ids on it and the next cursor, "" after the last page.
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

// The pages of a list, whatever their limit, show each authorization once and newest first,
// wherever the runs begin and end that made them. What comes between two pages is none of theirs.
func TestPagesOfAuthorizationsShowEachOnce(t *testing.T) {
	w := newWorld(t)
	l := newAuthorizationLog(w)
	for i, n := range []int{1, 2, 3, 150, 1, 1, 5, 2, 40, 1, 3, 2, 2, 1, 4, 1, 1, 2, 3, 1, 5} {
		if i%4 == 3 {
			w.mint(l.tn, "") // the next runs are of another position
		}
		l.run(n, i%3 == 1)
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
					l.run(pages+1, pages == 1)
				}
			}
			require.Equal(t, want, got, query)
			if filter == "" {
				require.Equal(t, (len(want)+limit-1)/limit, pages, "%s: no page is short but the last", query)
			}
		}
	}
}

// readLimits notes how many records of the index are asked for at a time.
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

// A page that finds too few looks at maxScanned authorizations and has a cursor from there, which
// may be within a run. Of the records that list them it reads few at a time.
func TestAPageOfAuthorizationsLooksAtSoManyAndNoMore(t *testing.T) {
	read := new(readLimits)
	w := newWorld(t, func(c *Config) { read.Actors, c.Actors = c.Actors, read })
	l := newAuthorizationLog(w)
	l.run(2, false) // the first is declined
	l.every = 0
	l.run(balance.MaxRelay, false)
	within := l.newest()
	l.run(balance.MaxRelay, false)
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

// newest is the newest record of the workspace's list.
func (l *authorizationLog) newest() persistence.Record {
	l.w.t.Helper()
	records, err := l.w.system.List(context.Background(), balance.RecordAuthorizationIndex, l.tn.workspace, "",
		persistence.Page{Limit: 1})
	require.NoError(l.w.t, err)
	return records[0]
}

// A cursor into a record is one that a page of this list had: within a record of the list, where
// more of it is to be shown.
func TestACursorIntoARecordIsOfItsList(t *testing.T) {
	w := newWorld(t)
	l := newAuthorizationLog(w)
	l.run(2, true)
	l.run(3, false)
	workspace := listing{kind: balance.RecordAuthorizationIndex, workspace: l.tn.workspace}
	newest := l.newest()
	at := func(position uint64, ordinal uint32) persistence.Record {
		return persistence.Record{Position: position, Ordinal: ordinal}
	}
	names, cursor := l.page("limit=2", "")
	require.Equal(t, l.all[:2], names)
	require.Equal(t, *workspace.cursorIn(newest, 2), cursor)
	names, _ = l.page("limit=5", cursor)
	require.Equal(t, l.all[2:], names)
	names, _ = l.page("limit=5", *workspace.cursorBehind(newest))
	require.Equal(t, l.all[3:], names, "behind the record, as an earlier version had it")

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
			*workspace.cursorBehind(newest) + "AA", // 18 bytes, of which nothing was shown
			*workspace.cursorBehind(newest) + "A", cursor + "AA", cursor[:len(cursor)-1],
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

// Swipes that the relay brings together are listed in their order.
func TestRelayedSwipesAreListedInTheirOrder(t *testing.T) {
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
