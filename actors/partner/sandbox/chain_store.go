package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/persistence/pebblegate"
)

// chainStore keeps all sandbox chains. Keys, each after the chain's name and "/": "b" → the anchor
// block; "f" → all forks; "t" + transaction hash + "/" + index → a transfer. All values are JSON.
type chainStore struct {
	db *pebble.DB
}

// openChainStore opens the store of all chains, or makes it. It fails when another process has it
// open, when it is damaged, and with the disk's error.
func openChainStore(dir string, fs vfs.FS) (*chainStore, error) {
	db, err := pebblegate.Open(dir, &pebble.Options{FS: fs, MaxOpenFiles: openTables, Logger: silentLogger{}})
	if err != nil {
		return nil, fmt.Errorf("sandbox chains' store: %w", err)
	}
	return &chainStore{db: db}, nil
}

func (s *chainStore) close() error { return s.db.Close() }

// loadChain loads a chain's stored state; known is false when there is none. It fails with the
// store's error and for a value that does not decode.
func (s *chainStore) loadChain(c *Chain) (known bool, err error) {
	prefix := c.name + "/"
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: []byte(c.name + "0")})
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
func (s *chainStore) saveAnchor(name string, b anchorBlock) error {
	value, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return s.db.Set([]byte(name+"/b"), value, pebble.Sync)
}

// saveTransfers stores transfers and the chain's forks in one synced commit. It fails with the
// store's error, and then stores nothing. Pay and Reorganise call it.
func (s *chainStore) saveTransfers(name string, transfers []*transfer, forks []fork) error {
	b := s.db.NewBatch()
	value, err := json.Marshal(forks)
	if err == nil {
		err = b.Set([]byte(name+"/f"), value, nil)
	}
	for _, t := range transfers {
		if err != nil {
			break
		}
		if value, err = json.Marshal(t); err == nil {
			err = b.Set(fmt.Appendf(nil, "%s/t%s/%d", name, t.TxHash, t.Index), value, nil)
		}
	}
	if err != nil {
		return errors.Join(err, b.Close())
	}
	return b.Commit(pebble.Sync)
}
