package card_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/fault"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

func mint() card.Mint {
	return card.Mint{
		ID: cardID, Workspace: workspaceID, Token: token.String(), Last4: "4242", HolderKind: "agent", HolderLabel: "x",
		MonthlyLimitUsdCents: 1, PerTxnLimitUsdCents: 1,
	}
}

func TestAllowlistsAreBounded(t *testing.T) {
	list := make([]string, card.MaxAllowlist+1)
	for i := range list {
		list[i] = "5734"
	}
	c := mint()
	c.AllowedMccs = &list
	_, err := new(card.State).Decide(decision.Meta{At: at}, c)
	require.True(t, fault.Is(err, fault.InvalidBody), "%v", err)
	list = list[:card.MaxAllowlist]
	_, err = new(card.State).Decide(decision.Meta{At: at}, c)
	require.NoError(t, err)
}

func TestHolderLabelIsInASealedRecordOnly(t *testing.T) {
	var state card.State
	c := mint()
	c.HolderLabel = "Ada Lovelace"
	d, err := state.Decide(decision.Meta{At: at}, c)
	require.NoError(t, err)
	require.NotContains(t, decisiontest.JSON(t, d.Events), "Lovelace")
	state.Apply(d.Events[0])
	require.NotContains(t, decisiontest.JSON(t, state), "Lovelace")
	require.Equal(t, []decision.Record{{Kind: card.RecordLabel, ID: cardID,
		Document: card.Label{HolderLabel: "Ada Lovelace"},
		Personal: true}}, d.Records)
	require.Equal(t, []decision.Tally{{Name: "card", ID: cardID, Max: card.MaxPerWorkspace}}, d.Tallies)

	var loaded card.State
	require.NoError(t, json.Unmarshal([]byte(decisiontest.JSON(t, state)), &loaded))
	require.Equal(t, state, loaded)
}

func TestAbsentAllowlistDiffersFromNull(t *testing.T) {
	for body, want := range map[string]card.OptionalList{
		`{}`:                       {},
		`{"allowedMccs": null}`:    {Set: true},
		`{"allowedMccs": []}`:      {Set: true, Value: &[]string{}},
		`{"allowedMccs": ["1"]}`:   {Set: true, Value: &[]string{"1"}},
		`{"allowedMerchants": []}`: {},
	} {
		var c card.Update
		require.NoError(t, json.Unmarshal([]byte(body), &c), body)
		require.Equal(t, want, c.AllowedMccs, body)
	}
}

func TestRuleOfEveryEventIsComplete(t *testing.T) {
	for state, e := range map[hold.CardState]decision.Event{
		hold.CardActive: card.Minted{Terms: terms("active")}, hold.CardFrozen: card.Frozen{Terms: terms("frozen")},
		hold.CardTerminated: card.Terminated{Terms: terms("terminated")},
	} {
		rule, ok := card.RuleOf(e, 7)
		require.True(t, ok)
		require.Equal(t, state, rule.State)
		require.Equal(t, token, rule.Token)
		require.Equal(t, cardID, rule.Card.Format("card"))
		require.Equal(t, workspaceID, rule.Workspace.Format("ws"))
		require.Equal(t, uint64(7), rule.Version)
		require.Equal(t, []uint16{5734, 742}, rule.MCCs)
		require.Nil(t, rule.Merchants)
	}
	_, ok := card.RuleOf(nil, 1)
	require.False(t, ok)
}

func TestDamagedEventsDoNotDecode(t *testing.T) {
	for _, damage := range []func(*card.Terms){
		func(t *card.Terms) { t.Token = "ctok_1" },
		func(t *card.Terms) { t.Card = "card_1" },
		func(t *card.Terms) { t.Workspace = "" },
		func(t *card.Terms) { t.State = "gone" },
		func(t *card.Terms) { t.MonthlyLimitUsdCents = 0 },
		func(t *card.Terms) { t.AllowedMccs = &[]string{"99999"} },
	} {
		broken := terms("active")
		damage(&broken)
		_, err := card.DecodeEvent("card.unfrozen.v1", []byte(decisiontest.JSON(t, card.Unfrozen{Terms: broken})))
		require.Error(t, err)
	}
}

func TestUnknownCommandsPanic(t *testing.T) {
	require.Panics(t, func() { _, _ = new(card.State).Decide(decision.Meta{At: at}, 7) })
	require.Panics(t, func() { new(card.State).Apply(nil) })
}

// Fulfilment may mint a physical card twice: the result is one card, created when it was ordered.
func TestSecondMintOfAPhysicalCardChangesNothing(t *testing.T) {
	ordered := decision.StampOf(at)
	mint := mint()
	mint.Physical, mint.OrderedAt = true, ordered
	var s card.State
	d, err := s.Decide(decision.Meta{At: at.Add(time.Hour)}, mint)
	require.NoError(t, err)
	require.Len(t, d.Events, 1)
	s.Apply(d.Events[0])
	require.Equal(t, ordered, d.Reply.(card.View).CreatedAt)
	again, err := s.Decide(decision.Meta{At: at.Add(2 * time.Hour)}, mint)
	require.NoError(t, err)
	require.Empty(t, again.Events)
	require.Equal(t, d.Reply, again.Reply)
	mint.Token = ident.Token{9}.String()
	require.Panics(t, func() { _, _ = s.Decide(decision.Meta{At: at}, mint) }, "another token under the same id")
}
