package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/actors/partner"
	"purser/persistence/pebblegate"
)

// store keeps orders by id and by the time at which something is to be done about them. Keys: "o" + order id → the order as
// JSON; "d" + 8 bytes of due time + order id → nothing. Both change in one batch. "a" + token → the account as JSON. Of the
// ramp "l" + workspace → the id of its account; "w" + wallet id → the wallet as it was approved.
type store struct {
	db *pebble.DB
}

// openTables is how many tables of a sandbox's store are kept open.
const openTables = 64

func openStore(dir string, fs vfs.FS) (*store, error) {
	db, err := pebblegate.Open(dir, &pebble.Options{FS: fs, MaxOpenFiles: openTables, Logger: quiet{}})
	if err != nil {
		return nil, fmt.Errorf("sandbox store: %w", err)
	}
	return &store{db: db}, nil
}

func (s *store) close() error { return s.db.Close() }

// load returns the order of an id; ok is false when there is none.
func (s *store) load(id string) (o order, ok bool, err error) {
	value, closer, err := s.db.Get(orderKey(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return order{}, false, nil
	}
	if err != nil {
		return order{}, false, err
	}
	err = json.Unmarshal(value, &o)
	return o, err == nil, errors.Join(err, closer.Close())
}

// save replaces old (nil: there was none) by o, synced. A nil o forgets the order.
func (s *store) save(old, o *order) error {
	b := s.db.NewBatch()
	if old != nil {
		if err := errors.Join(b.Delete(dueKey(old.Due, old.id()), nil), b.Delete(orderKey(old.id()), nil)); err != nil {
			return err
		}
	}
	if o != nil {
		value, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if err := errors.Join(b.Set(dueKey(o.Due, o.id()), nil, nil), b.Set(orderKey(o.id()), value, nil)); err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}

// saveAccount keeps an account under its token, synced.
func (s *store) saveAccount(token string, a partner.Account) error {
	value, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return s.db.Set(accountKey(token), value, pebble.Sync)
}

// account returns the account of a token; ok is false when there is none.
func (s *store) account(token string) (a partner.Account, ok bool, err error) {
	value, closer, err := s.db.Get(accountKey(token))
	if errors.Is(err, pebble.ErrNotFound) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	err = json.Unmarshal(value, &a)
	return a, err == nil, errors.Join(err, closer.Close())
}

// saveFact keeps a text under a key for good, synced, unless there is one. It returns the text that is kept.
func (s *store) saveFact(key, text string) (kept string, err error) {
	if kept, err = s.fact(key); kept != "" || err != nil {
		return kept, err
	}
	return text, s.db.Set([]byte(key), []byte(text), pebble.Sync)
}

// fact is the text of a key; "" when there is none.
func (s *store) fact(key string) (string, error) {
	value, closer, err := s.db.Get([]byte(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text := string(value)
	return text, closer.Close()
}

// due returns at most limit orders due at or before now, earliest first, and when the next one after them is due (zero: none).
func (s *store) due(now time.Time, limit int) (orders []order, next time.Time, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte("d"), UpperBound: []byte("e")})
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		at, id := parseDueKey(it.Key())
		if at.After(now) || len(orders) == limit {
			return orders, at, nil
		}
		o, ok, err := s.load(id)
		if err != nil {
			return nil, time.Time{}, err
		}
		if ok {
			orders = append(orders, o)
		}
	}
	return orders, time.Time{}, it.Error()
}

// told lists at most limit payments and orders of the ramp after a reference.
func (s *store) told(after string, limit int) (orders []Order, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: append(orderKey(after), 0), UpperBound: []byte("p")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	orders = []Order{}
	for it.First(); it.Valid() && len(orders) < limit; it.Next() {
		var o order
		if err := json.Unmarshal(it.Value(), &o); err != nil {
			return nil, err
		}
		switch {
		case o.Payment != nil:
			orders = append(orders, Order{Reference: o.id(), Orders: o.Payment.Orders})
		case o.Ramp != nil:
			orders = append(orders, Order{Reference: o.id(), Orders: o.Ramp.Orders})
		}
	}
	return orders, it.Error()
}

// count returns how many orders are still open, for the bound on them at a start.
func (s *store) count() (open int, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte("o"), UpperBound: []byte("p")})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		var o order
		if err := json.Unmarshal(it.Value(), &o); err != nil {
			return 0, err
		}
		if o.Reports > 0 {
			open++
		}
	}
	return open, it.Error()
}

func accountKey(token string) []byte { return append([]byte("a"), token...) }

func orderKey(id string) []byte { return append([]byte("o"), id...) }

func dueKey(due time.Time, id string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte("d"), uint64(due.UnixMilli())), id...)
}

func parseDueKey(key []byte) (time.Time, string) {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(key[1:9]))), string(key[9:])
}

// quiet keeps the store's own chatter out of the program's log; its errors come back from its calls.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("sandbox store: "+format, args...))
}
