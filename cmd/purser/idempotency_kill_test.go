package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
)

const (
	sameKeyClients = 64
	sameKeyRounds  = 100
	shortRounds    = 15                   // without PURSER_TEST_FULL
	roundsVariable = "PURSER_KILL_ROUNDS" // an environment variable that overrides both numbers
	maxKillDelay   = 20 * time.Millisecond
)

// TestKillAmidOneIdempotencyKey sends one request with one Idempotency-Key from 64 clients at once
// and kills the server at a random moment. After the restart all 64 clients repeat the request. The
// request has taken effect once, and every answer is the same.
func TestKillAmidOneIdempotencyKey(t *testing.T) {
	onlyInFullLength(t)
	t.Parallel()
	onEachStoreSet(t, killAmidOneKey)
}

func killAmidOneKey(t *testing.T, purser program, full bool) {
	data := filepath.Join(t.TempDir(), "data")
	seed, rounds := chooseSeed(t), chooseRounds(t, full)
	random := rand.New(rand.NewPCG(seed, 1))
	p := launch(t, purser, data)
	tn := &tenant{bearer: signUp(t, p, 0)}
	s := &sameKeyRun{tenant: tn}
	for round := range rounds {
		r := s.newRequest(round)
		s.killAmidRequests(t, p, r, time.Duration(random.Int64N(int64(maxKillDelay))))
		require.Equal(t, "signal: killed", p.awaitExit(t))
		p = launch(t, purser, data)
		s.repeatAfterKill(t, p, r)
		s.requireEffects(t, p, round+1)
	}
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
	t.Logf("%d rounds of %d clients: %d answers before a kill, %d requests cut off, %d answers after it, "+
		"%d of them replayed; in %d rounds the kill came before any answer, in %d of these after the commit; "+
		"%d effects",
		rounds, sameKeyClients, s.answeredBefore, s.cutOff, s.answeredAfter, s.replayed, s.unanswered,
		s.unansweredWithEffect, s.effects)
	require.Equal(t, rounds, s.effects)
	require.NotZero(t, s.cutOff, "no kill interrupted a request")
}

// chooseRounds returns the number of rounds: that of the environment variable, if it is set.
func chooseRounds(t *testing.T, full bool) int {
	t.Helper()
	text := os.Getenv(roundsVariable)
	switch {
	case text == "" && !full:
		return shortRounds
	case text == "":
		return sameKeyRounds
	}
	rounds, err := strconv.Atoi(text)
	require.NoError(t, err)
	return rounds
}

// sameKeyRun holds the answers of the current round and the counts of all rounds.
type sameKeyRun struct {
	*tenant
	answers         []apiclient.Answer // received before the kill of the current round
	unknownOutcomes atomic.Int64       // answers 503 or "outcome_unknown", after which the client retried

	answeredBefore, cutOff, answeredAfter, replayed int // requests: before the kill, by it, after it
	unanswered, unansweredWithEffect                int // rounds killed before any answer
	effects                                         int // cards, keys and deposits
}

// newRequest returns the request of a round: in turn a card, a deposit and an API key. Their
// commands go to two kinds of actors, and the answer with the key contains a secret.
func (s *sameKeyRun) newRequest(round int) apiclient.Request {
	r := apiclient.Request{Method: "POST", IdempotencyKey: apiclient.NewIdempotencyKey()}
	switch round % 3 {
	case 0:
		r.Path, r.Body = "/api/cards", marshal(cardRequest())
	case 1:
		r.Path, r.Body = "/api/treasury/deposits", marshal(depositRequest(1_00))
	default:
		r.Path = "/api/auth/keys"
		r.Body = marshal(fields{"label": fmt.Sprint("round ", round), "scopes": []string{"read:cards"}})
	}
	return r
}

// killAmidRequests sends the request from all clients at once and kills the server after a delay.
func (s *sameKeyRun) killAmidRequests(t *testing.T, p *process, r apiclient.Request, after time.Duration) {
	t.Helper()
	answers, cut := s.sendFromAllClients(p, r, func() {
		time.AfterFunc(after, func() { _ = p.cmd.Process.Kill() })
	})
	s.answers = answers
	s.answeredBefore, s.cutOff = s.answeredBefore+len(answers), s.cutOff+cut
	if len(answers) == 0 {
		s.unanswered++
	}
	requireSameSuccess(t, answers)
}

// sendFromAllClients sends a request from every client at once. It calls begin just before they
// start. It returns the answers and the number of requests whose connection was cut.
func (s *sameKeyRun) sendFromAllClients(p *process, r apiclient.Request, begin func()) (
	answers []apiclient.Answer, cut int,
) {
	var clients sync.WaitGroup
	var mu sync.Mutex
	var lost atomic.Int64
	start := make(chan struct{})
	for range sameKeyClients {
		clients.Go(func() {
			<-start
			a, err := p.sendToREST(s.bearer, r)
			for try := 0; err == nil && unchangedOrUnknown(a) && try < maxProbes; try++ {
				s.unknownOutcomes.Add(1)
				a, err = p.sendToREST(s.bearer, r)
			}
			if err != nil {
				lost.Add(1)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, a)
		})
	}
	begin()
	close(start)
	clients.Wait()
	return answers, int(lost.Load())
}

// repeatAfterKill repeats the request from all clients. It requires that the request took effect
// once and that every answer is the same, before the kill and after it.
func (s *sameKeyRun) repeatAfterKill(t *testing.T, p *process, r apiclient.Request) {
	t.Helper()
	answers, cut := s.sendFromAllClients(p, r, func() {})
	require.Zero(t, cut)
	fresh := 0
	for _, a := range answers {
		if a.Replayed {
			s.replayed++
			continue
		}
		fresh++
	}
	s.answeredAfter += len(answers)
	switch {
	case len(s.answers) > 0:
		require.Zero(t, fresh, "a request that was answered before the kill took effect again")
	case fresh == 0:
		s.unansweredWithEffect++
	default:
		require.Equal(t, 1, fresh, "one answer is the first, the others are replays")
	}
	requireSameSuccess(t, append(answers, s.answers...))
}

// requireSameSuccess requires that all answers are the same success.
func requireSameSuccess(t *testing.T, answers []apiclient.Answer) {
	t.Helper()
	for _, a := range answers {
		require.Less(t, a.Status, 300, string(a.Raw))
		require.Equal(t, answers[0].Status, a.Status)
		require.Equal(t, string(answers[0].Raw), string(a.Raw))
	}
}

// requireEffects counts the cards, the deposits of one dollar and the API keys: one for each round.
func (s *sameKeyRun) requireEffects(t *testing.T, p *process, rounds int) {
	t.Helper()
	cards := s.countRows(t, p, "/api/cards", func(map[string]any) bool { return true })
	keys := s.countRows(t, p, "/api/auth/keys", func(row map[string]any) bool {
		return strings.HasPrefix(fmt.Sprint(row["label"]), "round ")
	})
	deposits := 0
	p.await(t, "the deposits", func() bool {
		a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
		require.NoError(t, err)
		available, err := strconv.Atoi(fmt.Sprint(apiclient.DollarBalance(a)["availableCents"]))
		require.NoError(t, err)
		incoming, err := strconv.Atoi(fmt.Sprint(apiclient.DollarBalance(a)["incomingCents"]))
		require.NoError(t, err)
		deposits = (available + incoming) / 1_00
		return incoming == 0
	})
	s.effects = cards + keys + deposits
	require.Equal(t, rounds, s.effects, "%d cards, %d keys, %d deposits", cards, keys, deposits)
}

// countRows reads all pages of a list and counts the rows that match.
func (s *sameKeyRun) countRows(t *testing.T, p *process, path string, matches func(map[string]any) bool) int {
	t.Helper()
	n := 0
	for next := "?limit=100"; next != ""; {
		a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: path + next})
		require.NoError(t, err)
		require.Equal(t, 200, a.Status, string(a.Raw))
		for _, row := range a.Rows("data") {
			if matches(row) {
				n++
			}
		}
		cursor := a.Text("nextCursor")
		if next = ""; cursor != "" {
			next = "?limit=100&cursor=" + cursor
		}
	}
	return n
}
