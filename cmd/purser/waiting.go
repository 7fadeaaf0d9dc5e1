package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"purser/cmd/purser/datadir"
	"purser/persistence/retry"
)

// Pauses between two attempts to start on the journal. Attempts have no limit.
const (
	awaitMin = 100 * time.Millisecond
	awaitMax = 5 * time.Second
)

// transientError marks an error that a later attempt may not meet, such as an unreachable store.
type transientError struct{ error }

// Unwrap returns the error itself.
func (p transientError) Unwrap() error { return p.error }

// asTransient marks an error of the journal as transient, unless it is known to be permanent.
func asTransient(err error) error {
	if datadir.IsPermanent(err) {
		return err
	}
	return transientError{err}
}

// awaitJournal runs the steps of the start that need the journal until all of them succeed. A
// failed attempt is undone as a whole. A permanent error ends the process. Start runs it in the
// background when the journal is in Postgres.
func (m *daemon) awaitJournal(ctx context.Context) {
	pause := retry.Backoff{Min: awaitMin, Max: awaitMax}
	for kept := len(m.cleanup.undo); ; {
		err := runJournalSteps(ctx, m.journalSteps())
		if err == nil {
			m.waiting.because(nil)
			return
		}
		err = errors.Join(err, m.cleanup.closeTo(kept))
		var p transientError
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
		if !retry.Pause(ctx, pause.Next()) {
			return
		}
	}
}

// runJournalSteps runs the steps of a start that need the journal, within startWithin. It fails
// with the error of the first step that fails. awaitJournal repeats it until it succeeds or fails
// for good.
func runJournalSteps(ctx context.Context, steps []step) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return runSteps(ctx, steps)
}

// waiting is the part of a start that runs in the background. In the zero value none runs.
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

// end stops the background part and waits for it.
func (w *waiting) end() {
	if w.cancel != nil {
		w.cancel()
	}
	w.running.Wait()
}

// because stores the reason of the wait. It returns true when the reason has changed.
func (w *waiting) because(err error) bool {
	if err == nil {
		w.why.Store(nil)
		return false
	}
	text := "the journal: " + strings.Join(strings.Fields(err.Error()), " ") // one line: it is one reason
	was := w.why.Swap(&text)
	return was == nil || *was != text
}

// reason returns the reason of the wait, nil when the start does not wait. /readyz reports it.
func (w *waiting) reason() error {
	if why := w.why.Load(); why != nil {
		return errors.New(*why)
	}
	return nil
}
