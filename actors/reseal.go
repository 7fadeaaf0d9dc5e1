package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"purser/actors/balance"
	"purser/persistence"
	"purser/persistence/ident"
)

// Limits of sealing anew.
const (
	resealPage  = 128                   // records that a lane reads and writes between two of its commits
	resealPause = 20 * time.Millisecond // the least time between two pages, so that commands come first
	resealRetry = 5 * time.Second       // the pause after a failure
)

// errNotCommitted: the journal did not commit a page. The page is read again.
var errNotCommitted = errors.New("the journal did not commit the documents")

// Resealing is the progress of sealing personal documents under the first data key.
type Resealing struct {
	ShardsLeft int64 // shards that this process has not yet looked through
	Records    int64 // documents that this process has sealed anew
}

// resealer holds that progress.
type resealer struct{ left, records atomic.Int64 }

// Resealing returns the progress. With one data key only unmatched reports that an earlier version
// stored plain are sealed.
func (s *System) Resealing() Resealing {
	return Resealing{ShardsLeft: s.resealer.left.Load(), Records: s.resealer.records.Load()}
}

// chore is work on a shard's records that no commit of the shard may overlap. It ends before its
// lane continues.
type chore struct {
	do   func(ctx context.Context) error
	done chan error
}

// onLane runs do on the lane of a shard, between two commits. Only the lane writes in its shard, so
// what do reads stays true until do has written.
func (s *System) onLane(ctx context.Context, sh *shard, do func(context.Context) error) error {
	c := chore{done: make(chan error, 1)}
	c.do = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, appendTimeout)
		defer cancel()
		return do(ctx)
	}
	select {
	case sh.lane.chores <- c:
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

// resealAll reads every shard once and seals the documents that are not under the first data key.
// It keeps no place: after a restart it reads the records again and writes only those that are
// left, so that no order of keys can make it skip one.
func (s *System) resealAll(ctx context.Context) {
	kinds := []string{balance.RecordUnmatched}
	if s.sealer.Rotating() {
		kinds = append(s.personalKinds(), secretKind)
		s.log.Info("a data key rotates: personal documents are sealed under the new one", "key", s.sealer.KeyID())
	}
	for _, sh := range s.shards {
		for _, kind := range kinds {
			if !s.resealKind(ctx, sh, kind) {
				return
			}
		}
		s.resealer.left.Add(-1)
	}
	if !s.sealer.Rotating() {
		return
	}
	for err := s.forgetSamples(ctx); err != nil; err = s.forgetSamples(ctx) {
		if !s.resealFailed(ctx, err) {
			return
		}
	}
	s.log.Info("every personal document is sealed under the first data key: the others can be dropped with `purser rotate data-key "+
		"--finish` or from PURSER_DATA_KEY; a backup from before needs them still", "key", s.sealer.KeyID(),
		"sealed_anew", s.resealer.records.Load())
}

// personalKinds lists the kinds of records that are sealed.
func (s *System) personalKinds() (kinds []string) {
	for _, k := range s.kinds {
		kinds = append(kinds, k.Personal...)
	}
	slices.Sort(kinds)
	return kinds
}

// resealKind goes through the records of a kind in a shard. It tries until it succeeds; false when
// the context has ended.
func (s *System) resealKind(ctx context.Context, sh *shard, kind string) bool {
	after := ""
	for ctx.Err() == nil {
		records, last := 0, after
		err := s.onLane(ctx, sh, func(ctx context.Context) (err error) {
			records, last, err = s.resealPage(ctx, sh, kind, after)
			return err
		})
		if err != nil {
			if !s.resealFailed(ctx, err) {
				return false
			}
			continue
		}
		if records < resealPage {
			return true
		}
		after = last
		if !persistence.Pause(ctx, resealPause) {
			return false
		}
	}
	return false
}

func (s *System) resealFailed(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	s.log.Warn("personal documents cannot be sealed anew; it is tried again", "err", err, "again_after", resealRetry)
	return persistence.Pause(ctx, resealRetry)
}

// resealPage seals the stale documents of a page and returns how many records the page has, and the
// last one's id.
func (s *System) resealPage(ctx context.Context, sh *shard, kind, after string) (records int, last string, err error) {
	page, err := s.journal.Records(ctx, sh.id, kind, after, resealPage)
	if err != nil || len(page) == 0 {
		return 0, after, err
	}
	var group []*persistence.Batch
	for _, r := range page {
		stale, err := s.sealAnew(&r)
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
	s.resealer.records.Add(int64(len(group)))
	return len(page), page[len(page)-1].ID, nil
}

// sealAnew seals a record's document under the first data key, and reports whether it was not.
func (s *System) sealAnew(r *persistence.Record) (stale bool, err error) {
	if bytes.HasPrefix(r.Document, sealedMark) {
		var d sealedDocument
		if err := json.Unmarshal(r.Document, &d); err != nil {
			return false, fmt.Errorf("record %s: %w", r.Kind, err)
		}
		if !s.sealer.Rotating() || !s.sealer.Stale(d.Sealed) {
			return false, nil
		}
	}
	if err := s.open(r); err != nil {
		return false, err
	}
	r.Document, err = s.sealDocument(r.Kind, r.ID, r.Document)
	return err == nil, err
}

// appendRecords commits batches that have records alone, each of which is there already. It runs on
// the lane.
func (l *lane) appendRecords(ctx context.Context, group []*persistence.Batch) error {
	if len(group) == 0 {
		return nil
	}
	outcomes, err := l.sys.journal.Append(ctx, l.shard.id, l.epoch, l.sys.clock(), group)
	if errors.Is(err, persistence.ErrAmbiguous) || errors.Is(err, persistence.ErrFenced) {
		l.shard.lost.Store(true) // the next commit raises the epoch first
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

// forgetSamples removes the samples of keys under which nothing is sealed any more.
func (s *System) forgetSamples(ctx context.Context) error {
	sh := s.shards[ident.SystemSlot.Shard()]
	return s.onLane(ctx, sh, func(ctx context.Context) error {
		samples, err := s.journal.Records(ctx, sh.id, sampleKind, "", maxSamples)
		if err != nil {
			return err
		}
		var group []*persistence.Batch
		for _, r := range samples {
			if r.ID != s.sealer.KeyID() {
				r.Deleted, r.Document = true, nil
				group = append(group, &persistence.Batch{Workspace: r.Workspace, Slot: r.Slot,
					Records: []persistence.Record{r}})
			}
		}
		return sh.lane.appendRecords(ctx, group)
	})
}
