package httpapi

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"purser/actors/query"
	"purser/persistence/money"
)

const (
	totalDays      = 30    // days of the daily totals, today included
	maxTotalsLines = 5_000 // ledger lines that one request for daily totals reads
	fewLines       = 50    // of the first page of a request that continues earlier totals
	maxKeptTotals  = 1_024 // workspaces whose totals are kept, about 3 KB each
)

// dayTotal is the sums of the dollar lines that were booked on a day in UTC.
type dayTotal struct {
	Day         string      `json:"day"`
	DebitCents  money.Cents `json:"debitCents"`
	CreditCents money.Cents `json:"creditCents"`
	SpentCents  money.Cents `json:"spentCents"` // see balance.LedgerEntry.Spent
}

// getDailyTotals handles GET /api/treasury/daily: the debits, the credits and the spend of dollars
// of each of the last totalDays days, oldest first. It reads the lines since the workspace's last
// totals, or at most maxTotalsLines lines, the newest. Days that it has not read whole are left
// out, and then complete is false. It first waits until the journal has the workspace's answered
// decisions. It fails only with an error of the store, and for a sum that overflows.
func (h *treasuryHandlers) getDailyTotals(c *call) (answer, error) {
	h.actors.WaitRelayed(c.ctx, c.who.workspace())
	days := newDayTotals(c.now.UTC().Truncate(24 * time.Hour))
	ledger := ledgerReader{actors: h.actors, ctx: c.ctx, workspace: c.who.workspace(), read: &c.read}
	if err := days.readLines(ledger, h.totals.find(ledger.workspace)); err != nil {
		return answer{}, err
	}
	h.totals.keep(ledger.workspace, days)
	return reply(map[string]any{"days": days.totals, "complete": len(days.totals) == totalDays})
}

// totalsCache keeps the newest totals of workspaces: booked lines never change, so that only later
// lines are read again. It holds maxKeptTotals workspaces, and drops any of them for another. It is
// safe for concurrent use.
type totalsCache struct {
	mu   sync.Mutex
	kept map[string]*dayTotals
}

func newTotalsCache() *totalsCache { return &totalsCache{kept: map[string]*dayTotals{}} }

// find returns the kept totals of a workspace, which the caller must not change, or nil.
func (t *totalsCache) find(workspace string) *dayTotals {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[workspace]
}

// keep keeps the totals of a workspace, which the caller must not change afterwards. Totals without
// a whole day are not worth it, and those with a line of tomorrow would keep it on the wrong day.
func (t *totalsCache) keep(workspace string, days *dayTotals) {
	if days.newest == (query.Place{}) || len(days.totals) == 0 || days.ahead {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for other := range t.kept {
		if len(t.kept) < maxKeptTotals {
			break
		}
		delete(t.kept, other)
	}
	t.kept[workspace] = days
}

// dayTotals adds up lines of the ledger, newest first, by the day of their booking.
type dayTotals struct {
	first  time.Time // the oldest day
	totals []dayTotal
	read   int         // lines
	oldest time.Time   // the booking of the last line that was read
	newest query.Place // the first line that was read
	ahead  bool        // a line of tomorrow was counted to today
}

func newDayTotals(today time.Time) *dayTotals {
	d := &dayTotals{first: today.AddDate(0, 0, 1-totalDays)}
	for i := range totalDays {
		d.totals = append(d.totals, dayTotal{Day: d.first.AddDate(0, 0, i).Format(time.DateOnly)})
	}
	return d
}

// readLines adds the lines of a ledger, newest first: those after the earlier totals, which are
// then added, or with nil those of all days. It reads at most maxTotalsLines lines, and cuts the
// days short when that is not all. It fails with the store's error, and for a sum that overflows.
func (d *dayTotals) readLines(ledger ledgerReader, earlier *dayTotals) error {
	next := query.Page{Limit: query.MaxPage}
	if earlier != nil {
		next.Limit = fewLines
	}
	for d.read < maxTotalsLines {
		next.Limit = min(next.Limit, maxTotalsLines-d.read)
		records, err := ledger.readPage(next)
		if err != nil {
			return err
		}
		for i := range records {
			if earlier != nil && !isBefore(earlier.newest, records[i].Place) {
				d.newest = cmp.Or(d.newest, earlier.newest)
				return d.addEarlier(earlier)
			}
			d.newest = cmp.Or(d.newest, records[i].Place)
			if over, err := d.addLine(&records[i]); over || err != nil {
				return err
			}
		}
		if len(records) < next.Limit {
			return nil
		}
		next = query.Page{After: records[len(records)-1].Place, Limit: query.MaxPage}
	}
	d.cutShort()
	return nil
}

// isBefore reports whether a place was taken before another.
func isBefore(a, b query.Place) bool {
	return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Ordinal, b.Ordinal)) < 0
}

// addEarlier adds the days of earlier totals, and leaves out those before them. It fails for a sum
// that overflows.
func (d *dayTotals) addEarlier(earlier *dayTotals) error {
	for _, before := range earlier.totals {
		i := slices.IndexFunc(d.totals, func(t dayTotal) bool { return t.Day == before.Day })
		if i < 0 {
			continue
		}
		day := &d.totals[i]
		for _, sum := range []struct {
			to  *money.Cents
			add money.Cents
		}{{&day.DebitCents, before.DebitCents}, {&day.CreditCents, before.CreditCents},
			{&day.SpentCents, before.SpentCents}} {
			var err error
			if *sum.to, err = money.Add(*sum.to, sum.add); err != nil {
				return err
			}
		}
	}
	if first := earlier.totals[0].Day; first > d.totals[0].Day {
		i := slices.IndexFunc(d.totals, func(t dayTotal) bool { return t.Day == first })
		d.totals = d.totals[i:]
	}
	return nil
}

// indexOf returns the index of the day of a time; it is negative before the oldest day.
func (d *dayTotals) indexOf(at time.Time) int {
	return int(at.UTC().Truncate(24*time.Hour).Sub(d.first) / (24 * time.Hour))
}

// addLine adds a line, and reports whether it and all older ones are before the oldest day. A line
// that was booked after today began to be read is of today. It fails for a sum that overflows.
func (d *dayTotals) addLine(r *ledgerRecord) (over bool, err error) {
	d.read++
	if d.oldest = r.Document.BookedAt.Time; d.oldest.Before(d.first) {
		return true, nil
	}
	if !ofDollars(&r.Document) {
		return false, nil
	}
	i := d.indexOf(d.oldest)
	d.ahead = d.ahead || i >= totalDays
	day := &d.totals[min(i, totalDays-1)]
	sum := &day.CreditCents
	if r.Document.Direction == "debit" {
		sum = &day.DebitCents
	}
	if *sum, err = money.Add(*sum, r.Document.AmountCents); err != nil {
		return false, err
	}
	day.SpentCents, err = money.Add(day.SpentCents, r.Document.Spent())
	return false, err
}

// cutShort leaves out the days that were not read whole: that of the last line, and those before
// it.
func (d *dayTotals) cutShort() {
	d.totals = d.totals[min(d.indexOf(d.oldest)+1, totalDays):]
}
