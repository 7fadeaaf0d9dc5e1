package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Keys of the chains, each after chainsPrefix, the chain's name and "/": "b" → the anchor block;
// "f" → all forks; "t" + transaction hash + "/" + index → a transfer. All values are JSON.

// chainKey is a key of a chain.
func chainKey(chain, key string) []byte { return []byte(chainsPrefix + chain + "/" + key) }

// loadChain loads a chain's stored state; known is false when there is none. It fails with the
// store's error and for a value that does not decode.
func (s *Store) loadChain(c *Chain) (known bool, err error) {
	prefix := chainKey(c.name, "")
	it, err := s.log.DB.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: chainKey(c.name, "u")}) // after "t"
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		switch it.Key()[len(prefix)] {
		case 'b':
			known, err = true, json.Unmarshal(it.Value(), &c.anchor)
		case 'f':
			err = json.Unmarshal(it.Value(), &c.forks)
		case 't':
			t := new(transfer)
			if err = json.Unmarshal(it.Value(), t); err == nil {
				c.indexTransfer(t)
			}
		}
		if err != nil {
			return false, err
		}
	}
	return known, it.Error()
}

// saveAnchor stores the block from which a chain's numbers count, synced. It fails with the store's
// error.
func (s *Store) saveAnchor(name string, b anchorBlock) error {
	value, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return s.log.Set(chainKey(name, "b"), value)
}

// saveTransfers stores transfers and the chain's forks in one synced commit. It fails with the
// store's error, and then stores nothing.
func (s *Store) saveTransfers(name string, transfers []*transfer, forks []fork) error {
	b := s.log.DB.NewBatch()
	value, err := json.Marshal(forks)
	if err == nil {
		err = b.Set(chainKey(name, "f"), value, nil)
	}
	for _, t := range transfers {
		if err != nil {
			break
		}
		if value, err = json.Marshal(t); err == nil {
			err = b.Set(chainKey(name, fmt.Sprintf("t%s/%d", t.TxHash, t.Index)), value, nil)
		}
	}
	if err != nil {
		return errors.Join(err, b.Close())
	}
	return s.log.Commit(b)
}
