package actors_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/persistence/ident"
)

// muteBank gives no answer about the payments of one slot.
type muteBank struct {
	partner.Bank
	slot         ident.Slot
	asked, ended atomic.Int64
}

func (b *muteBank) Standing(ctx context.Context, reference string) (partner.Standing, error) {
	if slot, err := ident.SlotOf(reference); err != nil || slot != b.slot {
		return b.Bank.Standing(ctx, reference)
	}
	b.asked.Add(1)
	<-ctx.Done()
	b.ended.Add(1)
	return "", ctx.Err()
}

// TestSilentPayoutsDelayTheirOwnWorkspaceAlone: a tenant whose payouts the bank leaves without an
// answer shares a shard with another. The other's payout is sent while the first calls still wait.
func TestSilentPayoutsDelayTheirOwnWorkspaceAlone(t *testing.T) {
	const hostileSlot, otherSlot, payouts = 77, 76, 100
	bank := &muteBank{slot: hostileSlot}
	w := newTreasuryAt(t, vfs.NewMem(), func(b *sandbox.Bank) partner.Bank {
		bank.Bank = b
		return bank
	})
	defer w.close()
	hostile, other := w.newWorkspace(hostileSlot), w.newWorkspace(otherSlot)
	require.Equal(t, slotOf(hostile).Shard(), slotOf(other).Shard())
	w.deposit(hostile, payouts)
	w.deposit(other, 1_000)
	mallory, ada := w.recipient(hostile, "Mallory"), w.recipient(other, "Ada")
	for range payouts {
		w.must("balance", hostile, hostile, w.order(hostile, mallory, 1))
	}
	require.Eventually(t, func() bool { return bank.asked.Load() > 0 }, comesWithin, lookEvery)
	order := w.order(other, ada, 1_000)
	w.must("balance", other, other, order)
	w.await(order.ID, "submitted")
	require.Zero(t, bank.ended.Load(), "no call of the hostile tenant had to end first")
}
