package httpapi

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// ledgerLog writes ledger lines into the journal. It keeps them, newest first.
type ledgerLog struct {
	w     *world
	tn    tenant
	cards []string
	all   []balance.LedgerEntry
}

func newLedgerLog(w *world) *ledgerLog {
	l := &ledgerLog{w: w, tn: w.newTenant("ada")}
	for range 2 {
		l.cards = append(l.cards, w.mint(l.tn, "").text("card", "id"))
	}
	return l
}

// addLines writes n lines in one batch, booked now. Their sources, directions and cards take turns.
func (l *ledgerLog) addLines(n int) {
	l.w.t.Helper()
	slot, err := ident.SlotOf(l.tn.workspace)
	require.NoError(l.w.t, err)
	at := l.w.clock.now()
	booked := decision.StampOf(at)
	b := &persistence.Batch{Workspace: l.tn.workspace, Slot: slot}
	for range n {
		i := len(l.all)
		dollars := money.Cents(i)
		e := balance.LedgerEntry{ID: ident.Derive(slot, at, fmt.Sprint("e", i)).Format(ident.LedgerEntry),
			Source: balance.LedgerSources[i%len(balance.LedgerSources)], Direction: []string{"debit", "credit"}[i%2],
			AmountCents: money.Cents(i + 1), Reference: fmt.Sprint("r", i), BookedAt: booked, BalanceCents: &dollars,
			TransferGroup: ident.Derive(slot, at, fmt.Sprint("g", i/3)).Format(ident.TransferGroup),
			CreatedAt:     decision.StampOf(at.Add(-time.Hour))}
		if i%3 != 0 {
			e.CardID = &l.cards[i%3-1]
		}
		text, err := decision.Encode(e)
		require.NoError(l.w.t, err)
		b.Records = append(b.Records, persistence.Record{Kind: balance.RecordLedgerEntry, ID: e.ID, Document: text})
		l.all = slices.Insert(l.all, 0, e)
	}
	epoch := l.w.journal.Head(slot.Shard()).Epoch
	outcomes, err := l.w.journal.Append(context.Background(), slot.Shard(), epoch, at, []*persistence.Batch{b})
	require.NoError(l.w.t, err)
	require.NoError(l.w.t, outcomes[0].Err)
}

// page reads a page and returns the references of its lines and the next cursor, "" after the last.
func (l *ledgerLog) page(filter url.Values, limit int, cursor string) (references []string, next string) {
	l.w.t.Helper()
	asked := url.Values{"limit": {fmt.Sprint(limit)}}
	for name, values := range filter {
		asked[name] = values
	}
	if cursor != "" {
		asked.Set("cursor", cursor)
	}
	r := l.w.ok(l.w.get(l.tn.all, "/api/treasury/ledger?"+asked.Encode()))
	for i := range r.at("data").([]any) {
		references = append(references, r.text("data", i, "reference"))
	}
	return references, r.text("nextCursor")
}

// matching are the references of the lines that a test takes, newest first.
func (l *ledgerLog) matching(takes func(balance.LedgerEntry) bool) []string {
	references := []string{}
	for _, e := range l.all {
		if takes(e) {
			references = append(references, e.Reference)
		}
	}
	return references
}

// The pages of the ledger show each line that a filter takes once, newest first, for every limit.
func TestPagesOfTheLedgerShowEachLineOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := newLedgerLog(w)
	start := w.clock.now()
	for _, n := range []int{1, 4, 30, 2, 7, 1, 3, 12, 40, 5} {
		l.addLines(n)
		w.mint(l.tn, "") // the next lines have another position
		w.clock.turn(7 * time.Hour)
	}
	day := func(n int) time.Time { return start.Truncate(24*time.Hour).AddDate(0, 0, n) }
	between := func(from, to time.Time) func(balance.LedgerEntry) bool {
		return func(e balance.LedgerEntry) bool { return !e.BookedAt.Before(from) && e.BookedAt.Before(to) }
	}
	group := l.all[50].TransferGroup
	hour := start.Add(14 * time.Hour)
	for name, f := range map[string]struct {
		filter url.Values
		takes  func(balance.LedgerEntry) bool
	}{
		"all":     {nil, func(balance.LedgerEntry) bool { return true }},
		"source":  {url.Values{"source": {"payout"}}, func(e balance.LedgerEntry) bool { return e.Source == "payout" }},
		"debits":  {url.Values{"direction": {"debit"}}, func(e balance.LedgerEntry) bool { return e.Direction == "debit" }},
		"a card":  {url.Values{"cardId": {l.cards[1]}}, func(e balance.LedgerEntry) bool { return e.CardID == &l.cards[1] }},
		"a group": {url.Values{"transferGroup": {group}}, func(e balance.LedgerEntry) bool { return e.TransferGroup == group }},
		"days": {url.Values{"from": {day(1).Format(time.DateOnly)}, "to": {day(2).Format(time.DateOnly)}},
			between(day(1), day(3))},
		"one day": {url.Values{"from": {day(1).Format(time.DateOnly)}, "to": {day(1).Format(time.DateOnly)}},
			between(day(1), day(2))},
		"since":  {url.Values{"from": {hour.Format(time.RFC3339)}}, between(hour, day(99))},
		"before": {url.Values{"to": {hour.Format(time.RFC3339)}}, between(day(-9), hour)},
		"hours": {url.Values{"from": {hour.Format(time.RFC3339)}, "to": {hour.Add(time.Second).Format(time.RFC3339)},
			"direction": {"credit"}}, func(e balance.LedgerEntry) bool {
			return e.BookedAt.Equal(hour) &&
				e.Direction == "credit"
		}},
		"amounts": {url.Values{"amountFromCents": {"5"}, "amountToCents": {"9"}},
			func(e balance.LedgerEntry) bool { return e.AmountCents >= 5 && e.AmountCents <= 9 }},
		"never": {url.Values{"from": {"2030-01-01"}}, func(balance.LedgerEntry) bool { return false }},
		"early": {url.Values{"to": {"2020-01-01"}}, func(balance.LedgerEntry) bool { return false }},
	} {
		for _, limit := range []int{1, 7, 100} {
			want, got, pages := l.matching(f.takes), []string{}, 0
			for cursor := ""; pages == 0 || cursor != ""; pages++ {
				var references []string
				references, cursor = l.page(f.filter, limit, cursor)
				require.LessOrEqual(t, len(references), limit, name)
				require.LessOrEqual(t, pages, len(want), name)
				got = append(got, references...)
			}
			require.Equal(t, want, got, "%s, %d a page", name, limit)
		}
	}
}

// listedRecords counts the ledger lines that are read.
type listedRecords struct {
	Actors
	read int
}

func (r *listedRecords) List(ctx context.Context, kind, workspace, parent string, page persistence.Page,
) ([]persistence.Record, error) {
	records, err := r.Actors.List(ctx, kind, workspace, parent, page)
	if kind == balance.RecordLedgerEntry {
		r.read += len(records)
	}
	return records, err
}

// A page with a filter examines a bounded number of lines, and its cursor continues behind them. A
// period is found without its later lines.
func TestAFilteredPageOfTheLedgerExaminesBoundedLines(t *testing.T) {
	t.Parallel()
	read := new(listedRecords)
	w := newWorld(t, func(c *Config) { read.Actors, c.Actors = c.Actors, read })
	l := newLedgerLog(w)
	l.addLines(3)
	group, before := l.all[0].TransferGroup, w.clock.now().Add(time.Second)
	w.clock.turn(time.Hour)
	for range 3 {
		w.mint(l.tn, "")
		l.addLines(500)
	}
	oldest := []string{"r2", "r1", "r0"}
	filter := url.Values{"transferGroup": {group}}
	got, cursor := l.page(filter, 1, "")
	require.Empty(t, got)
	require.LessOrEqual(t, read.read, maxScanned+recordsAtOnce)
	got, cursor = l.page(filter, 10, cursor)
	require.Equal(t, oldest, got)
	require.Empty(t, cursor)
	read.read = 0
	got, _ = l.page(url.Values{"to": {before.Format(time.RFC3339)}}, 10, "")
	require.Equal(t, oldest, got)
	require.Less(t, read.read, 80)
}

func TestFiltersOfTheLedgerAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := newLedgerLog(w)
	l.addLines(30)
	for query, parameter := range map[string]string{"source=gift": "source", "source=": "source",
		"direction=up":       "direction",
		"transferGroup=tg_x": "transferGroup", "from=yesterday": "from", "to=2026-02-30": "to", "from=": "from",
		"from=2026-11-20&to=2026-11-18": "to must be after from", "limit=0": "limit"} {
		r := w.get(l.tn.all, "/api/treasury/ledger?"+query)
		w.fails(r, 400, "invalid_query")
		require.Contains(t, r.text("message"), parameter, query)
	}
	other := w.newTenant("mallory")
	w.fails(w.get(other.all, "/api/treasury/ledger?cardId="+l.cards[0]), 404, "not_found")
	_, cursor := l.page(url.Values{"direction": {"debit"}}, 1, "")
	for _, query := range []string{"", "direction=credit&", "direction=debit&from=2026-11-20&"} {
		w.fails(w.get(l.tn.all, "/api/treasury/ledger?"+query+"cursor="+cursor), 400, "invalid_query")
	}
	w.fails(w.get(other.all, "/api/treasury/ledger?direction=debit&cursor="+cursor), 400, "invalid_query")
	w.fails(w.get(w.keyOf(l.tn, "read:cards"), "/api/treasury/ledger"), 403, "missing_scope:read:treasury")
}
