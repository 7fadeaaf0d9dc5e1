package book

import (
	"context"

	"github.com/jackc/pgx/v5"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// Disconnected reports whether a Close has ended all connections.
func (b *Book) Disconnected() bool { return b.disconnected.Load() }

// Balances returns the accounts of a workspace, ordered by name and currency.
func (b *Book) Balances(ctx context.Context, workspace string) ([]Account, error) {
	return queryRows(ctx, b, pgx.RowToStructByPos[Account], `SELECT workspace, name, currency, side, balance, entries
FROM book.account WHERE workspace = $1 ORDER BY name, currency`, workspace)
}

// Entries returns the entries of an account, newest first.
func (b *Book) Entries(ctx context.Context, workspace, account, currency string) ([]Entry, error) {
	return queryRows(ctx, b, scanEntry, `SELECT `+entryColumns+` FROM `+entryTables+`
WHERE a.workspace = $1 AND a.name = $2 AND a.currency = $3 ORDER BY p.at DESC, p.number DESC`, workspace, account, currency)
}

// Line is a line of the trial balance, in minor units.
type Line struct {
	Account, Currency string
	Side              Side
	Debits, Credits   money.Minor
}

// TrialBalance sums all postings by account name and currency.
func (b *Book) TrialBalance(ctx context.Context) ([]Line, error) {
	return queryRows(ctx, b, pgx.RowToStructByPos[Line], `SELECT account, currency, side, debits::bigint, credits::bigint
FROM book.trial_balance ORDER BY currency, account`)
}

// Lag returns the number of events up to the heads that the book has not handled.
func (b *Book) Lag(ctx context.Context, head func(ident.Shard) uint64) (events uint64, err error) {
	var positions [ident.Shards]uint64
	_, err = queryRows(ctx, b, func(row pgx.CollectableRow) (none struct{}, err error) {
		var shard int16
		var position int64
		err = row.Scan(&shard, &position)
		positions[shard] = b.skipped.handledThrough(ident.Shard(shard), uint64(position))
		return none, err
	}, `SELECT id, position FROM book.shard`)
	for i, position := range positions {
		events += max(head(ident.Shard(i)), position) - position
	}
	return events, absentIsEmpty(err)
}
