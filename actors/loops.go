package actors

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// loops runs the goroutines of a System that work until it stops, and logs the errors of operations
// that they retry.
type loops struct {
	ctx      context.Context // of all goroutines
	cancel   context.CancelFunc
	starting sync.Mutex // held to start a goroutine and to end the context
	running  sync.WaitGroup
	clock    func() time.Time
	log      *slog.Logger
	throttle logThrottle
	slack    int // Config.Slack
}

func newLoops(c *Config) *loops {
	l := &loops{clock: c.Clock, log: c.Logger, slack: c.Slack}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Go runs a function in a goroutine of its own until the System stops, which ends its context and
// waits for the function to return. It does nothing once the System stops.
func (l *loops) Go(run func(context.Context)) {
	l.starting.Lock()
	defer l.starting.Unlock()
	if l.ctx.Err() == nil {
		l.running.Go(func() { run(l.ctx) })
	}
}

// end ends the context of all goroutines. No other starts afterwards.
func (l *loops) end() {
	l.starting.Lock()
	defer l.starting.Unlock()
	l.cancel()
}

// Every calls a function at a pace until the System stops. A call that takes longer than the pace
// delays the next one.
func (l *loops) Every(pace time.Duration, do func(context.Context)) {
	l.Go(func(ctx context.Context) {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				do(ctx)
			}
		}
	})
}

// Within is context.WithTimeout with Config.Slack times d.
func (l *loops) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(l.slack)*d)
}

// Complain logs an error of an operation that is retried, at most every logEvery for each
// operation. The attributes are those of slog.
func (l *loops) Complain(operation string, err error, attributes ...any) {
	if leftOut, allowed := l.throttle.allow(operation, l.clock()); allowed {
		l.log.Error(operation, append(attributes, "err", err, "left_out", leftOut)...)
	}
}
