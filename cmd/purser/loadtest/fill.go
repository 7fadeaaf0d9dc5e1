package loadtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/bench"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/pebblegate"
)

// Limits of a fill.
const (
	fillPage    = 1000 // rules in one Follow
	fillWorkers = 4    // shards at once
	fillTell    = 200 * time.Millisecond
	fillCents   = 1250 // per decision
	fillPerTxn  = 1_000_000

	maxFillDecisions = 1_000_000_000
)

// stock is a number of cards in workspaces that are spread over all shards. Card i belongs to
// workspace i modulo their number. Ids and tokens follow from the numbers, so that no list of ten
// million is kept.
type stock struct {
	cards, workspaces int
}

// stockMade is the time in the ids of a stock: they are the same in every run.
var stockMade = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// validate returns an error that names a wrong number.
func (s stock) validate(decisions int) error {
	switch {
	case s.cards < 1 || s.cards > bench.MaxCards:
		return fmt.Errorf("--cards must be from 1 to %d", bench.MaxCards)
	case s.workspaces < 1 || s.workspaces > min(s.cards, bench.MaxWorkspaces):
		return fmt.Errorf("--workspaces must be from 1 to %d, and no more than the cards", bench.MaxWorkspaces)
	case decisions < 0 || decisions > maxFillDecisions:
		return fmt.Errorf("--decisions must be from 0 to %d", maxFillDecisions)
	}
	return nil
}

func (s stock) slot(workspace int) ident.Slot {
	return ident.Slot(1 + workspace*(ident.Slots-1)/s.workspaces)
}

func (s stock) workspace(w int) ident.UUID {
	return ident.Derive(s.slot(w), stockMade, fmt.Sprint("bench workspace ", w))
}

func (s stock) token(card int) (t ident.Token) {
	binary.BigEndian.PutUint16(t[:], uint16(s.slot(card%s.workspaces)))
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("bench token "), uint64(card)))
	copy(t[2:], sum[:])
	return t
}

func (s stock) rule(card int) hold.Rule {
	w := card % s.workspaces
	return hold.Rule{Token: s.token(card), Card: ident.Derive(s.slot(w), stockMade, fmt.Sprint("bench card ", card)),
		Workspace: s.workspace(w), Version: 1, State: hold.CardActive, PerTxnCents: fillPerTxn,
		MonthCents: money.MaxAmount}
}

// funds reads what each workspace can spend from the authorizer's store of a data directory, which
// no server has. It fails when a server runs, when the store is missing or not of this fill, and
// when the fill's holds may have expired.
func (s stock) funds(data string, now time.Time) (cents []int64, err error) {
	unlock, err := datadir.LockUsed(data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if !authorizer.Exists(nil, datadir.AuthorizerDir(data)) {
		return nil, fmt.Errorf("%s is missing", datadir.AuthorizerDir(data))
	}
	engine, err := authorizer.Open(authorizer.Options{Dir: datadir.AuthorizerDir(data), Clock: time.Now,
		Entropy: rand.Reader,
		Fatal:   func(err error) { panic("BUG: a look at funds writes: " + err.Error()) }})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	for w := range s.workspaces {
		if err := unended(engine, s.slot(w).Shard(), now); err != nil {
			return nil, err
		}
		funds, seen := engine.Funds(s.workspace(w))
		spendable, err := funds.Spendable()
		if err != nil || !seen {
			return nil, errors.Join(err, fmt.Errorf("%s knows nothing of workspace %d of the fill",
				datadir.AuthorizerDir(data), w))
		}
		cents = append(cents, int64(spendable))
	}
	return cents, nil
}

// unended returns an error when holds of a shard may have expired: the released amounts look like
// dollars that were never spent. The first decision of the log shows it, because it stays in the
// log for as long as its hold lives.
func unended(engine *authorizer.Engine, shard ident.Shard, now time.Time) error {
	if engine.Synced(shard) == 0 {
		return nil
	}
	first, err := engine.ReadLog(shard, 0, 1)
	if err == nil && (len(first) == 0 || first[0].Seq != 1 || now.Sub(time.UnixMilli(first[0].At)) >= hold.DefaultHoldLife) {
		err = fmt.Errorf("the first holds of the fill are older than %v and end: the sums would not add up; fill another directory",
			hold.DefaultHoldLife)
	}
	return err
}

// in is the stock as a run knows it that is about to start a server on a data directory. It fails
// when the data directory's stores cannot be read. `purser bench cards` calls it.
func (s stock) in(data string) (*bench.Stock, error) {
	before, err := s.funds(data, time.Now())
	if err != nil {
		return nil, err
	}
	return &bench.Stock{Token: func(i int) string { return s.token(i).String() },
		Owner: func(i int) int { return i % s.workspaces },
		Spent: func() ([]int64, error) {
			after, err := s.funds(data, time.Now())
			for w := range after {
				after[w] = before[w] - after[w]
			}
			return after, err
		},
		Holds: fmt.Sprintf("the journal of a filled server has an event for each page of up to %d cards' rules and a balance for "+
			"each workspace, and no actors of cards: it is the authorizer's start that is measured", fillPage)}, nil
}

// filler creates the stores of a stock. The authorizer receives the cards by Follow, as it receives
// every card. The journal gets an event of an unknown kind for each page of cards, so that both
// stores have the same position. Then the cards are swiped in turn. The journal gets only each
// workspace's last decision, which is enough for its balance, because the load measures the
// authorizer.
type filler struct {
	stock
	decisions int
	journal   persistence.Journal
	engine    *authorizer.Engine
	heads     []persistence.Head
	done      atomic.Int64
}

// fillStores fills the stores of a data directory that has none. Its swipes are not synced: a fill
// that is cut short is begun anew. It fails for bad numbers, for a directory with stores, and with
// an error of the stores. `purser bench cards` calls it.
func fillStores(ctx context.Context, data string, s stock, decisions int, tell func(bench.Progress)) (err error) {
	if err := s.validate(decisions); err != nil {
		return err
	}
	if datadir.WasUsed(data) {
		return fmt.Errorf("%s has stores already: name a directory that has none", data)
	}
	err = pebblegate.MakeDir(vfs.Default, data)
	if err == nil { // a start makes no secrets beside stores
		err = (&settings.Config{DataDir: data}).FindSecrets()
	}
	if err != nil {
		return err
	}
	var failed atomic.Pointer[error]
	fatal := func(err error) { failed.CompareAndSwap(nil, &err) }
	f := &filler{stock: s, decisions: decisions}
	if f.journal, err = (datadir.Stores{DataDir: data, DatabaseURL: os.Getenv("DATABASE_URL")}).OpenJournal(ctx,
		datadir.JournalOptions{Migrate: true,
			Clock: time.Now, Entropy: rand.Reader, Fatal: fatal, Note: func(error) {}}); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.journal.Close())
		if cause := failed.Load(); cause != nil {
			err = errors.Join(err, *cause)
		}
	}()
	f.engine, err = authorizer.Open(authorizer.Options{Dir: datadir.AuthorizerDir(data),
		Deployment: f.journal.Identity().Deployment,
		NoSync:     true, BacklogMax: 2 * max(decisions, 1), Clock: time.Now, Entropy: rand.Reader, Fatal: fatal,
		Deadline: func() <-chan time.Time { return nil }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.engine.Close()) }()
	return f.run(ctx, tell)
}

// run fills the shards, some at a time, because a shard has one writer, and then marks all
// decisions as relayed. It fails with the first error of a shard.
func (f *filler) run(ctx context.Context, tell func(bench.Progress)) (err error) {
	shards := make([]ident.Shard, ident.Shards)
	for i := range shards {
		shards[i] = ident.Shard(i)
	}
	if f.heads, err = f.journal.Raise(ctx, shards...); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work, ended := make(chan ident.Shard), make(chan struct{})
	var running sync.WaitGroup
	for range fillWorkers {
		running.Go(func() {
			for shard := range work {
				if err := f.shard(ctx, shard); err != nil {
					cancel(err)
				}
			}
		})
	}
	go func() {
		defer close(ended)
		f.report(ctx, tell)
	}()
	for _, shard := range shards {
		work <- shard
	}
	close(work)
	running.Wait()
	err = context.Cause(ctx)
	cancel(nil)
	<-ended
	if err == nil {
		err = f.relayed(context.WithoutCancel(ctx))
	}
	return err
}

// relayed notes in both stores that the journal has all decisions. It fails with the errors of both
// stores. run calls it last.
func (f *filler) relayed(ctx context.Context) error {
	var relayed actors.Relayed
	for i := range relayed {
		shard := ident.Shard(i)
		relayed[i] = f.engine.Synced(shard)
		if err := f.engine.MarkRelayed(shard, relayed[i]); err != nil {
			return err
		}
	}
	return actors.SaveRelayed(ctx, f.journal, relayed)
}

func (f *filler) report(ctx context.Context, tell func(bench.Progress)) {
	all, began := float64(f.cards+f.decisions), time.Now()
	for persistence.Pause(ctx, fillTell) {
		done := float64(f.done.Load())
		tell(bench.Progress{Stage: "filling the stores", Done: done / all,
			PerSecond: done / time.Since(began).Seconds()})
	}
}

// shard fills the workspaces of one shard: dollars and cards, then decisions, then the balance. It
// returns the first error.
func (f *filler) shard(ctx context.Context, shard ident.Shard) error {
	for w := range f.workspaces {
		if f.slot(w).Shard() != shard {
			continue
		}
		for _, step := range []func(context.Context, int) error{f.issue, f.swipe, f.balance} {
			if err := step(ctx, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// issue gives a workspace dollars and its cards, in pages of fillPage cards. It fails as follow
// does.
func (f *filler) issue(ctx context.Context, w int) error {
	page := authorizer.Follow{Credits: []authorizer.Credit{{Workspace: f.workspace(w), Cents: money.MaxAmount}}}
	version := uint64(0)
	for card := w; card < f.cards; card += f.workspaces {
		page.Rules = append(page.Rules, f.rule(card))
		if len(page.Rules) < fillPage && card+f.workspaces < f.cards {
			continue
		}
		version++
		if err := f.follow(ctx, w, version, page); err != nil {
			return err
		}
		f.done.Add(int64(len(page.Rules)))
		page = authorizer.Follow{}
	}
	return nil
}

// follow appends an event of its own to the journal and gives its position to the authorizer with a
// page of rules and credits. It fails with the errors of both stores. issue calls it.
func (f *filler) follow(ctx context.Context, w int, version uint64, page authorizer.Follow) error {
	payload, err := json.Marshal(map[string]int{"cards": len(page.Rules)})
	if err != nil {
		return err
	}
	return f.append(ctx, w, persistence.Event{Kind: "bench", Version: version, Type: "bench.filled.v1",
		Payload: payload}, nil, page)
}

// append commits an event of a workspace to the journal, and has the authorizer follow it. It fails
// with an error of either store.
func (f *filler) append(ctx context.Context, w int, e persistence.Event, state any, page authorizer.Follow) error {
	slot, now := f.slot(w), time.Now()
	id, err := ident.New(slot, now, rand.Reader)
	if err != nil {
		return err
	}
	e.Workspace = f.workspace(w).Format(ident.Workspace)
	e.ID, e.Stream, e.At = id.Format(ident.Event), e.Workspace, now
	batch := &persistence.Batch{Workspace: e.Workspace, Slot: slot, Events: []persistence.Event{e}}
	if state != nil {
		document, err := json.Marshal(state)
		if err != nil {
			return err
		}
		batch.Records = []persistence.Record{{Kind: e.Kind, Workspace: e.Workspace, ID: e.Stream, Slot: slot,
			Document: document,
			Version:  e.Version}}
	}
	outcomes, err := f.journal.Append(ctx, slot.Shard(), f.heads[slot.Shard()].Epoch, now, []*persistence.Batch{batch})
	if err == nil {
		err = outcomes[0].Err
	}
	if err != nil {
		return err
	}
	page.Through = outcomes[0].Last
	return f.engine.Follow(slot.Shard(), page)
}

// balance appends a workspace's last decision to its balance, as the relay does. It fails with the
// errors of both stores.
func (f *filler) balance(ctx context.Context, w int) error {
	shard := f.slot(w).Shard()
	last, err := f.engine.ReadLog(shard, max(f.engine.Synced(shard), 1)-1, 1)
	if err != nil || len(last) == 0 || last[0].Workspace != f.workspace(w) {
		return err
	}
	event := balance.Relayed{Workspace: f.workspace(w).Format(ident.Workspace), Entries: last,
		Postings: []balance.Posting{},
		At:       decision.StampOf(time.Now())}
	payload, err := decision.Encode(event)
	if err != nil {
		return err
	}
	var state balance.State
	state.Apply(event)
	return f.append(ctx, w, persistence.Event{Kind: actors.KindBalance, Version: 1, Type: event.EventType(),
		Payload: payload}, &state,
		authorizer.Follow{})
}

// swipe makes a workspace's share of the decisions, each of which must be an approval. It fails for
// any other answer, and when ctx ends.
func (f *filler) swipe(ctx context.Context, w int) error {
	messages, answers := make([]hold.Message, 0, authorizer.MaxBatch), make([]hold.Answer, authorizer.MaxBatch)
	submit := func() error {
		f.engine.SubmitBatch(messages, answers[:len(messages)])
		for _, a := range answers[:len(messages)] {
			if a.Decision != hold.Approved {
				return fmt.Errorf("a swipe of the fill was answered %d %v", a.Status, a.Reason)
			}
		}
		f.done.Add(int64(len(messages)))
		messages = messages[:0]
		return ctx.Err()
	}
	for round := 0; round*f.cards < f.decisions; round++ {
		for card := w; card < f.cards && round*f.cards+card < f.decisions; card += f.workspaces {
			if messages = append(messages, f.message(card, round)); len(messages) < authorizer.MaxBatch {
				continue
			}
			if err := submit(); err != nil {
				return err
			}
		}
	}
	return submit()
}

func (f *filler) message(card, round int) hold.Message {
	m := hold.Message{Kind: hold.Authorization, ID: fmt.Sprintf("fill-%d-%d", round, card),
		Token: f.token(card), Amount: fillCents,
		Currency: [3]byte{'U', 'S', 'D'}, Merchant: hold.Merchant{ID: "m-7", Name: "Merchant 7", MCC: 5411,
			Country: "US"}}
	m.Fingerprint = m.Sum()
	return m
}
