package actors

import (
	"context"

	"purser/persistence"
)

const sweepAtOnce = 1024 // expired claims removed per shard and round

// retention removes expired data from both stores. It does nothing while the clock is
// suspect.
type retention struct {
	*loops
	journal      persistence.Journal
	authorizer   Authorizer
	clockSuspect func() bool
}

// expireHolds expires due holds, which the authorizer finds in its own index. A failure is logged;
// the next call tries again.
func (r *retention) expireHolds(ctx context.Context) {
	for ctx.Err() == nil && !r.clockSuspect() {
		n, err := r.authorizer.Expire(r.clock())
		if err != nil {
			r.log.Error("expire holds", "err", err)
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// trim removes old entries from the decision log, and expired claims and idempotency records from
// the journal. A failure is logged; the next call tries again.
func (r *retention) trim(ctx context.Context) {
	if r.clockSuspect() {
		return
	}
	if err := r.authorizer.Trim(r.clock()); err != nil {
		r.log.Error("trim the decision log", "err", err)
	}
	for ctx.Err() == nil && !r.clockSuspect() {
		n, err := r.journal.Sweep(ctx, r.clock(), sweepAtOnce)
		if err != nil && ctx.Err() == nil {
			r.log.Error("sweep claims", "err", err)
		}
		if err != nil || n == 0 {
			return
		}
	}
}
