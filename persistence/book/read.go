package book

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"purser/persistence/ident"
)

// Side is where an account normally stands: an asset on the debit side, what is owed on the credit side.
type Side string

// The two sides. A credit is a positive amount.
const (
	Debit  Side = "debit"
	Credit Side = "credit"
)

// normalSide of the accounts of the balance streams: what Purser has elsewhere, and what it is owed, stands on the debit side.
// All others are owed to the workspace or to a counterpart.
func normalSide(account string) Side {
	switch account {
	case "bank", "chain", "suspense":
		return Debit
	}
	return Credit
}

// Account is a workspace's account in a currency, in minor units. Balance is credits less debits, Entries the number of postings.
type Account struct {
	Workspace, Name, Currency string
	Side                      Side
	Balance, Entries          int64
}

// Entry is a posting with its transfer. Number is the account's, gapless from 1; Balance is the account's after the posting.
// Position and Leg are its place in the journal: leg of the event at the position.
type Entry struct {
	Position                     uint64
	Leg                          int
	Workspace, Account, Currency string
	Transfer, Event, Kind        string
	At                           time.Time
	Number, Amount, Balance      int64
}

// Standing is where the book has a shard, as of one moment, and in what this process has passed since. It is empty when there is
// no book, or it has not yet begun with this incarnation of the journal.
type Standing struct {
	Position uint64
	Accounts []Account
}

// Line is a line of the trial balance: what was ever debited and credited to all accounts of a name and currency, in minor units.
type Line struct {
	Account, Currency string
	Side              Side
	Debits, Credits   int64
}

// Query asks for entries of an account, newest first: those from From on, before Until. To go on after an entry, Until is its
// At and UntilNumber its Number. A zero Until is no bound; Limit is at most MaxEntries, which 0 means.
type Query struct {
	Workspace, Account, Currency string
	From, Until                  time.Time
	UntilNumber                  int64
	Limit                        int
}

// Balances returns the accounts of a workspace by name, at most MaxEntries.
func (b *Book) Balances(ctx context.Context, workspace string) ([]Account, error) {
	return collect(ctx, b, func(row pgx.CollectableRow) (a Account, err error) {
		err = row.Scan(&a.Workspace, &a.Name, &a.Currency, &a.Side, &a.Balance, &a.Entries)
		return a, err
	}, sqlBalances, workspace, MaxEntries)
}

// Entries returns entries of an account.
func (b *Book) Entries(ctx context.Context, q Query) ([]Entry, error) {
	if q.Until.IsZero() {
		q.Until = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) // later than any event
	}
	return collect(ctx, b, scanEntry, sqlEntries, q.Workspace, q.Account, q.Currency, q.From, q.Until, q.UntilNumber,
		pageLimit(q.Limit))
}

// Lines returns the entries of a shard in the order of the journal: those after a position and leg, through a position. It is
// how an audit reads them; without a book there are none.
func (b *Book) Lines(ctx context.Context, shard ident.Shard, position uint64, leg int, through uint64, limit int) (
	[]Entry, error) {
	lines, err := collect(ctx, b, scanEntry, sqlLines, int16(shard), int64(position), leg, int64(through), pageLimit(limit))
	return lines, absentIsEmpty(err)
}

func pageLimit(n int) int {
	if n <= 0 || n > MaxEntries {
		return MaxEntries
	}
	return n
}

func scanEntry(row pgx.CollectableRow) (e Entry, err error) {
	err = row.Scan(&e.Position, &e.Leg, &e.Workspace, &e.Account, &e.Currency, &e.Transfer, &e.Event, &e.Kind, &e.At,
		&e.Number, &e.Amount, &e.Balance)
	e.At = e.At.UTC()
	return e, err
}

// TrialBalance adds up all postings, by account and currency. In each currency the debits are the credits.
func (b *Book) TrialBalance(ctx context.Context) ([]Line, error) {
	return collect(ctx, b, func(row pgx.CollectableRow) (l Line, err error) {
		err = row.Scan(&l.Account, &l.Currency, &l.Side, &l.Debits, &l.Credits)
		return l, err
	}, sqlTrialBalance, MaxEntries)
}

// Standing reads a shard. All its accounts are in memory at once.
func (b *Book) Standing(ctx context.Context, shard ident.Shard) (s Standing, err error) {
	_, err = collect(ctx, b, func(row pgx.CollectableRow) (none struct{}, err error) {
		var position int64
		var a Account
		err = row.Scan(&position, &a.Workspace, &a.Name, &a.Currency, &a.Side, &a.Balance, &a.Entries)
		s.Position = b.passes.beyond(shard, uint64(position))
		if a.Entries > 0 {
			s.Accounts = append(s.Accounts, a)
		}
		return none, err
	}, sqlStanding, int16(shard))
	return s, absentIsEmpty(err)
}

// Lag is the number of events that the book has not handled, of those up to the heads.
func (b *Book) Lag(ctx context.Context, head func(ident.Shard) uint64) (events uint64, err error) {
	var positions [ident.Shards]uint64
	_, err = collect(ctx, b, func(row pgx.CollectableRow) (none struct{}, err error) {
		var shard int16
		var position int64
		err = row.Scan(&shard, &position)
		positions[shard] = b.passes.beyond(ident.Shard(shard), uint64(position))
		return none, err
	}, sqlPositions)
	for i, position := range positions {
		events += max(head(ident.Shard(i)), position) - position
	}
	return events, absentIsEmpty(err)
}

// absentIsEmpty: a book that was not made yet is as far behind as one that has not begun.
func absentIsEmpty(err error) error {
	if errors.Is(err, ErrNoBook) {
		return nil
	}
	return err
}

// collect runs a query as of one moment. A book that has not begun with this incarnation of the journal is empty; it prepares
// nothing, and without a book it is ErrNoBook.
func collect[T any](ctx context.Context, b *Book, scan pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, b.slack*queryTimeout)
	defer cancel()
	var found []T
	moment := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, b.pool, moment, func(tx pgx.Tx) error {
		begun, err := b.begun(ctx, tx)
		if err != nil || !begun {
			return err
		}
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, scan)
		return err
	})
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && (refusal.Code == undefinedTable || refusal.Code == undefinedSchema) {
		return nil, ErrNoBook
	}
	return found, err
}

// begun tells whether the book is of this incarnation, and refuses another deployment's.
func (b *Book) begun(ctx context.Context, tx pgx.Tx) (bool, error) {
	var deployment, store [16]byte
	err := tx.QueryRow(ctx, sqlStore).Scan(&deployment, &store)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err == nil && deployment != b.identity.Deployment:
		return false, fmt.Errorf("%w: its deployment is %x, not %x", ErrForeign, deployment, b.identity.Deployment)
	}
	return store == b.identity.Store, err
}
