package bench

import (
	"context"
	"fmt"
	"time"
)

const probeEvery = time.Millisecond // while a killed server is away

// killAndWait kills the server after a duration and starts it again. It returns the time from the
// kill to the first correct swipe, or 0 when ctx ends before the kill: the load has found a wrong
// answer. It fails when the server cannot be killed or started, and without a correct swipe within
// killWithin.
func (w *worker) killAndWait(ctx context.Context, after time.Duration) (time.Duration, error) {
	defer w.close()
	if pauseFor(ctx, after) != nil {
		return 0, nil
	}
	began := time.Now()
	w.patience = probeEvery
	w.run.killed.Store(true)
	if err := w.run.Server.Kill(); err != nil {
		return 0, err
	}
	if err := w.run.Server.Start(); err != nil {
		return 0, err
	}
	for ctx.Err() == nil {
		s := w.nextSwipe()
		if w.sendAuthorization(0, time.Now(), &s) == right {
			return time.Since(began), nil
		}
		if time.Since(began) > killWithin {
			return 0, fmt.Errorf("bench: no correct swipe within %s of a kill", killWithin)
		}
	}
	return 0, nil
}
