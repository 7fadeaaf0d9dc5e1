package actors

import (
	"context"
	"slices"
	"sync"

	"purser/actors/fairshare"
)

// Limits of a dispatcher.
const (
	maxDue = 16_384 // attempts that wait for another of the same line, or for a place
	// of them in one line, once half of maxDue wait: a few that hang must not keep the rest out
	maxLine = 8
)

// dispatcher makes attempts that are due, outside of the timers' round, one at a time of each line.
// A receiver that is slow or dead delays its own line, and at most the share of its workspace among
// the places. The attempts are in memory alone and may be lost or refused: the timer of an attempt
// that recorded nothing fires again.
type dispatcher[T comparable] struct {
	sys     *System
	lineOf  func(T) (line, workspace string)
	attempt func(context.Context, T)
	places  *fairshare.Limit // each running attempt holds one

	mu    sync.Mutex
	lines map[string][]T // the first of a line is under way
	due   int            // in all lines
}

func newDispatcher[T comparable](s *System, p *fairshare.Limit, attempt func(context.Context, T),
	lineOf func(T) (line, workspace string)) *dispatcher[T] {
	return &dispatcher[T]{sys: s, lineOf: lineOf, attempt: attempt, places: p, lines: map[string][]T{}}
}

// offer takes an attempt unless it waits already. It never waits.
func (d *dispatcher[T]) offer(due T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name, _ := d.lineOf(due)
	line := d.lines[name]
	crowded := d.due >= maxDue || d.due >= maxDue/2 && len(line) >= maxLine
	if crowded || len(line) > 1 && slices.Contains(line[1:], due) {
		return
	}
	d.due++
	d.lines[name] = append(line, due)
	if len(line) == 0 {
		d.sys.Go(func(ctx context.Context) { d.serve(ctx, due) })
	}
}

// serve makes the attempts of a line, beginning with the first, until none is left.
func (d *dispatcher[T]) serve(ctx context.Context, due T) {
	line, workspace := d.lineOf(due)
	for more := true; more; due, more = d.next(line) {
		free, err := d.places.Acquire(ctx, workspace)
		if err != nil {
			return
		}
		d.attempt(ctx, due)
		free()
	}
}

// next takes the first attempt out of a line and returns the one behind it.
func (d *dispatcher[T]) next(of string) (next T, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due--
	line := d.lines[of][1:]
	if len(line) == 0 {
		delete(d.lines, of)
		return next, false
	}
	d.lines[of] = line
	return line[0], true
}
