package authorizer

import (
	"errors"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// Options configures an Engine. Dir, Entropy and Fatal are required.
type Options struct {
	FS         FS // nil: the operating system's
	Dir        string
	Deployment ident.UUID // zero: the deployment of the store, which must exist
	CacheBytes int64      // memory for hot rules, spends and funds; 0: DefaultCacheBytes
	OpenTables int        // tables of the store that are kept open; 0: Pebble's default
	BacklogMax int        // entries not yet relayed; 0: DefaultBacklogMax
	NoSync     bool       // answers before decisions are durable: only for comparisons
	Clock      func() time.Time
	// ClockSuspect reports that Clock may be wrong: no card's month turns meanwhile. nil: never.
	ClockSuspect func() bool
	Entropy      io.Reader // read under a lock; need not be safe for concurrent use
	Listener     Listener
	// Fatal is called with the first failed commit or sync. It should end the process; the engine
	// answers nothing afterwards.
	Fatal func(error)
	// AnswerWithin is the longest wait of a message for its sync before it is answered "timeout";
	// 0: hold.AnswerWithin.
	AnswerWithin time.Duration
	// Deadline returns the channel that ends an answer's wait; nil: AnswerWithin by the machine's
	// clock. Tests control it.
	Deadline func() <-chan time.Time
	// SegmentBytes is the length of the log's files, as of wal.Options.
	SegmentBytes int
}

func (o *Options) ensureDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.AnswerWithin == 0 {
		o.AnswerWithin = hold.AnswerWithin
	}
	if o.BacklogMax == 0 {
		o.BacklogMax = DefaultBacklogMax
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.ClockSuspect == nil {
		o.ClockSuspect = func() bool { return false }
	}
	if o.Listener == nil {
		o.Listener = silent{}
	}
}

// Validate returns all faults of the options, joined, or nil.
func (o *Options) Validate() error {
	var faults []error
	fault := func(bad bool, text string) {
		if bad {
			faults = append(faults, errors.New("authorizer: "+text))
		}
	}
	fault(o.Dir == "", "no directory")
	fault(o.Entropy == nil, "no entropy")
	fault(o.Fatal == nil, "nobody to tell of a fatal error")
	fault(o.CacheBytes < 0, "negative cache")
	fault(o.BacklogMax < 0, "negative backlog")
	fault(o.AnswerWithin < 0, "negative time to answer")
	return errors.Join(faults...)
}

// Listener observes the engine, on the goroutine of each event. It must be fast and safe for
// concurrent use.
type Listener interface {
	// Decided is called once per Submit with the answer; took is the time from its call to its
	// answer.
	Decided(kind hold.Kind, decision hold.Decision, reason hold.Reason, took time.Duration)
	// Staged is called when a message is decided, before its sync; took is the time from the call
	// of Submit. It is not called for a message that timed out before.
	Staged(kind hold.Kind, took time.Duration)
	// Repeated is called for a repeated answer, beside Decided.
	Repeated(kind hold.Kind)
	// Synced is called for each durable commit.
	Synced(shard ident.Shard)
	// Followed is called when rules and funds up to a journal position are durable.
	Followed(shard ident.Shard, through uint64)
	// Expired is called with the number of holds that expired in one call of Expire.
	Expired(holds int)
}

type silent struct{}

func (silent) Decided(hold.Kind, hold.Decision, hold.Reason, time.Duration) {}
func (silent) Staged(hold.Kind, time.Duration)                              {}
func (silent) Repeated(hold.Kind)                                           {}
func (silent) Synced(ident.Shard)                                           {}
func (silent) Followed(ident.Shard, uint64)                                 {}
func (silent) Expired(int)                                                  {}
