package actors

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// Limits of logging and probing while a store is unavailable.
const (
	// logEvery is the interval at which an error of one operation is logged again, whatever shard
	// it occurs in.
	logEvery = 10 * time.Second
	// probeEvery is the interval of probes of the journal, probeWithin the timeout of one.
	probeEvery  = time.Second
	probeWithin = 2 * time.Second
)

// logThrottle limits the log to one line for each failing operation and logEvery, while 256 shards
// meet the same error. It is safe for concurrent use.
type logThrottle struct {
	mu    sync.Mutex
	lines map[string]*throttledLine // by operation: the loops and reactions
}

type throttledLine struct {
	loggedAt time.Time
	leftOut  int
}

// allow reports whether an operation's error may be logged now, and how many were left out since
// the last line.
func (c *logThrottle) allow(operation string, now time.Time) (leftOut int, log bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lines == nil {
		c.lines = make(map[string]*throttledLine)
	}
	last := c.lines[operation]
	if last == nil {
		last = &throttledLine{}
		c.lines[operation] = last
	} else if now.Sub(last.loggedAt) < logEvery {
		last.leftOut++
		return 0, false
	}
	leftOut, last.loggedAt, last.leftOut = last.leftOut, now, 0
	return leftOut, true
}

// journalOutage is the reason why the journal does not answer. The zero value means that it
// answers.
type journalOutage struct{ why atomic.Pointer[string] }

// probe reads a small stored value from the journal, past its caches, so that an outage is detected
// without any request. It logs the begin and the end of an outage; Ready and JournalUp report it.
func (a *journalOutage) probe(ctx context.Context, l *loops, journal persistence.Journal) {
	within, cancel := l.Within(ctx, probeWithin)
	defer cancel()
	_, err := journal.Cursor(persistence.AsStored(within), relayCursor, ident.SystemSlot.Shard())
	if ctx.Err() != nil {
		return
	}
	switch was := a.setOutcome(err); {
	case err != nil && was == nil:
		l.log.Error("the journal does not answer", "err", err)
	case err == nil && was != nil:
		l.log.Info("the journal answers again")
	}
}

// setOutcome stores the outcome of a probe, nil for a success, and returns the one before. It never
// fails: both errors are outcomes.
func (a *journalOutage) setOutcome(err error) (was error) {
	was = a.current()
	if err == nil {
		a.why.Store(nil)
		return was
	}
	text := "the journal does not answer: " + strings.Join(strings.Fields(err.Error()), " ") // on one line
	a.why.Store(&text)
	return was
}

func (a *journalOutage) current() error {
	if why := a.why.Load(); why != nil {
		return errors.New(*why)
	}
	return nil
}

// JournalUp reports whether the last probe of the journal succeeded.
func (s *System) JournalUp() bool { return s.outage.current() == nil }
