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
	fewRounds      = 15                   // where it is not run in full
	roundsVariable = "PURSER_KILL_ROUNDS" // another number
	strikeWithin   = 20 * time.Millisecond
)

// TestOneKeyManyClientsAndAKill sends the same request with the same Idempotency-Key from 64 clients at once and kills the server
// at a random moment. After the restart all 64 ask again: there has been one effect, and everybody is told of it in one answer.
func TestOneKeyManyClientsAndAKill(t *testing.T) {
	t.Parallel()
	onEachStoreSet(t, killAmidOneKey)
}

func killAmidOneKey(t *testing.T, purser program, full bool) {
	data := filepath.Join(t.TempDir(), "data")
	seed, rounds := chooseSeed(t), chooseRounds(t, full)
	random := rand.New(rand.NewPCG(seed, 1))
	p := launch(t, purser, data)
	tn := &tenant{bearer: signUp(t, p, 0)}
	s := &sameKey{tenant: tn}
	for round := range rounds {
		r := s.request(round)
		s.strikeAmid(t, p, r, time.Duration(random.Int64N(int64(strikeWithin))))
		require.Equal(t, "signal: killed", p.awaitExit(t))
		p = launch(t, purser, data)
		s.settle(t, p, r)
		s.expect(t, p, round+1)
	}
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
	t.Logf("%d rounds of %d clients: %d answers before a kill, %d requests cut off, %d answers after it, %d of them replayed; "+
		"in %d rounds the kill came before any answer, in %d of these with the effect done; %d effects", rounds, sameKeyClients,
		s.before, s.cut, s.after, s.replayed, s.untold, s.untoldDone, s.effects)
	require.Equal(t, rounds, s.effects)
	require.NotZero(t, s.cut, "no kill has met a request")
}

func chooseRounds(t *testing.T, full bool) int {
	t.Helper()
	text := os.Getenv(roundsVariable)
	switch {
	case text == "" && !full:
		return fewRounds
	case text == "":
		return sameKeyRounds
	}
	rounds, err := strconv.Atoi(text)
	require.NoError(t, err)
	return rounds
}

// sameKey is the test's state: what was told in this round, and the counts of all.
type sameKey struct {
	*tenant
	told    []apiclient.Answer // before the kill
	unknown atomic.Int64       // requests whose outcome the server could not tell

	before, cut, after, replayed, untold, untoldDone, effects int
}

// request is a round's. Cards, deposits and keys take turns: two kinds of actors, and an answer with a secret in it.
func (s *sameKey) request(round int) apiclient.Request {
	r := apiclient.Request{Method: "POST", IdempotencyKey: apiclient.NewIdempotencyKey()}
	switch round % 3 {
	case 0:
		r.Path, r.Body = "/api/cards", marshal(cardRequest())
	case 1:
		r.Path, r.Body = "/api/treasury/deposits", marshal(depositRequest(1_00))
	default:
		r.Path, r.Body = "/api/auth/keys", marshal(fields{"label": fmt.Sprint("round ", round), "scopes": []string{"read:cards"}})
	}
	return r
}

// strikeAmid sends the request from all clients at once and kills the server after a while.
func (s *sameKey) strikeAmid(t *testing.T, p *process, r apiclient.Request, after time.Duration) {
	t.Helper()
	answers, cut := s.all(p, r, func() {
		time.AfterFunc(after, func() { _ = p.cmd.Process.Kill() })
	})
	s.told = answers
	s.before, s.cut = s.before+len(answers), s.cut+cut
	if len(answers) == 0 {
		s.untold++
	}
	oneAnswer(t, answers)
}

// all sends a request from every client at once; begin is called when they are ready.
func (s *sameKey) all(p *process, r apiclient.Request, begin func()) (answers []apiclient.Answer, cut int) {
	var clients sync.WaitGroup
	var mu sync.Mutex
	var lost atomic.Int64
	start := make(chan struct{})
	for range sameKeyClients {
		clients.Go(func() {
			<-start
			a, err := p.sendToREST(s.bearer, r)
			for try := 0; err == nil && unchangedOrUnknown(a) && try < maxProbes; try++ { // whatever it was that a busy machine does not know
				s.unknown.Add(1)
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

// settle asks again from all clients: all are told the same, and what was told before the kill.
func (s *sameKey) settle(t *testing.T, p *process, r apiclient.Request) {
	t.Helper()
	answers, cut := s.all(p, r, func() {})
	require.Zero(t, cut)
	fresh := 0
	for _, a := range answers {
		if a.Replayed {
			s.replayed++
			continue
		}
		fresh++
	}
	s.after += len(answers)
	switch {
	case len(s.told) > 0:
		require.Zero(t, fresh, "what was answered before the kill was done again")
	case fresh == 0:
		s.untoldDone++
	default:
		require.Equal(t, 1, fresh, "one request has the effect, the others are told of it")
	}
	oneAnswer(t, append(answers, s.told...))
}

// oneAnswer requires that all answers are the same success.
func oneAnswer(t *testing.T, answers []apiclient.Answer) {
	t.Helper()
	for _, a := range answers {
		require.Less(t, a.Status, 300, string(a.Raw))
		require.Equal(t, answers[0].Status, a.Status)
		require.Equal(t, string(answers[0].Raw), string(a.Raw))
	}
}

// expect counts the effects: as many cards, announced dollars and keys as there have been rounds.
func (s *sameKey) expect(t *testing.T, p *process, rounds int) {
	t.Helper()
	cards := s.count(t, p, "/api/cards", func(map[string]any) bool { return true })
	keys := s.count(t, p, "/api/auth/keys", func(row map[string]any) bool {
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

// count walks a list to its end.
func (s *sameKey) count(t *testing.T, p *process, path string, is func(map[string]any) bool) int {
	t.Helper()
	n := 0
	for next := "?limit=100"; next != ""; {
		a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: path + next})
		require.NoError(t, err)
		require.Equal(t, 200, a.Status, string(a.Raw))
		for _, row := range a.Rows("data") {
			if is(row) {
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
