package pgjournal

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"purser/persistence/ident"
	"purser/persistence/postgres"
)

// Errors of Open that a program reports to its operator each in its own way.
var (
	// ErrForeign: the database holds the journal of another deployment, or of another format.
	ErrForeign = errors.New("not this journal")
	// ErrNoStore: the database has no journal. Migrate makes one.
	ErrNoStore = errors.New("no journal")
	// ErrUnsafe: the server may lose commits, because fsync or full_page_writes is off. See
	// Options.AllowUnsafe.
	ErrUnsafe = errors.New("server does not keep what it commits")
)

// Limits of sizes and numbers.
const (
	maxLanes = 64

	// laneQueue is how many appends wait in memory for a lane; callers beyond it block.
	laneQueue = 256
	// gatherMax is the largest number of appends in one group.
	gatherMax = 128
	// commitBatches and commitBytes bound a transaction; further batches go into the next one. A
	// single batch always fits.
	commitBatches = 4096
	commitBytes   = 32 << 20
	// copyMin is the number of events from which CopyFrom is used, which takes two more round trips
	// than an INSERT.
	copyMin = 256
	// eventBytes bounds the payloads that one Events returns; it returns at least one event.
	eventBytes = 1 << 20
	// indexBytes bounds the strings of one index key: Postgres allows 2,704 bytes.
	indexBytes = 2600
	// lookupMax is how many records one round trip reads at most, and how many lookups wait in
	// memory; callers beyond it block.
	lookupMax = 128
	// sweepShards is how many shards one DELETE of a Sweep covers.
	sweepShards = 16
	// cursorMax is the largest number of cursors that one statement writes.
	cursorMax = 1024
	// maxCursorsBehind is the number of cursors that are written behind. A shard has about ten
	// cursors. Each save of a cursor beyond the limit is written at once.
	maxCursorsBehind = 1 << 16
)

// Timeouts and pauses. Options.Slack multiplies the timeouts.
const (
	defaultTimeout     = 5 * time.Second // Options.Timeout
	defaultLockTimeout = 3 * time.Second // Options.LockTimeout
	defaultEvictAfter  = 1 * time.Second // Options.EvictAfter
	// rollbackTimeout bounds a rollback; after it the connection is closed, which has the same
	// effect.
	rollbackTimeout = 1 * time.Second
	// After a failed connection no other is tried for backoffMin, doubled with each failure up to
	// backoffMax.
	backoffMin = 50 * time.Millisecond
	backoffMax = 1 * time.Second
	// pollInterval is how often the heads are read during a WaitAdvance: it shows the appends of
	// other processes.
	pollInterval = 250 * time.Millisecond
)

// Options of Open.
type Options struct {
	// URL is the database, as a URL or as keywords and values.
	URL string
	// Deployment is stamped into a new store; zero draws a new one. Unless it is zero, an existing
	// store must carry it.
	Deployment ident.UUID
	// Lanes is the number of transactions that commit in parallel; a shard always uses the same
	// lane. 0 means 4 from eight processors, 2 from four, else 1.
	Lanes int
	// Processors is the number of processors of the program; 0 means GOMAXPROCS.
	Processors int
	// PoolSize is the number of connections for everything but the lanes; 0 means 8. The journal
	// has at most Lanes + PoolSize connections.
	PoolSize int
	// Entropy and Clock make the identity of a new store; nil means those of the system.
	Entropy io.Reader
	Clock   func() time.Time
	// Note receives errors that do not fail a call, such as a lost connection or an evicted
	// session; nil ignores them. It is called from any goroutine.
	Note func(error)
	// Fatal receives ErrTaken or ErrBehind: the process must stop using this journal. nil ignores
	// it. It is called from any goroutine, possibly many times.
	Fatal func(error)
	// Migrate applies the migrations first.
	Migrate bool
	// MustExist refuses to stamp a new store.
	MustExist bool
	// AllowUnsafe accepts a server with fsync or full_page_writes off. It is for tests.
	AllowUnsafe bool
	// Slack multiplies all timeouts that are not set here, except that of waiting for another
	// process to migrate; 0 means 1. It is for tests on machines that stall for seconds.
	Slack int
	// Timeout bounds a read and any statement in the server, a transaction of a lane from its first
	// byte to the answer, and a Raise; 0 means 5 s.
	Timeout time.Duration
	// LockTimeout bounds the wait for a row lock of another transaction; 0 means 3 s.
	LockTimeout time.Duration
	// EvictAfter is how long a Raise waits before it ends the transactions that block it; 0 means
	// 1 s.
	EvictAfter time.Duration
	// CursorInterval is how long a saved cursor stays in memory before it is written; 0 means
	// postgres.WriteBehindInterval.
	CursorInterval time.Duration
}

// lanesFor returns the number of lanes of a machine. A transaction costs the server and this
// process about the same whatever its size. So on a small machine a few large transactions carry
// twice as much as many small ones. The number is a power of two, like the number of groups into
// which a subscriber divides the shards.
func lanesFor(processors int) int {
	switch {
	case processors >= 8:
		return 4
	case processors >= 4:
		return 2
	}
	return 1
}

// withDefaults sets every absent option to its default. It fails without a URL and for an option
// outside its bounds.
func (o Options) withDefaults() (Options, error) {
	if o.URL == "" {
		return o, errors.New("pgjournal: Options.URL is empty")
	}
	if o.Lanes == 0 {
		o.Lanes = lanesFor(cmp.Or(o.Processors, runtime.GOMAXPROCS(0)))
	}
	if o.Lanes < 0 || o.Lanes > maxLanes {
		return o, fmt.Errorf("pgjournal: Options.Lanes is %d, not 1 to %d", o.Lanes, maxLanes)
	}
	if o.PoolSize == 0 {
		o.PoolSize = postgres.DefaultPool
	}
	// A Raise holds one connection and may need another one to evict blocking sessions.
	if o.PoolSize < 2 || o.PoolSize > postgres.MaxPool {
		return o, fmt.Errorf("pgjournal: Options.PoolSize is %d, not 2 to %d", o.PoolSize, postgres.MaxPool)
	}
	if o.Slack == 0 {
		o.Slack = 1
	}
	if o.Slack < 0 || o.Slack > postgres.MaxSlack {
		return o, fmt.Errorf("pgjournal: Options.Slack is %d, not 1 to %d", o.Slack, postgres.MaxSlack)
	}
	o.Timeout = cmp.Or(o.Timeout, time.Duration(o.Slack)*defaultTimeout)
	o.LockTimeout = cmp.Or(o.LockTimeout, time.Duration(o.Slack)*defaultLockTimeout)
	o.EvictAfter = cmp.Or(o.EvictAfter, time.Duration(o.Slack)*defaultEvictAfter)
	o.CursorInterval = cmp.Or(o.CursorInterval, postgres.WriteBehindInterval)
	if o.Entropy == nil {
		o.Entropy = rand.Reader
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Note == nil {
		o.Note = func(error) {}
	}
	if o.Fatal == nil {
		o.Fatal = func(error) {}
	}
	return o, nil
}
