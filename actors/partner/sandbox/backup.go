package sandbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// reportAgainBatch is the size in bytes at which ReportAgain commits a batch of orders.
const reportAgainBatch = 4 << 20

// Exists reports whether a directory has a sandbox store. A nil fs is the disk. It creates nothing.
// A directory that cannot be read has none.
func Exists(fs vfs.FS, dir string) bool {
	d, err := pebble.Peek(dir, diskIfNil(fs))
	return err == nil && d.Exists
}

// Checkpoint writes a snapshot of the store into a new directory. The partners may work meanwhile.
// It fails when the directory exists and with the disk's error.
func (s *Store) Checkpoint(dir string) error {
	if err := s.log.Checkpoint(dir); err != nil {
		return fmt.Errorf("sandbox: checkpoint %s: %w", dir, err)
	}
	return nil
}

// Checkpoint copies a store that no process has open; a nil fs is the disk. It fails when the store
// cannot be opened, or when to exists.
func Checkpoint(fs vfs.FS, from, to string) error {
	s, err := OpenStore(fs, from)
	if err != nil {
		return err
	}
	return errors.Join(s.Checkpoint(to), s.Close())
}

// ReportAgain makes the bank and the ramp repeat every report of the orders that they still keep.
// No process may have the directory open. A Purser restored from an older backup may have lost
// reports; it recognizes repeats by their ids. The reports are due at once, for any clock. It fails
// with the store's error, after which some orders may be due again.
func ReportAgain(fs vfs.FS, dir string) error {
	s, err := OpenStore(fs, dir)
	if err != nil {
		return err
	}
	for _, prefix := range []string{bankPrefix, rampPrefix} {
		if again := (&orderStore{s.log, prefix}).reportAgain(); again != nil {
			err = errors.Join(err, fmt.Errorf("sandbox: report again: %w", again))
		}
	}
	return errors.Join(err, s.Close())
}

// reportAgain makes the orders with a report due again, as they were before its first write, in
// commits of about reportAgainBatch bytes. It fails with the store's error; earlier commits stay.
func (s *orderStore) reportAgain() error {
	b := s.log.DB.NewBatch()
	err := s.eachOrder(func(o *order) error {
		if !o.hasReported() {
			return nil
		}
		if err := s.setUnreported(b, *o); err != nil || b.Len() < reportAgainBatch {
			return err
		}
		full := b
		b = s.log.DB.NewBatch()
		return s.log.Commit(full)
	})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	return s.log.Commit(b)
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
func (s *orderStore) setUnreported(b *pebble.Batch, o order) error {
	old := s.dueKey(o.Due, o.orderID())
	o.Reports, o.Due = 1, time.UnixMilli(0) // due for any clock
	if outcomes := o.reportOutcomes(); outcomes != nil {
		o.Reports = len(outcomes)
	}
	return errors.Join(b.Delete(old, nil), s.setOrder(b, &o))
}
