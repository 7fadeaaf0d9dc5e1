package wal

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

const benchRecord = 200

// BenchmarkDurable appends records of a swipe's length until they are durable, from one owner or
// from many at once. It makes a plain write and fdatasync of a group's bytes in turn with it, over
// zeros, and reports what the log takes more.
func BenchmarkDurable(b *testing.B) {
	for _, owners := range []int{1, 64} {
		b.Run(fmt.Sprintf("owners=%d", owners), func(b *testing.B) {
			l, err := Open(Options[int]{Dir: b.TempDir()}, 0, nil)
			require.NoError(b, err)
			require.Eventually(b, func() bool {
				l.segments.mu.Lock()
				defer l.segments.mu.Unlock()
				return l.segments.ready != nil
			}, time.Minute, time.Millisecond)
			plain := newPlainFile(b, DefaultSegmentBytes)
			record := make([]byte, benchRecord)
			pages := 1 + (frameHeader+owners*(recordHeader+benchRecord))/pageBytes
			var took [2][]time.Duration
			for b.Loop() {
				began := time.Now()
				appendOwners(b, l, owners, record)
				took[0] = append(took[0], time.Since(began))
				began = time.Now()
				plain.writeSynced(b, pages*pageBytes)
				took[1] = append(took[1], time.Since(began))
			}
			require.NoError(b, l.Close())
			var median [2]float64
			for i := range took {
				slices.Sort(took[i])
				median[i] = float64(took[i][len(took[i])/2].Microseconds())
			}
			b.ReportMetric(median[0], "µs-log")
			b.ReportMetric(median[1], "µs-plain")
			b.ReportMetric(median[0]/median[1], "ratio")
		})
	}
}

// appendOwners appends a record for each owner at once and waits until all are durable. One owner
// needs no goroutine.
func appendOwners(b *testing.B, l *Log[int], owners int, record []byte) {
	one := func(owner int) {
		number, err := l.Append(record, owner)
		if err == nil {
			err = l.Wait(number)
		}
		if err != nil {
			b.Error(err)
		}
	}
	if owners == 1 {
		one(0)
		return
	}
	var group sync.WaitGroup
	for owner := range owners {
		group.Go(func() { one(owner) })
	}
	group.Wait()
}

// plainFile is a file of zeros that is written from front to back, again and again.
type plainFile struct {
	vfs.File
	at, length int
	data       []byte
}

func newPlainFile(b *testing.B, length int) *plainFile {
	path := b.TempDir() + "/plain"
	writeFile(b, vfs.Default, path, make([]byte, length))
	f, err := vfs.Default.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, f.Close()) })
	return &plainFile{File: f, length: length, data: make([]byte, 1<<20)}
}

func (p *plainFile) writeSynced(b *testing.B, bytes int) {
	if p.at+bytes > p.length {
		p.at = 0
	}
	p.data[0]++
	_, err := p.WriteAt(p.data[:bytes], int64(p.at))
	p.at += bytes
	if err == nil {
		err = p.SyncData()
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkAppend measures the processor time of an append that is durable on a disk without
// latency, and its allocations.
func BenchmarkAppend(b *testing.B) {
	l, err := Open(Options[int]{FS: vfs.NewMem(), Dir: "log"}, 0, nil)
	require.NoError(b, err)
	record := make([]byte, benchRecord)
	b.ReportAllocs()
	for b.Loop() {
		number, err := l.Append(record, 1)
		if err == nil {
			err = l.Wait(number)
		}
		if err != nil {
			b.Fatal(err)
		}
		if number%10_000 == 0 {
			if err := l.Free(number); err != nil {
				b.Fatal(err)
			}
		}
	}
	require.NoError(b, l.Close())
}
