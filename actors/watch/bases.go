package watch

import "context"

// A watcher remembers the hash of basesPerSpan settled blocks in each span, and of as many spans as
// it can search again.
const (
	basesPerSpan = 4
	maxBases     = basesPerSpan * maxLookBack
)

// base is a settled block as it was read.
type base struct {
	block uint64
	hash  string
}

// keepBase remembers the newest settled block. The read that settled it calls keepBase.
func (w *Watcher) keepBase() {
	w.peak = max(w.peak, w.settled)
	n := len(w.bases)
	if w.settledHash == "" || n > 0 && w.settled < w.bases[n-1].block+max(1, uint64(w.chain.Span())/basesPerSpan) {
		return
	}
	if n == maxBases {
		w.bases = append(w.bases[:0], w.bases[1:]...)
	}
	w.bases = append(w.bases, base{w.settled, w.settledHash})
}

// forgetBases forgets the blocks after settled, which are read again.
func (w *Watcher) forgetBases() {
	for n := len(w.bases); n > 0 && w.bases[n-1].block > w.settled; n-- {
		w.bases = w.bases[:n-1]
	}
}

// checkBase rewinds when the newest settled block was replaced: to the newest remembered block that
// is on the chain, and at most lookBack below the highest settled block, so that no lie of a node
// rewinds further. The cursor follows. Transfers reported from deeper blocks can no longer be
// withdrawn; transfers in the new blocks are found. It fails when the node does not answer or lacks
// a block (ErrNode), and with a sinkError.
func (w *Watcher) checkBase(ctx context.Context) error {
	if w.settledHash == "" {
		return nil
	}
	now, err := w.hashOf(ctx, w.settled)
	if err != nil || now == w.settledHash {
		return err
	}
	common, err := w.newestCommon(ctx)
	if err != nil {
		return err
	}
	w.rewindTo(min(w.settled, max(common, w.peak-min(w.peak, w.lookBack()))))
	return w.saveCursor(ctx, 0)
}

// newestCommon returns the newest remembered block that is on the chain, or 0. It fails as hashOf
// does.
func (w *Watcher) newestCommon(ctx context.Context) (block uint64, err error) {
	below, above := 0, len(w.bases) // the first replaced one is among these; len: none is
	for below < above {
		middle := (below + above) / 2
		hash, err := w.hashOf(ctx, w.bases[middle].block)
		if err != nil {
			return 0, err
		}
		if hash == w.bases[middle].hash {
			below = middle + 1
		} else {
			above = middle
		}
	}
	if below == 0 {
		return 0, nil
	}
	return w.bases[below-1].block, nil
}
