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

// intentRounds is the number of rounds with PURSER_TEST_FULL. Without it there are shortRounds.
const intentRounds = 50

// TestKillAmidOneIntent submits one signed intent from 64 clients at once and kills the server at a
// random moment. After the restart all 64 clients submit it again. At most one answer is an
// acceptance, every other answer is intent_replay, and each answer is in the agent's log.
func TestKillAmidOneIntent(t *testing.T) {
	onlyInFullLength(t)
	t.Parallel()
	onEachStoreSet(t, killAmidOneIntent)
}

func killAmidOneIntent(t *testing.T, purser program, full bool) {
	data := filepath.Join(t.TempDir(), "data")
	seed, rounds := chooseSeed(t), min(chooseRounds(t, full && os.Getenv(fullLengthVariable) != ""), intentRounds)
	random := rand.New(rand.NewPCG(seed, 2))
	p := launch(t, purser, data)
	s := &sameIntentRun{sameKeyRun: sameKeyRun{tenant: &tenant{bearer: signUp(t, p, 0)}}, answered: map[string]int{}}
	s.registerAgent(t, p)
	for round := range rounds {
		r := s.newSubmission(t, fmt.Sprint("order-", round))
		after := time.Duration(random.Int64N(int64(maxKillDelay)))
		before, cut := s.sendFromAllClients(p, r, func() { time.AfterFunc(after, func() { _ = p.cmd.Process.Kill() }) })
		require.Equal(t, "signal: killed", p.awaitExit(t))
		p = launch(t, purser, data)
		repeated, lost := s.sendFromAllClients(p, r, func() {})
		require.Zero(t, lost)
		s.answeredBefore, s.cutOff = s.answeredBefore+len(before), s.cutOff+cut
		s.requireOneAcceptance(t, before, repeated)
		s.answered[fmt.Sprint("order-", round)] = len(before) + len(repeated)
	}
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
	s.requireAnswersLogged(t, purser, data)
	t.Logf("%d rounds of %d clients: %d answers before a kill, %d requests cut off; the acceptance was answered "+
		"before the kill in %d rounds, and committed but not answered in %d", rounds, sameKeyClients,
		s.answeredBefore, s.cutOff, s.acceptedBefore, rounds-s.acceptedBefore-s.acceptedAfter)
	require.NotZero(t, s.cutOff, "no kill interrupted a request")
}

// sameIntentRun is an agent with its key, and the counts of all rounds.
type sameIntentRun struct {
	sameKeyRun
	agent, workspace string
	key              ed25519.PrivateKey
	answered         map[string]int // number of answers by intent

	acceptedBefore, acceptedAfter int // rounds, by when the acceptance was answered
}

func (s *sameIntentRun) registerAgent(t *testing.T, p *process) {
	t.Helper()
	s.key = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	s.agent = s.mustPost(t, p, "/api/agents", fields{"agentName": "shopper",
		"publicKeyPem": intent.PublicKeyPEM(intent.PublicKey(s.key))}, 200).answer.Text("agent", "id")
	a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: "/api/workspaces"})
	require.NoError(t, err)
	s.workspace = a.Text("workspace", "id")
}

func (s *sameIntentRun) newSubmission(t *testing.T, intentID string) apiclient.Request {
	t.Helper()
	now := time.Now().Unix()
	submission, err := intent.Sign(s.key, marshal(intent.Intent{AgentID: s.agent,
		Merchant: intent.Merchant{Name: "Shop", MCC: "5411"}, Amount: intent.Amount{Currency: "USD", Cents: 100},
		IntentID: intentID, IssuedAt: now, ExpiresAt: now + 3600, Protocol: "TAP"}))
	require.NoError(t, err)
	return apiclient.Request{Method: "POST", Path: "/api/agents/" + s.agent + "/intents", Body: marshal(submission)}
}

// requireOneAcceptance requires of a round's answers that at most one is an acceptance and all
// others are replays. A replay before the kill proves an earlier acceptance.
func (s *sameIntentRun) requireOneAcceptance(t *testing.T, before, repeated []apiclient.Answer) {
	t.Helper()
	first, second := countAccepted(t, before), countAccepted(t, repeated)
	require.LessOrEqual(t, first+second, 1, "%d accepted before the kill, %d after it", first, second)
	require.Len(t, repeated, sameKeyClients)
	if len(before) > first {
		require.Zero(t, second, "a replay was answered before the acceptance was durable")
	}
	s.acceptedBefore, s.acceptedAfter = s.acceptedBefore+first, s.acceptedAfter+second
}

// countAccepted counts the acceptances among the answers. The others must be replays.
func countAccepted(t *testing.T, answers []apiclient.Answer) (n int) {
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

// requireAnswersLogged reads the journal of a stopped server. It requires that the agent's log has
// one acceptance of each intent and at least one entry for each answer.
func (s *sameIntentRun) requireAnswersLogged(t *testing.T, purser program, data string) {
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
	logged, accepted := map[string]int{}, map[string]int{}
	page := persistence.Page{Limit: 1000}
	for more := true; more; {
		records, err := journal.List(t.Context(), slot, agent.RecordIntent, s.workspace, s.agent, page)
		require.NoError(t, err)
		for _, r := range records {
			var entry agent.LogEntry
			require.NoError(t, json.Unmarshal(r.Document, &entry))
			logged[*entry.IntentID]++
			if entry.Accepted {
				accepted[*entry.IntentID]++
			}
			page.AfterPosition, page.AfterOrdinal = r.Position, r.Ordinal
		}
		more = len(records) == page.Limit
	}
	require.NoError(t, journal.Close())
	for id, answered := range s.answered {
		require.Equal(t, 1, accepted[id], "acceptances of %s", id)
		require.GreaterOrEqual(t, logged[id], answered, "%s: some answers are not in the log", id)
		submissions := 2*sameKeyClients + int(s.unknownOutcomes.Load())
		require.LessOrEqual(t, logged[id], submissions, "%s: the log has more entries than submissions", id)
	}
}
