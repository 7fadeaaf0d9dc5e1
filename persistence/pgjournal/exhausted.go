package pgjournal

import (
	"errors"
	"fmt"
	"time"

	"purser/persistence/postgres"
)

// exhaustedFor is how long Exhausted returns the last refusal while no other commit is tried.
const exhaustedFor = 30 * time.Second

// exhaustion is the error of the last commit that the server refused for want of a resource, and
// its time.
type exhaustion struct {
	err error
	at  time.Time
}

// Exhausted returns the error of the last commit if the server refused it for want of a resource:
// postgres.ErrExhausted, or more precisely postgres.ErrFullDisk. It returns nil after a commit that
// succeeded, and when the last refusal is older than exhaustedFor. It is safe for concurrent use.
func (j *Journal) Exhausted() error {
	last := j.exhausted.Load()
	if last == nil || j.clock().Sub(last.at) > exhaustedFor {
		return nil
	}
	return last.err
}

// noteCommit records the outcome of a commit. It logs the first refusal for want of a resource
// after a commit that succeeded.
func (j *Journal) noteCommit(err error) {
	switch {
	case err == nil:
		j.exhausted.Store(nil)
	case errors.Is(err, postgres.ErrExhausted):
		err = fmt.Errorf("the journal is not written: %w", err)
		if j.exhausted.Swap(&exhaustion{err, j.clock()}) == nil {
			j.reportError(err)
		}
	}
}
