// Package audit re-adds every amount of Purser from the raw events of the journal and compares the sums with what is kept
// beside them: the records that are shown, the terms from which the authorizer answers swipes, and the book when there is one.
//
// It reads events as JSON with small structs of its own and folds them itself. It calls neither a domain package nor a decision
// of the authorizer: a fault in their code must not be repeated here. It shares only the checked addition of package money and
// the folding of merchants' names. It changes nothing.
//
// On a running server the two stores move while they are read. A difference is therefore looked at again, several times, and only
// one that stays is reported; a shard that never rests for the length of a look can still show one that is not there.
package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// Limits of an audit.
const (
	MaxFindings    = 1000 // more are counted, not kept
	shardsPerPass  = 16   // whose books are in memory at a time
	eventsPerRead  = 1000
	recordsPerRead = 1000
	looks          = 5 // at a difference, while the stores are in use
)

// Sources are the two stores, and the book, which is nil when there is none. Look again after Pause when they are in use by a
// server; Pause 0 says that they are at rest.
type Sources struct {
	Journal    persistence.Journal
	Authorizer Authorizer
	Book       Book
	Pause      time.Duration
}

// Authorizer is what an audit reads of the authorizer. A walk visits every item of the store once, as of one moment.
type Authorizer interface {
	// Followed is the journal position that rules and ledgerCents of a shard stand at; Synced the last entry of its log.
	Followed(shard ident.Shard) uint64
	Synced(shard ident.Shard) uint64
	// Log visits the entries of a shard's log after a sequence number, as JSON in the form in which the journal keeps them.
	Log(shard ident.Shard, after uint64, visit func(entry []byte) error) error
	// Lost are the runs of a shard's log, in order, that were found lost when this store was made anew from the journal.
	Lost(shard ident.Shard) ([]Loss, error)
	WalkFunds(visit func(Funds) error) error
	WalkHolds(visit func(Hold) error) error
	WalkRules(visit func(Rule) error) error
	WalkSpends(visit func(Spend) error) error
	WalkReservations(visit func(Reservation) error) error
	// WalkDue visits the due index. An expiry that was moved may have left an older line.
	WalkDue(visit func(Due) error) error
}

// Funds are the terms of a workspace's spendable dollars, in cents.
type Funds struct {
	Workspace              ident.UUID
	Ledger, Card, Reserved int64
}

// Hold is an authorization as the authorizer has it, in cents. MonthCents is what of Held counts in Month's spend. ExpiresAt is
// in Unix milliseconds, 0 when nothing is held.
type Hold struct {
	ID, Card, Workspace     ident.UUID
	Held, Cleared, Refunded int64
	Month                   uint32
	MonthCents              int64
	ExpiresAt               int64
	Status                  string
}

// Rule is what the authorizer knows of a card. MCCs and Merchants are the allowlists as they were written, nil for null.
type Rule struct {
	Card, Workspace              ident.UUID
	Token                        string
	Version                      uint64 // of the card's stream
	State                        string
	MonthlyLimit, PerTransaction int64 // cents
	MCCs, Merchants              *[]string
}

// Due is a line of the due index: when a hold is to run out, in Unix milliseconds.
type Due struct {
	Hold ident.UUID
	At   int64
}

// Loss is a run of decisions that went with a store of the authorizer that is gone.
type Loss struct {
	Shard ident.Shard `json:"shard"`
	First uint64      `json:"first"`
	Last  uint64      `json:"last"`
	At    time.Time   `json:"rebuiltAt"`
}

// Spend is a card's counter of a month (year × 100 + month).
type Spend struct {
	Card  ident.UUID
	Month uint32
	Cents int64
}

// Reservation is a debit that was reserved and neither settled nor released.
type Reservation struct {
	Workspace, ID ident.UUID
	Cents         int64
}

// Finding is one difference. Kind and ID name the thing, What the part of it that differs; Expected is what the events add up to.
type Finding struct {
	Kind     string      `json:"kind"`
	Shard    ident.Shard `json:"shard"`
	ID       string      `json:"id"`
	What     string      `json:"what"`
	Expected string      `json:"expected"`
	Actual   string      `json:"actual"`
}

// Report says what was read and what differs.
type Report struct {
	Events         int64     `json:"events"`
	Transfers      int64     `json:"transfers"`
	Workspaces     int64     `json:"workspaces"`
	Cards          int64     `json:"cards"`
	Authorizations int64     `json:"authorizations"`
	Findings       []Finding `json:"findings"`
	More           int64     `json:"more"` // findings beyond MaxFindings
	// Lost is what the last rebuild of the authorizer found lost; it is no finding. At most MaxFindings of them are kept.
	Lost []Loss  `json:"lost,omitempty"`
	Book *Booked `json:"book,omitempty"` // nil without a book
}

// Clean says that nothing differs.
func (r *Report) Clean() bool { return len(r.Findings) == 0 }

// Run audits all shards. The error says that something could not be read; differences are in the report.
func Run(ctx context.Context, s Sources) (Report, error) {
	if s.Journal == nil || s.Authorizer == nil {
		return Report{}, errors.New("audit: a store is missing")
	}
	ctx = persistence.AsStored(ctx)
	if s.Pause > 0 {
		s = s.paced(&pacer{ctx: ctx, clock: time.Now, sleep: pause, began: time.Now()})
	}
	var r Report
	for first := 0; first < ident.Shards; first += shardsPerPass {
		shards := make([]ident.Shard, shardsPerPass)
		for i := range shards {
			shards[i] = ident.Shard(first + i)
		}
		if err := s.group(ctx, shards, &r); err != nil {
			return r, fmt.Errorf("audit: %w", err)
		}
	}
	return r, nil
}

// group audits some shards, and those in which something differs again while the stores are in use.
func (s *Sources) group(ctx context.Context, shards []ident.Shard, r *Report) error {
	for look := 1; ; look++ {
		all, err := s.look(ctx, shards)
		if err != nil {
			return err
		}
		last := s.Pause == 0 || look == looks
		shards = shards[:0]
		for _, b := range all {
			if len(b.findings) > 0 && !last {
				shards = append(shards, b.shard)
				continue
			}
			r.add(b)
		}
		if len(shards) == 0 {
			return nil
		}
		if err := pause(ctx, s.Pause); err != nil {
			return err
		}
	}
}

// look reads the shards once: the journal's events, its records, then the rest of the authorizer's log and the authorizer itself.
func (s *Sources) look(ctx context.Context, shards []ident.Shard) (all map[ident.Shard]*books, err error) {
	all = make(map[ident.Shard]*books, len(shards))
	for _, shard := range shards {
		b := newBooks(shard)
		b.followed = s.Authorizer.Followed(shard)
		if b.ledger, err = openLedger(ctx, s.Book, shard); err != nil {
			return nil, err
		}
		if b.log.lost, err = s.Authorizer.Lost(shard); err != nil {
			return nil, err
		}
		if err := b.readEvents(ctx, s.Journal); err != nil {
			return nil, err
		}
		if err := b.compareLedger(ctx); err != nil {
			return nil, err
		}
		if err := (&recordCheck{b}).compareRecords(ctx, s.Journal); err != nil {
			return nil, err
		}
		if err := b.readLog(s.Authorizer); err != nil {
			return nil, err
		}
		all[shard] = b
	}
	return all, compareAuthorizer(s.Authorizer, all)
}

func (r *Report) add(b *books) {
	r.Events += int64(b.position)
	r.Transfers += int64(len(b.transfers))
	for s := range b.versions {
		if s.kind == "workspace" {
			r.Workspaces++
		}
	}
	r.Cards += int64(len(b.cards))
	r.Authorizations += int64(len(b.authorizations))
	if b.ledger != nil {
		r.Book = r.Book.plus(b.ledger.booked(b.position))
	}
	r.Lost = append(r.Lost, b.log.lost[:min(MaxFindings-len(r.Lost), len(b.log.lost))]...)
	room := MaxFindings - len(r.Findings)
	r.More += b.more + int64(max(0, len(b.findings)-room))
	r.Findings = append(r.Findings, b.findings[:min(room, len(b.findings))]...)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
