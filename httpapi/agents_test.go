package httpapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/agent"
	"purser/actors/agent/intent"
	"purser/persistence"
	"purser/persistence/ident"
)

// registerAgent registers an agent whose key pair the service generates.
func (w *world) registerAgent(tn tenant) (id string, key ed25519.PrivateKey) {
	w.t.Helper()
	made := w.ok(w.post(tn.all, "/api/agents", `{"agentName":"Travel agent"}`))
	return made.text("agent", "id"), privateKey(w.t, made.text("privateKeyPem"))
}

func privateKey(t testing.TB, text string) ed25519.PrivateKey {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	require.NotNil(t, block)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	return key.(ed25519.PrivateKey)
}

func (w *world) freeze(tn tenant, id, state string) testReply {
	w.t.Helper()
	return w.do(tn.all, "PATCH", "/api/agents/"+id, `{"state":"`+state+`"}`)
}

// An agent is registered, frozen, active again and terminated for good.
func TestTheLifeOfAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	made := w.ok(w.post(tn.all, "/api/agents", `{"agentName":"Travel agent","description":"Books flights","protocols":["TAP"]}`))
	id := made.text("agent", "id")
	require.Equal(t, "active", made.text("agent", "state"))
	require.Equal(t, "Books flights", made.text("agent", "description"))
	require.Equal(t, []any{"TAP"}, made.at("agent", "protocols"))
	require.Equal(t, made.at("agent"), w.ok(w.get(tn.all, "/api/agents/"+id)).at("agent"))

	all := w.ok(w.post(tn.all, "/api/agents", `{"agentName":"All protocols"}`))
	require.Equal(t, []any{"TAP", "MPP", "ACP"}, all.at("agent", "protocols"))
	require.Empty(t, all.text("agent", "description"))

	for _, move := range []struct {
		to     string
		status int
	}{{"active", 200}, {"frozen", 200}, {"frozen", 200}, {"active", 200}, {"terminated", 200}, {"terminated", 200},
		{"active", 409},
		{"frozen", 409}} {
		got := w.freeze(tn, id, move.to)
		require.Equal(t, move.status, got.status, got.raw)
		if move.status == 200 {
			require.Equal(t, move.to, got.text("agent", "state"))
			continue
		}
		w.fails(got, 409, "agent_terminated")
	}
	list := w.ok(w.get(tn.all, "/api/agents"))
	require.Equal(t, "All protocols", list.text("data", 0, "agentName"))
	require.Equal(t, "terminated", list.text("data", 1, "state"))
	require.Equal(t, made.text("agent", "keyId"), list.text("data", 1, "keyId"))
	require.NotContains(t, list.raw, "PRIVATE")
}

// A given public key is stored unchanged. Its key id is the one of the RFCs, and the answer has no
// private key.
func TestGivenPublicKeyIsStoredUnchanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	given := spkiPEM(t, public)
	made := w.ok(w.post(tn.all, "/api/agents", fmt.Sprintf(`{"agentName":"a","publicKeyPem":%q}`, given)))
	require.Equal(t, given, made.text("agent", "publicKeyPem"))
	require.Nil(t, made.at("privateKeyPem"))
	require.Equal(t, intent.KeyID(public), made.text("agent", "keyId"))
	require.Equal(t, intent.Thumbprint(public), made.text("agent", "jwkThumbprint"))

	id := made.text("agent", "id")
	keys := w.ok(w.get(nil, "/api/agents/"+id+"/jwks.json"))
	require.Equal(t, base64.RawURLEncoding.EncodeToString(public), keys.text("keys", 0, "x"))
	require.Equal(t, made.text("agent", "keyId"), keys.text("keys", 0, "kid"))
	w.ok(w.submit(tn, id, w.intentOf(id, "order-1"), private))

	w.ok(w.freeze(tn, id, "frozen"))
	require.Equal(t, []any{}, w.ok(w.get(nil, "/api/agents/"+id+"/jwks.json")).at("keys"))
	w.fails(w.get(nil, "/api/agents/"+ident.Derive(7, w.clock.now(), "x").Format(ident.Agent)+"/jwks.json"), 404,
		"not_found")
	w.fails(w.get(nil, "/api/agents/nonsense/jwks.json"), 404, "not_found")
}

func spkiPEM(t testing.TB, public any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// A value that is not a usable Ed25519 public key is refused, and the message names the reason.
func TestUnusablePublicKeysAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	good := spkiPEM(t, public)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	small := ed25519.PublicKey(append(make([]byte, 31), 0)) // y = 0, of order 4
	for text, why := range map[string]string{
		spkiPEM(t, &other.PublicKey):                   "Ed25519",
		spkiPEM(t, small):                              "small order",
		intent.PublicKeyPEM(append(public[:32:32], 0)): "Ed25519", // a byte behind the key
		good + good:       "one PEM block",
		good + "trailing": "one PEM block",
		strings.ReplaceAll(good, "PUBLIC KEY", "CERTIFICATE"): "PUBLIC KEY",
		intent.PrivateKeyPEM(private):                         "PUBLIC KEY",
		strings.Repeat("-----BEGIN ", 20):                     "one PEM block",
	} {
		body, err := json.Marshal(map[string]string{"agentName": "a", "publicKeyPem": text})
		require.NoError(t, err)
		got := w.post(tn.all, "/api/agents", string(body))
		w.fails(got, 400, "invalid_body")
		require.Contains(t, got.text("message"), "publicKeyPem", text)
		require.Contains(t, got.text("message"), why, text)
	}
	require.Equal(t, []any{}, w.ok(w.get(tn.all, "/api/agents")).at("data"))
}

// A generated private key is in the answer and its stored repeat, and in no event, record, claim or
// log line.
func TestPrivateKeyIsOnlyInItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	register := func() testReply {
		return w.ok(w.post(tn.all.with("Idempotency-Key", someUUID), "/api/agents", `{"agentName":"Travel agent"}`))
	}
	first, again := register(), register()
	require.Equal(t, first.raw, again.raw)
	require.Equal(t, "true", again.header("Idempotent-Replayed"))
	key := privateKey(t, first.text("privateKeyPem"))
	id := first.text("agent", "id")
	w.ok(w.submit(tn, id, w.intentOf(id, "order-1"), key))

	forms := formsOf(first.text("privateKeyPem"), key)
	requireNoneOf(t, forms, w.ok(w.get(tn.all, "/api/agents")).raw)
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	shard, looked := slot.Shard(), 0
	events, err := w.journal.Events(context.Background(), shard, 0, 1000)
	require.NoError(t, err)
	for _, e := range events {
		requireNoneOf(t, forms, string(e.Payload))
		looked++
	}
	for _, kind := range []string{"agent", agent.RecordIntent, "workspace", "tally_agent"} {
		records, err := w.journal.Records(context.Background(), shard, kind, "", 1000)
		require.NoError(t, err)
		require.NotEmpty(t, records, kind)
		for _, r := range records {
			requireNoneOf(t, forms, string(r.Document))
			looked++
		}
	}
	require.Greater(t, looked, 4)
	suiteLog.mu.Lock()
	defer suiteLog.mu.Unlock()
	for form, what := range forms {
		suiteLog.secrets[form] = what
	}
}

// formsOf returns the encodings of a private key that must not be stored.
func formsOf(pemText string, key ed25519.PrivateKey) map[string]string {
	seed := key.Seed()
	return map[string]string{strings.Split(pemText, "\n")[1]: "the PEM of a private key", string(seed): "a seed",
		base64.StdEncoding.EncodeToString(seed):    "a seed in base64",
		base64.RawURLEncoding.EncodeToString(seed): "a seed in base64url", hex.EncodeToString(seed): "a seed in hex",
		base64.StdEncoding.EncodeToString(key): "a key in base64"}
}

func requireNoneOf(t *testing.T, forms map[string]string, text string) {
	t.Helper()
	for form, what := range forms {
		require.NotContains(t, text, form, what)
	}
}

// A workspace has at most agent.MaxPerWorkspace agents.
func TestAgentsPerWorkspaceAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.haveAlready(tn, "agent", agent.MaxPerWorkspace-1)
	w.registerAgent(tn)
	w.fails(w.post(tn.all, "/api/agents", `{"agentName":"One too many"}`), 422, "limit_exceeded")
}

// agentLog returns all stored entries of an agent's log, newest first.
func (w *world) agentLog(tn tenant, id string) []agent.LogEntry {
	w.t.Helper()
	var entries []agent.LogEntry
	page := persistence.Page{Limit: persistence.MaxPage}
	for {
		records, err := w.system.List(context.Background(), agent.RecordIntent, tn.workspace, id, page)
		require.NoError(w.t, err)
		for _, r := range records {
			var e agent.LogEntry
			require.NoError(w.t, json.Unmarshal(r.Document, &e))
			entries = append(entries, e)
			page.AfterPosition, page.AfterOrdinal = r.Position, r.Ordinal
		}
		if len(records) < persistence.MaxPage {
			return entries
		}
	}
}

func (w *world) ask(tn tenant, id string, command any) any {
	w.t.Helper()
	reply, err := w.system.Ask(context.Background(), actors.Envelope{Kind: "agent", Stream: id,
		Workspace: tn.workspace,
		Command:   command})
	require.NoError(w.t, err)
	return reply
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
