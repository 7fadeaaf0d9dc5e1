package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"purser/persistence"
	"purser/persistence/book"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Book is the ledger read model as an audit reads it. It is compared up to its own position; later
// events of the journal are its lag and no finding.
type Book interface {
	// Standing is the position and the accounts of a shard, in a snapshot.
	Standing(ctx context.Context, shard ident.Shard) (book.Standing, error)
	// Lines are the postings of a shard in journal order, after a position and leg, up to the
	// position through.
	Lines(ctx context.Context, shard ident.Shard, position uint64, leg int, through uint64, limit int) ([]book.Entry,
		error)
}

// BookSummary counts the compared parts of the book.
type BookSummary struct {
	Accounts int64 `json:"accounts"`
	Postings int64 `json:"postings"`
	Lag      int64 `json:"lag"` // events of the journal that the book has not applied
}

func (b *BookSummary) merge(more BookSummary) *BookSummary {
	if b != nil {
		more.Accounts, more.Postings, more.Lag = more.Accounts+b.Accounts, more.Postings+b.Postings, more.Lag+b.Lag
	}
	return &more
}

// bookReader reads the book's postings of a shard in step with the events, and sums the same
// accounts.
type bookReader struct {
	book     Book
	shard    ident.Shard
	standing book.Standing
	accounts map[bookAccount]*accountTotal
	postings int64

	lines []book.Entry    // read and not yet compared
	last  postingPosition // of the last line read
	ended bool
}

type bookAccount struct{ workspace, account, currency string }

func (k bookAccount) String() string { return k.workspace + " " + k.account + " " + k.currency }

type accountTotal struct {
	balance money.Minor
	entries int64
}

// postingPosition is the position of a posting in the journal.
type postingPosition struct {
	position uint64
	leg      int
}

func (p postingPosition) before(q postingPosition) bool {
	return p.position < q.position || p.position == q.position && p.leg < q.leg
}

func (p postingPosition) String() string {
	return fmt.Sprintf("event %d, posting %d", p.position, p.leg)
}

// openBook reads the book's position and accounts of a shard; nil without a book. It fails when the
// book cannot be read.
func openBook(ctx context.Context, b Book, shard ident.Shard) (*bookReader, error) {
	if b == nil {
		return nil, nil
	}
	standing, err := b.Standing(ctx, shard)
	if err != nil {
		return nil, fmt.Errorf("shard %d: book: %w", shard, err)
	}
	return &bookReader{book: b, shard: shard, standing: standing, accounts: map[bookAccount]*accountTotal{},
		last: postingPosition{0, -1}}, nil
}

// summary counts the accounts and postings compared so far and the events that the book lags behind
// head.
func (l *bookReader) summary(head uint64) BookSummary {
	lag := int64(0)
	if head > l.standing.Position {
		lag = int64(head - l.standing.Position)
	}
	return BookSummary{Accounts: int64(len(l.accounts)), Postings: l.postings, Lag: lag}
}

func (l *bookReader) accountOf(key bookAccount) *accountTotal {
	t := l.accounts[key]
	if t == nil {
		t = &accountTotal{}
		l.accounts[key] = t
	}
	return t
}

// nextLine returns the next posting of the book without taking it; nil after the last. It fails
// when the book cannot be read.
func (l *bookReader) nextLine(ctx context.Context) (*book.Entry, error) {
	if len(l.lines) == 0 && !l.ended {
		lines, err := l.book.Lines(ctx, l.shard, l.last.position, l.last.leg, l.standing.Position, recordsPerRead)
		if err != nil {
			return nil, fmt.Errorf("shard %d: book after %s: %w", l.shard, l.last, err)
		}
		l.lines, l.ended = lines, len(lines) < recordsPerRead
		if n := len(lines); n > 0 {
			l.last = postingPosition{lines[n-1].Position, lines[n-1].Leg}
		}
	}
	if len(l.lines) == 0 {
		return nil, nil
	}
	return &l.lines[0], nil
}

// compareBookedEvent compares the book's postings of an event with the event's, unless the book
// lags behind it. Differences, and a payload that does not decode, are findings. It fails when the
// book cannot be read.
func (b *shardTotals) compareBookedEvent(ctx context.Context, e *persistence.Event) error {
	if b.bookReader == nil || e.Kind != "balance" || e.Position > b.bookReader.standing.Position {
		return nil
	}
	var p struct{ Postings []posting }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		b.expectEqual("book", e.ID, "postings", "readable", err)
		return nil
	}
	for leg, posting := range p.Postings {
		if err := b.compareBookedPosting(ctx, e, leg, posting); err != nil {
			return err
		}
	}
	return nil
}

// compareBookedPosting compares one posting of an event with the book's; differences are findings.
// It fails when the book cannot be read.
func (b *shardTotals) compareBookedPosting(ctx context.Context, e *persistence.Event, leg int, p posting) error {
	if p.Currency == "" {
		p.Currency = "USD"
	}
	key, at := bookAccount{e.Workspace, p.Account, p.Currency}, postingPosition{e.Position, leg}
	sum := b.bookReader.accountOf(key)
	sum.entries++
	addChecked(b, "book", key.String(), "sum", &sum.balance, p.Amount)
	b.bookReader.postings++
	got, err := b.takeBookedPosting(ctx, at)
	if err != nil {
		return err
	}
	if got == nil {
		b.expectEqual("book", at.String(), "posting", fmt.Sprintf("%s, %d", p.Transfer, p.Amount), "missing")
		return nil
	}
	b.expectEqual("book", at.String(), "account", key, bookAccount{got.Workspace, got.Account, got.Currency})
	b.expectEqual("book", at.String(), "transfer", p.Transfer, got.Transfer)
	b.expectEqual("book", at.String(), "cause", e.ID+" "+e.Type, got.Event+" "+got.Kind)
	b.expectEqual("book", at.String(), "time", e.At.Truncate(time.Microsecond).UTC(), got.At.UTC())
	b.expectEqual("book", at.String(), "amount", p.Amount, got.Amount)
	b.expectEqual("book", at.String(), "number", sum.entries, got.Number)
	b.expectEqual("book", at.String(), "balance after", sum.balance, got.Balance)
	return nil
}

// takeBookedPosting takes the book's posting at a position; nil when there is none. Each earlier
// posting belongs to no event and is a finding. It fails when the book cannot be read.
func (b *shardTotals) takeBookedPosting(ctx context.Context, at postingPosition) (*book.Entry, error) {
	for {
		line, err := b.bookReader.nextLine(ctx)
		if line == nil || err != nil {
			return nil, err
		}
		here := postingPosition{line.Position, line.Leg}
		if at.before(here) {
			return nil, nil
		}
		b.bookReader.lines = b.bookReader.lines[1:]
		if here == at {
			return line, nil
		}
		b.expectEqual("book", here.String(), "posting", "none", fmt.Sprintf("%s, %d", line.Transfer, line.Amount))
	}
}

// compareBook compares the rest of the book's postings and its accounts with the totals;
// differences are findings. It fails when the book cannot be read.
func (b *shardTotals) compareBook(ctx context.Context) error {
	if b.bookReader == nil {
		return nil
	}
	if stands := b.bookReader.standing.Position; stands > b.position {
		b.expectEqual("book", fmt.Sprint(b.shard), "position", fmt.Sprintf("at most %d", b.position), stands)
	}
	if _, err := b.takeBookedPosting(ctx, postingPosition{b.bookReader.standing.Position + 1, 0}); err != nil {
		return err
	}
	seen := map[bookAccount]bool{}
	for _, a := range b.bookReader.standing.Accounts {
		key := bookAccount{a.Workspace, a.Name, a.Currency}
		seen[key] = true
		want := b.bookReader.accountOf(key)
		b.expectEqual("book", key.String(), "balance", want.balance, a.Balance)
		b.expectEqual("book", key.String(), "postings", want.entries, a.Entries)
	}
	for key, want := range b.bookReader.accounts {
		if !seen[key] {
			b.expectEqual("book", key.String(), "balance", want.balance, "missing")
		}
	}
	return nil
}
