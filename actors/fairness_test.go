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

// silentSlotBank never answers inquiries about payments of one slot.
type silentSlotBank struct {
	partner.Bank
	slot         ident.Slot
	asked, ended atomic.Int64
}

func (b *silentSlotBank) Standing(ctx context.Context, reference string) (partner.Standing, error) {
	if slot, err := ident.SlotOf(reference); err != nil || slot != b.slot {
		return b.Bank.Standing(ctx, reference)
	}
	b.asked.Add(1)
	<-ctx.Done()
	b.ended.Add(1)
	return "", ctx.Err()
}

// TestSilentPayoutsDelayTheirOwnWorkspaceAlone: two tenants share a shard, and the bank does not
// answer inquiries about one of them. The other's payout is sent while those calls still wait.
func TestSilentPayoutsDelayTheirOwnWorkspaceAlone(t *testing.T) {
	const hostileSlot, otherSlot, payouts = 77, 76, 100
	bank := &silentSlotBank{slot: hostileSlot}
	w := newBankStackWith(t, vfs.NewMem(), func(b *sandbox.Bank) partner.Bank {
		bank.Bank = b
		return bank
	})
	defer w.stopAndCloseBank()
	hostile, other := w.newWorkspace(hostileSlot), w.newWorkspace(otherSlot)
	require.Equal(t, slotOf(hostile).Shard(), slotOf(other).Shard())
	w.deposit(hostile, payouts)
	w.deposit(other, 1_000)
	mallory, ada := w.newRecipient(hostile, "Mallory"), w.newRecipient(other, "Ada")
	for range payouts {
		w.mustAsk("balance", hostile, hostile, w.newPayout(hostile, mallory, 1))
	}
	require.Eventually(t, func() bool { return bank.asked.Load() > 0 }, eventuallyWithin, pollEvery)
	order := w.newPayout(other, ada, 1_000)
	w.mustAsk("balance", other, other, order)
	w.awaitStatus(order.ID, "submitted")
	require.Zero(t, bank.ended.Load(), "no call of the hostile tenant had to end first")
}
