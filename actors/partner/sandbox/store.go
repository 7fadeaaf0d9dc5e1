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

// orderStore keeps orders by id and by due time. Keys: "o" + order id → the order as JSON; "d" + 8
// bytes of due time + order id → nothing; both change in one batch. "a" + token → the account as
// JSON. Of the ramp: "l" + workspace → the id of its account; "w" + wallet id → the approved
// wallet. owner.go has the key of the owner.
type orderStore struct {
	db *pebble.DB
}

// openTables is the number of a sandbox store's tables kept open.
const openTables = 64

// openStore opens the store of a bank or ramp, or makes it. It fails when another process has it
// open, when it is damaged, and with the disk's error.
func openStore(dir string, fs vfs.FS) (*orderStore, error) {
	db, err := pebblegate.Open(dir, &pebble.Options{FS: fs, MaxOpenFiles: openTables, Logger: silentLogger{}})
	if err != nil {
		return nil, fmt.Errorf("sandbox store: %w", err)
	}
	return &orderStore{db: db}, nil
}

func (s *orderStore) close() error { return s.db.Close() }

// loadOrder returns the order of an id; ok is false when there is none. It fails with the store's
// error and for a value that does not decode.
func (s *orderStore) loadOrder(id string) (o order, ok bool, err error) {
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

// saveOrder replaces old (nil for none) by o, synced. A nil o deletes the order. It fails with the
// store's error, and then changes nothing.
func (s *orderStore) saveOrder(old, o *order) error {
	b := s.db.NewBatch()
	if old != nil {
		if err := errors.Join(b.Delete(dueKey(old.Due, old.orderID()), nil), b.Delete(orderKey(old.orderID()),
			nil)); err != nil {
			return err
		}
	}
	if o != nil {
		value, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if err := errors.Join(b.Set(dueKey(o.Due, o.orderID()), nil, nil), b.Set(orderKey(o.orderID()), value,
			nil)); err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}

// saveAccount stores an account under its token, synced. It fails with the store's error. Tokenize
// calls it.
func (s *orderStore) saveAccount(token string, a partner.Account) error {
	value, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return s.db.Set(accountKey(token), value, pebble.Sync)
}

// loadAccount returns the account of a token; ok is false when there is none. It fails with the
// store's error and for a value that does not decode.
func (s *orderStore) loadAccount(token string) (a partner.Account, ok bool, err error) {
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

// saveTextOnce stores a text under a key, synced, unless the key has one. It returns the stored
// text. It fails with the store's error. The ramp's saveOnce calls it.
func (s *orderStore) saveTextOnce(key, text string) (kept string, err error) {
	if kept, err = s.loadText(key); kept != "" || err != nil {
		return kept, err
	}
	return text, s.db.Set([]byte(key), []byte(text), pebble.Sync)
}

// loadText returns the text of a key; "" when there is none. It fails with the store's error.
func (s *orderStore) loadText(key string) (string, error) {
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

// dueOrders returns at most limit orders due at or before now, earliest first, and the due time of
// the next one; zero for none. It fails with the store's error. Step calls it.
func (s *orderStore) dueOrders(now time.Time, limit int) (orders []order, next time.Time, err error) {
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
		o, ok, err := s.loadOrder(id)
		if err != nil {
			return nil, time.Time{}, err
		}
		if ok {
			orders = append(orders, o)
		}
	}
	return orders, time.Time{}, it.Error()
}

// countOrders returns, by reference, how often each payment or ramp order was received. It fails
// with the store's error. Orders calls it.
func (s *orderStore) countOrders() (orders map[string]int, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte("o"), UpperBound: []byte("p")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	orders = map[string]int{}
	for it.First(); it.Valid(); it.Next() {
		var o order
		if err := json.Unmarshal(it.Value(), &o); err != nil {
			return nil, err
		}
		switch {
		case o.Payment != nil:
			orders[o.orderID()] = o.Payment.Orders
		case o.Ramp != nil:
			orders[o.orderID()] = o.Ramp.Orders
		}
	}
	return orders, it.Error()
}

// countOpenOrders returns the number of open orders, which MaxOpen bounds. It fails with the
// store's error. It runs once, when the store is opened.
func (s *orderStore) countOpenOrders() (open int, err error) {
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

// silentLogger drops the store's log; the calls of the store return its errors.
type silentLogger struct{}

func (silentLogger) Infof(string, ...any)  {}
func (silentLogger) Errorf(string, ...any) {}
func (silentLogger) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("sandbox store: "+format, args...))
}
