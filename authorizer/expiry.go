package authorizer

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// MaxExpire bounds the holds that one call of Expire expires.
const MaxExpire = 1024

// Expire expires at most MaxExpire due holds. It returns the number of examined holds once their
// entries are durable; the caller calls again at once while it is MaxExpire. It allows one caller
// at a time. It fails with ErrStopped and with the store's error.
func (e *Engine) Expire(now time.Time) (int, error) { return e.expirer.expire(now) }

// ExpireHold expires one authorization's hold now, whatever its expiry, for a simulation. It is
// durable when it returns. An authorization that is unknown or holds nothing does not change. It
// fails with ErrStopped and with the store's error.
func (e *Engine) ExpireHold(id ident.UUID) error { return e.expirer.expireHold(id) }

// expirer expires holds that are due.
type expirer struct {
	store    *store
	shards   *shardTable
	commits  *committer
	decider  *decider
	listener Listener
	clock    func() time.Time
	next     atomic.Uint32 // the shard at which the next Expire begins
}

// expire is Engine.Expire. It begins at the shard where the last call ended.
func (x *expirer) expire(now time.Time) (int, error) {
	seen, expired := 0, 0
	start := x.next.Load()
	for i := uint32(0); i < ident.Shards && seen < MaxExpire; i++ {
		sh := x.shards[(start+i)%ident.Shards]
		due, err := sh.dueHolds(now.UnixMilli(), MaxExpire-seen)
		if err != nil {
			return seen, err
		}
		seen += len(due)
		n, err := x.expireAll(sh, due, now.UnixMilli())
		expired += n
		if err != nil {
			return seen, err
		}
		x.next.Store((start + i) % ident.Shards)
	}
	if expired > 0 {
		x.listener.Expired(expired)
	}
	return seen, nil
}

// expireHold is Engine.ExpireHold.
func (x *expirer) expireHold(id ident.UUID) error {
	var h hold.Hold
	for range loadAttempts {
		found, err := x.store.get(appendIDKey(nil, prefixHold, &id),
			func(v []byte) error { return hold.DecodeHold(v, &h) })
		if err != nil || !found || h.ExpiresAt == 0 {
			return err
		}
		// A hold whose expiry moves meanwhile is stale to expireAll: it is looked at again.
		expired, err := x.expireAll(x.shards.of(id), []dueHold{{at: h.ExpiresAt, id: id}}, x.clock().UnixMilli())
		if err != nil || expired > 0 {
			return err
		}
	}
	return nil
}

// expireAll commits one entry per hold and waits for all of them.
func (x *expirer) expireAll(sh *shard, due []dueHold, now int64) (expired int, err error) {
	var waiting []*ticket
	for _, d := range due {
		t := x.commits.newTicket(actExpire)
		x.commits.admitTicket(t)
		t.shard, t.holdID, t.due, t.view.Now = sh, d.id, d.at, now
		if _, err = x.decider.decideStep(t); err == nil && t.stale {
			err = sh.forgetDue(d)
		}
		if err != nil || t.stale {
			x.commits.release(t)
		} else {
			waiting = append(waiting, t)
		}
		if err != nil {
			break
		}
	}
	for _, t := range waiting {
		err = errors.Join(err, x.commits.wait(t))
		x.commits.release(t)
	}
	return len(waiting), err
}

// dueHold is an entry of the due index: a hold and its expiry in Unix milliseconds.
type dueHold struct {
	at int64
	id ident.UUID
}

// dueHolds returns at most limit entries of the due index up to now, in order.
func (sh *shard) dueHolds(now int64, limit int) (due []dueHold, err error) {
	first := ident.UUID{}
	lower, upper := appendDueKey(nil, sh.id, 0, &first), appendDueKey(nil, sh.id, now+1, &first)
	if err := sh.store.projector.projectDue(now); err != nil {
		return nil, err
	}
	err = sh.store.scan(sh.store.db, lower, upper, func(k, _ []byte) (bool, error) {
		due = append(due, dueHold{at: int64(binary.BigEndian.Uint64(k[2:])), id: ident.UUID(k[10:])})
		return len(due) >= limit, nil
	})
	return due, err
}

// forgetDue drops a key of the due index that a later expiry has replaced.
func (sh *shard) forgetDue(d dueHold) error {
	return sh.store.dropStored(func(b *pebble.Batch) error {
		return b.Delete(appendDueKey(nil, sh.id, d.at, &d.id), nil)
	})
}
