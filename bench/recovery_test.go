package bench

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// What is asked again after a kill is asked until there is an answer: "timeout" is none.
func TestARepeatWaitsForItsAnswer(t *testing.T) {
	var asked atomic.Int64
	url := listen(t, func(ctx *fasthttp.RequestCtx) {
		if asked.Add(1) < 4 {
			ctx.SetBodyString(`{"decision":"declined","reason":"timeout"}`)
			return
		}
		ctx.SetBodyString(`{"decision":"approved","reason":"approved"}`)
	})
	w := newWorker(runAt(url), 0, "again")
	defer w.close()
	status, answer, err := w.repeat(&exchange{path: authorizations, body: []byte(`{}`)})
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, `{"decision":"approved","reason":"approved"}`, string(answer))
	require.EqualValues(t, 4, asked.Load())
}

// A walk over cards comes to every one before it comes to one again.
func TestAWalkComesToEveryCard(t *testing.T) {
	const cards = 10_007
	seen := map[string]bool{}
	k := walk{cards: &portfolio{given: newGiven(Config{Cards: cards, Workspaces: 1,
		Stock: &Stock{Token: func(i int) string { return fmt.Sprint(i) }, Owner: func(int) int { return 0 }}})}}
	for range cards {
		require.False(t, k.over())
		seen[k.pick(nil).token] = true
	}
	require.Len(t, seen, cards)
	require.True(t, k.over())
}
