package authorizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// MaxExpire bounds the holds that one call of Expire expires.
const MaxExpire = 1024

// Expire expires at most MaxExpire due holds. It returns the number of examined holds once their
// entries are durable; the caller calls again at once while it is MaxExpire. It allows one caller
// at a time. It fails with ErrStopped and with the store's error. The actors' retention loop calls
// it.
func (e *Engine) Expire(now time.Time) (int, error) {
	seen, expired := 0, 0
	start := e.expireFrom.Load()
	for i := uint32(0); i < ident.Shards && seen < MaxExpire; i++ {
		sh := e.shards[(start+i)%ident.Shards]
		due, err := e.due(sh, now.UnixMilli(), MaxExpire-seen)
		if err != nil {
			return seen, err
		}
		seen += len(due)
		n, err := e.expireAll(sh, due, now.UnixMilli())
		expired += n
		if err != nil {
			return seen, err
		}
		e.expireFrom.Store((start + i) % ident.Shards)
	}
	if expired > 0 {
		e.listener.Expired(expired)
	}
	return seen, nil
}

type dueHold struct {
	at int64
	id ident.UUID
}

func (e *Engine) due(sh *shard, now int64, limit int) (due []dueHold, err error) {
	first := ident.UUID{}
	lower, upper := appendDueKey(nil, sh.id, 0, &first), appendDueKey(nil, sh.id, now+1, &first)
	err = e.store.scan(e.store.db, lower, upper, func(k, _ []byte) (bool, error) {
		due = append(due, dueHold{at: int64(binary.BigEndian.Uint64(k[2:])), id: ident.UUID(k[10:])})
		return len(due) >= limit, nil
	})
	return due, err
}

// expireAll commits one entry per hold and waits for all of them.
func (e *Engine) expireAll(sh *shard, due []dueHold, now int64) (expired int, err error) {
	var waiting []*ticket
	for _, d := range due {
		t := e.newTicket(actExpire)
		e.admit(t, true)
		t.shard, t.holdID, t.due, t.view.Now = sh, d.id, d.at, now
		if _, err = e.step(t); err == nil && t.stale {
			err = e.forgetDue(sh, d)
		}
		if err != nil || t.stale {
			e.release(t)
		} else {
			waiting = append(waiting, t)
		}
		if err != nil {
			break
		}
	}
	for _, t := range waiting {
		err = errors.Join(err, e.wait(t))
		e.release(t)
	}
	return len(waiting), err
}

// forgetDue drops a key of the due index that a later expiry has replaced.
func (e *Engine) forgetDue(sh *shard, d dueHold) error {
	b := e.store.newBatch()
	if err := b.Delete(appendDueKey(nil, sh.id, d.at, &d.id), nil); err != nil {
		return err
	}
	return e.store.applyLazily(b)
}

// returnLoop undoes the approvals that were answered "timeout": it commits an entry for each, after
// which repeats of the message are answered "timeout" too.
func (e *Engine) returnLoop() {
	for t := range e.returns {
		if err := e.giveBack(t); err != nil {
			e.fail(err) // an approval without an answer must not stand
			e.release(t)
		}
	}
}

func (e *Engine) giveBack(t *ticket) error {
	t.key = appendLogKey(t.key[:0], t.shard.id, t.entry.Seq)
	found, err := e.store.get(e.store.db, t.key, func(v []byte) error { return hold.DecodeEntry(v, &t.approval) })
	if err != nil || !found {
		return fmt.Errorf("%w: entry %d of shard %d (%t): %w", ErrCorrupt, t.entry.Seq, t.shard.id, found, err)
	}
	if t.approval.After.ID.IsZero() {
		e.release(t) // a decline of nothing known: nothing to undo
		return nil
	}
	t.act, t.logged, t.err, t.load = actReturn, false, nil, loaded{}
	t.byToken, t.holdID = false, t.approval.After.ID
	t.view = hold.View{Now: e.clock().UnixMilli(), MonthStays: e.suspect()}
	_, err = e.step(t)
	return err
}
