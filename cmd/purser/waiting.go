package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"purser/cmd/purser/datadir"
	"purser/persistence"
)

// Pauses between two tries to start on the journal. There is no last try.
const (
	awaitMin = 100 * time.Millisecond
	awaitMax = 5 * time.Second
)

// passing is an error that a later try may not meet again: a store that cannot be reached.
type passing struct{ error }

// Unwrap gives the error itself.
func (p passing) Unwrap() error { return p.error }

// mayPass marks an error of the journal as passing, unless it is known to be final.
func mayPass(err error) error {
	if datadir.IsPermanent(err) {
		return err
	}
	return passing{err}
}

// awaitJournal climbs the part of the start that stands on the journal, whole, until it has got to its end. What no retry mends
// ends the process.
func (m *daemon) awaitJournal(ctx context.Context) {
	pause := persistence.Backoff{Min: awaitMin, Max: awaitMax}
	for kept := len(m.cleanup.undo); ; {
		err := runJournalSteps(ctx, m.journalSteps())
		if err == nil {
			m.waiting.because(nil)
			return
		}
		err = errors.Join(err, m.cleanup.closeTo(kept))
		var p passing
		switch {
		case ctx.Err() != nil:
			return
		case !errors.As(err, &p):
			m.fail(err)
			return
		case m.waiting.because(err):
			m.log.Warn("waiting for the journal; swipes are answered if the authorizer is here, requests are told that nothing changed",
				"err", err)
		}
		if !persistence.Pause(ctx, pause.Next()) {
			return
		}
	}
}

// runJournalSteps runs steps with the time limit of a start.
func runJournalSteps(ctx context.Context, steps []step) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return runSteps(ctx, steps)
}

// waiting is the part of a start that goes on in the background. The zero value is none.
type waiting struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	why     atomic.Pointer[string]
}

func (w *waiting) begin(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.running.Go(func() { run(ctx) })
}

// end stops it, and returns when nothing of it goes on.
func (w *waiting) end() {
	if w.cancel != nil {
		w.cancel()
	}
	w.running.Wait()
}

// because keeps what is waited for; true when that is news.
func (w *waiting) because(err error) bool {
	if err == nil {
		w.why.Store(nil)
		return false
	}
	text := "the journal: " + strings.Join(strings.Fields(err.Error()), " ") // one line: it is one reason
	was := w.why.Swap(&text)
	return was == nil || *was != text
}

// reason is what is waited for, nil when nothing is.
func (w *waiting) reason() error {
	if why := w.why.Load(); why != nil {
		return errors.New(*why)
	}
	return nil
}
