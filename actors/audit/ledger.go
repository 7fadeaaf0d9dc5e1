package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"purser/persistence"
	"purser/persistence/book"
	"purser/persistence/ident"
)

// Book is what an audit reads of the ledger read model. It is compared at the position at which it stands: what the journal has
// beyond that is its lag, and no finding.
type Book interface {
	// Standing is where the book has a shard and its accounts, as of one moment.
	Standing(ctx context.Context, shard ident.Shard) (book.Standing, error)
	// Lines are the postings of a shard in the order of the journal, those after a position and leg, through a position.
	Lines(ctx context.Context, shard ident.Shard, position uint64, leg int, through uint64, limit int) ([]book.Entry, error)
}

// Booked says what was compared of the book.
type Booked struct {
	Accounts int64 `json:"accounts"`
	Postings int64 `json:"postings"`
	Lag      int64 `json:"lag"` // events of the journal that it has not handled
}

func (b *Booked) plus(more Booked) *Booked {
	if b != nil {
		more.Accounts, more.Postings, more.Lag = more.Accounts+b.Accounts, more.Postings+b.Postings, more.Lag+b.Lag
	}
	return &more
}

// ledger reads the postings that the book has of a shard beside the events, and adds up the same accounts.
type ledger struct {
	book     Book
	shard    ident.Shard
	standing book.Standing
	accounts map[booking]*total
	postings int64

	lines []book.Entry // that were read and are not yet compared
	last  place        // of the last that was read
	ended bool
}

type booking struct{ workspace, account, currency string }

func (k booking) String() string { return k.workspace + " " + k.account + " " + k.currency }

type total struct{ balance, entries int64 }

// place is where a posting is in the journal.
type place struct {
	position uint64
	leg      int
}

func (p place) before(q place) bool {
	return p.position < q.position || p.position == q.position && p.leg < q.leg
}

func (p place) String() string { return fmt.Sprintf("event %d, posting %d", p.position, p.leg) }

// openLedger returns nil without a book.
func openLedger(ctx context.Context, b Book, shard ident.Shard) (*ledger, error) {
	if b == nil {
		return nil, nil
	}
	standing, err := b.Standing(ctx, shard)
	if err != nil {
		return nil, fmt.Errorf("shard %d: book: %w", shard, err)
	}
	return &ledger{book: b, shard: shard, standing: standing, accounts: map[booking]*total{}, last: place{0, -1}}, nil
}

func (l *ledger) booked(head uint64) Booked {
	lag := int64(0)
	if head > l.standing.Position {
		lag = int64(head - l.standing.Position)
	}
	return Booked{Accounts: int64(len(l.accounts)), Postings: l.postings, Lag: lag}
}

func (l *ledger) account(key booking) *total {
	t := l.accounts[key]
	if t == nil {
		t = &total{}
		l.accounts[key] = t
	}
	return t
}

// line returns the next posting of the book, nil after the last.
func (l *ledger) line(ctx context.Context) (*book.Entry, error) {
	if len(l.lines) == 0 && !l.ended {
		lines, err := l.book.Lines(ctx, l.shard, l.last.position, l.last.leg, l.standing.Position, recordsPerRead)
		if err != nil {
			return nil, fmt.Errorf("shard %d: book after %s: %w", l.shard, l.last, err)
		}
		l.lines, l.ended = lines, len(lines) < recordsPerRead
		if n := len(lines); n > 0 {
			l.last = place{lines[n-1].Position, lines[n-1].Leg}
		}
	}
	if len(l.lines) == 0 {
		return nil, nil
	}
	return &l.lines[0], nil
}

// booked holds the book's postings of an event against the event's, if the book has come so far.
func (b *books) booked(ctx context.Context, e *persistence.Event) error {
	if b.ledger == nil || e.Kind != "balance" || e.Position > b.ledger.standing.Position {
		return nil
	}
	var p struct{ Postings []posting }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		b.differs("book", e.ID, "postings", "readable", err)
		return nil
	}
	for leg, posting := range p.Postings {
		if err := b.bookedPosting(ctx, e, leg, posting); err != nil {
			return err
		}
	}
	return nil
}

func (b *books) bookedPosting(ctx context.Context, e *persistence.Event, leg int, p posting) error {
	if p.Currency == "" {
		p.Currency = "USD"
	}
	key, at := booking{e.Workspace, p.Account, p.Currency}, place{e.Position, leg}
	sum := b.ledger.account(key)
	sum.entries++
	b.sum("book", key.String(), "sum", &sum.balance, p.Cents)
	b.ledger.postings++
	got, err := b.bookedAt(ctx, at)
	if err != nil {
		return err
	}
	if got == nil {
		b.differs("book", at.String(), "posting", fmt.Sprintf("%s, %d", p.Transfer, p.Cents), "missing")
		return nil
	}
	b.differs("book", at.String(), "account", key, booking{got.Workspace, got.Account, got.Currency})
	b.differs("book", at.String(), "transfer", p.Transfer, got.Transfer)
	b.differs("book", at.String(), "cause", e.ID+" "+e.Type, got.Event+" "+got.Kind)
	b.differs("book", at.String(), "time", e.At.Truncate(time.Microsecond).UTC(), got.At.UTC())
	b.differs("book", at.String(), "amount", p.Cents, got.Amount)
	b.differs("book", at.String(), "number", sum.entries, got.Number)
	b.differs("book", at.String(), "balance after", sum.balance, got.Balance)
	return nil
}

// bookedAt takes the book's posting of a place, nil when there is none. What the book has before it belongs to no event.
func (b *books) bookedAt(ctx context.Context, at place) (*book.Entry, error) {
	for {
		line, err := b.ledger.line(ctx)
		if line == nil || err != nil {
			return nil, err
		}
		here := place{line.Position, line.Leg}
		if at.before(here) {
			return nil, nil
		}
		b.ledger.lines = b.ledger.lines[1:]
		if here == at {
			return line, nil
		}
		b.differs("book", here.String(), "posting", "none", fmt.Sprintf("%s, %d", line.Transfer, line.Amount))
	}
}

// compareLedger holds what is left of the book, and its accounts, against the books.
func (b *books) compareLedger(ctx context.Context) error {
	if b.ledger == nil {
		return nil
	}
	if stands := b.ledger.standing.Position; stands > b.position {
		b.differs("book", fmt.Sprint(b.shard), "position", fmt.Sprintf("at most %d", b.position), stands)
	}
	if _, err := b.bookedAt(ctx, place{b.ledger.standing.Position + 1, 0}); err != nil {
		return err
	}
	seen := map[booking]bool{}
	for _, a := range b.ledger.standing.Accounts {
		key := booking{a.Workspace, a.Name, a.Currency}
		seen[key] = true
		want := b.ledger.account(key)
		b.differs("book", key.String(), "balance", want.balance, a.Balance)
		b.differs("book", key.String(), "postings", want.entries, a.Entries)
	}
	for key, want := range b.ledger.accounts {
		if !seen[key] {
			b.differs("book", key.String(), "balance", want.balance, "missing")
		}
	}
	return nil
}
