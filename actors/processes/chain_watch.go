package processes

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"purser/actors"
	"purser/actors/checkout"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/query"
	"purser/actors/watch"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

// Limits of the watchers of chains.
const (
	// maxWatched is the number of sessions whose addresses are watched. A further one waits until
	// one ends, except where its workspace has fewer than keptWatched: other workspaces cannot take
	// those places. A start watches every session that has a record.
	maxWatched        = 1_000_000
	keptWatched       = 1_000
	defaultWatchEvery = time.Second
	watchTimeout      = 2 * time.Minute // for one step of a watcher
	// Nodes are asked for so many addresses at once, and each such question prolongs the step's
	// timeout: a chain with very many addresses is read slowly, and does not stand still.
	watchTogether  = 1_000
	watchLonger    = 2 * time.Second
	watchReadPause = 200 * time.Millisecond
	watchReaders   = 16       // shards whose sessions are read at the same time at a start
	watchCursor    = "watch/" // begins the name of a chain's cursor, whose value is the saved block plus one
)

var errTooManyWatched = errors.New("too many sessions are watched")

// chainWatch finds payments to the addresses of checkout sessions and reports them to the sessions.
// The records of package checkout are the truth about which addresses are watched: chainWatch reads
// all of them at a start, and the record of a session whenever the session changes. It is the
// watch.PaymentSink of every chain.
type chainWatch struct {
	runtime  Runtime
	journal  persistence.Journal
	chains   []partner.Chain
	every    time.Duration
	listener Listener
	max      int
	kept     int
	read     chan struct{} // closed when all records have been read

	mu        sync.Mutex
	sessions  map[string]checkout.Watch
	inside    map[string]int                       // sessions by workspace
	addresses map[string]map[string]watchedAddress // by chain and address
	unsettled map[string][]partner.Observation     // by chain, as of the start
}

// watchedAddress is the session of an address. The address was not paid before the session existed.
type watchedAddress struct {
	session string
	since   time.Time
}

// newChainWatch returns a chainWatch without addresses; it reads no chain yet. Without
// Config.WatchEvery each chain is read every defaultWatchEvery. attach calls it.
func newChainWatch(runtime Runtime, c *Config) *chainWatch {
	every := c.WatchEvery
	if every == 0 {
		every = defaultWatchEvery
	}
	return &chainWatch{runtime: runtime, journal: c.Journal, chains: c.Chains, every: every, listener: c.Listener,
		max: maxWatched, kept: keptWatched, read: make(chan struct{}), sessions: make(map[string]checkout.Watch),
		inside:    make(map[string]int),
		addresses: make(map[string]map[string]watchedAddress), unsettled: make(map[string][]partner.Observation)}
}

// run reads the watched sessions and then starts the watcher of each chain, which works at a pace
// of its own until the runtime stops. The runtime runs it once, as one of Hooks.Loops.
func (w *chainWatch) run(ctx context.Context) {
	if len(w.chains) == 0 || !w.readAll(ctx) {
		return
	}
	close(w.read)
	for _, chain := range w.chains {
		w.watchChain(chain)
	}
}

// watchChain calls the watcher of a chain every w.every until the runtime stops. A failed step is
// logged and counted; the next one tries again.
func (w *chainWatch) watchChain(chain partner.Chain) {
	watcher := watch.New(chain, w)
	w.runtime.Every(w.every, func(ctx context.Context) {
		within, cancel := w.runtime.Within(ctx, w.stepTimeout(chain.Name()))
		defer cancel()
		err := watcher.Step(within)
		if ctx.Err() != nil {
			return
		}
		w.listener.Watched(chain.Name(), watcher.Progress(), err)
		if err != nil {
			w.runtime.Complain("watch "+chain.Name(), err)
		}
	})
}

// stepTimeout is the longest that a step of a chain's watcher may take.
func (w *chainWatch) stepTimeout(chain string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return watchTimeout + time.Duration(len(w.addresses[chain])/watchTogether)*watchLonger
}

// readAll reads the watched sessions of all shards, and retries until it has them; false when the
// context has ended. Failures are logged.
func (w *chainWatch) readAll(ctx context.Context) bool {
	var readers errgroup.Group
	readers.SetLimit(watchReaders)
	for shard := range ident.Shards {
		readers.Go(func() error { return w.readShardUntilRead(ctx, ident.Shard(shard)) })
	}
	return readers.Wait() == nil
}

// readShardUntilRead reads the watched sessions of a shard, and retries until it has them. Its only
// error is the context's.
func (w *chainWatch) readShardUntilRead(ctx context.Context, shard ident.Shard) error {
	for {
		err := w.readShard(ctx, shard)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			w.runtime.Complain("read the watched sessions", err, "shard", shard)
		}
		if !retry.Pause(ctx, watchReadPause) {
			return context.Cause(ctx)
		}
	}
}

// readShard adds the watched sessions of one shard, and their payments without enough
// confirmations. It fails when a record cannot be read or decoded, and may then be called again.
func (w *chainWatch) readShard(ctx context.Context, shard ident.Shard) error {
	for after := ""; ; {
		records, err := w.journal.Records(ctx, shard, checkout.RecordWatch, after, persistence.MaxPage)
		if err != nil {
			return err
		}
		for i := range records {
			after = records[i].ID
			session, err := query.CheckoutWatches.Decode(records[i].Document)
			if err != nil {
				return err
			}
			open, err := w.openPayments(ctx, records[i].Workspace, after)
			if err != nil {
				return err
			}
			w.watchStored(session, open)
		}
		if len(records) < persistence.MaxPage {
			return nil
		}
	}
}

// openPayments returns the payments that a session knows and that need more confirmations. It fails
// as query's Read does.
func (w *chainWatch) openPayments(ctx context.Context, workspace, session string) (open []partner.Observation,
	err error) {
	state, err := query.Checkouts.Read(ctx, w.runtime, workspace, session)
	if err != nil {
		return nil, err
	}
	for _, p := range state.Payments {
		for _, seen := range p.Sightings {
			if seen.Withdrawn || seen.Shown >= checkout.ShownConfirmations {
				continue
			}
			open = append(open, partner.Observation{Chain: p.Chain, Asset: p.Asset, Address: p.Address,
				TxHash: p.TxHash,
				Index:  p.Index, Amount: p.Units, Block: seen.Block, BlockHash: seen.BlockHash, Threshold: 1,
				At:   p.SentAt.Time,
				From: p.From})
		}
	}
	return open, nil
}

// watchStored adds the addresses of a session that is stored at the start, beyond the limit too,
// and the session's open payments.
func (w *chainWatch) watchStored(session checkout.Watch, open []partner.Observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchLocked(session)
	for _, o := range open {
		w.unsettled[o.Chain] = append(w.unsettled[o.Chain], o)
	}
}

// watchChanged watches the addresses of a new or changed session. It fails with errTooManyWatched
// when the limit leaves no place for the session now; the reaction then tries again.
func (w *chainWatch) watchChanged(session checkout.Watch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.sessions[session.Session]
	if !known && len(w.sessions) >= w.max && w.inside[session.Workspace] >= w.kept {
		return errTooManyWatched
	}
	w.watchLocked(session)
	return nil
}

// watchLocked adds a session and its addresses; the caller holds mu. A session whose id does not
// parse panics.
func (w *chainWatch) watchLocked(session checkout.Watch) {
	if _, known := w.sessions[session.Session]; !known {
		w.inside[session.Workspace]++
	}
	w.sessions[session.Session] = session
	id, err := ident.Parse(ident.Checkout, session.Session)
	if err != nil {
		panic("BUG: a watched session's id: " + err.Error())
	}
	for _, p := range session.Pairs {
		if w.addresses[p.Chain] == nil {
			w.addresses[p.Chain] = make(map[string]watchedAddress)
		}
		w.addresses[p.Chain][p.Address] = watchedAddress{session.Session, id.Time()}
	}
}

// remove stops the watch of a session that has ended. A session that is not watched changes
// nothing.
func (w *chainWatch) remove(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched, known := w.sessions[session]
	if !known {
		return
	}
	for _, p := range watched.Pairs {
		delete(w.addresses[p.Chain], p.Address)
	}
	delete(w.sessions, session)
	if w.inside[watched.Workspace]--; w.inside[watched.Workspace] == 0 {
		delete(w.inside, watched.Workspace)
	}
}

// handleSession adds or removes the watch of a session that has changed. It is the reaction "watch"
// to such events. It waits until all records have been read at the start: an older state of the
// record must not be added after this one. It fails, and is repeated, when the record cannot be
// read, with errTooManyWatched, and when the context ends.
func (w *chainWatch) handleSession(ctx context.Context, e persistence.Event) error {
	if len(w.chains) == 0 {
		return nil
	}
	select {
	case <-w.read:
	case <-ctx.Done():
		return ctx.Err()
	}
	session, err := query.CheckoutWatches.Read(ctx, w.runtime, e.Workspace, e.Stream)
	switch {
	case fault.Is(err, fault.NotFound):
		w.remove(e.Stream)
		return nil
	case err != nil:
		return err
	}
	return w.watchChanged(session)
}

// Addresses implements watch.PaymentSink: it returns the watched addresses of a chain, in no order.
func (w *chainWatch) Addresses(chain string) (addresses []watch.Address) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for address, watched := range w.addresses[chain] {
		addresses = append(addresses, watch.Address{Address: address, Since: watched.since})
	}
	return addresses
}

// errTooManyPayments reports a payment beyond the limits of a session (checkout.MaxPayments).
var errTooManyPayments = errors.New("at most checkout.MaxPayments are stored")

// Report implements watch.PaymentSink: it gives the session the observation. A session drops a
// repeat. An observation for a session that is no longer watched, or that refuses it, is dropped;
// the refusal is logged. It fails when the session's actor is unavailable or its outcome unknown;
// the watcher then reports again.
func (w *chainWatch) Report(ctx context.Context, o partner.Observation) error {
	w.mu.Lock()
	at, watched := w.addresses[o.Chain][o.Address]
	session, workspace := at.session, w.sessions[at.session].Workspace
	w.mu.Unlock()
	if !watched {
		return nil
	}
	ctx, cancel := w.runtime.Within(ctx, askWithin)
	defer cancel()
	reply, err := w.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindCheckout, Stream: session, Workspace: workspace,
		Command: checkout.Observed(o)})
	if reply == checkout.NotedFull {
		w.runtime.Complain("a session has too many payments, and one more is not stored", errTooManyPayments,
			"session", session, "chain", o.Chain, "tx", o.TxHash, "asset", o.Asset, "units", o.Amount)
	}
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.InvalidBody) { // a repeat would be refused too
		w.runtime.Complain("a session does not take an observation", err, "session", session, "chain", o.Chain,
			"tx", o.TxHash)
		return nil
	}
	return err
}

// Unsettled implements watch.PaymentSink: it returns the chain's payments that needed more
// confirmations at the start. A watcher calls it once; it never fails.
func (w *chainWatch) Unsettled(_ context.Context, chain string) ([]partner.Observation, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := w.unsettled[chain]
	delete(w.unsettled, chain)
	return open, nil
}

// Cursor implements watch.PaymentSink: it returns the block that SaveCursor stored for a chain.
// known is false before the first one. It fails only when the journal cannot be read.
func (w *chainWatch) Cursor(ctx context.Context, chain string) (block uint64, known bool, err error) {
	position, err := w.journal.Cursor(ctx, watchCursor+chain, ident.SystemSlot.Shard())
	if err != nil || position == 0 {
		return 0, false, err
	}
	return position - 1, true, nil
}

// SaveCursor implements watch.PaymentSink: it stores the last block of a chain that was read. It
// fails only when the journal does.
func (w *chainWatch) SaveCursor(ctx context.Context, chain string, block uint64) error {
	return w.journal.SaveCursor(ctx, watchCursor+chain, ident.SystemSlot.Shard(), block+1)
}
