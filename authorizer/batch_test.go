package authorizer

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/money"
)

// A batch holds several lives, each in its order, with repeats of its own messages and a second
// message under an id.
func TestABatchIsAnsweredAsItsMessagesWouldBe(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(91, 1)
	r.mint(c)
	r.deposit(c.workspace, 100_000)
	var messages []hold.Message
	add := func(m *hold.Message) { messages = append(messages, *m) }
	for i := range 20 {
		id := fmt.Sprint("a", i)
		add(authorization(id, c, 100))
		add(incremental("i"+id, id, c, 50))
		add(authorization(id, c, 100))
		add(clearing("c"+id, id, c, 150))
		add(authorization(id, c, 101))
	}
	answers := make([]hold.Answer, len(messages))
	r.e.SubmitBatch(messages, answers)
	for i := 0; i < len(answers); i += 5 {
		a := answers[i : i+5]
		require.Equal(t, hold.Approved, a[0].Decision)
		require.Equal(t, money.Cents(150), a[1].Held)
		require.Equal(t, a[0], a[2], "a repeat")
		require.Equal(t, hold.Posted, a[3].Decision)
		require.Equal(t, a[0].Authorization, a[3].Authorization)
		require.Equal(t, hold.ReasonDuplicateMismatch, a[4].Reason)
	}
	again := make([]hold.Answer, len(messages))
	r.e.SubmitBatch(messages, again)
	require.Equal(t, answers, again)
	r.agree()
}

// Batches that claim each other's ids in opposite orders do not deadlock, even without deadlines.
func TestBatchesDoNotWaitForEachOther(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(92, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	for round := range 50 {
		one := make([]hold.Message, 64)
		other := make([]hold.Message, len(one))
		for i := range one {
			one[i] = *authorization(fmt.Sprint("a", round, "-", i), c, 1)
			other[len(one)-1-i] = one[i]
		}
		answers, turned := make([]hold.Answer, len(one)), make([]hold.Answer, len(one))
		var group sync.WaitGroup
		group.Go(func() { r.e.SubmitBatch(one, answers) })
		group.Go(func() { r.e.SubmitBatch(other, turned) })
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("the batches wait for each other")
		}
		for i := range one {
			require.Equal(t, answers[i], turned[len(one)-1-i])
		}
	}
	r.agree()
}
