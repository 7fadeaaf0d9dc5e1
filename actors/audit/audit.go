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
	MaxFindings    = 1000 // more are only counted
	shardsPerPass  = 16   // whose totals are in memory at a time
	eventsPerRead  = 1000
	recordsPerRead = 1000
	maxLooks       = 5 // at a difference while the stores are in use
)

// Sources are the stores to audit; Book is nil when there is none. When a server uses the stores,
// the audit reads a difference again after Pause. Pause 0 says that the stores are at rest.
type Sources struct {
	Journal    persistence.Journal
	Authorizer Authorizer
	Book       Book
	Pause      time.Duration
}

// Authorizer is the authorizer's store as an audit reads it. A walk visits every item of the store
// once, in a snapshot.
type Authorizer interface {
	// Followed is the journal position that a shard's rules and ledgerCents reflect. Synced is the
	// last entry of its log.
	Followed(shard ident.Shard) uint64
	Synced(shard ident.Shard) uint64
	// Log visits the entries of a shard's log after a sequence number, in the JSON of the journal.
	Log(shard ident.Shard, after uint64, visit func(entry []byte) error) error
	// Lost are the runs of a shard's log that its rebuild from the journal found lost, in order.
	Lost(shard ident.Shard) ([]Loss, error)
	WalkFunds(visit func(Funds) error) error
	WalkHolds(visit func(Hold) error) error
	WalkRules(visit func(Rule) error) error
	WalkSpends(visit func(Spend) error) error
	WalkReservations(visit func(Reservation) error) error
	// WalkDue visits the expiry index. A moved expiry may leave an older line in it.
	WalkDue(visit func(Due) error) error
}

// Funds are the terms of a workspace's spendable dollars, in cents.
type Funds struct {
	Workspace              ident.UUID
	Ledger, Card, Reserved int64
}

// Hold is an authorization as the authorizer stores it, in cents. MonthCents is the part of Held
// that counts in the spend of Month. ExpiresAt is in Unix milliseconds, 0 when nothing is held.
type Hold struct {
	ID, Card, Workspace     ident.UUID
	Held, Cleared, Refunded int64
	Month                   uint32
	MonthCents              int64
	ExpiresAt               int64
	Status                  string
}

// Rule is the authorizer's copy of a card's terms. MCCs and Merchants are the original allowlists,
// nil for null.
type Rule struct {
	Card, Workspace              ident.UUID
	Token                        string
	Version                      uint64 // stream version of the card
	State                        string
	MonthlyLimit, PerTransaction int64 // cents
	MCCs, Merchants              *[]string
}

// Due is a line of the expiry index: the expiry of a hold in Unix milliseconds.
type Due struct {
	Hold ident.UUID
	At   int64
}

// Loss is a run of decisions that was lost with an earlier store of the authorizer.
type Loss struct {
	Shard ident.Shard `json:"shard"`
	First uint64      `json:"first"`
	Last  uint64      `json:"last"`
	At    time.Time   `json:"rebuiltAt"`
}

// Spend is a card's spend counter of a month (year × 100 + month).
type Spend struct {
	Card  ident.UUID
	Month uint32
	Cents int64
}

// Reservation is a reserved debit that is neither settled nor released.
type Reservation struct {
	Workspace, ID ident.UUID
	Cents         int64
}

// Finding is one difference. Kind and ID name the thing and What its differing part. Expected is
// the sum of the events, Actual the stored value.
type Finding struct {
	Kind     string      `json:"kind"`
	Shard    ident.Shard `json:"shard"`
	ID       string      `json:"id"`
	What     string      `json:"what"`
	Expected string      `json:"expected"`
	Actual   string      `json:"actual"`
}

// Report is the outcome of an audit: the amounts read and the differences found.
type Report struct {
	Events         int64     `json:"events"`
	Transfers      int64     `json:"transfers"`
	Workspaces     int64     `json:"workspaces"`
	Cards          int64     `json:"cards"`
	Authorizations int64     `json:"authorizations"`
	Findings       []Finding `json:"findings"`
	More           int64     `json:"more"` // findings beyond MaxFindings
	// Lost are the decisions that the last rebuild of the authorizer found lost, at most
	// MaxFindings runs. They are not findings.
	Lost []Loss       `json:"lost,omitempty"`
	Book *BookSummary `json:"book,omitempty"` // nil without a book
}

// Clean reports that nothing differs.
func (r *Report) Clean() bool { return len(r.Findings) == 0 }

// Run audits all shards. An error says that a store could not be read; differences are in the
// report.
func Run(ctx context.Context, s Sources) (Report, error) {
	if s.Journal == nil || s.Authorizer == nil {
		return Report{}, errors.New("audit: a store is missing")
	}
	ctx = persistence.AsStored(ctx)
	if s.Pause > 0 {
		s = s.withPauses(&pacer{ctx: ctx, clock: time.Now, sleep: sleep, began: time.Now()})
	}
	var r Report
	for first := 0; first < ident.Shards; first += shardsPerPass {
		shards := make([]ident.Shard, shardsPerPass)
		for i := range shards {
			shards[i] = ident.Shard(first + i)
		}
		if err := s.auditShards(ctx, shards, &r); err != nil {
			return r, fmt.Errorf("audit: %w", err)
		}
	}
	return r, nil
}

// auditShards audits some shards. It reads those with differences again while the stores are in
// use.
func (s *Sources) auditShards(ctx context.Context, shards []ident.Shard, r *Report) error {
	for look := 1; ; look++ {
		all, err := s.readShards(ctx, shards)
		if err != nil {
			return err
		}
		last := s.Pause == 0 || look == maxLooks
		shards = shards[:0]
		for _, b := range all {
			if len(b.findings) > 0 && !last {
				shards = append(shards, b.shard)
				continue
			}
			r.addShard(b)
		}
		if len(shards) == 0 {
			return nil
		}
		if err := sleep(ctx, s.Pause); err != nil {
			return err
		}
	}
}

// readShards reads the shards once: the journal's events and records, then the rest of the
// authorizer's log and the authorizer itself.
func (s *Sources) readShards(ctx context.Context, shards []ident.Shard) (all map[ident.Shard]*shardTotals, err error) {
	all = make(map[ident.Shard]*shardTotals, len(shards))
	for _, shard := range shards {
		b := newShardTotals(shard)
		b.followed = s.Authorizer.Followed(shard)
		if b.bookReader, err = openBook(ctx, s.Book, shard); err != nil {
			return nil, err
		}
		if b.log.lost, err = s.Authorizer.Lost(shard); err != nil {
			return nil, err
		}
		if err := b.readEvents(ctx, s.Journal); err != nil {
			return nil, err
		}
		if err := b.compareBook(ctx); err != nil {
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

func (r *Report) addShard(b *shardTotals) {
	r.Events += int64(b.position)
	r.Transfers += int64(len(b.transfers))
	for s := range b.versions {
		if s.kind == "workspace" {
			r.Workspaces++
		}
	}
	r.Cards += int64(len(b.cards))
	r.Authorizations += int64(len(b.authorizations))
	if b.bookReader != nil {
		r.Book = r.Book.merge(b.bookReader.summary(b.position))
	}
	r.Lost = append(r.Lost, b.log.lost[:min(MaxFindings-len(r.Lost), len(b.log.lost))]...)
	room := MaxFindings - len(r.Findings)
	r.More += b.more + int64(max(0, len(b.findings)-room))
	r.Findings = append(r.Findings, b.findings[:min(room, len(b.findings))]...)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
