package httpapi

import (
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/httpapi/webhook"
)

const statementPath = "/api/treasury/statement?from=%s&to=%s&format=%s"

// statementOf requests a statement. Days count from the first day of the test.
func (w *world) statementOf(tn tenant, first time.Time, from, to int, format string) testReply {
	w.t.Helper()
	day := func(n int) string { return first.AddDate(0, 0, n).Format(time.DateOnly) }
	return w.get(tn.all, fmt.Sprintf(statementPath, day(from), day(to), format))
}

// statementRow is a row of the CSV.
type statementRow struct {
	kind, id, reference string
	amount, balance     int64
}

func readStatementCSV(t require.TestingT, text string) []statementRow {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, "type,bookedAt,id,source,amount,balance,currency,reference,transferGroup,cardId,createdAt",
		strings.Join(rows[0], ","))
	var all []statementRow
	for _, r := range rows[1:] {
		row := statementRow{kind: r[0], id: r[2], reference: r[7], balance: centsOf(t, r[5])}
		if r[4] != "" {
			row.amount = centsOf(t, r[4])
		}
		all = append(all, row)
	}
	return all
}

func centsOf(t require.TestingT, decimal string) int64 {
	require.Regexp(t, `^-?\d+\.\d\d$`, decimal)
	cents, err := strconv.ParseInt(strings.ReplaceAll(decimal, ".", ""), 10, 64)
	require.NoError(t, err)
	return cents
}

// ledgerOf returns the whole ledger from the treasury's list, oldest first.
func (w *world) ledgerOf(tn tenant) (entries []map[string]any) {
	w.t.Helper()
	w.relayed()
	for _, e := range w.ok(w.get(tn.all, "/api/treasury")).at("ledger").([]any) {
		entries = append([]map[string]any{e.(map[string]any)}, entries...)
	}
	return entries
}

// For all movements of dollars and all times of the request: a statement's opening balance is the
// previous day's closing balance, its lines are the ledger's, in order, and its closing balance is
// the treasury's.
func TestStatementsAgreeWithLedgerAndBalance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner, since, people := session(w.newTenant("owner").cookie), w.clock.now(), 0
	rapid.Check(t, func(rt *rapid.T) {
		people++
		if w.clock.now().Sub(since) > 7*24*time.Hour { // sessions end
			owner, since = session(w.ok(w.post(nil, "/api/dashboard/login",
				`{"email":"owner@example.com","password":"a long password"}`)).
				cookie), w.clock.now()
		}
		made := w.ok(w.post(owner, "/api/workspaces", fmt.Sprintf(`{"name":"Saver %d"}`, people)))
		tn := tenant{workspace: made.text("workspace", "id")}
		tn.all = key(w.ok(w.post(owner.with("X-Workspace-Id", tn.workspace), "/api/auth/keys",
			`{"label":"all","scopes":`+allScopes+`}`)).text("secret"))
		first := w.clock.now().UTC().Truncate(24 * time.Hour)
		w.fund(tn, 100_000)
		card := w.mint(tn, "").text("card", "id")
		closed := map[int]string{} // day to its statement, requested after the day
		n := rapid.IntRange(1, 12).Draw(rt, "moves")
		for i := range n {
			today := int(w.clock.now().Sub(first) / (24 * time.Hour))
			switch rapid.IntRange(0, 4).Draw(rt, "move") {
			case 0:
				w.fund(tn, rapid.IntRange(1, 5_000).Draw(rt, "deposit"))
			case 1:
				id := fmt.Sprintf("s-%d-%d", people, i)
				swiped := w.swipe(tn, card, id, rapid.IntRange(1, 5_000).Draw(rt, "swipe"))
				w.ok(w.post(tn.all, "/api/dev/cards/"+card+"/simulate/clearing", fmt.Sprintf(
					`{"id":"c-%s","authorizationId":%q,"amountCents":%d,"currency":"USD","merchant":{"name":"Shop","mcc":"5411"}}`,
					id, swiped.text("authorizationId"), rapid.IntRange(1, 6_000).Draw(rt, "clearing"))))
			case 2:
				w.clock.turn(time.Duration(rapid.IntRange(1, 60).Draw(rt, "hours")) * time.Hour)
			case 3:
				w.statementsAgree(rt, tn, first, today)
			case 4:
				w.relayed()
				if day := rapid.IntRange(0, max(today-1, 0)).Draw(rt, "day"); day < today {
					r := w.statementOf(tn, first, day, day, "csv")
					require.Equal(rt, 200, r.status, r.raw)
					if before, asked := closed[day]; asked {
						require.Equal(rt, before, r.raw, "the statement of a day that is over has changed")
					}
					closed[day] = r.raw
				}
			}
		}
		w.statementsAgree(rt, tn, first, int(w.clock.now().Sub(first)/(24*time.Hour)))
	})
}

// statementsAgree compares the statement of each day up to today, and one of all of them, with the
// ledger and the balance.
func (w *world) statementsAgree(t *rapid.T, tn tenant, first time.Time, today int) {
	ledger := w.ledgerOf(tn)
	dollars := int64(w.ok(w.get(tn.all, "/api/treasury")).cents("snapshot", "fiatUsdCents"))
	whole := readStatementCSV(t, w.ok(w.statementOf(tn, first, 0, today, "csv")).raw)
	require.Len(t, whole, len(ledger)+2)
	require.Equal(t, int64(0), whole[0].balance)
	require.Equal(t, dollars, whole[len(whole)-1].balance)
	balance := int64(0)
	for i, e := range ledger {
		row := whole[i+1]
		amount := int64(e["amountCents"].(float64))
		if e["direction"] == "debit" {
			amount = -amount
		}
		balance += amount
		require.Equal(t, statementRow{"entry", e["id"].(string), e["reference"].(string), amount, balance}, row)
	}
	var days []statementRow
	for day := range today + 1 {
		rows := readStatementCSV(t, w.ok(w.statementOf(tn, first, day, day, "csv")).raw)
		if day > 0 {
			require.Equal(t, days[len(days)-1].balance, rows[0].balance,
				"a day opens with what the one before closed with")
			rows = rows[1:]
			days = days[:len(days)-1]
		}
		days = append(days, rows...)
	}
	require.Equal(t, whole, days)
}

// Stablecoins are not dollars: their lines are in the same ledger, first and last of a day and
// alone on one, and no statement shows or counts them.
func TestStatementsLeaveOutStablecoins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, first := w.newTenant("mine"), w.clock.now()
	coins := func(event string) {
		body := fmt.Sprintf(`{"id":%q,"type":"deposit.completed","data":{"workspaceId":%q,"asset":"USDC","chain":"polygon","amountUsdCents":7,"txHash":%q}}`,
			event, tn.workspace, event)
		w.ok(w.post(as{"partner-signature": webhook.Sign(testSecret, w.clock.now(), []byte(body))},
			"/api/webhooks/partner-stablecoin-deposit", body))
	}
	nextDay := func() { w.clock.turn(24 * time.Hour) }
	coins("before any dollar")
	nextDay()
	w.fund(tn, 100)
	coins("between")
	nextDay()
	coins("alone")
	nextDay()
	coins("first of the day")
	w.fund(tn, 20)
	coins("last")
	require.Len(t, w.ledgerOf(tn), 7)
	f := func(from, to int, opening int64, amounts ...int64) {
		t.Helper()
		rows := readStatementCSV(t, w.ok(w.statementOf(tn, first, from, to, "csv")).raw)
		require.Len(t, rows, len(amounts)+2)
		require.Equal(t, opening, rows[0].balance)
		for i, amount := range amounts {
			opening += amount
			require.Equal(t, []int64{amount, opening}, []int64{rows[i+1].amount, rows[i+1].balance})
		}
		require.Equal(t, opening, rows[len(rows)-1].balance)
	}
	f(0, 0, 0)
	f(1, 1, 0, 100)
	f(2, 2, 100)
	f(3, 3, 100, 20)
	f(0, 3, 0, 100, 20)
	f(2, 3, 100, 20)
}

func TestStatementsAsFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	w.fund(tn, 12_345)
	today := w.clock.now()
	r := w.ok(w.statementOf(tn, today, 0, 0, "csv"))
	require.Equal(t, "text/csv; charset=utf-8; header=present", r.header("Content-Type"))
	require.Equal(t, `attachment; filename="statement-2026-11-20-2026-11-20.csv"`, r.header("Content-Disposition"))
	require.Equal(t, "nosniff", r.header("X-Content-Type-Options"))
	require.Contains(t, r.raw, ",123.45,")
	r = w.ok(w.statementOf(tn, today, -365, 0, "camt053"))
	require.Equal(t, "application/xml", r.header("Content-Type"))
	require.Equal(t, `attachment; filename="statement-2025-11-20-2026-11-20.xml"`, r.header("Content-Disposition"))
	require.NoError(t, xml.Unmarshal([]byte(r.raw), new(struct{ XMLName xml.Name })))
	require.Contains(t, r.raw, "<Cd>ITBD</Cd>", "the day is not over")
	w.clock.turn(24 * time.Hour)
	require.Contains(t, w.ok(w.statementOf(tn, today, 0, 0, "camt053")).raw, "<Cd>CLBD</Cd>")
}

// A statement has no lines of another workspace.
func TestStatementsOfAnotherWorkspaceAreEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, other := w.newTenant("mine"), w.newTenant("other")
	w.fund(mine, 500)
	rows := readStatementCSV(t, w.ok(w.statementOf(other, w.clock.now(), 0, 0, "csv")).raw)
	require.Len(t, rows, 2)
	require.Zero(t, rows[1].balance)
}

func TestStatementPeriods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	f := func(query, message string) {
		t.Helper()
		r := w.get(tn.all, "/api/treasury/statement?"+query)
		w.fails(r, 400, "invalid_query")
		require.Contains(t, r.text("message"), message)
		require.Equal(t, "application/json", r.header("Content-Type"))
	}
	f("", "from must be a day")
	f("from=2026-11-20", "to must be a day")
	f("from=2026-11-20&to=2026-11-20", "format must be")
	f("from=2026-11-20&to=2026-11-20&format=pdf", "format must be")
	f("from=2026-11-31&to=2026-12-01&format=csv", "from must be a day")
	f("from=2026-11-20T00:00:00Z&to=2026-11-20&format=csv", "from must be a day")
	f("from=2026-11-20&to=2026-11-19&format=csv", "not be before")
	f("from=2026-11-20&to=2026-11-21&format=csv", "not be after today")
	f("from=2025-11-19&to=2026-11-20&format=csv", "from and to may span at most 366 days")
	f("from=2026-11-20&to=2026-11-20&format=csv&limit=5", "limit is not known")
	w.ok(w.get(tn.all, "/api/treasury/statement?from=2025-11-20&to=2026-11-20&format=csv"))
	w.ok(w.get(tn.all, "/api/treasury/statement?from=0001-01-01&to=0001-01-01&format=csv"))
}

// A bad query is refused, and no query makes a statement fail otherwise.
func FuzzStatementQuery(f *testing.F) {
	w := newWorld(f)
	tn := w.newTenant("mine")
	w.fund(tn, 500)
	f.Add("2026-11-20", "2026-11-20", "csv")
	f.Add("0000-01-01", "9999-12-31", "camt053")
	f.Add("2026-11-20\x00", "%", "")
	f.Fuzz(func(t *testing.T, from, to, format string) {
		w.t = t
		query := url.Values{"from": {from}, "to": {to}, "format": {format}}
		r := w.get(tn.all, "/api/treasury/statement?"+query.Encode())
		if r.status != 200 {
			w.fails(r, 400, "invalid_query")
			return
		}
		require.Contains(t, []string{"csv", "camt053"}, format)
		require.LessOrEqual(t, from, to)
	})
}
