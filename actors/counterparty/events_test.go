package counterparty_test

import (
	"testing"
	"time"

	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
)

// decodeEvent decodes every version of every event of the package.
var decodeEvent = decision.NewCatalog("counterparty", counterparty.Saved{}, counterparty.Tokenized{},
	counterparty.Refused{}, counterparty.Removed{}).Decode

func TestEventsAreReadForEver(t *testing.T) {
	at := decision.StampOf(time.Date(2026, 11, 20, 12, 0, 0, 123_000_000, time.UTC))
	decisiontest.RequireGoldens(t, decodeEvent,
		counterparty.Saved{ID: "rcp_1", Workspace: "ws_1", Kind: "international", Currency: "EUR", Country: "DE",
			At: at},
		counterparty.Tokenized{ID: "rcp_1", Workspace: "ws_1", Token: "bat_1", At: at},
		counterparty.Refused{ID: "rcp_1", Workspace: "ws_1", At: at},
		counterparty.Removed{ID: "rcp_1", Workspace: "ws_1", At: at},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, decodeEvent) }
