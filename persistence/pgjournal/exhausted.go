package pgjournal

import (
	"errors"
	"fmt"
	"time"

	"purser/persistence/postgres"
)

// exhaustedFor is how long a refused commit counts when none was tried since.
const exhaustedFor = 30 * time.Second

// exhaustion is the last commit that the server refused for want of a resource.
type exhaustion struct {
	err error
	at  time.Time
}

// Exhausted returns why the server has refused the last commit for want of a resource, such as
// postgres.ErrFullDisk. It is nil after a commit that succeeded, and exhaustedFor after the last refusal.
func (j *Journal) Exhausted() error {
	last := j.exhausted.Load()
	if last == nil || j.clock().Sub(last.at) > exhaustedFor {
		return nil
	}
	return last.err
}

// noteCommit takes the outcome of a commit. The first refusal for want of a resource is logged.
func (j *Journal) noteCommit(err error) {
	switch {
	case err == nil:
		j.exhausted.Store(nil)
	case errors.Is(err, postgres.ErrExhausted):
		err = fmt.Errorf("the journal is not written: %w", err)
		if j.exhausted.Swap(&exhaustion{err, j.clock()}) == nil {
			j.note(err)
		}
	}
}
