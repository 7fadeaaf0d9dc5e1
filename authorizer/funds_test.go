package authorizer

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// While a debit replaces its reservation, a reader of the funds sees exactly one of them, in the
// cache and in the store.
func TestDebitReplacesItsReservationAtomically(t *testing.T) {
	for name, cache := range map[string]int64{"memory": 64 << 20, "store": 1} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, vfs.NewMem(), func(o *Options) { o.CacheBytes = cache })
			d := &debits{workspace: workspaceOf(3)}
			r.deposit(d.workspace, debitsMade*debitCents)
			defer d.over.Store(true)
			var watching sync.WaitGroup
			watching.Go(func() { d.watch(t, r.e) })
			for i := range debitsMade {
				d.begun.Add(1)
				id := ident.Derive(3, epoch, fmt.Sprint("debit ", i))
				granted, err := r.e.Reserve(d.workspace, id, debitCents)
				require.NoError(t, err)
				require.True(t, granted)
				d.granted.Add(1)
				r.follows(d.workspace.Shard(), Follow{Credits: []Credit{{Workspace: d.workspace, Cents: -debitCents,
					Settles: id}}})
			}
			d.over.Store(true)
			watching.Wait()
			funds, _ := r.e.Funds(d.workspace)
			require.Zero(t, funds)
		})
	}
}

const (
	debitsMade = 10_000
	debitCents = 7
)

// debits are successive debits of a workspace.
type debits struct {
	workspace      ident.UUID
	begun, granted atomic.Int64
	over           atomic.Bool
}

// watch reads the funds repeatedly: they lie between the amount left by the debits granted before
// and by those begun after.
func (d *debits) watch(t *testing.T, e *Engine) {
	for !d.over.Load() {
		most := money.Cents(debitsMade-d.granted.Load()) * debitCents
		funds, _ := e.Funds(d.workspace)
		least := money.Cents(debitsMade-d.begun.Load()) * debitCents
		left, err := funds.Spendable()
		if err != nil || left < least || left > most || funds.ReservedCents > debitCents {
			t.Errorf("%d to %d cents must be left, seen %+v, %v", least, most, funds, err)
			return
		}
		// On one processor the debits would otherwise wait a time slice for each step.
		runtime.Gosched()
	}
}
