package authorizer

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// failStop stops the engine for good at the first failed commit or sync.
type failStop struct {
	fatal  func(error) // Options.Fatal
	once   sync.Once
	cause  atomic.Pointer[error]
	failed chan struct{} // closed when fatal has returned
}

func newFailStop(fatal func(error)) *failStop {
	return &failStop{fatal: fatal, failed: make(chan struct{})}
}

// fail stops the engine. The first caller's error goes to Options.Fatal.
func (f *failStop) fail(err error) {
	f.once.Do(func() {
		f.cause.Store(&err)
		f.fatal(err)
		close(f.failed)
	})
}

// failure returns nil, or ErrStopped with its cause.
func (f *failStop) failure() error {
	if cause := f.cause.Load(); cause != nil {
		return fmt.Errorf("%w: %w", ErrStopped, *cause)
	}
	return nil
}

// failOn passes the result of a commit on. An error stops the engine, and becomes ErrStopped with
// its cause.
func (f *failStop) failOn(err error) error {
	if err == nil {
		return nil
	}
	f.fail(err)
	return f.failure()
}
