package pebblelog

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// maxOpenFailures bounds the failures of flushes that a start survives: space may be back.
const maxOpenFailures = 8

// watchFlushes adds to the listener of the options that a flush has ended. Pebble tries a failed
// one again for ever; during a start that is fatal after maxOpenFailures.
func (s *Store) watchFlushes(o *pebble.Options) {
	listener := pebble.EventListener{}
	if o.EventListener != nil {
		listener = *o.EventListener
	}
	later := listener.FlushEnd
	failed := atomic.Int32{}
	listener.FlushEnd = func(info pebble.FlushInfo) {
		if info.Err != nil && !s.isOpen.Load() && failed.Add(1) >= maxOpenFailures {
			o.Logger.Fatalf("a start cannot write what is in its log: %s", info.Err)
		}
		select {
		case s.flushed <- struct{}{}:
		default:
		}
		if later != nil {
			later(info)
		}
	}
	o.EventListener = &listener
}

// freeFlushed frees the records that Pebble has durably, after each flush, until the store
// closes. A failure is tried again after the next flush.
func (s *Store) freeFlushed() {
	for {
		select {
		case <-s.flushed:
		case <-s.done:
			return
		}
		number, err := s.flushedNumber()
		if err == nil {
			err = s.log.Free(number)
		}
		if err != nil {
			s.options.Pebble.Logger.Errorf("records of the log that the store has are kept: %s", err)
		}
	}
}

// flushedNumber returns the number of the last record that Pebble has durably.
func (s *Store) flushedNumber() (number uint64, err error) {
	it, err := s.DB.NewIter(&pebble.IterOptions{LowerBound: positionKey,
		UpperBound: append(positionKey[:len(positionKey):len(positionKey)], 0), OnlyReadGuaranteedDurable: true})
	if err != nil {
		return 0, err
	}
	if it.First() {
		v, err := it.ValueAndErr()
		if err != nil {
			return 0, errors.Join(err, it.Close())
		}
		number = binary.BigEndian.Uint64(v[identityBytes:])
	}
	return number, errors.Join(it.Error(), it.Close())
}

// afterLog is a file system that syncs the tables of flushes after the log has their
// changes. So the number in the store is never ahead of the log's last durable record.
type afterLog struct {
	vfs.FS
	store *Store
}

// flushCategory is that of the tables of Pebble's flushes.
const flushCategory = vfs.DiskWriteCategory("pebble-memtable-flush")

// Create implements vfs.FS.
func (a afterLog) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := a.FS.Create(name, category)
	if log := a.store.opened.Load(); err == nil && log != nil && category == flushCategory {
		f = &flushedTable{f, a.store}
	}
	return f, err
}

// Unwrap is vfs.FS's.
func (a afterLog) Unwrap() vfs.FS { return a.FS }

// flushedTable is a table of a flush. It fails with the log's error.
type flushedTable struct {
	vfs.File
	store *Store
}

// awaitLog returns when every record is durable that was appended before.
func (t *flushedTable) awaitLog() error {
	log := t.store.opened.Load()
	return log.Wait(log.Appended())
}

// Sync is vfs.File's.
func (t *flushedTable) Sync() error {
	if err := t.awaitLog(); err != nil {
		return err
	}
	return t.File.Sync()
}

// SyncData is vfs.File's.
func (t *flushedTable) SyncData() error {
	if err := t.awaitLog(); err != nil {
		return err
	}
	return t.File.SyncData()
}
