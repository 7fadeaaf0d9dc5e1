package authorizer

import (
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// ExpireHold expires one authorization's hold now, whatever its expiry, for a simulation. It is
// durable when it returns. An authorization that is unknown or holds nothing does not change. It
// fails with ErrStopped and with the store's error. The sandbox's simulation route calls it.
func (e *Engine) ExpireHold(id ident.UUID) error {
	var h hold.Hold
	for range loadAttempts {
		found, err := e.store.get(e.store.db, appendIDKey(nil, prefixHold, &id),
			func(v []byte) error { return hold.DecodeHold(v, &h) })
		if err != nil || !found || h.ExpiresAt == 0 {
			return err
		}
		// A hold whose expiry moves meanwhile is stale to expireAll: it is looked at again.
		expired, err := e.expireAll(e.shards[id.Shard()], []dueHold{{at: h.ExpiresAt, id: id}}, e.clock().UnixMilli())
		if err != nil || expired > 0 {
			return err
		}
	}
	return nil
}
