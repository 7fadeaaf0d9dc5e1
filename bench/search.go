package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits of a search.
const (
	probeFor      = 10 * time.Second
	maxDoublings  = 8
	maxBisections = 8
	closeEnough   = 0.05 // share of the rate
	maxConfirms   = 4
	stepDown      = 0.9 // after a rate that a probe held and the whole duration did not
)

// searchRate finds the highest rate that is held by bisection over short loads, then confirms it
// for the whole duration. The notes of the last stage name every tried rate. A faulty probe ends
// the search and is the last stage. It fails when no rate is held after maxConfirms tries, and with
// the errors of holdRate. runSustained calls it.
func (r *run) searchRate(ctx context.Context, l *Load) ([]Stage, error) {
	var notes []string
	var last Stage
	probe := func(rate int) (bool, error) {
		part := *l
		part.Rate, part.Duration, part.Name = rate, min(probeFor, l.Duration), fmt.Sprintf("%s: probe at %d/s", l.Name, rate)
		var err error
		if last, err = r.holdRate(ctx, &part); err == nil && last.hasFailed() {
			err = errFaulty
		}
		notes = append(notes, fmt.Sprintf("probe at %d/s for %s: %s", rate, part.Duration, last.heldText()))
		return last.Held, err
	}
	rate, err := highestHeld(l.Rate, probe)
	switch {
	case errors.Is(err, errFaulty):
		return []Stage{last}, nil
	case err != nil:
		return nil, err
	}
	for range maxConfirms {
		whole := *l
		whole.Rate = rate
		s, err := r.holdRate(ctx, &whole)
		s.Searched, s.Notes = true, append(s.Notes, notes...)
		if s.Held || s.hasFailed() || err != nil {
			return []Stage{s}, err
		}
		notes = append(notes, fmt.Sprintf("%d/s for %s: %s", rate, l.Duration, s.heldText()))
		rate = max(1, int(float64(rate)*stepDown))
	}
	return nil, fmt.Errorf("bench: no rate was held for %s: %q", l.Duration, notes)
}

var errFaulty = errors.New("bench: a probe was answered wrongly or not at all")

func (s *Stage) heldText() string {
	if s.Held {
		return "held"
	}
	return "not held: " + strings.Join(s.NotHeld, "; ")
}

// highestHeld finds the highest rate that the probe holds, to within closeEnough, by doubling and
// then bisection. It fails only with the probe's error.
func highestHeld(first int, probe func(rate int) (held bool, err error)) (int, error) {
	low, high := 0, first
	for range maxDoublings {
		held, err := probe(high)
		if err != nil {
			return 0, err
		}
		if !held {
			break
		}
		if low, high = high, min(2*high, MaxRate); low == high {
			return low, nil
		}
	}
	for range maxBisections {
		middle := low + (high-low)/2
		if middle < 1 || float64(high-low) <= closeEnough*float64(high) {
			break
		}
		held, err := probe(middle)
		if err != nil {
			return 0, err
		}
		if held {
			low = middle
		} else {
			high = middle
		}
	}
	return max(low, 1), nil
}
