package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

// Limits of resealing.
const (
	resealPage  = 128                   // records that a lane reads and writes between two commits
	resealPause = 20 * time.Millisecond // the least time between two pages, so that commands take precedence
	resealRetry = 5 * time.Second       // the pause after a failure
)

// errNotCommitted: the journal did not commit a page. The page is read again.
var errNotCommitted = errors.New("the journal did not commit the documents")

// Resealing is the progress of sealing personal documents under the first data key.
type Resealing struct {
	ShardsLeft int64 // shards that this process has not finished
	Records    int64 // documents that this process has resealed
}

// resealer seals the documents of a journal under the first data key.
type resealer struct {
	journal       persistence.Journal
	documents     *documentSealer
	kinds         map[string]*Kind
	shards        *[ident.Shards]*shard
	log           *slog.Logger
	left, records atomic.Int64 // see Resealing
}

func newResealer(s *System) *resealer {
	r := &resealer{journal: s.journal, documents: s.documents, kinds: s.kinds, shards: &s.shards, log: s.log}
	if s.documents.sealer.Rotating() {
		r.left.Store(ident.Shards)
	}
	return r
}

// Resealing returns the progress since the start, for the metrics.
func (s *System) Resealing() Resealing {
	return Resealing{ShardsLeft: s.resealer.left.Load(), Records: s.resealer.records.Load()}
}

// laneTask is work on a shard's records that must not overlap a commit of the shard.
type laneTask struct {
	do   func(ctx context.Context) error
	done chan error
}

// runBetweenCommits runs do on the lane, between two commits, with appendTimeout. No other
// goroutine writes to the shard meanwhile, so reads in do stay valid until it writes. It fails with
// do's error, or with the context's when that ends first; do may then still run.
func (l *lane) runBetweenCommits(ctx context.Context, do func(context.Context) error) error {
	c := laneTask{done: make(chan error, 1)}
	c.do = func(ctx context.Context) error {
		ctx, cancel := l.sys.Within(ctx, appendTimeout)
		defer cancel()
		return do(ctx)
	}
	select {
	case l.tasks <- c:
		l.mu.Lock()
		l.startLocked()
		l.mu.Unlock()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run reads every shard once, while a data key rotates, and seals each document that is not sealed
// under the first key. Start runs it in a goroutine, until it is done or the System stops. A failed
// page is logged and tried again. It stores no cursor: after a restart it reads all records again
// and writes the remaining ones, so no order of the keys makes it skip a document.
func (e *resealer) run(ctx context.Context) {
	if !e.documents.sealer.Rotating() {
		return
	}
	kinds := append(e.personalKinds(), secretKind)
	e.log.Info("a data key rotates: personal documents are sealed under the new one", "key", e.documents.sealer.KeyID())
	for _, sh := range e.shards {
		for _, kind := range kinds {
			if !e.resealKind(ctx, sh, kind) {
				return
			}
		}
		e.left.Add(-1)
	}
	for err := e.deleteOldSamples(ctx); err != nil; err = e.deleteOldSamples(ctx) {
		if !e.pauseAfterFailure(ctx, err) {
			return
		}
	}
	e.log.Info("every personal document is sealed under the first data key: the others can be dropped with "+
		"`purser rotate data-key --finish` or from PURSER_DATA_KEY; earlier backups still need them",
		"key", e.documents.sealer.KeyID(),
		"sealed_anew", e.records.Load())
}

// personalKinds returns the sealed kinds of records, sorted.
func (e *resealer) personalKinds() (kinds []string) {
	for _, k := range e.kinds {
		kinds = append(kinds, k.Personal...)
	}
	slices.Sort(kinds)
	return kinds
}

// resealKind reseals the records of a kind in a shard. It retries until it succeeds; false means
// that the context has ended.
func (e *resealer) resealKind(ctx context.Context, sh *shard, kind string) bool {
	after := ""
	for ctx.Err() == nil {
		records, last := 0, after
		err := sh.lane.runBetweenCommits(ctx, func(ctx context.Context) (err error) {
			records, last, err = e.resealPage(ctx, sh, kind, after)
			return err
		})
		if err != nil {
			if !e.pauseAfterFailure(ctx, err) {
				return false
			}
			continue
		}
		if records < resealPage {
			return true
		}
		after = last
		if !retry.Pause(ctx, resealPause) {
			return false
		}
	}
	return false
}

func (e *resealer) pauseAfterFailure(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	e.log.Warn("resealing of personal documents failed; it is retried", "err", err, "again_after", resealRetry)
	return retry.Pause(ctx, resealRetry)
}

// resealPage seals the stale documents of a page. It returns the number of records on the page and
// the id of the last one. It runs on the lane, between two commits. It fails, with nothing written,
// when a record cannot be read or opened, or the batches are not committed.
func (e *resealer) resealPage(ctx context.Context, sh *shard, kind, after string) (records int, last string, err error) {
	page, err := e.journal.Records(ctx, sh.id, kind, after, resealPage)
	if err != nil || len(page) == 0 {
		return 0, after, err
	}
	var group []*persistence.Batch
	for _, r := range page {
		stale, err := e.resealRecord(&r)
		if err != nil {
			return 0, after, err
		}
		if stale {
			group = append(group, &persistence.Batch{Workspace: r.Workspace, Slot: r.Slot,
				Records: []persistence.Record{r}})
		}
	}
	if err := sh.lane.appendRecords(ctx, group); err != nil {
		return 0, after, err
	}
	e.records.Add(int64(len(group)))
	return len(page), page[len(page)-1].ID, nil
}

// resealRecord seals a record's document under the first data key, unless it already is. stale
// reports whether the document was changed. It fails when the document does not decode, or opens
// under none of the data keys.
func (e *resealer) resealRecord(r *persistence.Record) (stale bool, err error) {
	var d sealedDocument
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return false, fmt.Errorf("record %s: %w", r.Kind, err)
	}
	if !e.documents.sealer.Stale(d.Sealed) {
		return false, nil
	}
	if err := e.documents.open(r); err != nil {
		return false, err
	}
	r.Document, err = e.documents.seal(r.Kind, r.ID, r.Document)
	return err == nil, err
}

// appendRecords commits batches of existing records. It must run on the lane, or before the lanes
// start. It fails with errNotCommitted when the journal refuses a batch or does not answer; some
// batches may then be stored.
func (l *lane) appendRecords(ctx context.Context, group []*persistence.Batch) error {
	if len(group) == 0 {
		return nil
	}
	outcomes, err := l.sys.journal.Append(ctx, l.shard.id, l.epoch, l.sys.clock(), group)
	if errors.Is(err, persistence.ErrAmbiguous) || errors.Is(err, persistence.ErrFenced) {
		l.shard.lost.Store(true) // the next commit first raises the epoch
	}
	for i := range outcomes {
		if err == nil {
			err = outcomes[i].Err
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNotCommitted, err)
	}
	return nil
}

// deleteOldSamples deletes the samples of keys under which no document is sealed any more. It fails
// when the samples cannot be read or the deletion is not committed. It must be called after every
// shard is done.
func (e *resealer) deleteOldSamples(ctx context.Context) error {
	sh := e.shards[ident.SystemSlot.Shard()]
	return sh.lane.runBetweenCommits(ctx, func(ctx context.Context) error {
		samples, err := e.journal.Records(ctx, sh.id, keySampleKind, "", maxKeySamples)
		if err != nil {
			return err
		}
		var group []*persistence.Batch
		for _, r := range samples {
			if r.ID != e.documents.sealer.KeyID() {
				r.Deleted, r.Document = true, nil
				group = append(group, &persistence.Batch{Workspace: r.Workspace, Slot: r.Slot,
					Records: []persistence.Record{r}})
			}
		}
		return sh.lane.appendRecords(ctx, group)
	})
}
