package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"purser/actors/checkout"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/watch"
	"purser/persistence"
	"purser/persistence/ident"
)

// Limits of the watchers of chains.
const (
	maxWatched        = 1_000_000 // sessions whose addresses are looked at; a further one waits until one is through
	defaultWatchEvery = time.Second
	watchTimeout      = 2 * time.Minute // of one look at a chain
	watchCursor       = "watch/"        // before the chain's name: the block its watcher has left behind, and one more
)

var errTooManyWatched = errors.New("too many sessions are watched")

// lookout knows which addresses are looked at, for which sessions. The records of package checkout are the truth: it reads all
// of them at a start, and then one whenever something happens to its session. It is the watch.PaymentSink of every chain.
type lookout struct {
	sys  *System
	max  int
	read chan struct{} // closed when all records have been read

	mu        sync.Mutex
	sessions  map[string]checkout.Watch
	byAddress map[watchedAddress]string
	unsettled map[string][]partner.Observation // by chain, as of the start
}

type watchedAddress struct{ chain, address string }

func newLookout(s *System) *lookout {
	return &lookout{sys: s, max: maxWatched, read: make(chan struct{}), sessions: make(map[string]checkout.Watch),
		byAddress: make(map[watchedAddress]string), unsettled: make(map[string][]partner.Observation)}
}

// watchChains looks at every chain, each at its own pace, as soon as it is known for whom.
func (s *System) watchChains() {
	if len(s.config.Chains) == 0 {
		return
	}
	s.Go(func(ctx context.Context) {
		if !s.lookout.readAll(ctx) {
			return
		}
		close(s.lookout.read)
		for _, chain := range s.config.Chains {
			s.watchChain(chain)
		}
	})
}

func (s *System) watchChain(chain partner.Chain) {
	watcher := watch.New(chain, s.lookout)
	s.Every(s.config.WatchEvery, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, watchTimeout)
		defer cancel()
		err := watcher.Step(ctx)
		if s.ctx.Err() != nil {
			return
		}
		s.listener.Watched(chain.Name(), watcher.Progress(), err)
		if err != nil {
			s.Complain("watch "+chain.Name(), err)
		}
	})
}

// readAll reads who is watched, until it has all of them; false when the context ended before.
func (l *lookout) readAll(ctx context.Context) bool {
	for _, sh := range l.sys.shards {
		for {
			err := l.readShard(ctx, sh)
			if err == nil {
				break
			}
			if ctx.Err() == nil {
				l.sys.Complain("read the watched sessions", err, "shard", sh.id)
			}
			if !pause(ctx, reactPause) {
				return false
			}
		}
	}
	return true
}

func (l *lookout) readShard(ctx context.Context, sh *shard) error {
	for after := ""; ; {
		records, err := l.sys.journal.Records(ctx, sh.id, checkout.RecordWatch, after, persistence.MaxPage)
		if err != nil {
			return err
		}
		for i := range records {
			after = records[i].ID
			open, err := l.openPayments(ctx, records[i].Workspace, after)
			if err == nil {
				err = l.add(records[i].Document, open)
			}
			if err != nil {
				return err
			}
		}
		if len(records) < persistence.MaxPage {
			return nil
		}
	}
}

// openPayments are what a session was told of and waits to hear more of.
func (l *lookout) openPayments(ctx context.Context, workspace, session string) (open []partner.Observation, err error) {
	state, err := readDocument[checkout.State](ctx, l.sys, "checkout", workspace, session)
	if err != nil {
		return nil, err
	}
	for _, p := range state.Payments {
		for _, seen := range p.Sightings {
			if seen.Withdrawn || seen.Shown >= checkout.ShownConfirmations {
				continue
			}
			open = append(open, partner.Observation{Chain: p.Chain, Asset: p.Asset, Address: p.Address, TxHash: p.TxHash,
				Index: p.Index, Amount: p.Units, Block: seen.Block, BlockHash: seen.BlockHash, Threshold: 1, At: p.SentAt.Time,
				From: p.From})
		}
	}
	return open, nil
}

// add notes one session, of which the record was read.
func (l *lookout) add(document []byte, open []partner.Observation) error {
	var w checkout.Watch
	if err := json.Unmarshal(document, &w); err != nil {
		return fmt.Errorf("record %s: %w", checkout.RecordWatch, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.sessions[w.Session]; !known && len(l.sessions) >= l.max {
		return errTooManyWatched
	}
	l.sessions[w.Session] = w
	for _, p := range w.Pairs {
		l.byAddress[watchedAddress{p.Chain, p.Address}] = w.Session
	}
	for _, o := range open {
		l.unsettled[o.Chain] = append(l.unsettled[o.Chain], o)
	}
	return nil
}

func (l *lookout) remove(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.sessions[session].Pairs {
		delete(l.byAddress, watchedAddress{p.Chain, p.Address})
	}
	delete(l.sessions, session)
}

// noteWatched is a reaction: what is watched of a session has changed, so its record is looked at.
func (s *System) noteWatched(ctx context.Context, e persistence.Event) error {
	if len(s.config.Chains) == 0 {
		return nil
	}
	select {
	case <-s.lookout.read: // else an older record could be read before this, and noted after it
	case <-ctx.Done():
		return ctx.Err()
	}
	record, err := s.Record(ctx, checkout.RecordWatch, e.Workspace, e.Stream)
	switch {
	case fault.Is(err, fault.NotFound):
		s.lookout.remove(e.Stream)
		return nil
	case err != nil:
		return err
	}
	return s.lookout.add(record.Document, nil)
}

// Addresses implements watch.PaymentSink. A session's address can not have been paid before the session was made.
func (l *lookout) Addresses(chain string) (places []watch.Address) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, session := range l.byAddress {
		if at.chain != chain {
			continue
		}
		id, err := ident.Parse(ident.Checkout, session)
		if err != nil {
			panic("BUG: a watched session's id: " + err.Error())
		}
		places = append(places, watch.Address{Address: at.address, Since: id.Time()})
	}
	return places
}

// Report implements watch.PaymentSink: the session is told, and knows a repeat by itself.
func (l *lookout) Report(ctx context.Context, o partner.Observation) error {
	l.mu.Lock()
	session, watched := l.byAddress[watchedAddress{o.Chain, o.Address}]
	workspace := l.sessions[session].Workspace
	l.mu.Unlock()
	if !watched {
		return nil // it is through, and hears nothing more
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	_, err := l.sys.Ask(ctx, Envelope{Kind: "checkout", Stream: session, Workspace: workspace, Command: checkout.Observed(o)})
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.InvalidBody) { // no repeat changes that
		l.sys.Complain("a session does not take an observation", err, "session", session, "chain", o.Chain, "tx", o.TxHash)
		return nil
	}
	return err
}

// Unsettled implements watch.PaymentSink. It is asked once for a chain.
func (l *lookout) Unsettled(_ context.Context, chain string) ([]partner.Observation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := l.unsettled[chain]
	delete(l.unsettled, chain)
	return open, nil
}

// Cursor implements watch.PaymentSink.
func (l *lookout) Cursor(ctx context.Context, chain string) (block uint64, known bool, err error) {
	position, err := l.sys.journal.Cursor(ctx, watchCursor+chain, ident.SystemSlot.Shard())
	if err != nil || position == 0 {
		return 0, false, err
	}
	return position - 1, true, nil
}

// SaveCursor implements watch.PaymentSink.
func (l *lookout) SaveCursor(ctx context.Context, chain string, block uint64) error {
	return l.sys.journal.SaveCursor(ctx, watchCursor+chain, ident.SystemSlot.Shard(), block+1)
}
