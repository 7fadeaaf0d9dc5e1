package watch

import (
	"context"
	"fmt"
	"slices"

	"purser/actors/partner"
)

// stepsBelow is the number of steps in a row with a head below the settled blocks after which the
// settled blocks are in doubt. Only heads count that are not older than the oldest watched address:
// an older one is an older state of the chain, and the watcher waits.
const stepsBelow = 8

// doubt is what a watcher had settled when the head fell below it. Either that head is false or the
// settled blocks came from a false one, and the node cannot show which. The watcher reads from the
// low head on and saves no cursor. Once the head is back, it continues from the doubted blocks.
type doubt struct {
	settled     uint64
	settledHash string
	bases       []base
	resumed     bool
	behind      bool
	addresses   map[string]bool
}

// localChain is a partner.Chain that this process makes itself: a chain of the sandbox. It can
// begin anew, and its head is never false.
type localChain interface{ IsLocal() bool }

// isLocal reports whether the chain is a localChain.
func (w *Watcher) isLocal() bool {
	local, ok := w.chain.(localChain)
	return ok && local.IsLocal()
}

// standBelow ends a step whose head is below the settled blocks: it always returns an error, and
// the step reads nothing. At stepsBelow such heads the settled blocks are in doubt, and the next
// steps read from the head on, for every address. The saved cursor stays, except that of a chain of
// the sandbox: it has begun anew.
func (w *Watcher) standBelow(ctx context.Context, head partner.Head, places []Address) error {
	oldest := slices.MinFunc(places, func(a, b Address) int { return a.Since.Compare(b.Since) }).Since
	if head.At.Before(oldest.Add(-joinTolerance)) {
		w.below = 0
		return fmt.Errorf("%w: its head is %d, but blocks through %d are settled", ErrNode, head.Number, w.settled)
	}
	if w.below++; w.below < stepsBelow {
		return fmt.Errorf("%w: its head is %d, but blocks through %d are settled", ErrNode, head.Number, w.settled)
	}
	settled := w.settled
	if w.doubted == nil && !w.isLocal() {
		w.doubted = &doubt{settled: w.settled, settledHash: w.settledHash, bases: w.bases, resumed: w.resumed,
			behind: w.behind, addresses: w.addresses}
	}
	w.bases = nil
	w.rewindTo(w.settledBlock(head))
	w.peak = w.settled
	w.below, w.addresses, w.behind, w.resumed = 0, nil, false, false
	if err := w.saveCursor(ctx, 0); err != nil {
		return err
	}
	return fmt.Errorf("%w: blocks through %d were settled, and its head is %d: reading from block %d",
		ErrNode, settled, head.Number, w.settled)
}

// endDoubt ends a doubt once the head is not below the doubted blocks. Far above the blocks that
// were read meanwhile, the watcher continues from the doubted ones: the low head was false.
// Otherwise the chain has grown up to them, and the watcher reads on. The stored reports are loaded
// again, because a read under a false head can have taken one for final. It fails with a sinkError,
// and the doubt then stays.
func (w *Watcher) endDoubt(ctx context.Context, head partner.Head) error {
	d := w.doubted
	if d == nil || head.Number < d.settled {
		return nil
	}
	grown := w.settled+w.lookBack() >= d.settled
	settled := d.settled
	if grown {
		settled, w.peak = w.settled, max(w.peak, d.settled)
	}
	from, err := w.loadUnsettled(ctx, settled)
	if err != nil {
		return err
	}
	w.doubted, w.below = nil, 0
	if !grown {
		w.settled, w.settledHash, w.resumed, w.behind = d.settled, d.settledHash, d.resumed, d.behind
		w.addresses, w.head, w.readTo = d.addresses, partner.Head{}, d.settled
		w.bases, w.peak = d.bases, d.settled
	}
	if from < w.settled {
		w.rewindTo(from)
	}
	return nil
}

// doubtError is the result of a step without another error while settled blocks are in doubt. It is
// an ErrNode and counts as a fault of the node, so that an operator learns of it.
func (w *Watcher) doubtError() error {
	return fmt.Errorf("%w: its head is %d, but blocks through %d were settled; its blocks are read, and the cursor stays",
		ErrNode, w.progress.Head.Number, w.doubted.settled)
}
