package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/persistence"
	"purser/persistence/ident"
)

// request is one Append on its way through a lane.
type request struct {
	shard    ident.Shard
	epoch    uint64
	now      time.Time
	group    []*persistence.Batch
	outcomes []persistence.Outcome

	claimed   atomic.Bool // by the lane, which will answer it, or by its caller, who has left
	err       error       // of the whole group
	committed bool        // something of it was
	answered  chan struct{}
}

// Append implements persistence.Journal. A batch over a limit is refused by its outcome, a group over MaxGroup as a whole. When
// the context ends before a lane has taken the group, nothing is written; after that the call ends with the transaction.
func (j *Journal) Append(
	ctx context.Context, id ident.Shard, epoch uint64, now time.Time, group []*persistence.Batch,
) ([]persistence.Outcome, error) {
	if len(group) > persistence.MaxGroup {
		return nil, fmt.Errorf("%w: %d batches, at most %d", persistence.ErrTooLarge, len(group), persistence.MaxGroup)
	}
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	r := &request{shard: id, epoch: epoch, now: now, group: group, answered: make(chan struct{})}
	r.outcomes = make([]persistence.Outcome, len(group))
	for i, b := range group {
		r.outcomes[i].Err = check(b, id)
	}
	// Epoch 0 is that of a shard nobody has taken; nobody holds it.
	if epoch == 0 {
		return nil, fmt.Errorf("%w: shard %d was not taken", persistence.ErrFenced, id)
	}
	if err := j.lanes[int(id)%len(j.lanes)].do(ctx, r); err != nil {
		return nil, err
	}
	return r.outcomes, nil
}

// check is the contract's, and that of the one limit of this store: strings that are a key together have to fit in an index.
func check(b *persistence.Batch, id ident.Shard) error {
	if err := b.Check(id); err != nil {
		return err
	}
	longest := 0
	for i := range b.Records {
		r := &b.Records[i]
		longest = max(longest, len(r.Kind)+len(b.WorkspaceOf(r.Workspace))+len(r.Parent))
	}
	for i := range b.Timers {
		t := &b.Timers[i]
		longest = max(longest, len(t.Kind)+len(t.Stream)+len(t.Key))
	}
	if longest > indexBytes {
		return fmt.Errorf("%w: %d bytes of a key, at most %d", persistence.ErrTooLarge, longest, indexBytes)
	}
	return nil
}

// lane commits what is appended to its shards, one transaction after another over one connection. What waits meanwhile commits
// together in the next.
type lane struct {
	j      *Journal
	config *pgx.ConnConfig
	queue  chan *request
	conn   *pgx.Conn // nil when there is none; only run's goroutine uses it
}

// do hands a request to the lane and waits for its answer, or for the context while the lane has not taken it.
func (l *lane) do(ctx context.Context, r *request) error {
	select {
	case l.queue <- r:
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
	select {
	case <-r.answered:
	case <-ctx.Done():
		if r.claimed.CompareAndSwap(false, true) {
			return unavailable(ctx.Err())
		}
		<-r.answered
	}
	return r.err
}

// run serves the queue until it is closed.
func (l *lane) run() {
	defer l.disconnect()
	for first := range l.queue {
		l.serve(l.gather(first))
	}
}

// gather takes what waits behind the first request.
func (l *lane) gather(first *request) []*request {
	var taken []*request
	take := func(r *request) {
		if r.claimed.CompareAndSwap(false, true) {
			taken = append(taken, r)
		}
	}
	take(first)
	for len(taken) < gatherMax {
		select {
		case r, open := <-l.queue:
			if !open {
				return taken
			}
			take(r)
		default:
			return taken
		}
	}
	return taken
}

// serve commits the requests, in as few transactions as the limits allow, and answers them.
func (l *lane) serve(requests []*request) {
	var items []item
	for _, r := range requests {
		items = append(items, r.items()...)
	}
	for len(items) > 0 {
		n := fit(items)
		l.settle(items[:n])
		items = items[n:]
	}
	for _, r := range requests {
		close(r.answered)
	}
}

// settle commits the items in one transaction; if Postgres refuses what is in it, each in its own, so that the bad one fails
// alone.
func (l *lane) settle(items []item) {
	items = live(items)
	err := l.commit(items)
	if !errors.Is(err, persistence.ErrRefused) || len(items) == 1 {
		finish(items, err)
		return
	}
	l.j.note(fmt.Errorf("journal commits %d batches one by one: %w", len(items), err))
	for i := range items {
		if one := live(items[i : i+1]); len(one) == 1 {
			finish(one, l.commit(one))
		}
	}
}

// item is one batch of a request. A request without a batch to write is one item too, so that its epoch is checked.
type item struct {
	r *request
	n int // the index of the batch, −1 for none
}

func (r *request) items() []item {
	var items []item
	for n := range r.group {
		if r.outcomes[n].Err == nil {
			items = append(items, item{r, n})
		}
	}
	if len(items) == 0 {
		items = append(items, item{r, -1})
	}
	return items
}

func (i item) batch() *persistence.Batch {
	if i.n < 0 {
		return nil
	}
	return i.r.group[i.n]
}

// live returns the items whose request has not failed.
func live(items []item) []item {
	kept := make([]item, 0, len(items))
	for _, i := range items {
		if i.r.err == nil {
			kept = append(kept, i)
		}
	}
	return kept
}

// fit returns how many of the items go into one transaction, at least one.
func fit(items []item) int {
	size := 0
	for n, i := range items {
		if b := i.batch(); b != nil {
			size += weight(b)
		}
		if n > 0 && (size > commitBytes || n == commitBatches) {
			return n
		}
	}
	return len(items)
}

func weight(b *persistence.Batch) int {
	size := 0
	for i := range b.Events {
		size += len(b.Events[i].Payload)
	}
	for i := range b.Records {
		size += len(b.Records[i].Document)
	}
	for i := range b.Onces {
		size += len(b.Onces[i].Answer)
	}
	return size
}

// finish gives the items of a transaction that did not commit their error. One that was refused is its batch's, any other is its
// group's.
func finish(items []item, err error) {
	for _, i := range items {
		switch {
		case err == nil:
		case errors.Is(err, persistence.ErrRefused) && i.n >= 0:
			i.r.outcomes[i.n] = persistence.Outcome{Err: err}
		default:
			i.r.fail(err)
		}
	}
}

// fail ends a group. When a part of it has committed before, the group is neither there nor not there.
func (r *request) fail(err error) {
	if r.committed && !errors.Is(err, persistence.ErrAmbiguous) {
		err = ambiguous(err)
	}
	if r.err == nil {
		r.err = err
	}
}

// connect returns the lane's connection, made anew when it was lost.
func (l *lane) connect(ctx context.Context) (*pgx.Conn, error) {
	if l.conn != nil && !l.conn.IsClosed() {
		return l.conn, nil
	}
	if err := l.j.gate.check(); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		l.j.lost(err)
		return nil, err
	}
	l.conn = conn
	return conn, nil
}

// disconnect ends the connection, and with it a transaction that was not committed.
func (l *lane) disconnect() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.j.slack*rollbackTimeout)
	defer cancel()
	if err := l.conn.Close(ctx); err != nil {
		l.j.note(fmt.Errorf("journal closes a connection: %w", err))
	}
	l.conn = nil
}
