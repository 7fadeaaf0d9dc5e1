package httpapi

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/agent"
	"purser/actors/agent/intent"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
)

// intentOf returns a valid intent of an agent.
func (w *world) intentOf(id, intentID string) intent.Intent {
	now := w.clock.now().Unix()
	return intent.Intent{AgentID: id, Merchant: intent.Merchant{Name: "Acme <Books> & Co", MCC: "5942"},
		Amount: intent.Amount{Currency: "USD", Cents: 1999}, IntentID: intentID, IssuedAt: now, ExpiresAt: now + 300,
		Protocol: "TAP"}
}

// signed returns the body of a submission.
func (w *world) signed(key ed25519.PrivateKey, asked any) string {
	w.t.Helper()
	text, err := json.Marshal(asked)
	require.NoError(w.t, err)
	submission, err := intent.Sign(key, text)
	require.NoError(w.t, err)
	body, err := json.Marshal(submission)
	require.NoError(w.t, err)
	return string(body)
}

// signIntent makes the intent of an example valid at the world's time, and signs it.
func (w *world) signIntent(body map[string]any, key ed25519.PrivateKey) {
	w.t.Helper()
	asked := body["intent"].(map[string]any)
	asked["iat"], asked["exp"] = w.clock.now().Unix(), w.clock.now().Unix()+300
	require.NoError(w.t, json.Unmarshal([]byte(w.signed(key, asked)), &body))
}

func (w *world) submit(tn tenant, id string, asked any, key ed25519.PrivateKey) testReply {
	w.t.Helper()
	return w.submitBody(tn, id, w.signed(key, asked))
}

func (w *world) submitBody(tn tenant, id, body string) testReply {
	w.t.Helper()
	return w.post(tn.all, "/api/agents/"+id+"/intents", body)
}

// refusesIntent requires a refusal with its reason, and an entry of the log with the same reason.
func (w *world) refusesIntent(tn tenant, id, body string, status int, code, reason string) {
	w.t.Helper()
	got := w.submitBody(tn, id, body)
	w.fails(got, status, code)
	newest := w.ok(w.get(tn.all, "/api/agents/"+id+"/intents"))
	if reason != string(agent.InvalidBody) || got.at("reason") != nil {
		require.Equal(w.t, reason, got.text("reason"), got.raw)
	}
	require.Equal(w.t, reason, newest.text("data", 0, "rejection_reason"), newest.raw)
	require.Equal(w.t, false, newest.at("data", 0, "accepted"))
}

// Each check has its reason. The answer has the first failed check, and the log records every
// submission.
func TestIntentsAreCheckedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	id, key := w.registerAgent(tn)
	_, other := w.registerAgent(tn)
	good := w.intentOf(id, "order-1")
	with := func(change func(*intent.Intent)) intent.Intent {
		changed := good
		change(&changed)
		return changed
	}
	now := w.clock.now().Unix()
	expired := with(func(i *intent.Intent) { i.ExpiresAt = now })
	early := with(func(i *intent.Intent) { i.IssuedAt = now + 61 })
	foreign := with(func(i *intent.Intent) { i.AgentID = "agt_of_another" })
	tampered := strings.Replace(w.signed(key, expired), "1999", "2999", 1)

	w.refusesIntent(tn, id, w.signed(other, foreign), 400, "invalid_body", "invalid_body")
	w.refusesIntent(tn, id, w.signed(other, expired), 401, "signature_invalid", "kid_mismatch")
	w.refusesIntent(tn, id, tampered, 401, "signature_invalid", "bad_signature")
	w.refusesIntent(tn, id, w.signed(key, expired), 401, "intent_expired", "intent_expired")
	w.refusesIntent(tn, id, w.signed(key, early), 401, "intent_iat_future", "intent_iat_future")

	w.refusesIntent(tn, id, w.signed(key, with(func(i *intent.Intent) { i.IssuedAt, i.ExpiresAt = now+60, now+1 })),
		401,
		"signature_invalid", "intent_expired")
	w.refusesIntent(tn, id, w.signed(key, with(func(i *intent.Intent) { i.IssuedAt, i.ExpiresAt = now+60, now+60 })),
		401,
		"signature_invalid", "intent_expired")

	accepted := w.ok(w.submit(tn, id, with(func(i *intent.Intent) { i.IssuedAt = now + 60; i.ExpiresAt = now + 61 }),
		key))
	require.Equal(t, true, accepted.at("accepted"))
	require.Equal(t, "order-1", accepted.text("intent_id"))
	require.Equal(t, "intent recorded; not yet required for card payments", accepted.text("next", "card"))
	w.refusesIntent(tn, id, w.signed(key, good), 422, "intent_replay", "intent_replay")
	w.refusesIntent(tn, id, w.signed(key, expired), 401, "intent_expired", "intent_expired")

	w.ok(w.freeze(tn, id, "frozen"))
	w.refusesIntent(tn, id, w.signed(other, good), 409, "agent_frozen", "agent_frozen")
	w.ok(w.freeze(tn, id, "terminated"))
	w.refusesIntent(tn, id, w.signed(key, good), 409, "agent_terminated", "agent_terminated")

	log := w.ok(w.get(tn.all, "/api/agents/"+id+"/intents"))
	require.Len(t, log.at("data"), 12)
	require.Equal(t, accepted.text("log_id"), log.text("data", 4, "log_id"))
	require.Nil(t, log.at("data", 4, "rejection_reason"))
	require.Equal(t, "Acme <Books> & Co", log.text("data", 4, "intent", "merchant", "name"))
}

// An agent signs only for its registered protocols. A refused intent does not use up its id.
func TestUnregisteredProtocolIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	made := w.ok(w.post(tn.all, "/api/agents", `{"agentName":"shopper","protocols":["MPP"]}`))
	id := made.text("agent", "id")
	key := privateKey(t, made.text("privateKeyPem"))
	asked := w.intentOf(id, "order-1")
	asked.Protocol = "TAP"
	w.refusesIntent(tn, id, w.signed(key, asked), 422, "protocol_not_registered", "protocol_not_registered")
	asked.Protocol = "MPP"
	w.ok(w.submit(tn, id, asked, key))
}

// An accepted id is used for good. A refused id is free, and so is the same id of another agent.
func TestOnlyAcceptedIntentsUseUpTheirID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	id, key := w.registerAgent(tn)
	sibling, siblingKey := w.registerAgent(tn)
	late := w.intentOf(id, "order-1")
	late.ExpiresAt = w.clock.now().Unix() - 1
	w.refusesIntent(tn, id, w.signed(key, late), 401, "intent_expired", "intent_expired")
	w.ok(w.submit(tn, id, w.intentOf(id, "order-1"), key))
	w.ok(w.submit(tn, sibling, w.intentOf(sibling, "order-1"), siblingKey))
	w.clock.turn(10 * 365 * 24 * time.Hour)
	_, err := w.journal.Sweep(context.Background(), w.clock.now(), 1000)
	require.NoError(t, err)
	w.refusesIntent(tn, id, w.signed(key, w.intentOf(id, "order-1")), 422, "intent_replay", "intent_replay")
}

// Every JSON body for an existing agent is in the log. Other bodies are not.
func TestEveryJSONSubmissionIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	id, key := w.registerAgent(tn)
	logged := 0
	for _, body := range []string{`null`, `[]`, `7`, `"x"`, `{}`, `{"intent":null}`, `{"intent":[1,{"a":"\ud800"}]}`,
		`{"intent":{"intent_id":7},"signature":{}}`, `{"intent":{"a":1,"a":2},"signature":"s","key_id":"k"}`,
		`{"intent":{"intent_id":"order-9","cents":9007199254740993}}`, `{"intent":{"a":1e999}}`,
		`{"intent":{"a":"\u0000"}}`,
		`{"intent":"` + strings.Repeat("x", maxSubmission) + `"}`,
		`{"intent":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
		strings.Replace(w.signed(key, w.intentOf(id, "o")), `"TAP"`, `"TAP","surprise":1`, 1)} {
		w.refusesIntent(tn, id, body, 400, "invalid_body", "invalid_body")
		logged++
	}
	for _, body := range []string{``, ` `, `{`, `{"intent":}`, "{\"intent\":\"\xff\"}", `{}{}`,
		strings.Repeat("[", 60_000)} {
		w.fails(w.submitBody(tn, id, body), 400, "invalid_body")
	}
	w.fails(w.post(tn.all.with("Content-Type", "text/plain"), "/api/agents/"+id+"/intents", "{}"), 415,
		"unsupported_media_type")
	w.fails(w.submitBody(tn, "agt_nonsense", `{}`), 400, "invalid_body")
	entries := w.agentLog(tn, id)
	require.Len(t, entries, logged)
	require.Equal(t, "order-9", *entries[logged-10].IntentID)
	require.Equal(t, "s", *entries[logged-9].Signature)
	require.Empty(t, entries[logged-13].Intent, "over 16 KiB nothing is kept of it")
	shown := w.ok(w.get(tn.all, "/api/agents/"+id+"/intents"))
	require.Equal(t, `{"a":1e999}`, shown.text("data", logged-11, "intent"),
		"what not everybody can read is shown as text")
	require.Equal(t, map[string]any{"intent_id": 7.0}, shown.at("data", logged-8, "intent"))
}

// The signature covers the canonical form: another serialization of the same intent verifies, and
// the log has the received bytes.
func TestSignatureCoversTheCanonicalForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	id, key := w.registerAgent(tn)
	var submission intent.Submission
	require.NoError(t, json.Unmarshal([]byte(w.signed(key, w.intentOf(id, "order-ü-1"))), &submission))
	var tree map[string]any
	require.NoError(t, json.Unmarshal(submission.Intent, &tree))
	spaced, err := json.MarshalIndent(tree, "\t", "   ")
	require.NoError(t, err)
	spaced = []byte(strings.ReplaceAll(string(spaced), "ü", `\u00fc`))
	w.ok(w.submitBody(tn, id, fmt.Sprintf(`{"key_id":%q, "signature":%q,
		"intent": %s}`, submission.KeyID+"=", submission.Signature+"==", spaced)))
	require.Equal(t, string(spaced), w.agentLog(tn, id)[0].Intent)
}

// Of 64 concurrent submissions one is accepted, the others are replays, and all are in the log.
func TestOneIntentSubmittedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	id, key := w.registerAgent(tn)
	const clients = 64
	body := w.signed(key, w.intentOf(id, "order-1"))
	codes := make(chan string, clients)
	for range clients {
		go func() {
			status, raw := w.raw(fmt.Sprintf("POST /api/agents/%s/intents HTTP/1.1\r\nHost: purser.test\r\nAuthorization: Bearer %s\r\n"+
				"Content-Length: %d\r\n\r\n%s", id, tn.secret, len(body), body))
			var answer errorBody
			_ = json.Unmarshal([]byte(raw), &answer)
			codes <- fmt.Sprint(status, " ", answer.Error)
		}()
	}
	counted := map[string]int{}
	for range clients {
		counted[<-codes]++
	}
	require.Equal(t, map[string]int{"200 ": 1, "422 intent_replay": clients - 1}, counted)
	reasons := map[agent.Reason]int{}
	for _, e := range w.agentLog(tn, id) {
		if e.Accepted {
			reasons["accepted"]++
			continue
		}
		reasons[*e.RejectionReason]++
	}
	require.Equal(t, map[agent.Reason]int{"accepted": 1, agent.IntentReplay: clients - 1}, reasons)
}

// A freeze between the check and the command is found by the command: the intent is refused and
// logged, and its id stays free.
func TestFreezeBetweenCheckAndCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	id, key := w.registerAgent(tn)
	for _, state := range []string{"frozen", "terminated"} {
		w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
			if _, accepting := e.Command.(agent.Accept); accepting {
				w.ask(tn, id, agent.ChangeState{State: state})
			}
			return w.system.Ask(ctx, e)
		})
		w.refusesIntent(tn, id, w.signed(key, w.intentOf(id, "order-"+state)), 409, "agent_"+state, "agent_"+state)
		w.actors.hook(nil)
		if state == "frozen" {
			w.ok(w.freeze(tn, id, "active"))
			w.ok(w.submit(tn, id, w.intentOf(id, "order-frozen"), key))
		}
	}
}

// Once a freeze has answered, every later submission is refused, however busy the agent is.
func TestAnsweredFreezeRefusesLaterIntents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	id, key := w.registerAgent(tn)
	for round := range 20 {
		var clients sync.WaitGroup
		for n := range 8 {
			body := w.signed(key, w.intentOf(id, fmt.Sprint("busy-", round, "-", n)))
			clients.Go(func() { w.submitBody(tn, id, body) })
		}
		w.ok(w.freeze(tn, id, "frozen"))
		w.fails(w.submit(tn, id, w.intentOf(id, fmt.Sprint("late-", round)), key), 409, "agent_frozen")
		clients.Wait()
		w.ok(w.freeze(tn, id, "active"))
	}
}

// A refusal that cannot be logged is answered 503, and the answer says that nothing changed.
func TestRefusalThatCannotBeLoggedIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	id, _ := w.registerAgent(tn)
	w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
		if _, refusing := e.Command.(agent.Refuse); refusing {
			return nil, fault.New(fault.Unavailable, "")
		}
		return w.system.Ask(ctx, e)
	})
	w.fails(w.submitBody(tn, id, `{}`), 503, "unavailable")
}

// The log keeps exactly its newest entries, and 50 of them are shown.
func TestIntentLogIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	id, _ := w.registerAgent(tn)
	const over = 3
	var clients sync.WaitGroup
	numbers := make(chan int)
	refusal := func(n int) agent.Refuse {
		return agent.Refuse{Reason: agent.InvalidBody,
			Submission: agent.Submission{LogID: ident.Derive(7, time.UnixMilli(1),
				fmt.Sprint(n)).Format(ident.IntentLog)}}
	}
	for range 64 {
		clients.Go(func() {
			for n := range numbers {
				w.ask(tn, id, refusal(n))
			}
		})
	}
	for n := range agent.MaxLog - 1 {
		numbers <- n
	}
	close(numbers)
	clients.Wait()
	require.Len(t, w.agentLog(tn, id), agent.MaxLog-1)
	for n := range over + 1 {
		w.ask(tn, id, refusal(agent.MaxLog+n))
	}
	entries := w.agentLog(tn, id)
	require.Len(t, entries, agent.MaxLog)
	require.Equal(t, refusal(agent.MaxLog+over).LogID, entries[0].LogID)
	require.EqualValues(t, agent.MaxLog+over, w.ask(tn, id, decision.Read{}).(agent.State).Logged)
	require.Len(t, w.ok(w.get(tn.all, "/api/agents/"+id+"/intents")).at("data"), defaultLimit)
}

// whereCI finds a tool. A missing tool fails the test in CI and skips it elsewhere.
func whereCI(t *testing.T, tool string) (path string, found bool) {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err == nil {
		return path, true
	}
	require.Empty(t, os.Getenv("CI"), "%s is missing", tool)
	t.Logf("left out: %s is missing here", tool)
	return "", false
}

// otherLibraries holds commands that make an Ed25519 pair with the private key in key.pem, print
// the public key, and sign the file intent.
var otherLibraries = map[string]struct{ pair, sign [][]string }{
	"openssl": {
		pair: [][]string{{"genpkey", "-algorithm", "ed25519", "-out", "key.pem"},
			{"pkey", "-in", "key.pem", "-pubout"}},
		sign: [][]string{{"pkeyutl", "-sign", "-rawin", "-inkey", "key.pem", "-in", "intent"}},
	},
	"node": {
		pair: [][]string{{"-e", `const pair = crypto.generateKeyPairSync("ed25519")
			fs.writeFileSync("key.pem", pair.privateKey.export({type: "pkcs8", format: "pem"}))
			process.stdout.write(pair.publicKey.export({type: "spki", format: "pem"}))`}},
		sign: [][]string{{"-e",
			`process.stdout.write(crypto.sign(null, fs.readFileSync("intent"), fs.readFileSync("key.pem")))`}},
	},
}

// Keys of OpenSSL and of Node's crypto are accepted, and their signatures over the canonical form
// verify.
func TestOtherLibrariesSign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	for tool, library := range otherLibraries {
		path, found := whereCI(t, tool)
		if !found {
			continue
		}
		dir := t.TempDir()
		run := func(commands [][]string) (out []byte) {
			for _, args := range commands {
				cmd := exec.Command(path, args...)
				cmd.Dir = dir
				var err error
				out, err = cmd.Output()
				require.NoError(t, err, "%s %v", tool, args)
			}
			return out
		}
		body, err := json.Marshal(map[string]string{"agentName": tool, "publicKeyPem": string(run(library.pair))})
		require.NoError(t, err)
		made := w.ok(w.post(tn.all, "/api/agents", string(body)))
		id := made.text("agent", "id")

		text, err := json.Marshal(w.intentOf(id, "order-1"))
		require.NoError(t, err)
		canonical, err := intent.Canonical(text)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "intent"), canonical, 0o600))
		signature := run(library.sign)
		submission, err := json.Marshal(intent.Submission{Intent: text, Signature: base64url(signature),
			KeyID: made.text("agent", "keyId")})
		require.NoError(t, err)
		w.ok(w.submitBody(tn, id, string(submission)))

		private, err := os.ReadFile(filepath.Join(dir, "key.pem"))
		require.NoError(t, err)
		key := privateKey(t, string(private))
		require.Equal(t, signature, ed25519.Sign(key, canonical))
	}
}

// FuzzSubmitIntent submits fuzzed bytes, once as the body and once as the intent of a valid
// signature. No answer is 500, and every refused JSON body is in the log.
func FuzzSubmitIntent(f *testing.F) {
	f.Add(`{"intent":{},"signature":"","key_id":""}`)
	f.Add(`{"agent_id":"agt_1","merchant":{"name":"a","mcc":"5942"},"amount":{"currency":"USD","cents":1},"iat":1,"exp":2,"intent_id":"o"}`)
	f.Add(`{"a":1e-7,"b":-0,"c":"\ud83d\ude00"}`)
	var w *world
	var tn tenant
	var id string
	var key ed25519.PrivateKey
	f.Fuzz(func(t *testing.T, text string) {
		if w == nil {
			w = newWorld(lasting{f})
			tn = w.newTenant("fuzz")
			id, key = w.registerAgent(tn)
		}
		bodies := []string{text}
		if submission, err := intent.Sign(key, []byte(text)); err == nil {
			signed, err := json.Marshal(submission)
			require.NoError(t, err)
			bodies = append(bodies, string(signed))
		}
		for _, body := range bodies {
			before := w.ask(tn, id, decision.Read{}).(agent.State).Logged
			got := w.submitBody(tn, id, body)
			require.NotEqual(t, 500, got.status, "%q: %s", body, got.raw)
			if logged := w.ask(tn, id, decision.Read{}).(agent.State).Logged; utf8.ValidString(body) &&
				json.Valid([]byte(body)) && logged != before+1 {
				require.Fail(t, "JSON is not in the log", "%q: %s", body, got.raw)
			}
		}
	})
	if w != nil {
		w.close()
	}
}

// FuzzRegisterAgent registers fuzzed public keys. No answer is 500, and an accepted key verifies
// signatures.
func FuzzRegisterAgent(f *testing.F) {
	f.Add("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEArd6WZ/80xWMocComixF0Wn7m+1VExwLcwWYPy/SFIpU=\n-----END PUBLIC KEY-----\n")
	f.Add("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA//////////////////////////////////////////8=\n-----END PUBLIC KEY-----\n")
	f.Add("-----BEGIN RSA PUBLIC KEY-----\nA: b\n\nMCow\n-----END RSA PUBLIC KEY-----")
	var w *world
	var tn tenant
	f.Fuzz(func(t *testing.T, text string) {
		if w == nil {
			w = newWorld(lasting{f})
			tn = w.newTenant("fuzz")
		}
		body, err := json.Marshal(map[string]string{"agentName": "fuzz", "publicKeyPem": text})
		require.NoError(t, err)
		got := w.post(tn.all, "/api/agents", string(body))
		require.Contains(t, []int{200, 400, 422}, got.status, "%q: %s", text, got.raw)
		if _, err := intent.ParsePublicKeyPEM(text); got.status == 200 {
			require.NoError(t, err, "%q", text)
		}
	})
	if w != nil {
		w.close()
	}
}
