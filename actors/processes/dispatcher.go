package processes

import (
	"context"
	"slices"
	"sync"

	"purser/actors/fairshare"
)

// Limits of a dispatcher.
const (
	maxDue = 16_384 // attempts that wait behind another of their line, or for a place
	// of these in one line, once half of maxDue wait, so that lines that hang leave room for others
	maxLine = 8
	// attempts that each workspace may have waiting, however many of others wait
	keptDue = 16
)

// dispatcher runs due attempts outside of the timer rounds, one at a time of each line. A slow or
// dead receiver delays its own line, and takes at most its workspace's share of the places.
// Attempts are in memory only and may be lost or refused: the timer of an attempt without a record
// fires again.
type dispatcher[T comparable] struct {
	runtime Runtime
	lineOf  func(T) (line, workspace string)
	attempt func(context.Context, T)
	places  *fairshare.Limit // each running attempt holds one

	mu    sync.Mutex
	lines map[string][]T // the first attempt of a line is running
	due   int            // attempts in all lines
	dueOf map[string]int // attempts by workspace
}

func newDispatcher[T comparable](runtime Runtime, p *fairshare.Limit, attempt func(context.Context, T),
	lineOf func(T) (line, workspace string)) *dispatcher[T] {
	return &dispatcher[T]{runtime: runtime, lineOf: lineOf, attempt: attempt, places: p, lines: map[string][]T{},
		dueOf: map[string]int{}}
}

// offer queues an attempt, unless the same one waits already or the limits are reached; a dropped
// one is offered again by its timer. It never blocks.
func (d *dispatcher[T]) offer(due T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name, workspace := d.lineOf(due)
	line := d.lines[name]
	crowded := d.due >= maxDue || d.due >= maxDue/2 && len(line) >= maxLine
	if crowded && d.dueOf[workspace] >= keptDue || len(line) > 1 && slices.Contains(line[1:], due) {
		return
	}
	d.due++
	d.dueOf[workspace]++
	d.lines[name] = append(line, due)
	if len(line) == 0 {
		d.runtime.Go(func(ctx context.Context) { d.attemptLine(ctx, due) })
	}
}

// attemptLine runs the attempts of a line, beginning with due, until none is left or the context
// ends. offer starts it in a goroutine.
func (d *dispatcher[T]) attemptLine(ctx context.Context, due T) {
	line, workspace := d.lineOf(due)
	for more := true; more; due, more = d.nextInLine(line, workspace) {
		free, err := d.places.Acquire(ctx, workspace)
		if err != nil {
			return
		}
		d.attempt(ctx, due)
		free()
	}
}

// nextInLine removes the first attempt of a line, which has ended, and returns the one behind it.
// more is false when there is none.
func (d *dispatcher[T]) nextInLine(of, workspace string) (next T, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due--
	if d.dueOf[workspace]--; d.dueOf[workspace] == 0 {
		delete(d.dueOf, workspace)
	}
	line := d.lines[of][1:]
	if len(line) == 0 {
		delete(d.lines, of)
		return next, false
	}
	d.lines[of] = line
	return line[0], true
}
