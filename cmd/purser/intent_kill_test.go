package main

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/agent"
	"purser/actors/agent/intent"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
	"purser/persistence"
	"purser/persistence/ident"
)

// intentRounds are those of the full length; a run without fullVariable has a few.
const intentRounds = 50

// TestOneIntentManyClientsAndAKill submits one signed intent from 64 clients at once and kills the server at a random moment.
// After the restart all 64 submit it again: it was accepted once, before or after, every other answer is intent_replay, and each
// answer is in the agent's log.
func TestOneIntentManyClientsAndAKill(t *testing.T) {
	t.Parallel()
	onEachStoreSet(t, killAmidOneIntent)
}

func killAmidOneIntent(t *testing.T, purser program, full bool) {
	data := filepath.Join(t.TempDir(), "data")
	seed, rounds := chooseSeed(t), min(chooseRounds(t, full && os.Getenv(fullLengthVariable) != ""), intentRounds)
	random := rand.New(rand.NewPCG(seed, 2))
	p := launch(t, purser, data)
	s := &oneIntent{sameKey: sameKey{tenant: &tenant{bearer: signUp(t, p, 0)}}, answered: map[string]int{}}
	s.register(t, p)
	for round := range rounds {
		r := s.submission(t, fmt.Sprint("order-", round))
		after := time.Duration(random.Int64N(int64(strikeWithin)))
		before, cut := s.all(p, r, func() { time.AfterFunc(after, func() { _ = p.cmd.Process.Kill() }) })
		require.Equal(t, "signal: killed", p.awaitExit(t))
		p = launch(t, purser, data)
		repeated, lost := s.all(p, r, func() {})
		require.Zero(t, lost)
		s.before, s.cut = s.before+len(before), s.cut+cut
		s.judge(t, before, repeated)
		s.answered[fmt.Sprint("order-", round)] = len(before) + len(repeated)
	}
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
	s.readLog(t, purser, data)
	t.Logf("%d rounds of %d clients: %d answers before a kill, %d requests cut off; in %d rounds the intent was accepted and told so before "+
		"the kill, in %d accepted and not told", rounds, sameKeyClients, s.before, s.cut, s.told, rounds-s.told-s.later)
	require.NotZero(t, s.cut, "no kill has met a request")
}

// oneIntent is the test's state.
type oneIntent struct {
	sameKey
	agent, workspace string
	key              ed25519.PrivateKey
	answered         map[string]int // submissions of each intent that were answered

	told, later int // rounds whose acceptance was told before the kill, and after it
}

func (s *oneIntent) register(t *testing.T, p *process) {
	t.Helper()
	s.key = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	s.agent = s.mustPost(t, p, "/api/agents", fields{"agentName": "shopper",
		"publicKeyPem": intent.PublicKeyPEM(intent.PublicKey(s.key))}, 200).answer.Text("agent", "id")
	a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: "/api/workspaces"})
	require.NoError(t, err)
	s.workspace = a.Text("workspace", "id")
}

func (s *oneIntent) submission(t *testing.T, intentID string) apiclient.Request {
	t.Helper()
	now := time.Now().Unix()
	submission, err := intent.Sign(s.key, marshal(intent.Intent{AgentID: s.agent,
		Merchant: intent.Merchant{Name: "Shop", MCC: "5411"}, Amount: intent.Amount{Currency: "USD", Cents: 100},
		IntentID: intentID, IssuedAt: now, ExpiresAt: now + 3600, Protocol: "TAP"}))
	require.NoError(t, err)
	return apiclient.Request{Method: "POST", Path: "/api/agents/" + s.agent + "/intents", Body: marshal(submission)}
}

// compareRules requires that at most one answer of a round accepts, that one before the kill leaves none for after it, and that all
// others are replays.
func (s *oneIntent) judge(t *testing.T, before, repeated []apiclient.Answer) {
	t.Helper()
	told, later := accepted(t, before), accepted(t, repeated)
	require.LessOrEqual(t, told+later, 1, "%d accepted before the kill, %d after it", told, later)
	require.Len(t, repeated, sameKeyClients)
	if len(before) > told {
		require.Zero(t, later, "a replay was told before the intent was accepted for good")
	}
	s.told, s.later = s.told+told, s.later+later
}

// accepted counts the acceptances among the answers; the others must be replays.
func accepted(t *testing.T, answers []apiclient.Answer) (n int) {
	t.Helper()
	for _, a := range answers {
		if a.Status == 200 {
			n++
			continue
		}
		require.Equal(t, "422 intent_replay", fmt.Sprint(a.Status, " ", a.Text("error")), string(a.Raw))
	}
	return n
}

// readLog reads the journal at rest: each intent was accepted once, and there is an entry for each answer.
func (s *oneIntent) readLog(t *testing.T, purser program, data string) {
	t.Helper()
	place := datadir.Stores{DataDir: data}
	for _, setting := range purser.env {
		if url, found := strings.CutPrefix(setting, "DATABASE_URL="); found {
			place.DatabaseURL = url
		}
	}
	journal, err := place.ReadJournal(t.Context(), "the test")
	require.NoError(t, err)
	slot, err := ident.SlotOf(s.workspace)
	require.NoError(t, err)
	logged, taken := map[string]int{}, map[string]int{}
	page := persistence.Page{Limit: 1000}
	for more := true; more; {
		records, err := journal.List(t.Context(), slot, agent.RecordIntent, s.workspace, s.agent, page)
		require.NoError(t, err)
		for _, r := range records {
			var entry agent.LogEntry
			require.NoError(t, json.Unmarshal(r.Document, &entry))
			logged[*entry.IntentID]++
			if entry.Accepted {
				taken[*entry.IntentID]++
			}
			page.AfterPosition, page.AfterOrdinal = r.Position, r.Ordinal
		}
		more = len(records) == page.Limit
	}
	require.NoError(t, journal.Close())
	for id, answered := range s.answered {
		require.Equal(t, 1, taken[id], "%s was accepted", id)
		require.GreaterOrEqual(t, logged[id], answered, "%s: answers that are not in the log", id)
		require.LessOrEqual(t, logged[id], 2*sameKeyClients+int(s.unknown.Load()), "%s: entries that nobody submitted", id)
	}
}
