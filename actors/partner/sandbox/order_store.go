package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"purser/actors/partner"
	"purser/persistence/pebblelog"
)

// orderStore keeps the orders of the bank or the ramp by id and by due time. Keys, each after the
// partner's prefix: "o" + order id → the order as JSON; "d" + 8 bytes of due time + order id →
// nothing; both change in one batch. Of the bank: "a" + token → the account as JSON. Of the ramp:
// "l" + workspace → the id of its account; "w" + wallet id → the approved wallet.
type orderStore struct {
	log    *pebblelog.Store
	prefix string
}

// loadOrder returns the order of an id; ok is false when there is none. It fails with the store's
// error and for a value that does not decode.
func (s *orderStore) loadOrder(id string) (o order, ok bool, err error) {
	value, closer, err := s.log.DB.Get(s.key("o", id))
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
	b := s.log.DB.NewBatch()
	if old != nil {
		if err := errors.Join(b.Delete(s.dueKey(old.Due, old.orderID()), nil),
			b.Delete(s.key("o", old.orderID()), nil)); err != nil {
			return err
		}
	}
	if o != nil {
		if err := s.setOrder(b, o); err != nil {
			return err
		}
	}
	return s.log.Commit(b)
}

// setOrder puts an order and its due time into a batch. It fails only when the order cannot be
// encoded.
func (s *orderStore) setOrder(b *pebble.Batch, o *order) error {
	value, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return errors.Join(b.Set(s.dueKey(o.Due, o.orderID()), nil, nil), b.Set(s.key("o", o.orderID()), value, nil))
}

// saveAccount stores an account under its token, synced. It fails with the store's error.
func (s *orderStore) saveAccount(token string, a partner.Account) error {
	value, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return s.log.Set(s.key("a", token), value)
}

// loadAccount returns the account of a token; ok is false when there is none. It fails with the
// store's error and for a value that does not decode.
func (s *orderStore) loadAccount(token string) (a partner.Account, ok bool, err error) {
	value, closer, err := s.log.DB.Get(s.key("a", token))
	if errors.Is(err, pebble.ErrNotFound) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	err = json.Unmarshal(value, &a)
	return a, err == nil, errors.Join(err, closer.Close())
}

// saveTextOnce stores a text under a letter and an id, synced, unless they have one. It returns the
// stored text. It fails with the store's error.
func (s *orderStore) saveTextOnce(letter, id, text string) (kept string, err error) {
	if kept, err = s.loadText(letter, id); kept != "" || err != nil {
		return kept, err
	}
	return text, s.log.Set(s.key(letter, id), []byte(text))
}

// loadText returns the text of a letter and an id; "" when there is none. It fails with the store's
// error.
func (s *orderStore) loadText(letter, id string) (string, error) {
	value, closer, err := s.log.DB.Get(s.key(letter, id))
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
// the next one; zero for none. It fails with the store's error.
func (s *orderStore) dueOrders(now time.Time, limit int) (orders []order, next time.Time, err error) {
	it, err := s.log.DB.NewIter(s.keysOf("d"))
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		at, id := s.parseDueKey(it.Key())
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

// eachOrder calls do with every order, sorted by id, until do fails. It fails with the error of do,
// with the store's error and for a value that does not decode.
func (s *orderStore) eachOrder(do func(*order) error) (err error) {
	it, err := s.log.DB.NewIter(s.keysOf("o"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		var o order
		if err := json.Unmarshal(it.Value(), &o); err != nil {
			return err
		}
		if err := do(&o); err != nil {
			return err
		}
	}
	return it.Error()
}

// key is the partner's key of a letter and an id.
func (s *orderStore) key(letter, id string) []byte { return []byte(s.prefix + letter + id) }

// keysOf are the partner's keys of a letter.
func (s *orderStore) keysOf(letter string) *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: s.key(letter, ""), UpperBound: []byte(s.prefix + string(letter[0]+1))}
}

func (s *orderStore) dueKey(due time.Time, id string) []byte {
	return append(binary.BigEndian.AppendUint64(s.key("d", ""), uint64(due.UnixMilli())), id...)
}

func (s *orderStore) parseDueKey(key []byte) (time.Time, string) {
	key = key[len(s.key("d", "")):]
	return time.UnixMilli(int64(binary.BigEndian.Uint64(key))), string(key[8:])
}
