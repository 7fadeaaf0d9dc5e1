package authorizer

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// A filter has every id that was added, also while it grows, and few others.
func TestAFilterForgetsNoID(t *testing.T) {
	var used atomic.Int64
	f := newIDFilter(false, &used)
	const writers, each = 4, 60_000
	idOf := func(n int) *networkID { id := networkIDOf(routeAuthorizations, strconv.Itoa(n)); return &id }
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				id := idOf(w*each + i)
				f.addID(id, &used)
				if !f.mayHave(id) {
					t.Errorf("id %d is forgotten", w*each+i)
				}
			}
		})
	}
	all.Wait()
	require.Len(t, *f.parts.Load(), 2, "it has grown")
	require.EqualValues(t, 3*filterFirst, used.Load())
	for n := range writers * each {
		require.True(t, f.mayHave(idOf(n)))
	}
	wrong := 0
	for n := range writers * each {
		if f.mayHave(idOf(-1 - n)) {
			wrong++
		}
	}
	require.Less(t, wrong, writers*each/50)
	used.Store(maxFilterBytes)
	for n := 0; len(*f.parts.Load()) > 0; n++ {
		f.addID(idOf(-1-n), &used)
	}
	require.True(t, f.mayHave(idOf(writers*each)), "without a filter any id may be there")
	require.EqualValues(t, maxFilterBytes-3*filterFirst, used.Load())
}

// Repeats are found after a start before and after the stored ids are in the filters, and an id
// that the filter does not have is new without a look-up.
func TestStoredIDsAreInTheFilterAfterAStart(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(80, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	answers := map[string]any{}
	const stored = filterScanKeys + 10
	for n := range stored {
		id := strconv.Itoa(n)
		answers[id] = r.submit(authorization(id, c, 1))
	}
	r.reopen()
	for _, whole := range []bool{false, true} {
		for n, f := range r.e.buckets.filters {
			if whole {
				require.NoError(t, r.e.store.fillFilter(n))
			}
			f.whole.Store(whole)
		}
		for id, answer := range answers {
			require.Equal(t, answer, r.submit(authorization(id, c, 1)))
		}
	}
	known := 0
	for n := range stored {
		for _, id := range []string{strconv.Itoa(n), "new" + strconv.Itoa(n)} {
			own := networkIDOf(routeAuthorizations, id)
			if !r.e.buckets.isNew(&own, r.clock.now().UnixMilli()) {
				known++
			}
		}
	}
	require.GreaterOrEqual(t, known, stored)
	require.Less(t, known, stored+stored/10)
}
