package card

import (
	"strconv"

	"purser/actors/decision"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// RuleOf converts an event into the authorizer's rule; version is the event's version in the card's
// stream. ok is false for an event of another package. The event must come from Decide or
// DecodeEvent, which have validated its terms.
func RuleOf(e decision.Event, version uint64) (rule hold.Rule, ok bool) {
	t, ok := termsOf(e)
	if !ok {
		return hold.Rule{}, false
	}
	token, err := ident.ParseToken([]byte(t.Token))
	mustBeValid(err)
	card, err := ident.Parse(ident.Card, t.Card)
	mustBeValid(err)
	workspace, err := ident.Parse(ident.Workspace, t.Workspace)
	mustBeValid(err)
	state, known := networkState(t.State)
	if !known {
		panic("BUG: card state " + t.State)
	}
	return hold.Rule{
		Token: token, Card: card, Workspace: workspace, Version: version, State: state,
		PerTxnCents: t.PerTxnLimitUsdCents, MonthCents: t.MonthlyLimitUsdCents,
		MCCs: mccsOf(t.AllowedMccs), Merchants: merchantsOf(t.AllowedMerchants),
	}, true
}

func mccsOf(list *[]string) []uint16 {
	if list == nil {
		return nil
	}
	mccs := make([]uint16, 0, len(*list))
	for _, item := range *list {
		mcc, err := strconv.ParseUint(item, 10, 16)
		mustBeValid(err)
		mccs = append(mccs, uint16(mcc))
	}
	return mccs
}

func merchantsOf(list *[]string) []string {
	if list == nil {
		return nil
	}
	merchants := make([]string, 0, len(*list))
	for _, item := range *list {
		merchants = append(merchants, hold.NormalizeMerchant(item))
	}
	return merchants
}

func mustBeValid(err error) {
	if err != nil {
		panic("BUG: card terms: " + err.Error())
	}
}
