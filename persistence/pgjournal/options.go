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

// Errors of Open that a program tells its operator apart.
var (
	// ErrForeign: the database holds the journal of another deployment, or of another format.
	ErrForeign = errors.New("not this journal")
	// ErrNoStore: the database has no journal. Migrate makes one.
	ErrNoStore = errors.New("no journal")
	// ErrUnsafe: the server may lose what it has committed, by its fsync or full_page_writes. See Options.AllowUnsafe.
	ErrUnsafe = errors.New("server does not keep what it commits")
)

// Sizes of what is bounded.
const (
	maxLanes = 64

	// laneQueue is how many appends wait in memory for a lane; more wait in their callers.
	laneQueue = 256
	// gatherMax is how many appends one group takes at most.
	gatherMax = 128
	// commitBatches and commitBytes end a transaction: what does not fit goes into the next. A single batch always fits.
	commitBatches = 4096
	commitBytes   = 32 << 20
	// copyMin is the number of events from which CopyFrom is used: it takes two more round trips than an INSERT.
	copyMin = 256
	// eventBytes is what one Events returns, but at least one event.
	eventBytes = 1 << 20
	// indexBytes is the size of the strings of one index key: Postgres takes 2,704 bytes.
	indexBytes = 2600
	// lookupMax is how many single records one round trip reads at most, and how many wait in memory for the next; more wait in
	// their callers.
	lookupMax = 128
	// sweepShards is how many shards one DELETE of a Sweep covers.
	sweepShards = 16
	// cursorMax is how many places of subscribers one statement writes at most.
	cursorMax = 1024
	// cursorPlaces is how many places are written behind. There are ten or so of each shard; if there were more than this, each save
	// of the others would be written at once.
	cursorPlaces = 1 << 16
)

// Times after which something is given up or tried again. Those that bound something are multiplied by Options.Slack.
const (
	// queryTimeout bounds a read, and any statement in the server.
	queryTimeout = 5 * time.Second
	// commitTimeout bounds a transaction of a lane from its first byte to the answer.
	commitTimeout = 5 * time.Second
	// lockTimeout bounds the wait for a shard that another transaction holds.
	lockTimeout = 3 * time.Second
	// raiseTimeout bounds a Raise. After each evictAfter of waiting it ends the transactions that hold its shards.
	raiseTimeout = 5 * time.Second
	evictAfter   = 1 * time.Second
	// rollbackTimeout bounds the end of a failed transaction; then the connection is closed, which ends it too.
	rollbackTimeout = 1 * time.Second
	// After a connection failed none is tried for backoffMin, doubled with each failure up to backoffMax.
	backoffMin = 50 * time.Millisecond
	backoffMax = 1 * time.Second
	// pollInterval is how often the heads are read while somebody waits for one: it shows what other processes have appended.
	pollInterval = 250 * time.Millisecond
)

// Options of Open.
type Options struct {
	// URL is the database, as a URL or as keywords and values.
	URL string
	// Deployment is stamped into a new store (zero: a new one is drawn). An existing store must carry it, unless it is zero.
	Deployment ident.UUID
	// Lanes is the number of transactions that commit side by side; a shard always has the same lane. 0 is 4 where there are eight
	// processors, 2 where there are four, else 1.
	Lanes int
	// Processors are those that the program has; 0 is what Go's scheduler has.
	Processors int
	// PoolSize is the number of connections for everything else; 0 is 8. The journal has Lanes + PoolSize connections at most.
	PoolSize int
	// Entropy and Clock make the identity of a new store; nil is the system's.
	Entropy io.Reader
	Clock   func() time.Time
	// Note is called when the server was lost, or had to be forced; nil ignores it. It may be called from any goroutine.
	Note func(error)
	// Fatal is called when nothing may go on over this journal, with ErrTaken or ErrBehind; nil ignores it. It may be called from
	// any goroutine, and again and again.
	Fatal func(error)
	// Migrate brings the schema up to date first.
	Migrate bool
	// MustExist refuses to stamp a new store.
	MustExist bool
	// AllowUnsafe opens a server that runs with fsync or full_page_writes off. It is there for tests.
	AllowUnsafe bool
	// Slack multiplies the times after which something is given up, but for that of waiting for another's migration; 0 is 1. It is
	// there for tests, on machines that stand still for seconds.
	Slack int
}

// lanesFor is how many lanes a machine gets: a transaction takes the server and this process about the same time whatever is in it,
// so on a small machine few large ones carry twice as much. It is a power of two, as is what a subscriber parts the shards by.
func lanesFor(processors int) int {
	switch {
	case processors >= 8:
		return 4
	case processors >= 4:
		return 2
	}
	return 1
}

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
	// A Raise holds one connection and may need another to end what it waits for.
	if o.PoolSize < 2 || o.PoolSize > postgres.MaxPool {
		return o, fmt.Errorf("pgjournal: Options.PoolSize is %d, not 2 to %d", o.PoolSize, postgres.MaxPool)
	}
	if o.Slack == 0 {
		o.Slack = 1
	}
	if o.Slack < 0 || o.Slack > postgres.MaxSlack {
		return o, fmt.Errorf("pgjournal: Options.Slack is %d, not 1 to %d", o.Slack, postgres.MaxSlack)
	}
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
