// Package watch follows one chain for all addresses that are looked at, and reports what it sees of transfers to them: that one
// is there, how deep it lies, that it is gone.
//
// A Watcher keeps one number for good, the block through which everything has been read for the last time. The blocks after it,
// up to the head, are read anew whenever the head has changed, in one query for all addresses, and compared with what was
// reported. So no history of forks is kept and any of them is survived: what is in a block that the node no longer has is
// withdrawn, what is there now is reported. A transfer counts as final only by a read that found it as deep as the chain's
// threshold, between two looks at the same newest block.
//
// A node is not believed: a head without a block, a block that no longer holds what it held, an older head change nothing and
// are errors; the same step is made again later. Reports can repeat after a crash; whoever takes them knows a transfer by
// (TxHash, Index, BlockHash). It judges no payment and knows no session.
package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"purser/actors/partner"
)

// Limits of a watcher.
const (
	stages = 3 // how often the growing depth of a transfer is reported: the customer is shown n of 3
	// Blocks are read anew until they lie so many thresholds and so many blocks deep: a chain may take back what was final, and
	// a node may have a block before it finds the transfers in it.
	keepThresholds = 2
	keepBlocks     = 8
	maxLookBack    = 16 // spans read again for an address that came after blocks were left behind
	saveEvery      = 64 // blocks after which the cursor is saved
	joinTolerance  = 10 * time.Second
	// restartLookBack is for how long before a crash an address may have been given out without the watcher hearing of it.
	restartLookBack = 2 * time.Minute
)

// ErrNode says that a node contradicts itself, or has lost blocks. Nothing was concluded from it.
var ErrNode = errors.New("the node can not be believed now")

// Place is an address to look at. A transfer to it can not be older than Since.
type Place struct {
	Address string
	Since   time.Time
}

// Book is what a watcher knows and whom it tells. It is asked by one watcher at a time for each chain.
type Book interface {
	// Places are the addresses to look at on a chain, as of now.
	Places(chain string) []Place
	// Report hands on an observation; nil when it is kept for good. The same may come again.
	Report(ctx context.Context, o partner.Observation) error
	// Unsettled are the observations of a chain that were reported, not withdrawn, and not final.
	Unsettled(ctx context.Context, chain string) ([]partner.Observation, error)
	// Cursor is the block that was last saved; known is false when none was. A save may be lost in a crash.
	Cursor(ctx context.Context, chain string) (block uint64, known bool, err error)
	SaveCursor(ctx context.Context, chain string, block uint64) error
}

// transfer is what tells observations apart.
type transfer struct {
	tx    string
	index int
	block string
}

// Progress is what a watcher has come to since it was made.
type Progress struct {
	Head            partner.Head // the node's newest block when it was last asked; zero before it was
	Behind          uint64       // blocks of that chain that were not read yet
	Reorganisations uint64       // times that blocks which were read had been replaced
	NodeFaults      uint64       // looks that failed through the node: it was silent, slow, refused, or contradicted itself
}

// bookFault is what a Book could not do: no fault of the node's.
type bookFault struct{ error }

// Unwrap is for package errors.
func (f bookFault) Unwrap() error { return f.error }

func of(o *partner.Observation) transfer { return transfer{o.TxHash, o.Index, o.BlockHash} }

// Watcher follows one chain. It is not safe for concurrent use.
type Watcher struct {
	chain     partner.Chain
	book      Book
	threshold uint64

	started bool
	fresh   bool         // it has taken up an earlier run's cursor, and not looked yet
	done    uint64       // everything through here was read for the last time
	base    string       // hash of the block done when it was; "" when that is not known
	saved   uint64       // done as it was last saved
	head    partner.Head // at the end of the last whole step
	through uint64       // the block through which it has read
	told    Progress
	places  map[string]bool                  // looked at in the last whole step
	seen    map[transfer]partner.Observation // as last reported, in blocks after done
}

// New makes a watcher of a chain.
func New(chain partner.Chain, book Book) *Watcher {
	return &Watcher{chain: chain, book: book, threshold: uint64(chain.Threshold()), seen: make(map[transfer]partner.Observation)}
}

// Progress is what the watcher has come to.
func (w *Watcher) Progress() Progress { return w.told }

// Step looks once. What it could not do it does in the next one: an error loses nothing.
func (w *Watcher) Step(ctx context.Context) error {
	err := w.look(ctx)
	if _, ours := errors.AsType[bookFault](err); err != nil && !ours {
		w.told.NodeFaults++
	}
	if w.started {
		w.told.Behind = w.told.Head.Number - min(w.told.Head.Number, w.through)
	}
	return err
}

func (w *Watcher) look(ctx context.Context) error {
	head, err := w.chain.Head(ctx)
	if err != nil {
		return fmt.Errorf("head: %w", err)
	}
	w.told.Head = head
	if err := w.start(ctx, head); err != nil {
		return err
	}
	places := w.book.Places(w.chain.Name())
	addresses, since := w.addresses(places)
	switch {
	case len(addresses) == 0:
		return w.skip(ctx, head)
	case head.Number < w.done:
		return fmt.Errorf("%w: its head is %d, blocks through %d are behind", ErrNode, head.Number, w.done)
	case since.IsZero() && head.Hash == w.head.Hash && len(addresses) == len(w.places):
		return nil
	}
	if err := w.countFork(ctx, head); err != nil {
		return err
	}
	if err := w.checkBase(ctx); err != nil {
		return err
	}
	if err := w.lookBack(ctx, since); err != nil {
		return err
	}
	through := min(head.Number, w.done+uint64(w.chain.Span()))
	if through > w.done {
		if err := w.read(ctx, head, through, addresses); err != nil {
			return err
		}
	}
	w.fresh, w.head, w.through = false, partner.Head{}, through
	if through == head.Number {
		w.head = head
	}
	w.places = make(map[string]bool, len(addresses))
	for _, address := range addresses {
		w.places[address] = true
	}
	return nil
}

// start takes up what an earlier run left. The first one begins at the head.
func (w *Watcher) start(ctx context.Context, head partner.Head) error {
	if w.started {
		return nil
	}
	name := w.chain.Name()
	cursor, known, err := w.book.Cursor(ctx, name)
	if err != nil {
		return bookFault{fmt.Errorf("cursor: %w", err)}
	}
	w.done, w.saved, w.places = cursor, cursor, make(map[string]bool)
	w.fresh = known
	if !known {
		w.done = w.oldest(head)
		if err := w.save(ctx, 0); err != nil {
			return err
		}
	}
	open, err := w.book.Unsettled(ctx, name)
	if err != nil {
		return bookFault{fmt.Errorf("what is not settled: %w", err)}
	}
	for _, o := range open {
		w.seen[of(&o)] = o
		w.done = min(w.done, max(o.Block, 1)-1)
	}
	w.started, w.through = true, w.done
	return nil
}

// oldest is the newest block that need not be read again under a head.
func (w *Watcher) oldest(head partner.Head) uint64 {
	return head.Number - min(head.Number, keepThresholds*w.threshold+keepBlocks)
}

// addresses are those to look at, sorted, and since when one of them was that was not looked at before; zero when all were.
func (w *Watcher) addresses(places []Place) (all []string, since time.Time) {
	for _, p := range places {
		all = append(all, p.Address)
		if !w.places[p.Address] && (since.IsZero() || p.Since.Before(since)) {
			since = p.Since
		}
	}
	slices.Sort(all)
	return slices.Compact(all), since
}

// skip leaves blocks behind that nobody has to be looked for in.
func (w *Watcher) skip(ctx context.Context, head partner.Head) error {
	w.places, w.head, w.through = nil, partner.Head{}, head.Number
	clear(w.seen)
	if end := w.oldest(head); end > w.done {
		w.done, w.base = end, ""
	}
	return w.save(ctx, saveEvery)
}

func (w *Watcher) save(ctx context.Context, after uint64) error {
	if w.done < w.saved+after {
		return nil
	}
	if err := w.book.SaveCursor(ctx, w.chain.Name(), w.done); err != nil {
		return bookFault{fmt.Errorf("save the cursor: %w", err)}
	}
	w.saved = w.done
	return nil
}

// countFork counts it when the head of the last whole step is not in the chain any more. What follows from that is withdraw's. A
// node that is behind that head can not tell.
func (w *Watcher) countFork(ctx context.Context, head partner.Head) error {
	before := w.head
	if before.Hash == "" || before.Hash == head.Hash || head.Number < before.Number {
		return nil
	}
	replaced := head.Number == before.Number
	if !replaced {
		now, err := w.hashOf(ctx, before.Number)
		if err != nil {
			return err
		}
		replaced = now != before.Hash
	}
	if w.head = (partner.Head{}); replaced {
		w.told.Reorganisations++
	}
	return nil
}

// checkBase goes back when the chain has taken back even what was left behind. What it reported from there it can not withdraw
// any more; what is there now is found.
func (w *Watcher) checkBase(ctx context.Context) error {
	if w.base == "" {
		return nil
	}
	now, err := w.hashOf(ctx, w.done)
	if err == nil && now != w.base {
		w.rewind(w.done - min(w.done, uint64(w.chain.Span())))
	}
	return err
}

// rewind lets everything after a block be read again.
func (w *Watcher) rewind(block uint64) {
	w.done, w.base, w.saved = block, "", min(w.saved, block)
}

// lookBack goes back to the blocks that were left behind before an address was known, if it can have been paid there.
func (w *Watcher) lookBack(ctx context.Context, since time.Time) error {
	to := w.done
	for n := 0; !since.IsZero() && to > 0 && n < maxLookBack; n++ {
		b, err := w.block(ctx, to)
		if err != nil {
			return err
		}
		if n == 0 && w.fresh && b.At.Add(-restartLookBack).After(since) {
			since = b.At.Add(-restartLookBack)
		}
		if b.At.Before(since.Add(-joinTolerance)) {
			break
		}
		to -= min(to, uint64(w.chain.Span()))
	}
	if to < w.done {
		w.rewind(to)
	}
	return nil
}

// read looks at the blocks after done through through, and moves done.
func (w *Watcher) read(ctx context.Context, head partner.Head, through uint64, addresses []string) error {
	found, err := w.chain.Transfers(ctx, w.done+1, through, addresses)
	if err != nil {
		return fmt.Errorf("transfers %d to %d: %w", w.done+1, through, err)
	}
	end := max(min(w.oldest(head), through), w.done)
	base, err := w.hashOf(ctx, end)
	if err != nil {
		return err
	}
	if err := w.report(ctx, head, found); err != nil {
		return err
	}
	if err := w.withdraw(ctx, head, through, found, addresses); err != nil {
		return err
	}
	for key, o := range w.seen {
		if o.Block <= end {
			delete(w.seen, key)
		}
	}
	w.done, w.base = end, base
	return w.save(ctx, saveEvery)
}

// block is a block that the node must have: its head is at or after it.
func (w *Watcher) block(ctx context.Context, number uint64) (partner.Head, error) {
	b, err := w.chain.Block(ctx, number)
	if errors.Is(err, partner.ErrNoBlock) {
		err = fmt.Errorf("%w: %w", ErrNode, err)
	}
	if err != nil {
		return b, fmt.Errorf("block %d: %w", number, err)
	}
	return b, nil
}

// hashOf is the hash of a block, "" of block 0.
func (w *Watcher) hashOf(ctx context.Context, number uint64) (string, error) {
	if number == 0 {
		return "", nil
	}
	b, err := w.block(ctx, number)
	return b.Hash, err
}

// unmoved tells whether the head is still what it was.
func (w *Watcher) unmoved(ctx context.Context, head partner.Head) error {
	now, err := w.block(ctx, head.Number)
	if err != nil {
		return err
	}
	if now.Hash != head.Hash {
		return fmt.Errorf("%w: the head's block %d was replaced", ErrNode, head.Number)
	}
	return nil
}

// report hands on what is new, and what has come a stage deeper. Before each the block is looked at, and the head after it: a
// depth that is told was there.
func (w *Watcher) report(ctx context.Context, head partner.Head, found []partner.Observation) error {
	var news []partner.Observation
	for _, o := range found {
		if o.Block > head.Number {
			return fmt.Errorf("%w: a transfer in block %d above its head %d", ErrNode, o.Block, head.Number)
		}
		o.Chain, o.Threshold = w.chain.Name(), int(w.threshold)
		o.Confirmations = int(head.Number - o.Block + 1)
		before, known := w.seen[of(&o)]
		if known && w.stage(&before) >= w.stage(&o) {
			continue
		}
		news = append(news, o)
	}
	if len(news) == 0 {
		return nil
	}
	if err := w.standing(ctx, news); err != nil {
		return err
	}
	if err := w.unmoved(ctx, head); err != nil {
		return err
	}
	for _, o := range news {
		if err := w.gone(ctx, &o); err != nil {
			return err
		}
		if err := w.book.Report(ctx, o); err != nil {
			return bookFault{fmt.Errorf("report: %w", err)}
		}
		w.seen[of(&o)] = o
	}
	return nil
}

// gone withdraws what was said of the same transaction in another block, before it is reported from this one: a transaction is in
// one block, and its transfers may have other indexes there.
func (w *Watcher) gone(ctx context.Context, o *partner.Observation) error {
	for key, old := range w.seen {
		if key.tx != o.TxHash || key.block == o.BlockHash {
			continue
		}
		if err := w.remove(ctx, key, old); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watcher) remove(ctx context.Context, key transfer, o partner.Observation) error {
	o.Removed, o.Confirmations = true, 0
	if err := w.book.Report(ctx, o); err != nil {
		return bookFault{fmt.Errorf("withdraw: %w", err)}
	}
	delete(w.seen, key)
	return nil
}

// standing looks whether the blocks of observations are the node's own.
func (w *Watcher) standing(ctx context.Context, observations []partner.Observation) error {
	looked := make(map[uint64]string)
	for i := range observations {
		o := &observations[i]
		hash, known := looked[o.Block]
		if !known {
			b, err := w.block(ctx, o.Block)
			if err != nil {
				return err
			}
			hash, looked[o.Block] = b.Hash, b.Hash
		}
		if hash != o.BlockHash {
			return fmt.Errorf("%w: a transfer in another block %d than the chain's", ErrNode, o.Block)
		}
	}
	return nil
}

func (w *Watcher) stage(o *partner.Observation) int {
	return min(o.Confirmations*stages/int(w.threshold), stages)
}

// withdraw takes back what was reported of blocks that were read and is not in them any more.
func (w *Watcher) withdraw(ctx context.Context, head partner.Head, through uint64, found []partner.Observation,
	addresses []string) error {
	there := make(map[transfer]bool, len(found))
	for i := range found {
		there[of(&found[i])] = true
	}
	missing := w.missing(through, there, addresses)
	for _, o := range missing {
		b, err := w.block(ctx, o.Block)
		if err != nil {
			return err
		}
		if b.Hash == o.BlockHash {
			return fmt.Errorf("%w: it lost a transfer of block %d", ErrNode, o.Block)
		}
	}
	// What was read belongs to one chain only if that chain is still there.
	if err := w.unmoved(ctx, head); err != nil {
		return err
	}
	for _, o := range missing {
		if err := w.remove(ctx, of(&o), o); err != nil {
			return err
		}
	}
	return nil
}

// missing are the reported observations of blocks through through that are not there, in a fixed order. Those that nobody looks
// at any more are forgotten.
func (w *Watcher) missing(through uint64, there map[transfer]bool, addresses []string) (missing []partner.Observation) {
	for key, o := range w.seen {
		if _, watched := slices.BinarySearch(addresses, o.Address); !watched {
			delete(w.seen, key)
			continue
		}
		if o.Block <= through && !there[key] {
			missing = append(missing, o)
		}
	}
	slices.SortFunc(missing, func(a, b partner.Observation) int {
		return strings.Compare(fmt.Sprint(a.TxHash, a.Index, a.BlockHash), fmt.Sprint(b.TxHash, b.Index, b.BlockHash))
	})
	return missing
}
