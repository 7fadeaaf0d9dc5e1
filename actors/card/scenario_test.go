package card_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
)

// scenario is one card whose commands are a second apart. Every step also checks the package's
// contract: events decode to themselves, the reply is the card as it then is, and a refusal changes
// nothing.
type scenario struct {
	state   card.State
	version uint64
	now     time.Time
}

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step { return (&scenario{now: at}).step })
}

func (s *scenario) step(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "new":
		*s = scenario{now: at}
		return ""
	case "mint":
		c := card.Mint{ID: cardID, Workspace: workspaceID, Token: token.String(), Last4: "4242"}
		require.NoError(t, json.Unmarshal([]byte(d.Input), &c))
		return s.send(t, c)
	case "patch":
		var c card.Update
		require.NoError(t, json.Unmarshal([]byte(d.Input), &c))
		return s.send(t, c)
	case "read":
		return s.send(t, decision.Read{})
	case "rule":
		return s.rule()
	}
	d.Fatalf(t, "no such step")
	return ""
}

func (s *scenario) send(t *testing.T, command any) string {
	d, err := decisiontest.Decide(t, &s.state, s.now, command)
	s.now = s.now.Add(time.Second)
	if err != nil {
		return decisiontest.RefusalLine(t, err)
	}
	events := decisiontest.Apply(t, &s.state, card.DecodeEvent, d.Events...)
	s.version += uint64(len(d.Events))
	view := d.Reply.(card.View)
	require.Equal(t, s.state.View(), view)
	if view.AllowedMccs != nil && len(*view.AllowedMccs) > 0 {
		(*view.AllowedMccs)[0] = "spoilt"
		require.NotEqual(t, "spoilt", (*s.state.AllowedMccs)[0], "the reply is a copy")
	}
	return events + s.describe(s.state.View())
}

func (s *scenario) describe(v card.View) string {
	return fmt.Sprintf("%s, %d a month, %d per transaction, categories %s, merchants %s, changed after %s\n", v.State,
		v.MonthlyLimitUsdCents, v.PerTxnLimitUsdCents, listText(v.AllowedMccs), listText(v.AllowedMerchants),
		v.UpdatedAt.Sub(v.CreatedAt.Time))
}

// rule describes the authorizer's rule if the card were frozen next.
func (s *scenario) rule() string {
	rule, ok := card.RuleOf(card.Frozen{Terms: s.state.Terms}, s.version)
	if !ok {
		return "none\n"
	}
	return fmt.Sprintf("version %d: %s, %d a month, %d per transaction, categories %s, merchants %s\n",
		rule.Version, rule.State,
		rule.MonthCents, rule.PerTxnCents, anyOr(rule.MCCs, "%v"), anyOr(rule.Merchants, "%q"))
}

func anyOr[T any](items []T, format string) string {
	if items == nil {
		return "any"
	}
	return fmt.Sprintf(format, items)
}

func listText(items *[]string) string {
	switch {
	case items == nil:
		return "any"
	case len(*items) == 0:
		return "none"
	}
	return strings.Join(*items, " ")
}
