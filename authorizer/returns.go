package authorizer

import (
	"fmt"
	"time"

	"purser/authorizer/hold"
)

// returner undoes the approvals that were answered "timeout".
type returner struct {
	store   *store
	commits *committer
	decider *decider
	clock   func() time.Time
	suspect func() bool // Options.ClockSuspect
}

// returnLoop undoes the approvals that were answered "timeout": it commits an entry for each, after
// which repeats of the message are answered "timeout" too.
func (r *returner) returnLoop() {
	for t := range r.commits.returns {
		if err := r.undoTimeout(t); err != nil {
			r.commits.failStop.fail(err) // an approval without an answer must not stand
			r.commits.release(t)
		}
	}
}

// undoTimeout commits the entry that undoes a ticket's approval.
func (r *returner) undoTimeout(t *ticket) error {
	t.key = appendLogKey(t.key[:0], t.shard.id, t.entry.Seq)
	found, err := r.store.get(r.store.db, t.key, func(v []byte) error { return hold.DecodeEntry(v, &t.approval) })
	if err != nil || !found {
		return fmt.Errorf("%w: entry %d of shard %d (%t): %w", ErrCorrupt, t.entry.Seq, t.shard.id, found, err)
	}
	if t.approval.After.ID.IsZero() {
		r.commits.release(t) // a decline of nothing known: nothing to undo
		return nil
	}
	t.act, t.logged, t.err, t.load = actReturn, false, nil, loaded{}
	t.byToken, t.holdID = false, t.approval.After.ID
	t.view = hold.View{Now: r.clock().UnixMilli(), MonthStays: r.suspect()}
	_, err = r.decider.decideStep(t)
	return err
}
