package pebblejournal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/persistence/ident"
)

// Errors of Open with a repair of their own.
var (
	// ErrInUse: another process has the directory, or it cannot be locked.
	ErrInUse = errors.New("journal directory in use")
	// ErrNoStore: MustExist, and there is no journal.
	ErrNoStore = errors.New("no journal")
	// ErrForeign: the directory holds something else than a journal of this deployment and format.
	ErrForeign = errors.New("not this journal")
	// ErrMoved: the journal was migrated to another store, which the error names. Writing here
	// would fork its history.
	ErrMoved = errors.New("the journal was moved")
)

const defaultCacheBytes = 64 << 20

// Options of Open.
type Options struct {
	// FS holds the files; nil is the operating system's.
	FS vfs.FS
	// Dir is the directory. It is made when it is absent, unless MustExist.
	Dir string
	// Deployment is stamped into a new store (zero: a new one is drawn). An existing store must
	// carry it, unless it is zero.
	Deployment ident.UUID
	// MustExist refuses to make a new store.
	MustExist bool
	// CacheBytes bounds the block cache; 0 is 64 MiB.
	CacheBytes int64
	// OpenTables is how many tables of the store are kept open; 0 is Pebble's default.
	OpenTables int
	// SegmentBytes is the length of the files of the log; 0 is wal.DefaultSegmentBytes.
	SegmentBytes int
	// Entropy and Clock make the identity of a new store; nil is the system's.
	Entropy io.Reader
	Clock   func() time.Time
	// NoSync answers before the sync. A crash then loses answered batches: for tests that must
	// fail.
	NoSync bool
	// Fatal is called once, when a commit failed, before its Append returns. It should end the
	// process; when it returns, the journal answers ErrUnavailable for ever, calls that are inside
	// Pebble may hang, and Close leaves the directory locked. nil panics where no caller can
	// recover it.
	Fatal func(error)
	// Note is called when work in the background failed and will be tried again; nil ignores it.
	Note func(error)
}

// withDefaults sets every absent option to its default. It fails without a Dir and for a negative
// size.
func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("pebblejournal: Options.Dir is empty")
	}
	if o.CacheBytes < 0 {
		return o, fmt.Errorf("pebblejournal: Options.CacheBytes is %d", o.CacheBytes)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.Entropy == nil {
		o.Entropy = rand.Reader
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Fatal == nil {
		o.Fatal = panicAlone
	}
	if o.Note == nil {
		o.Note = func(error) {}
	}
	return o, nil
}

// panicAlone ends the process even when the caller of Append recovers panics.
func panicAlone(err error) {
	go panic(fmt.Sprintf("journal commit failed: %v", err))
}
