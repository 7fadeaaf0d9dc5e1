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

	claimed   atomic.Bool // set by the lane that will answer it, or by a caller that gives up
	err       error       // of the whole group
	committed bool        // at least one batch has committed
	answered  chan struct{}
}

// Append implements persistence.Journal: it commits a group of batches to a shard. A batch over a
// limit, a taken once-key or a wrong version is an error in that batch's outcome alone. The whole
// group fails with ErrTooLarge over MaxGroup, ErrFenced under an old epoch, ErrUnavailable when
// nothing was written, or ErrAmbiguous. When ctx ends before a lane has taken the group, nothing is
// written. After that, the call returns with the end of the transaction.
func (j *Journal) Append(
	ctx context.Context, id ident.Shard, epoch uint64, now time.Time, group []*persistence.Batch,
) ([]persistence.Outcome, error) {
	if len(group) > persistence.MaxGroup {
		return nil, fmt.Errorf("%w: %d batches, at most %d", persistence.ErrTooLarge, len(group), persistence.MaxGroup)
	}
	if err := j.beginCall(ctx); err != nil {
		return nil, err
	}
	defer j.endCall()
	r := &request{shard: id, epoch: epoch, now: now, group: group, answered: make(chan struct{})}
	r.outcomes = make([]persistence.Outcome, len(group))
	for i, b := range group {
		r.outcomes[i].Err = checkBatch(b, id)
	}
	// Epoch 0 belongs to a shard that no process has raised yet.
	if epoch == 0 {
		return nil, fmt.Errorf("%w: shard %d was not taken", persistence.ErrFenced, id)
	}
	if err := j.lanes[int(id)%len(j.lanes)].submitRequest(ctx, r); err != nil {
		return nil, err
	}
	return r.outcomes, nil
}

// checkBatch checks a batch against the contract and against indexBytes. It fails with ErrTooLarge
// or ErrRefused, which becomes the outcome of the batch.
func checkBatch(b *persistence.Batch, id ident.Shard) error {
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

// lane commits the appends of its shards, one transaction after another over one connection.
// Appends that arrive during a transaction share the next one.
type lane struct {
	j      *Journal
	config *pgx.ConnConfig
	queue  chan *request
	conn   *pgx.Conn // nil when disconnected; only serveQueue uses it
}

// submitRequest queues a request and waits for its outcome. It fails with ErrUnavailable when ctx
// ends before the lane has claimed the request, with nothing written, and else with the error of
// the group.
func (l *lane) submitRequest(ctx context.Context, r *request) error {
	select {
	case l.queue <- r:
	case <-ctx.Done():
		return unavailableError(ctx.Err())
	}
	select {
	case <-r.answered:
	case <-ctx.Done():
		if r.claimed.CompareAndSwap(false, true) {
			return unavailableError(ctx.Err())
		}
		<-r.answered
	}
	return r.err
}

// serveQueue commits queued requests until the queue is closed.
func (l *lane) serveQueue() {
	defer l.disconnect()
	for first := range l.queue {
		l.commitRequests(l.gatherRequests(first))
	}
}

// gatherRequests claims the first request and those queued behind it, up to gatherMax.
func (l *lane) gatherRequests(first *request) []*request {
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

// commitRequests commits requests in as few transactions as the limits allow, and answers them. The
// lane's goroutine calls it; failures are in the requests.
func (l *lane) commitRequests(requests []*request) {
	var items []item
	for _, r := range requests {
		items = append(items, r.writableItems()...)
	}
	for len(items) > 0 {
		n := fittingItems(items)
		l.commitItems(items[:n])
		items = items[n:]
	}
	for _, r := range requests {
		close(r.answered)
	}
}

// commitItems commits items in one transaction. If Postgres refuses a value in it, each item gets a
// transaction of its own, so that only the bad one fails.
func (l *lane) commitItems(items []item) {
	items = unfailedItems(items)
	err := l.commitTransaction(items)
	if !errors.Is(err, persistence.ErrRefused) || len(items) == 1 {
		reportFailure(items, err)
		return
	}
	l.j.reportError(fmt.Errorf("journal commits %d batches one by one: %w", len(items), err))
	for i := range items {
		if one := unfailedItems(items[i : i+1]); len(one) == 1 {
			reportFailure(one, l.commitTransaction(one))
		}
	}
}

// item is one batch of a request. A request without a batch to write is one item too, so that its
// epoch is checked.
type item struct {
	r *request
	n int // index of the batch, −1 for none
}

// writableItems returns the batches of a request that have no outcome yet, or one empty item when
// there are none.
func (r *request) writableItems() []item {
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

// unfailedItems returns the items whose request has not failed.
func unfailedItems(items []item) []item {
	kept := make([]item, 0, len(items))
	for _, i := range items {
		if i.r.err == nil {
			kept = append(kept, i)
		}
	}
	return kept
}

// fittingItems returns how many of the items share one transaction, at least one.
func fittingItems(items []item) int {
	size := 0
	for n, i := range items {
		if b := i.batch(); b != nil {
			size += batchBytes(b)
		}
		if n > 0 && (size > commitBytes || n == commitBatches) {
			return n
		}
	}
	return len(items)
}

// batchBytes returns the bytes of a batch's payloads, documents and answers. fittingItems bounds a
// transaction by it.
func batchBytes(b *persistence.Batch) int {
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

// reportFailure sets the error of a failed transaction. ErrRefused is the outcome of its batch; any
// other error fails the whole group. A nil error changes nothing.
func reportFailure(items []item, err error) {
	for _, i := range items {
		switch {
		case err == nil:
		case errors.Is(err, persistence.ErrRefused) && i.n >= 0:
			i.r.outcomes[i.n] = persistence.Outcome{Err: err}
		default:
			i.r.failGroup(err)
		}
	}
}

// failGroup fails a group with its first error. When a batch of it has committed before, the error
// is ErrAmbiguous.
func (r *request) failGroup(err error) {
	if r.committed && !errors.Is(err, persistence.ErrAmbiguous) {
		err = ambiguousError(err)
	}
	if r.err == nil {
		r.err = err
	}
}

// connect returns the connection of the lane, a new one when it was lost. It fails when the server
// cannot be reached, and at once for a pause after such a failure.
func (l *lane) connect(ctx context.Context) (*pgx.Conn, error) {
	if l.conn != nil && !l.conn.IsClosed() {
		return l.conn, nil
	}
	if err := l.j.backoff.checkOpen(); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		l.j.noteUnreachable(err)
		return nil, err
	}
	l.conn = conn
	return conn, nil
}

// disconnect ends the connection and with it an open transaction.
func (l *lane) disconnect() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.j.slack*rollbackTimeout)
	defer cancel()
	if err := l.conn.Close(ctx); err != nil {
		l.j.reportError(fmt.Errorf("journal closes a connection: %w", err))
	}
	l.conn = nil
}
