package book_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"purser/persistence"
	"purser/persistence/book"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/money"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// databases are on the one server of this test binary. Each has an empty book of journal.
var databases *pgtest.Templates

var (
	journal = persistence.Identity{Deployment: ident.UUID{1}, Store: ident.UUID{2}}
	start   = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
)

const shard = ident.Shard(18)

// slack is the factor of timeouts on a machine that stalls.
const slack = 12

// Durations of Options. Tests that wait for skipped positions have skippedInterval; never is longer
// than any test. A test of a Close that is cut off has shortClose, any other one bound.
const (
	skippedInterval = 10 * time.Millisecond
	never           = time.Hour
	shortClose      = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(m.Run()) // FuzzRead needs no server, and each of its processes would start one
	}
	build := func(url string) error {
		if err := book.Migrate(context.Background(), url); err != nil {
			return err
		}
		b, err := book.Open(context.Background(), book.Options{URL: url, Identity: journal, Slack: slack})
		if err != nil {
			return err
		}
		return errors.Join(b.Prepare(context.Background()), b.Close())
	}
	os.Exit(pgtest.Main("the book in Postgres", build, func(t *pgtest.Templates) int {
		databases = t
		before := goleak.IgnoreCurrent() // the goroutine that waits for the server
		code := m.Run()
		if err := journaltest.Leaked(before); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}))
}

func open(t pgtest.T, url string, identity persistence.Identity) *book.Book {
	t.Helper()
	return openWriting(t, url, identity, skippedInterval)
}

// openWriting opens a book that writes skipped positions once per interval.
func openWriting(t pgtest.T, url string, identity persistence.Identity, interval time.Duration) *book.Book {
	t.Helper()
	b, err := book.Open(context.Background(), book.Options{URL: url, Identity: identity, Slack: slack,
		SkippedInterval: interval, CloseTimeout: bound})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// leg is a posting in the payload of an event.
type leg struct {
	Transfer string      `json:"transfer"`
	Account  string      `json:"account"`
	Cents    money.Minor `json:"cents"`
	Currency string      `json:"currency,omitempty"`
}

func event(position uint64, workspace string, legs ...leg) persistence.Event {
	payload, err := json.Marshal(map[string]any{"postings": legs, "other": true})
	if err != nil {
		panic(err)
	}
	return persistence.Event{ID: fmt.Sprintf("evt_%d", position), Workspace: workspace, Kind: "balance", Stream: workspace,
		Type: "balance.relayed.v1", At: start.Add(time.Duration(position) * time.Second), Payload: payload, Position: position}
}

// deposit credits dollars from the bank.
func deposit(position uint64, workspace string, cents money.Minor) persistence.Event {
	group := fmt.Sprintf("tg_%d", position)
	return event(position, workspace, leg{group, "usd", cents, ""}, leg{group, "bank", -cents, ""})
}

func eventWithoutPostings(position uint64) persistence.Event {
	return persistence.Event{ID: fmt.Sprintf("evt_%d", position), Workspace: "ws_1", Kind: "card", Stream: "card_1",
		Type: "card.frozen.v1", At: start, Payload: json.RawMessage(`{"postings":"not for the book"}`), Position: position}
}

func mustHandle(t *testing.T, b *book.Book, events ...persistence.Event) {
	t.Helper()
	require.NoError(t, b.Handle(t.Context(), shard, events))
}

func query(t pgtest.T, url, sql string) []string {
	t.Helper()
	cells, err := queryLines(url, sql)
	require.NoError(t, err)
	return cells
}

// queryLines returns one line per row.
func queryLines(url, sql string) (cells []string, err error) {
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.Background())
	results, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
	for _, result := range results {
		for _, row := range result.Rows {
			cells = append(cells, string(bytes.Join(row, []byte("|"))))
		}
	}
	return cells, err
}

// requireSound requires that the view book.difference is empty.
func requireSound(t pgtest.T, url string) {
	t.Helper()
	require.Empty(t, query(t, url, `SELECT * FROM book.difference;
		SELECT currency FROM book.trial_balance GROUP BY currency HAVING sum(debits) <> sum(credits)`))
}

func requirePosition(t *testing.T, b *book.Book, want uint64) {
	t.Helper()
	at, err := b.Position(t.Context(), shard)
	require.NoError(t, err)
	require.Equal(t, want, at)
}

func balances(t *testing.T, b *book.Book, workspace string) map[string]money.Minor {
	t.Helper()
	accounts, err := b.Balances(t.Context(), workspace)
	require.NoError(t, err)
	found := map[string]money.Minor{}
	for _, a := range accounts {
		found[a.Name+" "+a.Currency] = a.Balance
	}
	return found
}

func TestReadsOfAWorkspace(t *testing.T) {
	url := databases.Database(t)
	b := open(t, url, journal)
	mustHandle(t, b, deposit(1, "ws_1", 100_000), eventWithoutPostings(2), deposit(3, "ws_2", 7),
		event(4, "ws_1", leg{"tg_a", "usd", -3000, ""}, leg{"tg_b", "usd", -100, ""}, leg{"tg_a", "network", 3000, ""},
			leg{"tg_b", "network", 100, ""}))
	mustHandle(t, b, eventWithoutPostings(5))
	mustHandle(t, b, event(6, "ws_1", leg{"tg_fx", "usd", -1080, "USD"}, leg{"tg_fx", "fx", 1080, "USD"},
		leg{"tg_fx", "fx", -1000, "EUR"}, leg{"tg_fx", "currency", 1000, "EUR"}))

	accounts, err := b.Balances(t.Context(), "ws_1")
	require.NoError(t, err)
	require.Equal(t, []book.Account{
		{"ws_1", "bank", "USD", book.Debit, -100_000, 1},
		{"ws_1", "currency", "EUR", book.Credit, 1000, 1},
		{"ws_1", "fx", "EUR", book.Credit, -1000, 1},
		{"ws_1", "fx", "USD", book.Credit, 1080, 1},
		{"ws_1", "network", "USD", book.Credit, 3100, 2},
		{"ws_1", "usd", "USD", book.Credit, 95_820, 4},
	}, accounts)

	entries, err := b.Entries(t.Context(), "ws_1", "usd", "USD")
	require.NoError(t, err)
	require.Len(t, entries, 4)
	require.Equal(t, []book.Entry{
		{6, 0, "ws_1", "usd", "USD", "tg_fx", "evt_6", "balance.relayed.v1", start.Add(6 * time.Second), 4, -1080, 95_820},
		{4, 1, "ws_1", "usd", "USD", "tg_b", "evt_4", "balance.relayed.v1", start.Add(4 * time.Second), 3, -100, 96_900},
	}, entries[:2])
	require.Equal(t, money.Minor(97_000), entries[2].Balance)

	lines, err := b.TrialBalance(t.Context())
	require.NoError(t, err)
	require.Equal(t, []book.Line{
		{"currency", "EUR", book.Credit, 0, 1000}, {"fx", "EUR", book.Credit, 1000, 0}, {"bank", "USD", book.Debit, 100_007, 0},
		{"fx", "USD", book.Credit, 0, 1080}, {"network", "USD", book.Credit, 0, 3100}, {"usd", "USD", book.Credit, 4180, 100_007},
	}, lines)
	lag, err := b.Lag(t.Context(), func(s ident.Shard) uint64 { return map[ident.Shard]uint64{shard: 10, 3: 5}[s] })
	require.NoError(t, err)
	require.Equal(t, uint64(9), lag)
	requireSound(t, url)
}

// Two processes get the same page: one books it and the other gets ErrMoved.
func TestAnEventIsBookedOnce(t *testing.T) {
	url := databases.Database(t)
	one, other := open(t, url, journal), open(t, url, journal)
	const pages, each = 20, 3
	for n := range uint64(pages) {
		var events []persistence.Event
		for i := range uint64(each) {
			events = append(events, deposit(n*each+i+1, "ws_1", 10))
		}
		errs := make([]error, 2)
		var work sync.WaitGroup
		for i, b := range []*book.Book{one, other} {
			work.Go(func() { errs[i] = b.Handle(context.Background(), shard, events) })
		}
		work.Wait()
		require.True(t, (errs[0] == nil) != (errs[1] == nil), "%v", errs)
		require.ErrorIs(t, errors.Join(errs...), consumer.ErrMoved)
	}
	for _, wrong := range []uint64{1, pages * each, pages*each + 2} {
		require.ErrorIs(t, one.Handle(t.Context(), shard, []persistence.Event{deposit(wrong, "ws_1", 10)}), consumer.ErrMoved)
	}
	requirePosition(t, other, pages*each)
	require.Equal(t, map[string]money.Minor{"usd USD": 600, "bank USD": -600}, balances(t, one, "ws_1"))
	requireSound(t, url)
}

func TestUnsoundEventChangesNothing(t *testing.T) {
	url := databases.Database(t)
	b := open(t, url, journal)
	mustHandle(t, b, deposit(1, "ws_1", 1<<62))
	raw := func(payload string) persistence.Event {
		e := deposit(2, "ws_1", 1)
		e.Payload = json.RawMessage(payload)
		return e
	}
	for name, e := range map[string]persistence.Event{
		"unbalanced":          event(2, "ws_1", leg{"tg_2", "usd", 5, ""}, leg{"tg_2", "bank", -4, ""}),
		"two currencies":      event(2, "ws_1", leg{"tg_2", "usd", 5, "USD"}, leg{"tg_2", "bank", -5, "EUR"}),
		"two transfers":       event(2, "ws_1", leg{"tg_2", "usd", 5, ""}, leg{"tg_3", "bank", -5, ""}),
		"account too large":   deposit(2, "ws_1", 1<<62),
		"transfer too large":  event(2, "ws_1", leg{"tg_2", "usd", 1<<63 - 1, ""}, leg{"tg_2", "bank", 1, ""}),
		"nothing":             raw(``),
		"not JSON":            raw(`{`),
		"no amount":           raw(`{"postings":[{"transfer":"tg_2","account":"usd"}]}`),
		"amount is no number": raw(`{"postings":[{"transfer":"tg_2","account":"usd","cents":1.5}]}`),
		"no account":          raw(`{"postings":[{"transfer":"tg_2","cents":0}]}`),
		"no transfer":         raw(`{"postings":[{"account":"usd","cents":0}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, b.Handle(t.Context(), shard, []persistence.Event{e}), book.ErrUnsound)
			requirePosition(t, b, 1)
			require.Equal(t, map[string]money.Minor{"usd USD": 1 << 62, "bank USD": -(1 << 62)}, balances(t, b, "ws_1"))
		})
	}
	mustHandle(t, b, raw(`{}`))
	requireSound(t, url)
}

// The database enforces the rules against every writer.
func TestDatabaseRefusesUnsoundRows(t *testing.T) {
	url := databases.Database(t)
	mustHandle(t, open(t, url, journal), deposit(1, "ws_1", 100))
	for name, sql := range map[string]string{
		"an unbalanced transfer": `INSERT INTO book.transfer VALUES (18, 2, 0, 'tg', 'evt', 'k', now());
			INSERT INTO book.posting VALUES (18, 2, 0, 0, 1, 'USD', 2, now(), 5, 105)`,
		"a change of a posting":        `UPDATE book.posting SET amount = amount + 1`,
		"a change of a transfer":       `UPDATE book.transfer SET id = 'tg_other'`,
		"a removal":                    `DELETE FROM book.posting`,
		"a posting without a transfer": `INSERT INTO book.posting VALUES (18, 2, 0, 0, 1, 'USD', 2, now(), 0, 100)`,
		"a posting in another currency": `INSERT INTO book.transfer VALUES (18, 2, 0, 'tg', 'evt', 'k', now());
			INSERT INTO book.posting VALUES (18, 2, 0, 0, 1, 'EUR', 2, now(), 0, 100)`,
		"a number twice": `INSERT INTO book.posting VALUES (18, 1, 2, 0, 1, 'USD', 1, now(), 0, 100)`,
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := pgx.Connect(t.Context(), url)
			require.NoError(t, err)
			defer conn.Close(context.Background())
			_, err = conn.PgConn().Exec(t.Context(), sql).ReadAll()
			require.ErrorContains(t, err, "SQLSTATE 23")
		})
	}
	requireSound(t, url)
}

// The view book.difference names damage that bypassed the triggers.
func TestDifferenceViewFindsDamage(t *testing.T) {
	for what, sql := range map[string]string{
		"balance after posting":     `UPDATE book.posting SET balance = balance + 1 WHERE position = 1 AND leg = 0`,
		"number of posting":         `UPDATE book.posting SET number = 9 WHERE position = 2 AND leg = 0`,
		"balance of account":        `UPDATE book.account SET balance = balance - 1 WHERE name = 'bank'`,
		"entries of account":        `UPDATE book.account SET entries = 3 WHERE name = 'bank'`,
		"sum of transfer":           `UPDATE book.posting SET amount = amount + 1 WHERE position = 1 AND leg = 0`,
		"transfer without postings": `DELETE FROM book.posting WHERE position = 2`,
	} {
		t.Run(what, func(t *testing.T) {
			url := databases.Database(t)
			mustHandle(t, open(t, url, journal), deposit(1, "ws_1", 100), deposit(2, "ws_1", 50))
			requireSound(t, url)
			query(t, url, `SET session_replication_role = replica; `+sql)
			require.Contains(t, query(t, url, `SELECT what FROM book.difference`), what)
		})
	}
}

// After a restore the book is emptied once; a process from before it cannot empty it again.
func TestNewIncarnationEmptiesTheBook(t *testing.T) {
	url := databases.Database(t)
	before := open(t, url, journal)
	mustHandle(t, before, deposit(1, "ws_1", 100), deposit(2, "ws_1", 5))
	restored := persistence.Identity{Deployment: journal.Deployment, Store: ident.UUID{3}}
	after := open(t, url, restored)

	standing, err := after.Standing(t.Context(), shard)
	require.NoError(t, err)
	require.Equal(t, book.Standing{}, standing, "to read changes nothing")
	require.Empty(t, balances(t, after, "ws_1"))
	lag, err := after.Lag(t.Context(), func(ident.Shard) uint64 { return 2 })
	require.NoError(t, err)
	require.EqualValues(t, 2*ident.Shards, lag)
	requirePosition(t, before, 2)

	requirePosition(t, after, 0)
	require.Empty(t, balances(t, after, "ws_1"))
	mustHandle(t, after, deposit(1, "ws_1", 30))
	require.ErrorIs(t, before.Handle(t.Context(), shard, []persistence.Event{deposit(2, "ws_1", 1)}), book.ErrRetired)
	for range 2 {
		_, err = before.Position(t.Context(), shard)
		require.ErrorIs(t, err, book.ErrRetired)
	}
	requirePosition(t, open(t, url, restored), 1)
	require.Equal(t, map[string]money.Minor{"usd USD": 30, "bank USD": -30}, balances(t, after, "ws_1"))
	requireSound(t, url)
}

func TestAnotherDeploymentsJournalIsRefused(t *testing.T) {
	url := databases.Database(t)
	mine := open(t, url, journal)
	mustHandle(t, mine, deposit(1, "ws_1", 100))
	theirs := open(t, url, persistence.Identity{Deployment: ident.UUID{9}, Store: ident.UUID{3}})
	require.ErrorIs(t, theirs.Prepare(t.Context()), book.ErrForeign)
	require.ErrorIs(t, theirs.Handle(t.Context(), shard, []persistence.Event{deposit(2, "ws_1", 1)}), book.ErrForeign)
	_, err := theirs.Balances(t.Context(), "ws_1")
	require.ErrorIs(t, err, book.ErrForeign)
	requirePosition(t, mine, 1)
}

func TestANewerProgramsBookIsRefused(t *testing.T) {
	url := databases.Database(t)
	query(t, url, `INSERT INTO book.version (version_id, is_applied) VALUES (999, true)`)
	err := open(t, url, journal).Prepare(t.Context())
	require.ErrorIs(t, err, book.ErrForeign)
	require.ErrorContains(t, err, "run the newer program")
}

func TestOpenNeedsNoServer(t *testing.T) {
	b := open(t, "postgres://127.0.0.1:1/nowhere", journal)
	_, err := b.Position(t.Context(), shard)
	require.Error(t, err)
	require.NotErrorIs(t, err, book.ErrNoBook)
	for said, o := range map[string]book.Options{
		"URL is empty":     {Identity: journal},
		"Identity":         {URL: "host=localhost"},
		"cannot parse":     {URL: "postgres://host:port:port", Identity: journal},
		"PoolSize is -1":   {URL: "host=localhost", Identity: journal, PoolSize: -1},
		"PoolSize is 1000": {URL: "host=localhost", Identity: journal, PoolSize: 1000},
		"Slack is -1":      {URL: "host=localhost", Identity: journal, Slack: -1},
		"Slack is 101":     {URL: "host=localhost", Identity: journal, Slack: 101},
	} {
		_, err := book.Open(t.Context(), o)
		require.ErrorContains(t, err, said)
	}
}

// Reads of an empty database find no book. Several processes make one together, beside a journal.
func TestEmptyDatabaseHasNoBook(t *testing.T) {
	url := databases.Empty(t)
	require.NoError(t, pgjournal.Migrate(t.Context(), url))
	const processes = 4
	books := make([]*book.Book, processes)
	for i := range books {
		books[i] = open(t, url, journal)
	}
	_, err := books[0].TrialBalance(t.Context())
	require.ErrorIs(t, err, book.ErrNoBook)
	standing, err := books[0].Standing(t.Context(), shard)
	require.NoError(t, err)
	require.Equal(t, book.Standing{}, standing)
	errs := make([]error, processes)
	var work sync.WaitGroup
	for i, b := range books {
		work.Go(func() { errs[i] = b.Prepare(context.Background()) })
	}
	work.Wait()
	require.NoError(t, errors.Join(errs...))
	mustHandle(t, books[3], deposit(1, "ws_1", 100))
	requirePosition(t, books[0], 1)
}

// The largest page has MaxPage relayed events with many transfers each.
func TestLargestPageIsBooked(t *testing.T) {
	url := databases.Database(t)
	b := open(t, url, journal)
	var events []persistence.Event
	const perEvent = 32
	for n := range uint64(consumer.MaxHandle) {
		var legs []leg
		for i := range perEvent {
			group := fmt.Sprintf("tg_%d_%d", n, i)
			legs = append(legs, leg{group, "usd", -1, ""}, leg{group, "network", 1, ""})
		}
		events = append(events, event(n+1, fmt.Sprintf("ws_%d", n%50), legs...))
	}
	mustHandle(t, b, events...)
	requirePosition(t, b, consumer.MaxHandle)
	require.Equal(t, map[string]money.Minor{"usd USD": -640, "network USD": 640}, balances(t, b, "ws_7"))
	requireSound(t, url)
}
