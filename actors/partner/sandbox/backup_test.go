package sandbox_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner/sandbox"
	"purser/persistence/money"
)

// A checkpoint has the orders of its time. Reports sent before it are sent again once, with the
// same ids.
func TestACheckpointReportsAgain(t *testing.T) {
	d, fs := newReportServer(), vfs.NewMem()
	b := d.openBank(t, fs)
	for n, cents := range []money.Cents{100, 191, 193} { // plain, twice, never
		require.NoError(t, b.Expect(t.Context(), deposit(n, cents)))
	}
	d.advance(delay)
	for range 3 {
		_, err := b.Step(t.Context())
		require.NoError(t, err)
	}
	before := d.receivedReports()
	require.Len(t, before, 3)
	require.NoError(t, b.Expect(t.Context(), deposit(3, 100)))
	require.NoError(t, b.Checkpoint("copy"))
	require.NoError(t, b.Expect(t.Context(), deposit(4, 100)))
	require.NoError(t, b.Close())

	require.False(t, sandbox.Exists(fs, "nowhere"))
	require.True(t, sandbox.Exists(fs, "copy"))
	require.NoError(t, sandbox.ReportAgain(fs, "copy"))
	require.NoError(t, sandbox.ReportAgain(fs, "copy"), "once more is the same")
	require.NoError(t, sandbox.Checkpoint(fs, "copy", "copy2"))
	require.NoError(t, fs.RemoveAll(storeDir))
	require.NoError(t, fs.Rename("copy2", storeDir))
	b = d.openBank(t, fs)
	defer func() { require.NoError(t, b.Close()) }()
	_, err := b.Step(t.Context())
	require.NoError(t, err)
	require.Len(t, d.receivedReports(), len(before)+2, "at once, by the bank's clock")
	for range 3 {
		d.advance(delay)
		_, err := b.Step(t.Context())
		require.NoError(t, err)
	}
	var again []string
	for _, r := range d.receivedReports()[len(before):] {
		again = append(again, r.Data.DepositID)
	}
	require.ElementsMatch(t, []string{deposit(0, 0).ID, deposit(1, 0).ID, deposit(3, 0).ID}, again)
}

// Payments repeat all their reports in order. A payment that is never reported stays unreported.
func TestPaymentsReportAgain(t *testing.T) {
	d, fs := newReportServer(), vfs.NewMem()
	b := d.openBank(t, fs)
	for n, ending := range []money.Cents{0, sandbox.EndingFails, sandbox.EndingReturned, sandbox.EndingUnreported} {
		require.NoError(t, b.Pay(t.Context(), payout(t, b, n, 1_000+ending)))
	}
	before := outcomes(t, d, b)
	require.Len(t, before, 3)
	told := reportIDs(d.receivedReports())
	half := payout(t, b, 4, 1_000+sandbox.EndingReturned) // has settled, and is not yet returned
	require.NoError(t, b.Pay(t.Context(), half))
	d.advance(delay)
	runSteps(t, b)
	require.NoError(t, b.Checkpoint("copy"))
	require.NoError(t, b.Close())
	require.NoError(t, sandbox.ReportAgain(fs, "copy"))
	require.NoError(t, sandbox.ReportAgain(fs, "copy"), "once more is the same")
	require.NoError(t, fs.RemoveAll(storeDir))
	require.NoError(t, fs.Rename("copy", storeDir))

	reported := len(d.receivedReports())
	b = d.openBank(t, fs)
	defer func() { require.NoError(t, b.Close()) }()
	outcomes(t, d, b)
	again := reportIDs(d.receivedReports()[reported:])
	require.Subset(t, again, told)
	require.Len(t, again, len(told)+2)
	var ofHalf []string
	for _, r := range d.receivedReports()[reported:] {
		if r.Data.PayoutID == half.Reference {
			ofHalf = append(ofHalf, r.Type)
		}
	}
	require.Equal(t, []string{"payout.settled", "payout.returned"}, ofHalf)
}

func reportIDs(reports []report) (ids []string) {
	for _, r := range reports {
		ids = append(ids, r.ID)
	}
	return ids
}
