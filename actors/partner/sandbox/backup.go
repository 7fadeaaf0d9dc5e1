package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// againBytes is how much of the orders one commit of ReportAgain writes.
const againBytes = 4 << 20

// Exists tells whether a directory holds a store of the sandbox's, a bank's, a ramp's or that of its chains; a nil fs is the
// disk. It makes nothing.
func Exists(fs vfs.FS, dir string) bool {
	if fs == nil {
		fs = vfs.Default
	}
	d, err := pebble.Peek(dir, fs)
	return err == nil && d.Exists
}

// Checkpoint writes the orders as they are now into a new directory, while the partner works.
func (b *office) Checkpoint(dir string) error { return checkpoint(b.store.db, dir) }

// Checkpoint writes what was paid on the chains until now, and their reorganisations, into a new directory.
func (c *Chains) Checkpoint(dir string) error { return checkpoint(c.store.db, dir) }

// Checkpoint is that of a Bank, a Ramp or Chains, of a directory that nobody has open; a nil fs is the disk.
func Checkpoint(fs vfs.FS, from, to string) error {
	return withStore(fs, from, func(s *store) error { return checkpoint(s.db, to) })
}

func checkpoint(db *pebble.DB, dir string) error {
	if err := db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("sandbox: checkpoint %s: %w", dir, err)
	}
	return nil
}

// ReportAgain makes the bank or ramp of a directory, that nobody has open, report once more whatever it has reported and not
// forgotten: who was restored to an older state may not know of it. They are due at once, whatever the clock of who opens it next
// shows. Reports are known by their ids; a repeat changes nothing.
func ReportAgain(fs vfs.FS, dir string) error {
	return withStore(fs, dir, func(s *store) error {
		if err := s.reportAgain(); err != nil {
			return fmt.Errorf("sandbox: report again: %w", err)
		}
		return nil
	})
}

func withStore(fs vfs.FS, dir string, do func(s *store) error) error {
	if fs == nil {
		fs = vfs.Default
	}
	s, err := openStore(dir, fs)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.close())
}

// reportAgain reads what was there before its first write.
func (s *store) reportAgain() (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte("o"), UpperBound: []byte("p")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	b := s.db.NewBatch()
	for it.First(); it.Valid(); it.Next() {
		var o order
		if err := json.Unmarshal(it.Value(), &o); err != nil {
			return errors.Join(err, b.Close())
		}
		if !o.toldSomething() {
			continue
		}
		if err := again(b, o); err != nil {
			return errors.Join(err, b.Close())
		}
		if b.Len() >= againBytes {
			if err := b.Commit(pebble.Sync); err != nil {
				return err
			}
			b = s.db.NewBatch()
		}
	}
	return errors.Join(it.Error(), b.Commit(pebble.Sync))
}

// toldSomething says whether a report of the order has been taken.
func (o *order) toldSomething() bool {
	if o.Payment != nil || o.Ramp != nil {
		return o.Reports < len(o.outcomes())
	}
	return o.Reports == 0 && o.Deposit.AmountUsdCents%100 != EndingNever
}

// again makes an order due that has reported something: a deposit with one report, any other with all of its, in their order.
func again(b *pebble.Batch, o order) error {
	id := o.id()
	old := dueKey(o.Due, id)
	o.Reports, o.Due = 1, time.UnixMilli(0) // before any clock
	if outcomes := o.outcomes(); outcomes != nil {
		o.Reports = len(outcomes)
	}
	value, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return errors.Join(b.Delete(old, nil), b.Set(dueKey(o.Due, id), nil, nil), b.Set(orderKey(id), value, nil))
}
