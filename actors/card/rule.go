package card

import (
	"strconv"

	"purser/actors/decision"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// RuleOf makes the authorizer's rule of an event that is version in the card's stream; ok is false for an event of another
// kind. The event must be one that Decide or DecodeEvent gave: its terms have been checked.
func RuleOf(e decision.Event, version uint64) (rule hold.Rule, ok bool) {
	t, ok := termsOf(e)
	if !ok {
		return hold.Rule{}, false
	}
	token, err := ident.ParseToken([]byte(t.Token))
	must(err)
	card, err := ident.Parse(ident.Card, t.Card)
	must(err)
	workspace, err := ident.Parse(ident.Workspace, t.Workspace)
	must(err)
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
		must(err)
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

func must(err error) {
	if err != nil {
		panic("BUG: card terms: " + err.Error())
	}
}
