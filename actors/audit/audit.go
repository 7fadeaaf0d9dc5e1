package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
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
	Journal    Journal
	Authorizer Authorizer
	Book       Book
	Pause      time.Duration
}

// Journal is the journal as an audit reads it. Events are those after the snapshot, which the
// authorizer may have followed already.
type Journal interface {
	Snapshot(ctx context.Context) (persistence.Snapshot, error)
	Events(ctx context.Context, shard ident.Shard, after uint64, limit int) ([]persistence.Event, error)
}

// Authorizer is the authorizer's store as an audit reads it.
type Authorizer interface{ Snapshot() AuthorizerSnapshot }

// AuthorizerSnapshot is the authorizer's store at one instant. A walk visits every item once.
type AuthorizerSnapshot interface {
	// Followed is the journal position that a shard's rules and ledgerCents reflect. Synced is the
	// sequence number of an entry of its log. That entry was durable before the snapshot.
	Followed(shard ident.Shard) (uint64, error)
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
	Close() error
}

// Funds are the terms of a workspace's spendable dollars, in cents. Sequence is the workspace's
// number of the last log entry that Card has.
type Funds struct {
	Workspace              ident.UUID
	Ledger, Card, Reserved money.Cents
	Sequence               uint64
}

// Hold is an authorization as the authorizer stores it, in cents. MonthCents is the part of Held
// that counts in the spend of Month. ExpiresAt is in Unix milliseconds, 0 when nothing is held.
type Hold struct {
	ID, Card, Workspace     ident.UUID
	Held, Cleared, Refunded money.Cents
	Month                   uint32
	MonthCents              money.Cents
	ExpiresAt               int64
	Status                  string
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
	Cents money.Cents
}

// Reservation is a reserved debit that is neither settled nor released.
type Reservation struct {
	Workspace, ID ident.UUID
	Cents         money.Cents
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

// Clean reports that nothing differs. `purser audit` exits with an error otherwise.
func (r *Report) Clean() bool { return len(r.Findings) == 0 }

// Run audits all shards and returns the report, which has the differences. It fails when a store is
// missing or cannot be read, or when ctx ends. storecare.Audit calls it, for `purser audit` or for
// the server that the command asks.
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

// auditShards audits some shards and adds them to r. While the stores are in use it reads those
// with differences again. The last look reports the differences that the look before has shown too:
// an operation in progress shows one, such as its reservation, and has ended by the next look. It
// fails when a store cannot be read.
func (s *Sources) auditShards(ctx context.Context, shards []ident.Shard, r *Report) error {
	before := map[difference]bool{}
	for look := 1; ; look++ {
		all, err := s.readShards(ctx, shards)
		if err != nil {
			return err
		}
		last := s.Pause == 0 || look == maxLooks
		shards = shards[:0]
		shown := map[difference]bool{}
		for _, b := range all {
			if look == maxLooks {
				b.findings = repeatedFindings(b.findings, before)
			}
			if len(b.findings) > 0 && !last {
				shards = append(shards, b.shard)
				addDifferences(shown, b.findings)
				continue
			}
			r.addShard(b)
		}
		if len(shards) == 0 {
			return nil
		}
		before = shown
		if err := sleep(ctx, s.Pause); err != nil {
			return err
		}
	}
}

// difference is a finding without its amounts, which may change from one look to the next.
type difference struct{ kind, id, what string }

func addDifferences(shown map[difference]bool, findings []Finding) {
	for _, f := range findings {
		shown[difference{f.Kind, f.ID, f.What}] = true
	}
}

// repeatedFindings returns the findings that the look before has shown too.
func repeatedFindings(findings []Finding, before map[difference]bool) []Finding {
	return slices.DeleteFunc(findings, func(f Finding) bool { return !before[difference{f.Kind, f.ID, f.What}] })
}

// readShards reads the shards once. The snapshots follow each other in an order in which each store
// has everything that the ones before it refer to: the book, the journal, the authorizer. Then it
// sums the journal's events, compares its records, adds the events that the authorizer has followed
// beyond the journal's snapshot and the rest of its log, and compares the authorizer. It fails when
// a store cannot be read.
func (s *Sources) readShards(ctx context.Context, shards []ident.Shard) (all map[ident.Shard]*shardTotals, err error) {
	all = make(map[ident.Shard]*shardTotals, len(shards))
	for _, shard := range shards {
		b := newShardTotals(shard)
		if b.bookReader, err = openBook(ctx, s.Book, shard); err != nil {
			return nil, err
		}
		all[shard] = b
	}
	journal, err := s.Journal.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	authorizer := s.Authorizer.Snapshot()
	defer func() { err = errors.Join(err, authorizer.Close()) }()
	for _, shard := range shards {
		if err := s.readShard(ctx, all[shard], journal, authorizer); err != nil {
			return nil, err
		}
	}
	return all, compareAuthorizer(authorizer, all)
}

// readShard sums the events of a shard and compares its book and records. It leaves the comparison
// with the authorizer to its caller, readShards. It fails when a store cannot be read.
func (s *Sources) readShard(
	ctx context.Context, b *shardTotals, journal persistence.Snapshot, authorizer AuthorizerSnapshot,
) (err error) {
	if b.followed, err = authorizer.Followed(b.shard); err != nil {
		return err
	}
	if b.log.lost, err = authorizer.Lost(b.shard); err != nil {
		return err
	}
	if err := b.readEvents(ctx, journal); err != nil {
		return err
	}
	if err := b.compareBook(ctx); err != nil {
		return err
	}
	if err := (&recordCheck{b}).compareRecords(ctx, journal); err != nil {
		return err
	}
	if err := readFollowed(ctx, b, s.Journal); err != nil {
		return err
	}
	return b.readLog(authorizer)
}

// addShard adds the counts, the findings and the losses of a shard, up to MaxFindings.
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

// sleep waits for d, or fails with the context's error when ctx ends first.
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
