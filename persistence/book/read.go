package book

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// Side is the normal balance of an account: debit for an asset, credit for a liability.
type Side string

// The two sides. A credit is a positive amount.
const (
	Debit  Side = "debit"
	Credit Side = "credit"
)

// normalSide returns the side of an account of the balance streams. Assets of Purser elsewhere, and
// claims, are on the debit side. All others are owed to the workspace or to a counterparty.
func normalSide(account string) Side {
	switch account {
	case "bank", "chain", "suspense":
		return Debit
	}
	return Credit
}

// Account is an account of a workspace in one currency, in minor units. Balance is credits less
// debits, Entries the number of postings.
type Account struct {
	Workspace, Name, Currency string
	Side                      Side
	Balance                   money.Minor
	Entries                   int64
}

// Entry is a posting with its transfer. Number counts the postings of the account, gapless from 1;
// Balance is the balance after this one. Position is that of the event in the journal, Leg the
// index of the posting in it.
type Entry struct {
	Position                     uint64
	Leg                          int
	Workspace, Account, Currency string
	Transfer, Event, Kind        string
	At                           time.Time
	Number                       int64
	Amount, Balance              money.Minor
}

// Standing is the position and the accounts of a shard as of one moment. The position includes
// events that this process has skipped. It is empty without a book, and before the book has adopted
// this incarnation of the journal.
type Standing struct {
	Position uint64
	Accounts []Account
}

// Lines returns entries of a shard in journal order: those after a position and leg, up to and
// including position through. Without a book it returns none. It fails with ErrForeign or the
// server's error.
func (b *Book) Lines(ctx context.Context, shard ident.Shard, position uint64, leg int, through uint64, limit int) (
	[]Entry, error) {
	lines, err := queryRows(ctx, b, scanEntry, sqlLines,
		int16(shard), int64(position), leg, int64(through), pageLimit(limit))
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

// Standing returns a shard as of one moment. All its accounts are in memory at once. Without a book
// it is empty. It fails with ErrForeign or the server's error.
func (b *Book) Standing(ctx context.Context, shard ident.Shard) (s Standing, err error) {
	_, err = queryRows(ctx, b, func(row pgx.CollectableRow) (none struct{}, err error) {
		var position int64
		var a Account
		err = row.Scan(&position, &a.Workspace, &a.Name, &a.Currency, &a.Side, &a.Balance, &a.Entries)
		s.Position = b.skipped.handledThrough(shard, uint64(position))
		if a.Entries > 0 {
			s.Accounts = append(s.Accounts, a)
		}
		return none, err
	}, sqlStanding, int16(shard))
	return s, absentIsEmpty(err)
}

// absentIsEmpty replaces ErrNoBook by nil: a missing book is as far behind as an empty one.
func absentIsEmpty(err error) error {
	if errors.Is(err, ErrNoBook) {
		return nil
	}
	return err
}

// queryRows runs a query in one read-only snapshot. It returns no rows before the book has adopted
// this incarnation of the journal. It fails with ErrNoBook without a book, with ErrForeign, and
// with the server's error. It does not call Prepare.
func queryRows[T any](ctx context.Context, b *Book, scan pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, b.slack*queryTimeout)
	defer cancel()
	var found []T
	moment := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, b.pool, moment, func(tx pgx.Tx) error {
		begun, err := b.hasBegun(ctx, tx)
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

// hasBegun reports whether the book has adopted this incarnation of the journal. Its error is
// ErrForeign for another deployment, or the error of the server.
func (b *Book) hasBegun(ctx context.Context, tx pgx.Tx) (bool, error) {
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
