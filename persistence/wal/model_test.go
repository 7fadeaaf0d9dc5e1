package wal

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Appends, waits, frees, idle times, clean closes and crashes in any order leave a gapless log with
// every durable record, as a slice has them.
func TestRandomLivesAgreeWithASlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			disk := newSectorDisk()
			r := newRig(t, disk, func(o *Options[uint64]) {
				o.SegmentBytes = pageBytes * rapid.IntRange(2, 8).Draw(t, "pages")
			})
			r.random = rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
			r.open(0)
			t.Repeat(map[string]func(*rapid.T){
				"append": func(t *rapid.T) {
					below := rapid.SampledFrom([]int{1, 100, 4_000}).Draw(t, "below")
					r.append(rapid.IntRange(1, 8).Draw(t, "count"), below)
				},
				"wait": func(t *rapid.T) {
					require.NoError(t, r.log.Wait(rapid.Uint64Range(0, uint64(len(r.records))).Draw(t, "number")))
				},
				"free": func(t *rapid.T) {
					r.free(rapid.Uint64Range(0, r.log.Durable()).Draw(t, "through"))
				},
				"idle": func(t *rapid.T) { time.Sleep(noteAfter * 2) },
				"close": func(t *rapid.T) {
					require.NoError(t, r.log.Close())
					r.open(uint64(len(r.records)))
				},
				"crash": func(t *rapid.T) {
					durable := r.log.Durable()
					left := disk.crash(t, r.random)
					require.NoError(t, r.log.Close())
					disk, r = left, r.after(left)
					r.open(durable)
				},
			})
			require.NoError(t, r.log.Close())
		})
	})
}
