// Package watch follows one blockchain for a changing set of addresses and reports every transfer
// to them: first sight, growing confirmations, and withdrawal.
//
// A Watcher persists one number, the cursor: the block through which everything has been read for
// the last time. Each step with a new head reads the blocks from there up to the head again, in one
// query for all addresses. It then compares the transfers found with the ones reported. A reported
// transfer whose block is gone from the node is withdrawn, and a new one is reported. The watcher
// keeps no history of forks and survives any of them. A transfer is final only after a read that
// found it at the chain's threshold, between two reads of the same head.
//
// The watcher does not trust its node. A head without a block, a block with other content and an
// older head are errors that change nothing; the next step repeats the reads. No head moves the
// saved cursor back (doubt.go). Reports can repeat after a crash, so a PaymentSink has to recognise
// a transfer by (TxHash, Index, BlockHash). The package judges no payment and knows no checkout
// session.
package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"purser/actors/partner"
)

// Limits of a watcher.
const (
	// A transfer is reported when it is first seen and again at each stage: at most four times
	// while its block stays on the chain. The customer is shown n of 3 confirmations.
	confirmationStages = 3
	// Blocks are read again until they are keepThresholds*threshold+keepBlocks deep: a chain can
	// replace a final block, and a node can serve a block before it has indexed its transfers.
	keepThresholds = 2
	keepBlocks     = 8
	maxLookBack    = 16 // spans read again for an address that was added after its blocks were settled
	// A transfer that a settled block no longer has is missing from one answer, or was never there.
	// After it was missing under so many heads in a row, it was never there.
	headsMissing = 8
	saveEvery    = 64 // blocks between two saves of the cursor
	// joinTolerance is the clock difference allowed between this process and a chain's blocks.
	joinTolerance = 10 * time.Second
	// restartLookBack bounds how long before a crash an address may have been issued without
	// reaching the watcher.
	restartLookBack = 2 * time.Minute
)

// ErrNode reports that the node contradicts itself or has lost blocks. The step concluded nothing.
var ErrNode = errors.New("the node contradicts itself or lost blocks")

// Address is a watched address. No transfer to it is older than Since.
type Address struct {
	Address string
	Since   time.Time
}

// PaymentSink supplies the addresses to watch, stores the cursor and takes the reports. Each
// chain's watcher calls it from one goroutine at a time.
type PaymentSink interface {
	// Addresses returns the addresses to watch on a chain now.
	Addresses(chain string) []Address
	// Report stores an observation durably before it returns nil. The same observation may be
	// reported again.
	Report(ctx context.Context, o partner.Observation) error
	// Unsettled returns the observations of a chain that were reported, not withdrawn, and are not
	// final.
	Unsettled(ctx context.Context, chain string) ([]partner.Observation, error)
	// Cursor returns the last saved block; known is false when there is none. A crash may lose a
	// save.
	Cursor(ctx context.Context, chain string) (block uint64, known bool, err error)
	SaveCursor(ctx context.Context, chain string, block uint64) error
}

// transferID identifies one transfer in one block.
type transferID struct {
	tx    string
	index int
	block string
}

// Progress counts a watcher's results since New.
type Progress struct {
	Head            partner.Head // the node's newest block at its last answer; zero before the first
	Behind          uint64       // blocks up to Head that are not read yet
	Reorganisations uint64       // times that blocks already read were replaced
	NodeFaults      uint64       // steps that failed because the node was silent, slow, refused or contradicted itself
}

// sinkError is a failure of the PaymentSink, which does not count as a node fault.
type sinkError struct{ error }

// Unwrap implements errors.Unwrap.
func (f sinkError) Unwrap() error { return f.error }

func transferOf(o *partner.Observation) transferID { return transferID{o.TxHash, o.Index, o.BlockHash} }

// Watcher follows one chain. It is not safe for concurrent use.
type Watcher struct {
	chain     partner.Chain
	sink      PaymentSink
	threshold uint64

	started     bool
	resumed     bool   // no step has completed since a stored cursor was loaded
	settled     uint64 // blocks up to this one need no further read
	settledHash string // hash of block settled when it was read; "" when unknown
	savedCursor uint64 // settled as last saved
	bases       []base // settled blocks as they were read, in order; at most maxBases
	peak        uint64 // the highest settled block
	below       int    // steps in a row with a current head below settled
	doubted     *doubt // nil while the node's head is at or above the settled blocks
	missed      map[transferID]absence
	head        partner.Head // at the end of the last completed step
	readTo      uint64       // the newest block read
	behind      bool         // the last completed step left settled below the head's settledBlock
	progress    Progress
	addresses   map[string]bool                    // watched, and read from their first block on or rewound for
	reported    map[transferID]partner.Observation // as last reported, in blocks after settled
}

// New returns a watcher of a chain. The first Step loads the cursor.
func New(chain partner.Chain, sink PaymentSink) *Watcher {
	return &Watcher{chain: chain, sink: sink, threshold: uint64(chain.Threshold()),
		missed: make(map[transferID]absence), reported: make(map[transferID]partner.Observation)}
}

// Progress returns the watcher's counters.
func (w *Watcher) Progress() Progress { return w.progress }

// Step reads the new blocks of the chain once and reports what changed. It fails with ErrNode when
// the node contradicts itself, with the node's error, and with that of the PaymentSink. The next
// Step repeats the unfinished work, so an error loses nothing.
func (w *Watcher) Step(ctx context.Context) error {
	err := w.readChain(ctx)
	if err == nil && w.doubted != nil {
		err = w.doubtError()
	}
	if _, ours := errors.AsType[sinkError](err); err != nil && !ours {
		w.progress.NodeFaults++
	}
	if w.started {
		w.progress.Behind = w.progress.Head.Number - min(w.progress.Head.Number, w.readTo)
	}
	return err
}

// readChain does the work of one Step, and fails as Step does. An error of the PaymentSink is a
// sinkError.
func (w *Watcher) readChain(ctx context.Context) error {
	head, err := w.chain.Head(ctx)
	if err != nil {
		return fmt.Errorf("head: %w", err)
	}
	w.progress.Head = head
	if err := w.resumeFromCursor(ctx, head); err != nil {
		return err
	}
	if err := w.endDoubt(ctx, head); err != nil {
		return err
	}
	places := w.sink.Addresses(w.chain.Name())
	addresses, since := w.watchedAddresses(places)
	switch {
	case len(addresses) == 0:
		return w.skipToHead(ctx, head)
	case head.Number < w.settled:
		return w.standBelow(ctx, head, places)
	case since.IsZero() && head.Hash == w.head.Hash && len(addresses) == len(w.addresses):
		return nil
	}
	w.below = 0
	if err := w.countFork(ctx, head); err != nil {
		return err
	}
	if err := w.checkBase(ctx); err != nil {
		return err
	}
	// New addresses wait for their older blocks until the head is reached. A rewind for each would
	// hold the chain back for as long as somebody adds an old address in every step.
	late := w.behind
	if !late {
		if err := w.rewindForNewAddress(ctx, since); err != nil {
			return err
		}
	}
	through := min(head.Number, w.settled+uint64(w.chain.Span()))
	if through > w.settled {
		if err := w.readThrough(ctx, head, through, addresses); err != nil {
			return err
		}
	}
	w.resumed, w.head, w.readTo, w.behind = false, partner.Head{}, through, w.settled < w.settledBlock(head)
	if through == head.Number {
		w.head = head
	}
	before := w.addresses
	w.addresses = make(map[string]bool, len(addresses))
	for _, address := range addresses {
		if !late || before[address] {
			w.addresses[address] = true
		}
	}
	return nil
}

// resumeFromCursor loads the stored cursor and the unsettled observations at the first step.
// Without a cursor the watcher begins at the head. It fails when the PaymentSink or the node does
// not answer; the next step then loads again.
func (w *Watcher) resumeFromCursor(ctx context.Context, head partner.Head) error {
	if w.started {
		return nil
	}
	cursor, known, err := w.sink.Cursor(ctx, w.chain.Name())
	if err != nil {
		return sinkError{fmt.Errorf("load the cursor: %w", err)}
	}
	w.settled, w.savedCursor, w.addresses = cursor, cursor, make(map[string]bool)
	w.resumed = known
	if !known {
		w.settled = w.settledBlock(head)
		if _, err := w.hashOf(ctx, w.settled); err != nil { // the head may be false
			return err
		}
		if err := w.saveCursor(ctx, 0); err != nil {
			return err
		}
	}
	w.peak = w.settled
	if w.settled, err = w.loadUnsettled(ctx, w.settled); err != nil {
		return err
	}
	w.started, w.readTo = true, w.settled
	return nil
}

// loadUnsettled takes the stored observations that are neither final nor withdrawn as reported, and
// returns the block to read on from: settled, or below those that are at most lookBack deeper.
// withdrawMissing withdraws the older ones if their blocks are gone, as those of a false low head
// are. It fails with a sinkError.
func (w *Watcher) loadUnsettled(ctx context.Context, settled uint64) (from uint64, err error) {
	open, err := w.sink.Unsettled(ctx, w.chain.Name())
	if err != nil {
		return settled, sinkError{fmt.Errorf("load unsettled observations: %w", err)}
	}
	from = settled
	for _, o := range open {
		w.reported[transferOf(&o)] = o
		if o.Block+w.lookBack() > settled {
			from = min(from, max(o.Block, 1)-1)
		}
	}
	return from, nil
}

// lookBack is the number of blocks below the head that are searched again at most.
func (w *Watcher) lookBack() uint64 { return maxLookBack * uint64(w.chain.Span()) }

// settledBlock returns the newest block that needs no further read under a head.
func (w *Watcher) settledBlock(head partner.Head) uint64 {
	return head.Number - min(head.Number, keepThresholds*w.threshold+keepBlocks)
}

// watchedAddresses returns the addresses sorted and without duplicates. since is the oldest Since
// among those whose older blocks are still to be read, and zero when there is none.
func (w *Watcher) watchedAddresses(places []Address) (all []string, since time.Time) {
	for _, p := range places {
		all = append(all, p.Address)
		if !w.addresses[p.Address] && (since.IsZero() || p.Since.Before(since)) {
			since = p.Since
		}
	}
	slices.Sort(all)
	return slices.Compact(all), since
}

// skipToHead settles the old blocks under the head without a read, when no address is watched. It
// settles at least saveEvery blocks at once, and first asks the node for the last of them. A false
// head would otherwise hide all blocks up to it. It fails when the node lacks that block, and with
// the errors of the node and the PaymentSink.
func (w *Watcher) skipToHead(ctx context.Context, head partner.Head) error {
	w.addresses, w.head, w.readTo, w.behind = nil, partner.Head{}, head.Number, false
	clear(w.reported)
	end := w.settledBlock(head)
	if end < w.settled+saveEvery {
		return nil
	}
	hash, err := w.hashOf(ctx, end)
	if err != nil {
		return err
	}
	w.settled, w.settledHash = end, hash
	w.keepBase()
	return w.saveCursor(ctx, saveEvery)
}

// saveCursor saves settled when it is at least after blocks past the saved cursor. It fails with a
// sinkError, and the saved cursor then stays.
func (w *Watcher) saveCursor(ctx context.Context, after uint64) error {
	if w.settled < w.savedCursor+after {
		return nil
	}
	if err := w.sink.SaveCursor(ctx, w.chain.Name(), w.settled); err != nil {
		return sinkError{fmt.Errorf("save the cursor: %w", err)}
	}
	w.savedCursor = w.settled
	return nil
}

// countFork counts a reorganisation when the head of the last completed step has left the chain;
// withdrawMissing acts on it. Under an older head it counts nothing. It fails when the node does
// not answer or lacks a block (ErrNode).
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
		w.progress.Reorganisations++
	}
	return nil
}

// rewindTo makes the following steps read everything after a block again. The saved cursor follows,
// except while the settled blocks are in doubt.
func (w *Watcher) rewindTo(block uint64) {
	w.settled, w.settledHash = block, ""
	w.forgetBases()
	if w.doubted == nil {
		w.savedCursor = min(w.savedCursor, block)
	}
}

// rewindForNewAddress rewinds to the blocks in which an address added now can have been paid, at
// most maxLookBack spans. It fails when the node does not answer or lacks a block (ErrNode).
func (w *Watcher) rewindForNewAddress(ctx context.Context, since time.Time) error {
	to := w.settled
	for n := 0; !since.IsZero() && to > 0 && n < maxLookBack; n++ {
		b, err := w.blockAt(ctx, to)
		if err != nil {
			return err
		}
		if n == 0 && w.resumed && b.At.Add(-restartLookBack).After(since) {
			since = b.At.Add(-restartLookBack)
		}
		if b.At.Before(since.Add(-joinTolerance)) {
			break
		}
		to -= min(to, uint64(w.chain.Span()))
	}
	if to < w.settled {
		w.rewindTo(to)
	}
	return nil
}

// readThrough reads the blocks after settled up to through, reports the differences and advances
// settled. It fails with the errors of the node and the PaymentSink, and settled then stays.
func (w *Watcher) readThrough(ctx context.Context, head partner.Head, through uint64, addresses []string) error {
	found, err := w.chain.Transfers(ctx, w.settled+1, through, addresses)
	if err != nil {
		return fmt.Errorf("transfers %d to %d: %w", w.settled+1, through, err)
	}
	end := max(min(w.settledBlock(head), through), w.settled)
	base, err := w.hashOf(ctx, end)
	if err != nil {
		return err
	}
	if err := w.reportNew(ctx, head, found); err != nil {
		return err
	}
	if err := w.withdrawMissing(ctx, head, through, found, addresses); err != nil {
		return err
	}
	for key, o := range w.reported {
		if o.Block <= end {
			delete(w.reported, key)
		}
	}
	w.settled, w.settledHash = end, base
	w.keepBase()
	return w.saveCursor(ctx, saveEvery)
}

// blockAt returns a block at or below the node's head. A node without it gives ErrNode. Other
// failures are the node's.
func (w *Watcher) blockAt(ctx context.Context, number uint64) (partner.Head, error) {
	b, err := w.chain.Block(ctx, number)
	if errors.Is(err, partner.ErrNoBlock) {
		err = fmt.Errorf("%w: %w", ErrNode, err)
	}
	if err != nil {
		return b, fmt.Errorf("block %d: %w", number, err)
	}
	return b, nil
}

// hashOf returns the hash of a block, and "" for block 0. It fails as blockAt does.
func (w *Watcher) hashOf(ctx context.Context, number uint64) (string, error) {
	if number == 0 {
		return "", nil
	}
	b, err := w.blockAt(ctx, number)
	return b.Hash, err
}

// checkHead fails with ErrNode when the head's block was replaced since the step began. Other
// failures are the node's.
func (w *Watcher) checkHead(ctx context.Context, head partner.Head) error {
	now, err := w.blockAt(ctx, head.Number)
	if err != nil {
		return err
	}
	if now.Hash != head.Hash {
		return fmt.Errorf("%w: the head's block %d was replaced", ErrNode, head.Number)
	}
	return nil
}

// reportNew reports the transfers that are new or have reached a further confirmation stage. It
// first checks their blocks and then the head, so that every reported depth was true. It fails with
// ErrNode for a block that is not on the chain, and with the errors of the node and the
// PaymentSink.
func (w *Watcher) reportNew(ctx context.Context, head partner.Head, found []partner.Observation) error {
	var news []partner.Observation
	for _, o := range found {
		if o.Block > head.Number {
			return fmt.Errorf("%w: a transfer in block %d above its head %d", ErrNode, o.Block, head.Number)
		}
		o.Chain, o.Threshold = w.chain.Name(), int(w.threshold)
		o.Confirmations = int(head.Number - o.Block + 1)
		before, known := w.reported[transferOf(&o)]
		if known && w.confirmationStage(&before) >= w.confirmationStage(&o) {
			continue
		}
		news = append(news, o)
	}
	if len(news) == 0 {
		return nil
	}
	if err := w.checkOnChain(ctx, news); err != nil {
		return err
	}
	if err := w.checkHead(ctx, head); err != nil {
		return err
	}
	blocks := w.blocksOfReports()
	for _, o := range news {
		if err := w.withdrawFromOtherBlocks(ctx, &o, blocks[o.TxHash]); err != nil {
			return err
		}
		if err := w.sink.Report(ctx, o); err != nil {
			return sinkError{fmt.Errorf("report a transfer: %w", err)}
		}
		w.reported[transferOf(&o)] = o
	}
	return nil
}

// blocksOfReports returns the reported transfers by transaction and by the hash of their block.
func (w *Watcher) blocksOfReports() map[string]map[string][]transferID {
	blocks := make(map[string]map[string][]transferID, len(w.reported))
	for key := range w.reported {
		if blocks[key.tx] == nil {
			blocks[key.tx] = make(map[string][]transferID, 1)
		}
		blocks[key.tx][key.block] = append(blocks[key.tx][key.block], key)
	}
	return blocks
}

// withdrawFromOtherBlocks withdraws the reports of the same transaction in other blocks, before the
// transaction is reported from this one. A transaction is in one block, and its transfers may have
// other indexes there. It fails with a sinkError.
func (w *Watcher) withdrawFromOtherBlocks(ctx context.Context, o *partner.Observation,
	blocks map[string][]transferID) error {
	for block, keys := range blocks {
		if block == o.BlockHash {
			continue
		}
		for _, key := range keys {
			old, reported := w.reported[key]
			if !reported {
				continue
			}
			if err := w.withdrawOne(ctx, key, old); err != nil {
				return err
			}
		}
	}
	return nil
}

// withdrawOne reports a transfer as withdrawn and forgets it. It fails with a sinkError, and then
// forgets nothing.
func (w *Watcher) withdrawOne(ctx context.Context, key transferID, o partner.Observation) error {
	o.Removed, o.Confirmations = true, 0
	if err := w.sink.Report(ctx, o); err != nil {
		return sinkError{fmt.Errorf("withdraw a transfer: %w", err)}
	}
	delete(w.reported, key)
	return nil
}

// checkOnChain fails with ErrNode when the block of an observation is not in the node's chain.
// Other failures are the node's.
func (w *Watcher) checkOnChain(ctx context.Context, observations []partner.Observation) error {
	looked := make(map[uint64]string)
	for i := range observations {
		o := &observations[i]
		hash, known := looked[o.Block]
		if !known {
			b, err := w.blockAt(ctx, o.Block)
			if err != nil {
				return err
			}
			hash, looked[o.Block] = b.Hash, b.Hash
		}
		if hash != o.BlockHash {
			return fmt.Errorf("%w: the block %d of a transfer is not on the chain", ErrNode, o.Block)
		}
	}
	return nil
}

func (w *Watcher) confirmationStage(o *partner.Observation) int {
	return min(o.Confirmations*confirmationStages/int(w.threshold), confirmationStages)
}

// withdrawMissing withdraws reported transfers that a read of their blocks no longer found. ErrNode
// reports a node that still has the block but not the transfer. Once the block is as deep as a
// settled one, the node has had the time to index it, and a transfer that is missing under
// headsMissing heads in a row was never there. It also fails with the errors of the node and the
// PaymentSink.
func (w *Watcher) withdrawMissing(ctx context.Context, head partner.Head, through uint64, found []partner.Observation,
	addresses []string) error {
	there := make(map[transferID]bool, len(found))
	for i := range found {
		there[transferOf(&found[i])] = true
	}
	missing := w.missingFrom(through, there, addresses)
	maps.DeleteFunc(w.missed, func(key transferID, _ absence) bool { return there[key] || !w.isReported(key) })
	var doubt error
	for _, o := range missing {
		b, err := w.blockAt(ctx, o.Block)
		if err != nil {
			return err
		}
		if b.Hash == o.BlockHash && o.Block <= w.settled { // final; its block was not read
			delete(w.reported, transferOf(&o))
			continue
		}
		if b.Hash == o.BlockHash && !w.wasNeverThere(head, &o) {
			doubt = fmt.Errorf("%w: a reported transfer is missing from its block %d", ErrNode, o.Block)
		}
	}
	if doubt != nil {
		return doubt
	}
	// The reads describe one chain only if its head is still there.
	if err := w.checkHead(ctx, head); err != nil {
		return err
	}
	for _, o := range missing {
		if !w.isReported(transferOf(&o)) {
			continue
		}
		if err := w.withdrawOne(ctx, transferOf(&o), o); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watcher) isReported(key transferID) bool {
	_, reported := w.reported[key]
	return reported
}

// absence counts the heads in a row under which a settled block lacked a reported transfer.
type absence struct {
	heads int
	last  string // hash of the last such head
}

// wasNeverThere counts a read of a block that lacks a reported transfer, and reports whether the
// block lacked it under headsMissing heads since it is settled.
func (w *Watcher) wasNeverThere(head partner.Head, o *partner.Observation) bool {
	if o.Block > w.settledBlock(head) {
		return false
	}
	a := w.missed[transferOf(o)]
	if a.last != head.Hash {
		a = absence{a.heads + 1, head.Hash}
		w.missed[transferOf(o)] = a
	}
	return a.heads >= headsMissing
}

// missingFrom returns the reported observations up to block through that are absent from there, in
// a fixed order. It forgets observations of addresses that are no longer watched.
func (w *Watcher) missingFrom(through uint64, there map[transferID]bool,
	addresses []string) (missing []partner.Observation) {
	for key, o := range w.reported {
		if _, watched := slices.BinarySearch(addresses, o.Address); !watched {
			delete(w.reported, key)
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
