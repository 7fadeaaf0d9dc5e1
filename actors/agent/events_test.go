package agent_test

import (
	"bytes"
	"crypto/ed25519"
	"testing"
	"time"

	"purser/actors/agent"
	"purser/actors/agent/intent"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
)

var (
	at = time.UnixMilli(1_763_640_000_123)
	// The agent's key, and a key of no agent.
	agentKey   = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	foreignKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))
)

// decodeEvent decodes every version of every event of the package.
var decodeEvent = decision.NewCatalog("agent", agent.Registered{}, agent.Frozen{}, agent.Unfrozen{},
	agent.Terminated{}, agent.IntentAccepted{}, agent.IntentRefused{}).Decode

func TestEventsAreReadForEver(t *testing.T) {
	stamp, public := decision.StampOf(at), intent.PublicKey(agentKey)
	moved := agent.Moved{Agent: "agt_1", Workspace: "ws_1", At: stamp}
	decisiontest.RequireGoldens(t, decodeEvent,
		agent.Registered{Agent: "agt_1", Workspace: "ws_1", AgentName: "Travel agent", Description: "Books flights",
			Protocols: []string{"TAP", "ACP"}, PublicKeyPem: intent.PublicKeyPEM(public), PublicKey: public,
			KeyID: intent.KeyID(public), At: stamp},
		agent.Frozen{Moved: moved}, agent.Unfrozen{Moved: moved}, agent.Terminated{Moved: moved},
		agent.IntentAccepted{Agent: "agt_1", Workspace: "ws_1", LogID: "log_1", Number: 7, IntentID: "order-1",
			Currency: "USD", Cents: 1999, Protocol: "TAP", At: stamp},
		agent.IntentRefused{Agent: "agt_1", Workspace: "ws_1", LogID: "log_2", Number: 8,
			Reason: "bad_signature", At: stamp},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, decodeEvent) }
