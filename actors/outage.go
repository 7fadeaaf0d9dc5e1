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

// Limits of what is said and asked while a store is away.
const (
	// complainEvery is how often the log repeats what fails again and again, whatever shard it fails for.
	complainEvery = 10 * time.Second
	// probeEvery is how often the journal is asked whether it is there, and probeWithin how long it has.
	probeEvery  = time.Second
	probeWithin = 2 * time.Second
)

// complaints keep the log readable while 256 shards meet the same trouble: one line a while for each thing that fails.
type complaints struct {
	mu   sync.Mutex
	said map[string]*complaint // as many as there are loops and reactions
}

type complaint struct {
	at      time.Time
	leftOut int
}

// next tells whether it is time to say it again, and how often it was not said since.
func (c *complaints) next(what string, now time.Time) (leftOut int, speak bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said == nil {
		c.said = make(map[string]*complaint)
	}
	last := c.said[what]
	if last == nil {
		last = &complaint{}
		c.said[what] = last
	} else if now.Sub(last.at) < complainEvery {
		last.leftOut++
		return 0, false
	}
	leftOut, last.at, last.leftOut = last.leftOut, now, 0
	return leftOut, true
}

// Complain logs an error of an operation that is retried, at most every complainEvery for each
// operation. The attributes are those of slog.
func (s *System) Complain(what string, err error, attributes ...any) {
	if leftOut, speak := s.complaints.next(what, s.clock()); speak {
		s.log.Error(what, append(attributes, "err", err, "left_out", leftOut)...)
	}
}

// probe asks the journal for something small that is stored, so that an outage is known though nobody wants anything, and though
// the journal remembers much.
func (s *System) probe(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	_, err := s.journal.Cursor(persistence.AsStored(within), relayCursor, ident.SystemSlot.Shard())
	if ctx.Err() != nil {
		return
	}
	switch was := s.away.note(err); {
	case err != nil && was == nil:
		s.log.Error("the journal does not answer", "err", err)
	case err == nil && was != nil:
		s.log.Info("the journal answers again")
	}
}

// absence is why the journal does not answer; the zero value: it does.
type absence struct{ why atomic.Pointer[string] }

// note keeps the outcome of a probe and returns the one before.
func (a *absence) note(err error) (was error) {
	was = a.err()
	if err == nil {
		a.why.Store(nil)
		return was
	}
	text := "the journal does not answer: " + strings.Join(strings.Fields(err.Error()), " ") // one line: it is one reason
	a.why.Store(&text)
	return was
}

func (a *absence) err() error {
	if why := a.why.Load(); why != nil {
		return errors.New(*why)
	}
	return nil
}

// JournalUp tells whether the journal has answered when it was last asked.
func (s *System) JournalUp() bool { return s.away.err() == nil }
