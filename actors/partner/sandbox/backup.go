package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// reportAgainBatch is the size in bytes at which ReportAgain commits a batch of orders.
const reportAgainBatch = 4 << 20

// Exists reports whether a directory has a sandbox store: of a bank, a ramp or the chains. A nil fs
// is the disk. It creates nothing. A directory that cannot be read has none. Backups and restores
// call it.
func Exists(fs vfs.FS, dir string) bool {
	if fs == nil {
		fs = vfs.Default
	}
	d, err := pebble.Peek(dir, fs)
	return err == nil && d.Exists
}

// Checkpoint writes a snapshot of the orders into a new directory. The partner may work meanwhile.
// It fails when the directory exists and with the disk's error. A backup of a running server calls
// it.
func (b *orderProcessor) Checkpoint(dir string) error { return checkpoint(b.store.db, dir) }

// Checkpoint writes a snapshot of the transfers and reorganisations into a new directory. It fails
// when the directory exists and with the disk's error. A backup of a running server calls it.
func (c *Chains) Checkpoint(dir string) error { return checkpoint(c.store.db, dir) }

// Checkpoint copies the store of a Bank, a Ramp or Chains that no process has open; a nil fs is the
// disk. It fails when the store cannot be opened, or when to exists. `purser restore`, and `purser
// backup` of a stopped server, call it.
func Checkpoint(fs vfs.FS, from, to string) error {
	return withStore(fs, from, func(s *orderStore) error { return checkpoint(s.db, to) })
}

func checkpoint(db *pebble.DB, dir string) error {
	if err := db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("sandbox: checkpoint %s: %w", dir, err)
	}
	return nil
}

// ReportAgain makes a bank or ramp repeat every report of the orders that it still keeps. No
// process may have the directory open. A Purser restored from an older backup may have lost
// reports; it recognizes repeats by their ids. The reports are due at once, for any clock. It fails
// with the store's error, after which some orders may be due again. `purser restore` calls it.
func ReportAgain(fs vfs.FS, dir string) error {
	return withStore(fs, dir, func(s *orderStore) error {
		if err := s.reportAgain(); err != nil {
			return fmt.Errorf("sandbox: report again: %w", err)
		}
		return nil
	})
}

// withStore opens the store of a bank or ramp, calls do and closes it. It fails with the error of
// do, and when another process has the store open. Checkpoint and ReportAgain call it.
func withStore(fs vfs.FS, dir string, do func(s *orderStore) error) error {
	if fs == nil {
		fs = vfs.Default
	}
	s, err := openStore(dir, fs)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.close())
}

// reportAgain makes the orders with a report due again, as they were before its first write, in
// commits of about reportAgainBatch bytes. It fails with the store's error; earlier commits stay.
// ReportAgain calls it.
func (s *orderStore) reportAgain() (err error) {
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
		if !o.hasReported() {
			continue
		}
		if err := setUnreported(b, o); err != nil {
			return errors.Join(err, b.Close())
		}
		if b.Len() >= reportAgainBatch {
			if err := b.Commit(pebble.Sync); err != nil {
				return err
			}
			b = s.db.NewBatch()
		}
	}
	return errors.Join(it.Error(), b.Commit(pebble.Sync))
}

// hasReported reports whether a report of the order was taken.
func (o *order) hasReported() bool {
	if o.Payment != nil || o.Ramp != nil {
		return o.Reports < len(o.reportOutcomes())
	}
	return o.Reports == 0 && o.Deposit.AmountUsdCents%100 != EndingNever
}

// setUnreported makes an order due again: a deposit with one report, any other with all of its
// reports in order. It only fills the batch, and fails only when the order cannot be encoded.
// reportAgain calls it.
func setUnreported(b *pebble.Batch, o order) error {
	id := o.orderID()
	old := dueKey(o.Due, id)
	o.Reports, o.Due = 1, time.UnixMilli(0) // due for any clock
	if outcomes := o.reportOutcomes(); outcomes != nil {
		o.Reports = len(outcomes)
	}
	value, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return errors.Join(b.Delete(old, nil), b.Set(dueKey(o.Due, id), nil, nil), b.Set(orderKey(id), value, nil))
}
