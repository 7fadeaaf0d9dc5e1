package authorizer

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// Retention of authorizations.
const (
	// KeepHolds is the retention of an authorization without a held amount, counted from its
	// creation. It outlives every message that can refer to it: repeats (at most 40 days), late
	// clearings (31), disputes by the rules of card networks (120), and the refund of a purchase a
	// year ago. A later message is treated as one without an authorization: a clearing creates its
	// own (forced_post), a refund goes to the card, an increment is declined. An authorization with
	// a held amount stays.
	KeepHolds = 400 * 24 * time.Hour
	// dropAtOnce bounds the authorizations that one batch of deletions examines.
	dropAtOnce = 4096
)

// Trim drops the entries that were relayed KeepRelayed ago, the network ids older than RepeatDays,
// and the finished authorizations older than KeepHolds. It allows one caller at a time. It fails
// with ErrStopped and with the store's error.
func (e *Engine) Trim(now time.Time) error { return e.retention.trimLogs(now) }

// retention drops the data whose time is over.
type retention struct {
	store   *store
	shards  *shardTable
	buckets *buckets
	trimmed [ident.Shards]uint64 // last entry of each shard that this process has trimmed
}

// trimLogs is Engine.Trim.
func (r *retention) trimLogs(now time.Time) error {
	if err := r.store.projector.projectAll(); err != nil {
		return err
	}
	oldest := oldestBucket(now.UnixMilli())
	first := networkID{}
	before := uint32(now.Add(-KeepRelayed).Unix() / 3600) // the whole hour of the mark must have passed
	var through [ident.Shards]uint64
	err := r.store.dropStored(func(b *pebble.Batch) error {
		if err := b.DeleteRange([]byte{prefixRepeat}, appendRepeatKey(nil, oldest, &first), nil); err != nil {
			return err
		}
		return r.trimLog(b, &through, before)
	})
	if err != nil {
		return err
	}
	r.trimmed = through
	r.buckets.drop(oldest)
	return r.dropHolds(now)
}

// trimLog drops the entries that were relayed before an hour, and old relay marks. It sets the last
// old entry of each shard.
func (r *retention) trimLog(b *pebble.Batch, through *[ident.Shards]uint64, before uint32) (err error) {
	for i, sh := range r.shards {
		if through[i], err = sh.trimMarks(b, before); err != nil {
			return err
		}
	}
	return r.store.trimChunks(b, through, &r.trimmed, time.Duration(before)*time.Hour)
}

// dropHolds drops the authorizations older than KeepHolds that hold nothing. The keys are in time
// order, so it reads little else.
//
// It takes no lock, because an authorization without a held amount never holds one again. A
// concurrent refund may write the authorization once more; the next round drops it. A drop that is
// lost in a crash is repeated.
func (r *retention) dropHolds(now time.Time) error {
	lower, upper := []byte{prefixHold}, appendHoldTime(nil, now.Add(-KeepHolds))
	for lower != nil {
		err := r.store.dropStored(func(b *pebble.Batch) (err error) {
			lower, err = r.dropPage(b, lower, upper)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dropPage adds the deletions among the next dropAtOnce authorizations to the batch. It returns the
// key at which the next page begins, nil at the end. Neighbours are deleted as one range, at the
// same cost for two as for thousands.
func (r *retention) dropPage(b *pebble.Batch, lower, upper []byte) (next []byte, err error) {
	var (
		h     hold.Hold
		run   []byte // first key of the current range
		seen  int
		flush = func(end []byte) (err error) {
			if run != nil {
				err = b.DeleteRange(run, end, nil)
			}
			run = nil
			return err
		}
	)
	err = r.store.scan(r.store.db, lower, upper, func(k, v []byte) (bool, error) {
		if seen++; seen > dropAtOnce {
			next = append([]byte(nil), k...)
			return true, nil
		}
		if err := hold.DecodeHold(v, &h); err != nil {
			return false, fmt.Errorf("%w: authorization %x", ErrCorrupt, k)
		}
		if h.Held != 0 || h.ExpiresAt != 0 {
			return false, flush(k)
		}
		if run == nil {
			run = append([]byte(nil), k...)
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	if next == nil {
		return nil, flush(upper)
	}
	return next, flush(next)
}

// appendHoldTime appends a key that precedes those of the authorizations from a time on.
func appendHoldTime(dst []byte, at time.Time) []byte {
	id := ident.UUID{}
	binary.BigEndian.PutUint64(id[:], uint64(at.UnixMilli())<<16)
	return appendIDKey(dst, prefixHold, &id)
}
