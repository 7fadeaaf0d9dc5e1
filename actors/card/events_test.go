package card_test

import (
	"testing"
	"time"

	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/persistence/ident"
)

var (
	at          = time.UnixMilli(1_763_640_000_123)
	cardID      = ident.Derive(77, at, "card").Format(ident.Card)
	workspaceID = ident.Derive(77, at, "workspace").Format(ident.Workspace)
	token       = ident.Token{0, 77, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
)

func terms(state string) card.Terms {
	return card.Terms{
		Token: token.String(), Card: cardID, Workspace: workspaceID, State: state, MonthlyLimitUsdCents: 500_000,
		PerTxnLimitUsdCents: 20_000, AllowedMccs: &[]string{"5734", "0742"}, AllowedMerchants: nil,
	}
}

func TestEventsAreReadForEver(t *testing.T) {
	stamp := decision.StampOf(at)
	everything := terms(card.StateActive)
	everything.AllowedMccs, everything.AllowedMerchants = nil, &[]string{}
	decisiontest.RequireGoldens(t, card.DecodeEvent,
		card.Minted{
			Terms: terms(card.StateActive), Last4: "4242", HolderKind: "agent", CardholderID: "chld_1", Physical: true,
			Fixture: true, At: stamp,
		},
		card.Frozen{Terms: terms(card.StateFrozen), At: stamp},
		card.Unfrozen{Terms: terms(card.StateActive), At: stamp},
		card.Terminated{Terms: terms(card.StateTerminated), At: stamp},
		card.LimitsChanged{Terms: terms(card.StateFrozen), At: stamp},
		card.ScopesChanged{Terms: everything, At: stamp},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, card.DecodeEvent) }
