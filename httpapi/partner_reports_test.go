package httpapi

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fault"
)

func received(id, workspace string) string {
	return fmt.Sprintf(`{"id":%q,"type":"deposit.received","data":{"workspaceId":%q,"amountUsdCents":500,"rail":"ach"}}`, id,
		workspace)
}

func (w *world) fiat(tn tenant) int {
	w.t.Helper()
	return w.ok(w.get(tn.all, "/api/treasury")).cents("balances", 0, "availableCents")
}

// An event id of the bank moves money once, whichever workspaces its deliveries name.
func TestReportIDBelongsToOneWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.newTenant("ada"), w.newTenant("bob")
	for _, workspace := range []string{a.workspace, b.workspace, b.workspace, a.workspace} {
		w.ok(w.report(received("evt-1", workspace)))
	}
	require.Equal(t, 500, w.fiat(a))
	require.Equal(t, 0, w.fiat(b))
	w.keptUnmatched(1)
	made := w.post(b.all, "/api/treasury/deposits", `{"source":"bank_fiat","rail":"ach","amountUsdCents":70}`)
	settled := fmt.Sprintf(`"type":"deposit.settled","data":{"depositId":%q}}`, made.text("deposit", "id"))
	w.ok(w.report(`{"id":"evt-1",` + settled))
	require.Equal(t, 0, w.fiat(b), "another type of report, the same id")
	w.ok(w.report(`{"id":"evt-2",` + settled))
	require.Equal(t, 70, w.fiat(b))
}

// A report that was claimed but not applied is applied by its repeat, once.
func TestAClaimedReportIsAppliedByItsRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
		if _, applies := e.Command.(balance.ReceiveDeposit); applies {
			return nil, fault.New(fault.Unavailable, "")
		}
		return w.system.Ask(ctx, e)
	})
	w.fails(w.report(received("evt-1", tn.workspace)), 503, "unavailable")
	w.actors.hook(nil)
	require.Equal(t, 0, w.fiat(tn))
	for range 2 {
		w.ok(w.report(received("evt-1", tn.workspace)))
		require.Equal(t, 500, w.fiat(tn))
	}
	w.keptUnmatched(0)
}
