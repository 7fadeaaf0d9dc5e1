package authorizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"purser/persistence/ident"
)

// anewBytes bounds the funds that one commit of FollowAnew drops.
const anewBytes = 4 << 20

// Errors of following anew.
var (
	// ErrHalfAnew means that FollowAnew was interrupted. The store must not decide; call FollowAnew
	// again.
	ErrHalfAnew = errors.New("authorizer: the store was being set back to follow a journal anew, and that was interrupted")
	// ErrHole means that the journal lacks decisions that the log no longer has.
	ErrHole = errors.New("authorizer: the log no longer has what the journal lacks")
	// ErrLogBehind means that the journal has decisions that the log does not have.
	ErrLogBehind = errors.New("authorizer: the log ends before what the journal has")
)

// FollowAnew resets a closed store to position 0 of every shard of a journal: another journal of
// the same deployment, or an older state of the same one. It drops rules, ledgerCents and
// reservations, which Follow restores, and the positions that the journal must reach; log,
// cardCents, holds, spends and repeats stay. The parameter holds, per shard, the decision up to
// which the journal has the log. Later entries count as not relayed and are kept until they are.
//
// The log must reach the journal, or FollowAnew returns ErrLogBehind or ErrHole and changes
// nothing. It is durable when it returns nil. After a crash in between, Open returns ErrHalfAnew
// until FollowAnew succeeds. It also fails with the errors of opening the store.
func FollowAnew(o Options, told [ident.Shards]uint64) (err error) {
	o.ensureDefaults()
	if err := o.Validate(); err != nil {
		return err
	}
	s, err := openStore(&o, o.Fatal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	a := anew{store: s, hour: uint32(o.Clock().Unix() / 3600), told: told}
	for shard := range ident.Shards {
		if err := a.check(ident.Shard(shard)); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return a.forget()
}

// Reaches returns nil when FollowAnew would keep the log of this store, or else ErrHole or
// ErrLogBehind. It changes nothing.
func (r *Rebuilder) Reaches(told [ident.Shards]uint64) error {
	a := anew{store: r.store, told: told}
	for shard := range ident.Shards {
		if err := a.check(ident.Shard(shard)); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return nil
}

type anew struct {
	store *store
	hour  uint32
	told  [ident.Shards]uint64
	back  [ident.Shards]bool // the relay marks are beyond the journal's
}

// check requires that the log has every decision from the journal's last one to its end.
func (a *anew) check(shard ident.Shard) error {
	var sh shardHeads
	if err := sh.read(a.store, shard); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	told := a.told[shard]
	switch {
	case told > sh.seq:
		return fmt.Errorf("%w: it ends at decision %d, the journal has %d", ErrLogBehind, sh.seq, told)
	case told >= sh.relayed:
		return nil
	case sh.first > told+1 || sh.first == 0:
		return fmt.Errorf("%w: the journal has decisions up to %d, of those after it the log has none before %d; it keeps %d days after relay",
			ErrHole, told, max(sh.first, sh.seq+1), int(KeepRelayed.Hours()/24))
	}
	a.back[shard] = true
	return nil
}

// shardHeads holds the ends of a shard's log; 0 for an empty one.
type shardHeads struct{ first, seq, relayed uint64 }

func (h *shardHeads) read(s *store, shard ident.Shard) (err error) {
	if h.first, err = s.firstLogged(shard); err != nil {
		return err
	}
	_, h.relayed, err = s.readPositions(shard)
	h.seq = max(s.projector.heads.last[shard], h.relayed)
	return err
}

// forget drops the followed data, between two marks that Open checks.
func (a *anew) forget() error {
	if err := a.commit(func(b *pebble.Batch) error { return b.Set(keyAnew(), nil, nil) }); err != nil {
		return err
	}
	if err := a.forgetFunds(); err != nil {
		return err
	}
	return a.commit(func(b *pebble.Batch) error {
		for _, table := range []byte{prefixRule, prefixReservation, prefixCursor, prefixJournal} {
			if err := b.DeleteRange([]byte{table}, []byte{table + 1}, nil); err != nil {
				return err
			}
		}
		for shard, back := range a.back {
			if !back {
				continue
			}
			if err := a.setRelayed(b, ident.Shard(shard)); err != nil {
				return err
			}
		}
		return b.Delete(keyAnew(), nil)
	})
}

// setRelayed leaves one mark, the journal's.
func (a *anew) setRelayed(b *pebble.Batch, shard ident.Shard) error {
	lower, upper := appendRelayedKey(nil, shard, 0), appendShardKey(nil, prefixRelayed, shard)
	upper = append(upper, 0xff, 0xff, 0xff, 0xff, 0)
	key, told := appendRelayedKey(nil, shard, a.hour), binary.BigEndian.AppendUint64(nil, a.told[shard])
	return errors.Join(b.DeleteRange(lower, upper, nil), b.Set(key, told, nil))
}

// forgetFunds drops the terms that Follow and reservations write, in bounded commits. The commit
// that follows makes them durable.
func (a *anew) forgetFunds() error {
	lower := []byte{prefixFunds}
	for lower != nil {
		err := a.store.dropStored(func(b *pebble.Batch) (err error) {
			lower, err = a.forgetPage(b, lower)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetPage adds the deletions of the next terms to a batch, and returns the key at which the next
// page begins, nil at the end.
func (a *anew) forgetPage(b *pebble.Batch, lower []byte) (next []byte, err error) {
	err = a.store.scan(a.store.db, lower, []byte{prefixFunds + 1}, func(k, _ []byte) (bool, error) {
		if len(k) != 18 {
			return false, ErrCorrupt
		}
		if b.Len() >= anewBytes {
			next = bytes.Clone(k)
			return true, nil
		}
		if k[17] == termCard {
			return false, nil
		}
		return false, b.Delete(k, nil)
	})
	return next, err
}

// commit applies a batch to Pebble, durably with all that was dropped before.
func (a *anew) commit(fill func(b *pebble.Batch) error) error {
	if err := a.store.dropStored(fill); err != nil {
		return err
	}
	return a.store.db.Flush()
}

// whole refuses a store whose FollowAnew was interrupted.
func (s *store) whole() error {
	found, err := s.get(keyAnew(), func([]byte) error { return nil })
	if found {
		return ErrHalfAnew
	}
	return err
}
