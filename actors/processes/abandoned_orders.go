package processes

import (
	"context"
	"time"

	"purser/actors"
	"purser/actors/balance"
	"purser/persistence"
	"purser/persistence/ident"
)

// abandonedWithin bounds how long a start looks for orders that an earlier process was sending.
const abandonedWithin = 2 * time.Second

// abandonedOrders makes the outcome of the orders unknown that an earlier process was sending:
// their calls ended with that process, so that no answer comes. The bank is then asked about them.
type abandonedOrders struct {
	runtime Runtime
	journal persistence.Journal
	timers  []persistence.Timer // of the orders, for their answers
}

// find reads the timers of the abandoned orders. Start calls it once, before this process sends any
// order. The orders of a shard that is not read within abandonedWithin wait until their timers are
// due; a failure is logged.
func (a *abandonedOrders) find(ctx context.Context) {
	ctx, cancel := a.runtime.Within(ctx, abandonedWithin)
	defer cancel()
	for shard := range ident.Shards {
		timers, err := a.awaitedAnswers(ctx, ident.Shard(shard))
		if err != nil {
			a.runtime.Complain("timers", err, "shard", ident.Shard(shard))
		}
		a.timers = append(a.timers, timers...)
	}
}

// fireTimers fires the timers that find has read.
func (a *abandonedOrders) fireTimers(ctx context.Context) {
	for i := 0; i < len(a.timers) && ctx.Err() == nil; i++ {
		a.runtime.FireTimer(ctx, a.timers[i])
	}
	a.timers = nil
}

// awaitedAnswers returns the timers of a shard that wait for the bank's answer to an order. It
// fails only when the journal cannot be read.
func (a *abandonedOrders) awaitedAnswers(ctx context.Context, shard ident.Shard) (awaited []persistence.Timer,
	err error) {
	before := a.runtime.Clock().Add(balance.AnswerWithin)
	for after := (persistence.Timer{}); ; {
		timers, err := a.journal.Timers(ctx, shard, before, after, persistence.MaxPage)
		if err != nil {
			return awaited, err
		}
		for _, t := range timers {
			if t.Kind == actors.KindBalance && balance.AwaitsAnswer(t.Key) {
				awaited = append(awaited, t)
			}
		}
		if len(timers) < persistence.MaxPage {
			return awaited, nil
		}
		after = timers[len(timers)-1]
	}
}
