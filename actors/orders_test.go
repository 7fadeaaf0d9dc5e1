package actors_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/persistence"
	"purser/persistence/ident"
)

// byteCountingJournal is a journal that sums the bytes appended to it.
type byteCountingJournal struct {
	persistence.Journal
	bytes atomic.Int64
}

func (w *byteCountingJournal) Append(ctx context.Context, shard ident.Shard, epoch uint64, now time.Time,
	group []*persistence.Batch) ([]persistence.Outcome, error) {
	for _, b := range group {
		for i := range b.Events {
			w.bytes.Add(int64(len(b.Events[i].Payload)))
		}
		for i := range b.Records {
			w.bytes.Add(int64(len(b.Records[i].Document)))
		}
	}
	return w.Journal.Append(ctx, shard, epoch, now, group)
}

// announceDeposits announces count deposits and returns their ids.
func (w *testStack) announceDeposits(ws string, count int) []string {
	ids := make([]string, count)
	var all sync.WaitGroup
	places := make(chan struct{}, 64)
	for i := range ids {
		ids[i] = w.newID(ident.Deposit, slotOf(ws))
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			w.mustAsk("balance", ws, ws, balance.CreateDeposit{Workspace: ws, ID: ids[i], Rail: "ach",
				AmountUsdCents: 100,
				ExpectedAt:     w.clock.now().Add(time.Hour)})
		})
	}
	all.Wait()
	return ids
}

// TestADepositWritesTheSameBytesWhateverIsPending: a deposit beside the most pending deposits
// writes as many bytes as beside one, and one above the limit is refused.
func TestADepositWritesTheSameBytesWhateverIsPending(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(9)
	journal := &byteCountingJournal{Journal: w.journal}
	w.restartActors(func(c *actors.Config) { c.Journal = journal })
	w.announceDeposits(ws, 1)
	cost := func() int64 {
		before := journal.bytes.Load()
		w.announceDeposits(ws, 1)
		return journal.bytes.Load() - before
	}
	first := cost()
	ids := w.announceDeposits(ws, balance.MaxOpenDeposits-3)
	require.InDelta(t, first, cost(), 32, "the digits of counts and sums")
	_, err := w.ask("balance", ws, ws, balance.CreateDeposit{Workspace: ws, ID: w.newID(ident.Deposit, slotOf(ws)),
		Rail: "ach", AmountUsdCents: 100, ExpectedAt: w.clock.now()}, nil)
	require.ErrorContains(t, err, "limit_exceeded")
	for i, id := range []string{ids[0], ids[len(ids)-1]} {
		for range 2 {
			w.mustAsk("balance", ws, ws, balance.SettleDeposit{EventID: fmt.Sprint("bank-", i), DepositID: id})
		}
	}
	require.EqualValues(t, 200, w.ledgerCents(ws))
	w.requireCleanAudit()
}

// BenchmarkDepositWithOpen announces and settles one deposit after the other beside open ones. The
// journalB/op metric is the bytes appended to the journal for each.
func BenchmarkDepositWithOpen(b *testing.B) {
	for _, open := range []int{0, balance.MaxOpenDeposits - 1} {
		b.Run(strconv.Itoa(open), func(b *testing.B) {
			w := newTestStack(b, vfs.NewMem(), stackOptions{})
			defer w.stop()
			ws := w.newWorkspace(9)
			journal := &byteCountingJournal{Journal: w.journal}
			w.restartActors(func(c *actors.Config) { c.Journal = journal })
			w.announceDeposits(ws, open)
			before, n := journal.bytes.Load(), 0
			for b.Loop() {
				id := w.announceDeposits(ws, 1)[0]
				w.mustAsk("balance", ws, ws, balance.SettleDeposit{EventID: id, DepositID: id})
				n++
			}
			b.ReportMetric(float64(journal.bytes.Load()-before)/float64(n), "journalB/op")
		})
	}
}

// TestConcurrentRepeatsOfAReportAreAllAnswered: 16 concurrent copies of one report are all answered
// with the order, and move it once.
func TestConcurrentRepeatsOfAReportAreAllAnswered(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(9)
	w.deposit(ws, 100_000)
	id := w.newID(ident.Payout, slotOf(ws))
	w.mustAsk("balance", ws, ws, balance.CreatePayout{Workspace: ws, ID: id, Key: "key_1", Rail: balance.RailIntlWire,
		Recipient: balance.Recipient{ID: "rcp_1", International: true, Currency: "EUR"}, AmountCents: 100,
		Description: "rent",
		Limits:      balance.PayoutLimits{KeyCents: 1000, WorkspaceCents: 1000}})
	w.mustAsk("balance", ws, ws, balance.DirectPayout{ID: id, Release: true})
	w.mustAsk("balance", ws, ws, balance.SubmitPayout{ID: id})
	w.restartActors(func(*actors.Config) {})
	var all sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		all.Go(func() {
			_, errs[i] = w.ask("balance", ws, ws,
				balance.ReportPayout{EventID: "one", ID: id, Outcome: balance.PayoutSettled}, nil)
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.EqualValues(t, 99_900, w.ledgerCents(ws))
	w.requireCleanAudit()
}

// TestAnOrderOfAnotherWorkspaceIsNotLoaded: a report about another workspace's order is answered
// not_found.
func TestAnOrderOfAnotherWorkspaceIsNotLoaded(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	owner, other := w.newWorkspace(9), w.newWorkspace(9)
	w.deposit(other, 100)
	id := w.announceDeposits(owner, 1)[0]
	_, err := w.ask("balance", other, other, balance.SettleDeposit{EventID: "bank", DepositID: id}, nil)
	require.ErrorContains(t, err, "not_found")
	require.EqualValues(t, 100, w.settledBalance(owner).Balances[0].IncomingCents)
}
