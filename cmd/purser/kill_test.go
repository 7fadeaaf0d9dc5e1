package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/demo"
)

const (
	killRounds           = 20
	shortKillRounds      = 3 // without fullLengthVariable
	workspaceCount       = 3
	sharedCardsEach      = 3 // cards of each workspace whose terms no client changes
	restClientsEach      = 4
	richCents            = 1_000_000_00
	poorCents            = 2_000_00 // too little for a whole storm
	seedVariable         = "PURSER_TEST_SEED"
	maxShownDifferences  = 20
	maxShownLogBytes     = 4 << 10
	answersBeforeSIGTERM = 300
)

// TestTheRealProcess runs the compiled program as a process of its own and ends it under load, by
// SIGKILL and by SIGTERM.
func TestTheRealProcess(t *testing.T) {
	t.Parallel()
	t.Run("every answered request survives kill -9", func(t *testing.T) { onEachStoreSetIfFull(t, killInStorms) })
	t.Run("SIGTERM answers the requests in flight", func(t *testing.T) { onEachStoreSetIfFull(t, terminateInStorm) })
}

// killInStorms kills a server under load at a random moment, killRounds times. After each restart
// the server has every effect that it answered, and none twice. The audit agrees, and the same
// holds for an authorizer that is rebuilt from the journal.
func killInStorms(t *testing.T, purser program, full bool) {
	seed, data, rounds := chooseSeed(t), filepath.Join(t.TempDir(), "data"), killRounds
	if !full {
		rounds = shortKillRounds
	}
	random := rand.New(rand.NewPCG(seed, 0))
	p := launch(t, purser, data)
	w := newWitness(t, p)
	least, starts, storms, checks := int64(swipers), time.Duration(0), time.Duration(0), time.Duration(0)
	for round := 1; round <= rounds; round++ {
		began := time.Now()
		inFlight := w.killRound(t, p, round,
			minAnswersBeforeKill+random.Int64N(maxAnswersBeforeKill-minAnswersBeforeKill), seed)
		least, storms = min(least, inFlight), storms+time.Since(began)
		p = launch(t, purser, data)
		starts, began = starts+p.startupTime, time.Now()
		w.verify(t, p, round)
		checks += time.Since(began)
		w.requireNoDifferences(t, p, round)
	}
	w.verifyAll(t, p)
	w.requireNoDifferences(t, p, rounds)
	t.Logf("storms took %v, starts %v, comparisons %v", storms, starts, checks)
	t.Logf("%d kills, at least %d swipes in flight at each; %s", rounds, least, w.counts.report(len(w.differences)))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent", "audit of the running server")
	purser.requireStreams(t, p, data)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent",
		"audit of the stopped server's data directory")
	w.rebuildLostAuthorizer(t, purser, data, rounds)
}

// rebuildLostAuthorizer removes the authorizer's directory. The server then refuses to start and
// names the command that repairs it. After the rebuild every repeated message gets its old answer.
func (w *witness) rebuildLostAuthorizer(t *testing.T, purser program, data string, rounds int) {
	require.NoError(t, os.RemoveAll(datadir.AuthorizerDir(data)))
	require.Contains(t, requireFailure(t, purser, data, "serve"), "purser rebuild-authorizer --yes")
	t.Log(strings.TrimSpace(requireSuccess(t, purser, data, "rebuild-authorizer", "--yes")))
	p := launch(t, purser, data)
	before := w.counts.repeated.Load()
	w.verifyAll(t, p)
	w.requireNoDifferences(t, p, rounds)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent", "audit of the rebuilt store")
	t.Logf("authorizer rebuilt: %d answers repeated, %d differences",
		w.counts.repeated.Load()-before, len(w.differences))
}

// terminateInStorm sends SIGTERM to a server under load: it answers the requests in flight and
// exits with status 0. A second server on the same data directory refuses to start.
func terminateInStorm(t *testing.T, purser program, _ bool) {
	data := filepath.Join(t.TempDir(), "data")
	p := launch(t, purser, data)
	require.Contains(t, requireFailure(t, purser, data, "serve"),
		"the data directory is in use by another purser: "+data)
	w := newWitness(t, p)
	s := &storm{witness: w, p: p, round: 1, signalAfter: answersBeforeSIGTERM,
		signal: func() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }}
	s.run(chooseSeed(t))
	require.Empty(t, p.awaitExit(t), "a drained server ends with status 0")
	cut := w.counts.cutOff()
	p = launch(t, purser, data)
	w.verify(t, p, 1)
	w.verifyAll(t, p)
	w.requireNoDifferences(t, p, 1)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	t.Logf("%d swipes in flight at SIGTERM, %d answers after it, %d requests not accepted; %s",
		s.inFlightAtSignal, s.answersAfterSignal.Load(), cut, w.counts.report(len(w.differences)))
}

// chooseSeed returns the seed that seedVariable names, or a random one, and logs it.
func chooseSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// killRound runs a storm until a client kills the server: the first to receive an answer after
// signalAfter others while minInFlight swipes are in flight, or the last of a storm without one.
// It returns the number of swipes that were in flight at the kill.
func (w *witness) killRound(t *testing.T, p *process, round int, strikeAt int64, seed uint64) int64 {
	t.Helper()
	s := &storm{witness: w, p: p, round: round, signalAfter: strikeAt, signal: func() { _ = p.cmd.Process.Kill() }}
	s.run(seed)
	w.requireNoDifferences(t, p, round)
	require.Equal(t, "signal: killed", p.awaitExit(t))
	return s.inFlightAtSignal
}

// requireNoDifferences ends the test, with the server's log, if any difference was recorded.
func (w *witness) requireNoDifferences(t *testing.T, p *process, round int) {
	t.Helper()
	if len(w.differences) == 0 {
		return
	}
	_ = p.cmd.Process.Kill()
	p.awaitExit(t)
	log := p.log.String()
	require.FailNow(t, "differences", "round %d: %d differences, among them:\n%s\nthe server's log ends:\n%s", round,
		len(w.differences), strings.Join(w.differences[:min(maxShownDifferences, len(w.differences))], "\n"),
		log[max(0, len(log)-maxShownLogBytes):])
}

func (c *counts) cutOff() int64 { return c.cutSwipes.Load() + c.cutFollowUps.Load() + c.cutREST.Load() }

func (c *counts) report(differences int) string {
	return fmt.Sprintf("%d answers recorded (%d swipes, %d follow-ups, %d deposits, %d cards created, "+
		"%d card changes, %d keys created, %d revoked), "+
		"%d requests cut off (%d swipes, %d follow-ups, %d of the REST API), %d undecided, "+
		"%d answers repeated and %d states read, %d differences", c.recorded(), c.swipes.Load(), c.followUps.Load(),
		c.deposits.Load(), c.mints.Load(), c.patches.Load(), c.keysMade.Load(), c.keysRevoked.Load(), c.cutOff(),
		c.cutSwipes.Load(), c.cutFollowUps.Load(), c.cutREST.Load(), c.undecided.Load(), c.repeated.Load(),
		c.reads.Load(), differences)
}

// newWitness signs up the workspaces of a storm and gives each a deposit, cards and REST clients.
// The first workspace has only poorCents.
func newWitness(t *testing.T, p *process) *witness {
	t.Helper()
	w := &witness{}
	for i := range workspaceCount {
		tn := &tenant{bearer: signUp(t, p, i)}
		w.tenants = append(w.tenants, tn)
		cents := int64(richCents)
		if i == 0 {
			cents = poorCents
		}
		tn.mustPost(t, p, "/api/treasury/deposits", depositRequest(cents), 202).cents = cents
		for range sharedCardsEach + restClientsEach {
			a := tn.mustPost(t, p, "/api/cards", cardRequest(), 200).answer
			token := a.Text("card", "partnerCardToken")
			tn.addToken(token)
			first, err := decodeCardTerms(a)
			require.NoError(t, err)
			if len(tn.tokens) > sharedCardsEach {
				tn.restClients = append(tn.restClients,
					&restClient{tenant: tn, card: a.Text("card", "id"), token: token, terms: first})
			}
		}
		p.await(t, "the first deposit", func() bool {
			a, err := p.sendToREST(tn.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
			return err == nil && fmt.Sprint(apiclient.DollarBalance(a)["availableCents"]) == fmt.Sprint(cents)
		})
	}
	// A GET of a card is answered after the authorizer has followed every earlier event, so the
	// deposits are spendable from here on.
	w.checkCards(p)
	require.Empty(t, w.differences)
	return w
}

// signUp makes a user with a workspace and returns an API key with the demo's scopes.
func signUp(t *testing.T, p *process, i int) (bearer string) {
	t.Helper()
	return signUpWithScopes(t, p, i, demo.Scopes)
}

func signUpWithScopes(t *testing.T, p *process, i int, scopes []string) (bearer string) {
	t.Helper()
	session, bearer := signUpSession(t, p, i, scopes)
	session.HTTP.CloseIdleConnections()
	return bearer
}

// signUpSession is signUpWithScopes that also returns the dashboard session.
func signUpSession(t *testing.T, p *process, i int, scopes []string) (session *apiclient.Client, bearer string) {
	t.Helper()
	session = apiclient.New(p.rest, "")
	must := func(path string, body fields) apiclient.Answer {
		a, err := sendUntilKnown(t.Context(), session,
			apiclient.Request{Method: "POST", Path: path, Body: marshal(body)})
		require.NoError(t, err)
		require.Equal(t, 200, a.Status, string(a.Raw))
		return a
	}
	must("/api/dashboard/signup",
		fields{"email": fmt.Sprintf("storm-%d@example.com", i), "password": "a long password"})
	must("/api/workspaces", fields{"name": fmt.Sprintf("Storm %d", i)})
	return session, must("/api/auth/keys", fields{"label": "storm", "scopes": scopes}).Text("secret")
}

// mustPost sends a POST that must be answered with status, and records it.
func (tn *tenant) mustPost(t *testing.T, p *process, path string, body fields, status int) *restPost {
	t.Helper()
	made := &restPost{tenant: tn, status: status, answered: true,
		request: apiclient.Request{Method: "POST", Path: path, IdempotencyKey: apiclient.NewIdempotencyKey(),
			Body: marshal(body)}}
	var err error
	made.answer, err = p.sendToREST(tn.bearer, made.request)
	require.NoError(t, err)
	require.Equal(t, status, made.answer.Status, string(made.answer.Raw))
	tn.posts = append(tn.posts, made)
	return made
}
