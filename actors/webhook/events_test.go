package webhook_test

import (
	"testing"
	"time"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/webhook"
)

// decodeEvent decodes every version of every event of the package.
var decodeEvent = decision.NewCatalog("webhook", webhook.Registered{}, webhook.Removed{}, webhook.Queued{},
	webhook.Dropped{}, webhook.Postponed{}, webhook.Succeeded{}, webhook.Failed{}, webhook.Replayed{},
	webhook.Adopted{}).Decode

func TestEventsAreReadForEver(t *testing.T) {
	at := decision.StampOf(time.Date(2026, 11, 20, 12, 0, 0, 123_000_000, time.UTC))
	until := decision.StampOf(at.Add(72 * time.Hour))
	decisiontest.RequireGoldens(t, decodeEvent,
		webhook.Registered{ID: "whe_1", Workspace: "ws_1", By: "usr_1",
			Events: []string{webhook.CheckoutCompleted, webhook.PingEvent},
			At:     at},
		webhook.Removed{ID: "whe_1", Workspace: "ws_1", At: at},
		webhook.Adopted{ID: "whe_1", Workspace: "ws_1", By: "usr_1", At: at},
		webhook.Queued{Delivery: "whd_1", Workspace: "ws_1", Event: "ping", Due: at, Until: until, At: at},
		webhook.Dropped{Delivery: "whd_1", Workspace: "ws_1", Event: "ping", At: at},
		webhook.Postponed{Delivery: "whd_1", Workspace: "ws_1", Attempt: failedAttempt(at, "timeout", 10_000),
			Due: decision.StampOf(at.Add(5 * time.Second))},
		webhook.Succeeded{Delivery: "whd_1", Workspace: "ws_1", Attempt: answeredAttempt(at, 204, 48)},
		webhook.Failed{Delivery: "whd_1", Workspace: "ws_1", Attempt: answeredAttempt(at, 500, 48)},
		webhook.Replayed{Delivery: "whd_1", Workspace: "ws_1", Attempts: 7, Due: at, Until: until, At: at},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, decodeEvent) }

func answeredAttempt(at decision.Stamp, status int, ms int64) webhook.Attempt {
	return webhook.Attempt{At: at, StatusCode: &status, DurationMs: ms}
}

func failedAttempt(at decision.Stamp, why string, ms int64) webhook.Attempt {
	return webhook.Attempt{At: at, Error: &why, DurationMs: ms}
}
