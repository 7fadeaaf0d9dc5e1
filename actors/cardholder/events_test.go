package cardholder_test

import (
	"testing"
	"time"

	"purser/actors/cardholder"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
)

// decodeEvent decodes every version of every event of the package.
var decodeEvent = decision.NewCatalog("cardholder", cardholder.Created{}, cardholder.Enrolled{},
	cardholder.Rejected{}).Decode

func TestEventsAreReadForEver(t *testing.T) {
	at := decision.StampOf(time.Date(2026, 11, 20, 12, 0, 0, 123_000_000, time.UTC))
	decisiontest.RequireGoldens(t, decodeEvent,
		cardholder.Created{ID: "chld_1", Workspace: "ws_1", Kind: "employee", At: at},
		cardholder.Enrolled{ID: "chld_1", Workspace: "ws_1", Account: "ich_1", At: at},
		cardholder.Rejected{ID: "chld_1", Workspace: "ws_1", At: at},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, decodeEvent) }
