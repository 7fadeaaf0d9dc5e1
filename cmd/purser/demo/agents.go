package demo

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"purser/actors/agent/intent"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/buildinfo"
)

// intentLife is the lifetime of the tour's intents.
const intentLife = 5 * time.Minute

// visitAgent registers an agent whose private key stays in the tour. It submits a signed intent,
// then the same intent again, then one whose amount was raised after the signature. It fails only
// when a request has no answer; a wrong answer is a difference of the tour.
func visitAgent(ctx context.Context, t *Tour) error {
	key, err := intent.NewKey(rand.Reader)
	if err != nil {
		return err
	}
	a, err := t.Post(ctx, t.API, "/api/agents", jsonObject{"agentName": "Demo shopper " + t.run, "protocols": []string{"TAP"},
		"publicKeyPem": intent.PublicKeyPEM(intent.PublicKey(key))}, 200)
	if err != nil {
		return err
	}
	id := a.Text("agent", "id")
	t.expect("keyId", a.Text("agent", "keyId"), intent.KeyID(intent.PublicKey(key)))
	t.expect("no private key in the answer", a.At("privateKeyPem"), nil)
	signed, err := t.signIntent(key, id)
	if err != nil {
		return err
	}
	submit := apiclient.Request{Method: "POST", Path: "/api/agents/" + id + "/intents", Body: signed}
	if a, err = t.callExpecting(ctx, t.API, submit, 200); err != nil {
		return err
	}
	t.expect("accepted", a.At("accepted"), true)
	if err := t.expectRefusal(ctx, submit, 422, "intent_replay", "intent_replay"); err != nil {
		return err
	}
	submit.Body = []byte(strings.Replace(string(signed), fmt.Sprintf(`"cents":%d`, swipeCents), `"cents":9999`, 1))
	if err := t.expectRefusal(ctx, submit, 401, "signature_invalid", "bad_signature"); err != nil {
		return err
	}
	log, err := t.callExpecting(ctx, t.API, apiclient.Request{Method: "GET", Path: submit.Path}, 200)
	t.expect("submissions in the log", len(log.Rows("data")), 3)
	return err
}

// signIntent returns the body that submits a signed intent to pay for a lunch. It fails only when
// the intent cannot be encoded.
func (t *Tour) signIntent(key ed25519.PrivateKey, agent string) ([]byte, error) {
	now := time.Now()
	asked, err := json.Marshal(intent.Intent{AgentID: agent, Merchant: intent.Merchant{Name: "Corner Grocer", MCC: "5411"},
		Amount: intent.Amount{Currency: "USD", Cents: swipeCents}, IntentID: t.networkID("lunch"), IssuedAt: now.Unix(),
		ExpiresAt: now.Add(intentLife).Unix(), Protocol: "TAP"})
	if err != nil {
		return nil, err
	}
	submission, err := intent.Sign(key, asked)
	if err != nil {
		return nil, err
	}
	return json.Marshal(submission)
}

// expectRefusal sends an intent and expects its refusal.
func (t *Tour) expectRefusal(ctx context.Context, r apiclient.Request, status int, code, reason string) error {
	a, err := t.callExpecting(ctx, t.API, r, status)
	t.expect("error", a.Text("error"), code)
	t.expect("reason", a.Text("reason"), reason)
	return err
}

// visitMCP reads over the Model Context Protocol. A tool's answer equals that of its REST route. It
// fails only when a request has no answer; a wrong answer is a difference of the tour.
func visitMCP(ctx context.Context, t *Tour) error {
	if _, err := t.callMCP(ctx, "initialize", jsonObject{"protocolVersion": "2024-11-05", "capabilities": jsonObject{},
		"clientInfo": jsonObject{"name": "demo", "version": buildinfo.Version}}); err != nil {
		return err
	}
	listed, err := t.callMCP(ctx, "tools/list", jsonObject{})
	if err != nil {
		return err
	}
	t.expect("tools are listed", len(listed.Rows("result", "tools")) > 0, true)
	called, err := t.callMCP(ctx, "tools/call", jsonObject{"name": "list_agents", "arguments": jsonObject{"limit": 10}})
	if err != nil {
		return err
	}
	read, err := t.callExpecting(ctx, t.API, apiclient.Request{Method: "GET", Path: "/api/agents?limit=10"}, 200)
	if err != nil {
		return err
	}
	for _, part := range called.Rows("result", "content") {
		t.expect("the tool's text", part["text"], string(read.Raw))
	}
	unknown, err := t.callMCP(ctx, "tools/call", jsonObject{"name": "pay_everybody"})
	t.expect("code of a tool that is not there", unknown.At("error", "code"), -32601)
	return err
}

// callMCP sends a message of the Model Context Protocol. It fails when the answer's status is not
// 200.
func (t *Tour) callMCP(ctx context.Context, method string, params jsonObject) (apiclient.Answer, error) {
	body, err := json.Marshal(jsonObject{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return apiclient.Answer{}, err
	}
	return t.callExpecting(ctx, t.API, apiclient.Request{Method: "POST", Path: "/api/mcp", Body: body}, 200)
}
