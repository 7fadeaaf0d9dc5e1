package authorizer

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
)

// A message that waited 150 ms in its socket is declined without a decision, and its repeat is
// decided anew.
func TestAMessageThatIsTooOldIsNotDecided(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(70, 1)
	r.mint(c)
	r.deposit(c.workspace, 10_000)
	old := authorization("a1", c, 500)
	old.Waited = hold.AnswerWithin
	r.declined(old, hold.ReasonTimeout)
	fact := signed(clearing("c1", "", c, 100))
	fact.Waited = time.Hour
	require.Equal(t, hold.StatusFull, r.submit(fact).Status)
	require.Empty(t, r.log(c.card.Shard()))
	r.approved(authorization("a1", c, 500))
	fact.Waited = 0
	require.Equal(t, hold.StatusOK, r.submit(fact).Status)
	r.agree()
}

// A process that resumes finds the sync and the deadline at once: the answer is late, and the
// approval is undone.
func TestASyncThatIsFoundAfterTheDeadlineIsLate(t *testing.T) {
	overdue := make(chan time.Time)
	r := newRig(t, vfs.NewMem(), func(o *Options) { o.Deadline = func() <-chan time.Time { return overdue } })
	c := cardOf(70, 1)
	r.mint(c)
	r.deposit(c.workspace, 10_000)
	m := authorization("a1", c, 500)
	tk := r.e.intake.admitArrival(0)
	require.NoError(t, r.e.intake.takeMessage(tk, m))
	r.e.intake.handOver(tk)
	require.Eventually(t, func() bool { return len(tk.done) == 1 }, time.Minute, time.Millisecond)
	close(overdue)
	a := r.e.intake.awaitAnswer(tk, m)
	require.Equal(t, hold.ReasonTimeout, a.Reason)
	require.Eventually(t, func() bool { return len(r.log(c.card.Shard())) == 2 }, time.Minute, time.Millisecond)
	require.Equal(t, hold.TimeoutReturn, r.log(c.card.Shard())[1].Kind)
	r.agree()
}
