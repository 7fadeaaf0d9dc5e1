package authorizer

import (
	"time"

	"purser/authorizer/hold"
)

// returner undoes the approvals that were answered "timeout".
type returner struct {
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
	t.approval = t.entry
	if t.approval.After.ID.IsZero() {
		r.commits.release(t) // a decline of nothing known: nothing to undo
		return nil
	}
	t.act, t.logged, t.err, t.load = actReturn, false, nil, loaded{}
	t.byToken, t.holdID = false, t.approval.After.ID
	t.view = hold.View{Now: r.clock().UnixMilli(), MonthStays: r.suspect()}
	_, err := r.decider.decideStep(t)
	return err
}
