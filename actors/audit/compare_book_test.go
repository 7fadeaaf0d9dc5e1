package audit_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/actors/audit"
	"purser/persistence"
	"purser/persistence/book"
	"purser/persistence/ident"
	"purser/persistence/pgjournal/pgtest"
)

// bookDatabase is a database of books: each new book is a new incarnation and empties the one
// before.
type bookDatabase struct {
	url  string
	next byte
}

func (l *bookDatabase) newBook(t *testing.T, events []persistence.Event) *book.Book {
	t.Helper()
	l.next++
	b, err := book.Open(t.Context(), book.Options{URL: l.url, Slack: 12,
		Identity: persistence.Identity{Deployment: ident.UUID{1}, Store: ident.UUID{l.next}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.NoError(t, b.Handle(t.Context(), ident.Slot(slot).Shard(), events))
	return b
}

// damage changes the book without its triggers.
func (l *bookDatabase) damage(t *testing.T, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), l.url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.PgConn().Exec(t.Context(), `SET session_replication_role = replica; `+sql).ReadAll()
	require.NoError(t, err)
}

func auditBook(t *testing.T, s *auditedStores, b audit.Book) audit.Report {
	t.Helper()
	report, err := audit.Run(t.Context(), audit.Sources{Journal: auditedJournal{s}, Authorizer: auditedAuthorizer{s}, Book: b})
	require.NoError(t, err)
	return report
}

// bookDamages are changes of the book's tables, with the expected finding.
var bookDamages = map[string]struct{ sql, what string }{
	"an amount": {`UPDATE book.posting SET amount = 99999 WHERE position = 3 AND leg = 0`, "amount"},
	"a running balance": {`UPDATE book.posting SET balance = balance + 1 WHERE position = 6 AND leg = 1`,
		"balance after"},
	"a number":              {`UPDATE book.posting SET number = 77 WHERE position = 6 AND leg = 1`, "number"},
	"another account":       {`UPDATE book.account SET name = 'fees' WHERE name = 'network'`, "account"},
	"a posting that is not": {`DELETE FROM book.posting WHERE position = 6 AND leg = 1`, "posting"},
	"a transfer that is not": {`DELETE FROM book.transfer WHERE position = 6 AND ordinal = 2;
		DELETE FROM book.posting WHERE position = 6 AND ordinal = 2`, "posting"},
	"a doubled posting": {`INSERT INTO book.posting SELECT shard, position, 9, ordinal, account, currency, 9, at, amount, balance
		FROM book.posting WHERE position = 6 AND leg = 1`, "posting"},
	"a posting of another event": {`UPDATE book.posting SET position = 5 WHERE position = 6 AND ordinal = 2;
		UPDATE book.transfer SET position = 5 WHERE position = 6 AND ordinal = 2`, "posting"},
	"a cause": {`UPDATE book.transfer SET event = 'evt_7' WHERE position = 3`, "cause"},
	"a group": {`UPDATE book.transfer SET id = 'tg_7' WHERE position = 3`, "transfer"},
	"a time":  {`UPDATE book.posting SET at = now() WHERE position = 3`, "time"},
	"an account's balance": {`UPDATE book.account SET balance = balance - 1 WHERE name = 'network'`,
		"balance"},
	"an account's count": {`UPDATE book.account SET entries = entries - 1 WHERE name = 'network'`,
		"postings"},
	"an account that is not":         {`DELETE FROM book.account WHERE name = 'network'`, "balance"},
	"a position ahead of the events": {`UPDATE book.shard SET position = 8 WHERE id = 18`, "position"},
}

// Each damage is applied to a book in Postgres alone, and its finding is expected.
func TestEveryDamageOfTheBookIsNamed(t *testing.T) {
	server := pgtest.Own(t, "the audit of the book", false)
	if server == nil {
		return
	}
	l := &bookDatabase{url: server.URL("postgres")}
	for name, c := range bookDamages {
		t.Run(name, func(t *testing.T) {
			s := newAuditedStores()
			b := l.newBook(t, s.events)
			report := auditBook(t, s, b)
			require.Empty(t, report.Findings)
			require.Equal(t, &audit.BookSummary{Accounts: 3, Postings: 6}, report.Book)

			l.damage(t, c.sql)
			report = auditBook(t, s, b)
			require.True(t, slices.ContainsFunc(report.Findings, func(f audit.Finding) bool {
				return f.Kind == "book" && f.What == c.what && f.Expected != f.Actual &&
					f.Shard == ident.Slot(slot).Shard()
			}), "%+v", report.Findings)
		})
	}
	t.Run("a book that lags", func(t *testing.T) {
		s := newAuditedStores()
		report := auditBook(t, s, l.newBook(t, s.events[:4]))
		require.Empty(t, report.Findings)
		require.Equal(t, &audit.BookSummary{Accounts: 2, Postings: 2, Lag: 3}, report.Book)
		var text strings.Builder
		require.NoError(t, report.Print(&text))
		require.Contains(t, text.String(), "compared the book: 2 accounts, 2 postings; it is 3 events behind\n")
		require.Contains(t, text.String(), "authorizer and book agree to the cent")
	})
	t.Run("a book of several pages", func(t *testing.T) {
		s := newAuditedStores()
		var legs []string
		for range 1250 {
			legs = append(legs, posting("many", "usd", 1), posting("many", "fees", -1))
		}
		s.event("balance", workspace, "balance.charged.v1", `{"postings":[`+strings.Join(legs, ",")+`]}`)
		report := auditBook(t, s, l.newBook(t, s.events))
		require.False(t, slices.ContainsFunc(report.Findings, func(f audit.Finding) bool { return f.Kind == "book" }),
			"%+v",
			report.Findings)
		require.Equal(t, &audit.BookSummary{Accounts: 4, Postings: 2506}, report.Book)
	})
	t.Run("a book of before a restore", func(t *testing.T) {
		s := newAuditedStores()
		l.newBook(t, s.events)
		restored, err := book.Open(t.Context(), book.Options{URL: l.url, Slack: 12,
			Identity: persistence.Identity{Deployment: ident.UUID{1}, Store: ident.UUID{0xff}}})
		require.NoError(t, err)
		defer restored.Close()
		report := auditBook(t, s, restored)
		require.Empty(t, report.Findings)
		require.Equal(t, &audit.BookSummary{Lag: 7}, report.Book)
	})
}

// movingBook is a book whose first looks show a difference that later looks do not.
type movingBook struct {
	standing book.Standing
	looks    int
}

func (m *movingBook) Standing(_ context.Context, shard ident.Shard) (book.Standing, error) {
	if shard != ident.Slot(slot).Shard() {
		return book.Standing{}, nil
	}
	if m.looks--; m.looks < 0 {
		return book.Standing{}, nil
	}
	return m.standing, nil
}

func (m *movingBook) Lines(context.Context, ident.Shard, uint64, int, uint64, int) ([]book.Entry, error) {
	return nil, nil
}

// A difference that disappears is not reported; one that stays is.
func TestABookDifferenceIsReportedOnlyIfItStays(t *testing.T) {
	for looks, clean := range map[int]bool{2: true, 1000: false} {
		s := newAuditedStores()
		b := &movingBook{book.Standing{Position: 3}, looks}
		report, err := audit.Run(t.Context(), audit.Sources{Journal: auditedJournal{s}, Authorizer: auditedAuthorizer{s}, Book: b,
			Pause: time.Millisecond})
		require.NoError(t, err)
		require.Equal(t, clean, report.Clean(), "%+v", report.Findings)
	}
}
