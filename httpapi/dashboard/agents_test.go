package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// agentCardAPI answers one agent, and pages of 100 cards of other agents before the page of its
// card.
type agentCardAPI struct {
	pathAPI
	others int // pages
	read   int // pages of cards
}

func (a *agentCardAPI) Do(op Operation) Answer {
	if op.Path != "/api/cards" {
		return a.pathAPI.Do(op)
	}
	a.read++
	page, _ := strconv.Atoi(op.Query["cursor"])
	if page >= a.others {
		return Answer{Status: 200, Body: []byte(`{"data":[{"id":"card_1","holderKind":"agent","holderLabel":"Buyer",
			"monthSpendUsdCents":700,"monthlyLimitUsdCents":1000}],"nextCursor":null}`)}
	}
	other := strings.TrimSuffix(strings.Repeat(`{"holderKind":"agent","holderLabel":"Buyer 2"},`, 100), ",")
	return Answer{Status: 200, Body: fmt.Appendf(nil, `{"data":[%s],"nextCursor":"%d"}`, other, page+1)}
}

// The spend of an agent counts a card after a hundred others. Beyond a bounded number of cards a
// page says that it has not counted all, and never that there is none.
func TestTheSpendOfAnAgentCountsAllItsCards(t *testing.T) {
	const agent = `{"id":"agt_1","agentName":"Buyer","state":"active"}`
	f := func(path string, others int, want, never string) {
		t.Helper()
		api := &agentCardAPI{others: others, pathAPI: pathAPI{scriptedAPI: scriptedAPI{may: true},
			documents: map[string]string{agentsPath: `{"data":[` + agent + `]}`, agentPath: `{"agent":` + agent + `}`,
				intentsPath: `{"data":[]}`}}}
		r, err := newSite(t).Serve(newVisit(api, "GET", path, nil))
		require.NoError(t, err)
		require.Equal(t, 200, r.Status)
		require.Contains(t, string(r.Body), want)
		require.NotContains(t, string(r.Body), never)
		require.LessOrEqual(t, api.read, agentCardPages)
	}
	for _, path := range []string{"ws_1/agents", "ws_1/agents/agt_1"} {
		f(path, 1, "$7.00 of $10.00", "ot all counted")
		f(path, agentCardPages-1, "$7.00 of $10.00", "ot all counted")
		f(path, agentCardPages, "ot all counted", "No card")
	}
}
