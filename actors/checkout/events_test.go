package checkout_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/checkout"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
)

func TestEventsAreReadForEver(t *testing.T) {
	at := decision.StampOf(time.Date(2026, 11, 20, 12, 0, 0, 123_000_000, time.UTC))
	pairs := []checkout.Pair{{Asset: "USDC", Chain: "polygon", Address: "0xabc"}}
	payment := checkout.Payment{Chain: "polygon", Asset: "USDC", Address: "0xabc", TxHash: "0x1", Index: 1,
		Units: "25000000",
		From:  "0x2", SentAt: at, SeenAt: at, Reason: checkout.TooLate,
		Sightings: []checkout.Sighting{{BlockHash: "0xb", Block: 7, Shown: 2, Withdrawn: true}}}
	decisiontest.RequireGoldens(t, checkout.DecodeEvent,
		checkout.Created{ID: "cs_1", Workspace: "ws_1", AmountUsdCents: 2500, Assets: []string{"USDC"},
			Chains: []string{"polygon"}, Pairs: pairs, Indexes: map[string]uint32{"evm": 3},
			Prices: map[string]string{"ETH": "3150.42"}, SettlementOption: checkout.HoldStablecoin, Sandbox: true,
			ExpiresAt: decision.StampOf(at.Add(time.Hour)), At: at},
		checkout.Selected{ID: "cs_1", Workspace: "ws_1", Chosen: pairs[0], Pairs: pairs, At: at},
		checkout.Cancelled{ID: "cs_1", Workspace: "ws_1", At: at},
		checkout.Moved{ID: "cs_1", Workspace: "ws_1", From: checkout.Awaiting, To: checkout.Confirming, At: at},
		checkout.PaymentSeen{ID: "cs_1", Workspace: "ws_1", Payment: payment, At: at},
		checkout.PaymentConfirmed{ID: "cs_1", Workspace: "ws_1", Chain: "polygon", TxHash: "0x1", Index: 1,
			BlockHash: "0xb",
			Shown:     2, At: at},
		checkout.PaymentWithdrawn{ID: "cs_1", Workspace: "ws_1", Chain: "polygon", TxHash: "0x1", Index: 1,
			BlockHash: "0xb",
			At:        at},
		checkout.SessionCompleted{ID: "cs_1", Workspace: "ws_1", From: checkout.Confirming, AmountUsdCents: 2500,
			TxHash:       "0x1",
			PayerAddress: "0x2", Simulated: true, At: at},
		checkout.SessionCredited{ID: "cs_1", Workspace: "ws_1", AmountUsdCents: 2500, TxHash: "0x1",
			PayerAddress: "0x2", At: at},
		checkout.WatchEnded{ID: "cs_1", Workspace: "ws_1", At: at},
	)
}

// An event of a link without a tolerance is encoded as before tolerances existed, and such a stored
// event decodes to a link without one.
func TestEventsStoredBeforeTolerancesDecode(t *testing.T) {
	read := func(eventType string) decision.Event {
		golden, err := os.ReadFile("testdata/events/" + eventType + ".json")
		require.NoError(t, err)
		e, err := checkout.DecodeEvent(eventType, golden)
		require.NoError(t, err)
		return e
	}
	var s checkout.State
	s.Apply(read("checkout.created.v1"))
	s.Apply(read("checkout.completed.v1"))
	require.Equal(t, checkout.Completed, s.Status)
	require.Zero(t, s.ToleranceCents+s.ShortfallCents)

	short := checkout.SessionCompleted{ID: "cs_1", AmountUsdCents: 2500, ShortfallCents: 12}
	payload, err := decision.Encode(short)
	require.NoError(t, err)
	again, err := checkout.DecodeEvent(short.EventType(), payload)
	require.NoError(t, err)
	require.Equal(t, short, again)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, checkout.DecodeEvent) }
