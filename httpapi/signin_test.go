package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/user"
	"purser/actors/workspace"
	"purser/httpapi/password"
	"purser/persistence/ident"
)

func (w *world) login(email, password string) testReply {
	w.t.Helper()
	return w.post(nil, "/api/dashboard/login", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password))
}

// at sends the requests of a function from another address.
func (w *world) at(address string, do func()) {
	before := w.client
	w.client = &fasthttp.HostClient{Addr: "purser.test", Dial: func(string) (net.Conn, error) {
		return w.listen.DialWithLocalAddr(&net.TCPAddr{IP: net.ParseIP(address), Port: 1})
	}}
	do()
	w.client.CloseIdleConnections()
	w.client = before
}

// countDelays counts the delayed attempts, and makes the delay take no time.
func (w *world) countDelays() *int {
	var mu sync.Mutex
	n := new(int)
	w.server.sessions.delays.elapse = func(context.Context, time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		*n++
		return nil
	}
	return n
}

const right, wrong = "a long password", "a wrong password"

// Strangers who guess an account's password do not lock its owner out. From a known place the right
// password is not delayed, and from a new place it is delayed once.
func TestGuessesDoNotLockTheOwnerOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at("10.0.0.1", func() { w.ok(w.signup("ada@example.com")) })
	delayed := w.countDelays()
	for i := range loginsPerAccount {
		w.at(fmt.Sprint("10.0.1.", i), func() {
			w.fails(w.login("ada@example.com", wrong), 401,
				"invalid_credentials")
		})
	}
	require.Zero(t, *delayed)
	w.at("10.0.2.1", func() { w.fails(w.login("Ada@example.com", wrong), 401, "invalid_credentials") })
	require.Equal(t, 1, *delayed)
	w.at("10.0.0.1", func() { w.ok(w.login("ada@example.com", right)) })
	require.Equal(t, 1, *delayed, "a known place")
	w.at("10.0.3.1", func() { w.ok(w.login("ada@example.com", right)) })
	require.Equal(t, 2, *delayed, "a new place")
	w.at("10.0.3.1", func() { w.ok(w.login("ada@example.com", right)) })
	require.Equal(t, 2, *delayed, "it is known since")
	w.clock.turn(rateWindow)
	w.at("10.0.2.1", func() { w.fails(w.login("ada@example.com", wrong), 401, "invalid_credentials") })
	require.Equal(t, 2, *delayed, "the minute is over")
}

// A known place has its own limit, and is forgotten after its lifetime.
func TestAKnownPlaceIsLimitedAndForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.signup("ada@example.com"))
	delayed := w.countDelays()
	for range loginsPerPlace {
		w.fails(w.login("ada@example.com", wrong), 401, "invalid_credentials")
	}
	w.ok(w.login("ada@example.com", right))
	require.Equal(t, 1, *delayed)
	w.clock.turn(user.PlaceLife)
	for i := range loginsPerAccount {
		w.at(fmt.Sprint("10.0.1.", i), func() {
			w.fails(w.login("ada@example.com", wrong), 401,
				"invalid_credentials")
		})
	}
	w.ok(w.login("ada@example.com", right))
	require.Equal(t, 2, *delayed)
}

// The attempts of an address count over all accounts. Sign-ups count apart from them.
func TestAnAddressIsLimitedOverAllAccounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	delayed := w.countDelays()
	for i := range signupsPerAddress {
		w.ok(w.signup(fmt.Sprintf("ada-%d@example.com", i)))
	}
	w.overLimit(w.signup("eve@example.com"), rateWindow)
	for i := range loginsPerAddress {
		w.ok(w.login(fmt.Sprintf("ada-%d@example.com", i), right))
	}
	require.Zero(t, *delayed)
	w.ok(w.login("ada-0@example.com", right))
	require.Equal(t, 1, *delayed)
}

// Delayed attempts are bounded. One more is refused at once, with the wait until a place is free.
func TestDelayedAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at("10.0.0.1", func() { w.ok(w.signup("ada@example.com")) })
	for i := range loginsPerAccount {
		w.at(fmt.Sprint("10.0.1.", i), func() {
			w.fails(w.login("ada@example.com", wrong), 401,
				"invalid_credentials")
		})
	}
	held, release := make(chan struct{}, maxDelayed), make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	w.server.sessions.delays.elapse = func(context.Context, time.Duration) error {
		held <- struct{}{}
		<-release
		return nil
	}
	var waiting sync.WaitGroup
	for i := range delayedPerAccount {
		client := &fasthttp.HostClient{Addr: "purser.test", Dial: func(string) (net.Conn, error) {
			return w.listen.DialWithLocalAddr(&net.TCPAddr{IP: net.IPv4(10, 0, 2, byte(i/delayedPerAddress)), Port: 1})
		}}
		waiting.Go(func() {
			defer client.CloseIdleConnections()
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			req.SetRequestURI("http://purser.test/api/dashboard/login")
			req.Header.SetMethod("POST")
			req.Header.SetContentType("application/json")
			req.SetBodyString(`{"email":"ada@example.com","password":"a wrong password"}`)
			if err := client.Do(req, resp); err != nil || resp.StatusCode() != 401 {
				t.Errorf("a delayed attempt: %d, %v, %s", resp.StatusCode(), err, resp.Body())
			}
		})
		select {
		case <-held:
		case <-time.After(waitFor):
			require.FailNow(t, "an attempt is not delayed")
		}
		if i == delayedPerAddress-1 {
			w.at("10.0.2.0", func() { w.overLimit(w.login("ada@example.com", right), signInDelay) })
		}
	}
	w.at("10.0.9.9", func() { w.overLimit(w.login("ada@example.com", right), signInDelay) })
	w.at("10.0.0.1", func() { w.ok(w.login("ada@example.com", right)) })
	end()
	waiting.Wait()
	w.at("10.0.9.9", func() { w.ok(w.login("ada@example.com", right)) })
	require.Zero(t, w.server.sessions.delays.total)
	require.Empty(t, w.server.sessions.delays.counts)
}

// A full queue of password hashes refuses with a time to retry. An address fills only its share of
// it.
func TestAFullPasswordQueueRefuses(t *testing.T) {
	t.Parallel()
	release, running := make(chan struct{}), make(chan struct{}, password.MaxQueued)
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	w := newWorld(t, func(c *Config) {
		c.DerivePassword = func(d password.Derivation) ([]byte, error) {
			running <- struct{}{}
			<-release
			return deriveCheaply(d)
		}
	})
	var waiting sync.WaitGroup
	caller := password.Caller{Address: peerOf(netip.Addr{})} // of a connection in memory
	for i := range password.MaxQueuedPerAddress + 1 {
		waiting.Go(func() {
			if _, err := w.server.sessions.passwords.Hash(t.Context(), caller, "a long password"); err != nil {
				t.Errorf("hash %d: %v", i, err)
			}
		})
		if i == 0 {
			<-running
		}
	}
	require.Eventually(t, func() bool { return w.server.sessions.passwords.Waiting() == password.MaxQueuedPerAddress+1 },
		waitFor, pause)
	r := w.signup("ada@example.com")
	w.fails(r, 503, "unavailable")
	require.Equal(t, "1", r.header("Retry-After"))
	done := make(chan testReply, 1)
	go func() {
		var r testReply
		w.at("10.0.0.2", func() { r = w.signup("bob@example.com") })
		done <- r
	}()
	require.Eventually(t, func() bool { return w.server.sessions.passwords.Waiting() == password.MaxQueuedPerAddress+2 },
		waitFor, pause)
	end()
	w.ok(<-done)
	waiting.Wait()
}

func TestAPasswordChangeEndsAllOtherSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.ok(w.signup("Ada@example.com")).cookie
	second := w.ok(w.login("ada@example.com", right)).cookie
	change := func(cookie, current, next string) testReply {
		return w.post(session(cookie), "/api/dashboard/password",
			fmt.Sprintf(`{"currentPassword":%q,"newPassword":%q}`, current, next))
	}
	w.fails(change(first, wrong, "another password"), 401, "invalid_credentials")
	w.fails(change(first, right, "short"), 400, "invalid_body")
	changed := w.ok(change(first, right, "another password"))
	require.Equal(t, "Ada@example.com", changed.text("user", "email"))
	for _, ended := range []string{first, second} {
		w.fails(w.get(session(ended), "/api/dashboard/me"), 401, "unauthorized")
	}
	w.ok(w.get(session(changed.cookie), "/api/dashboard/me"))
	w.fails(w.login("ada@example.com", right), 401, "invalid_credentials")
	w.ok(w.login("ada@example.com", "another password"))
}

// A sign-in whose password was checked before a password change starts no session after it.
func TestASignInDoesNotOutlastAPasswordChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.ok(w.signup("ada@example.com"))
	var once sync.Once
	w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
		if _, starts := e.Command.(user.StartSession); starts {
			once.Do(func() {
				_, err := w.system.Ask(ctx, actors.Envelope{Kind: "user", Stream: e.Stream, Workspace: e.Stream,
					Command: user.ChangePassword{Email: "ada@example.com", PasswordHash: "x", Start: user.StartSession{
						SecretHash: strings.Repeat("0", 64), Life: time.Hour}}})
				require.NoError(t, err)
			})
		}
		return w.system.Ask(ctx, e)
	})
	r := w.login("ada@example.com", right)
	w.fails(r, 401, "invalid_credentials")
	require.Empty(t, r.cookie)
	w.fails(w.get(session(made.cookie), "/api/dashboard/me"), 401, "unauthorized")
}

// A cookie and an API key are random tokens. The journal has the SHA-256 hash by which each is
// found. No deployment key is part of either, so no cookie key has to rotate.
func TestSessionsAndKeysAreStoredAsHashesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	stored := w.storedOf(tn)
	for kind, secret := range map[string]string{user.RecordSession: tn.cookie, workspace.RecordSecret: tn.secret} {
		sum := sha256.Sum256([]byte(secret))
		prefix := map[string]string{user.RecordSession: ident.SessionSecret,
			workspace.RecordSecret: ident.APISecret}[kind]
		slot, hash, err := ident.ParseSecret(prefix, secret)
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(sum[:]), hash)
		record, err := w.journal.Record(t.Context(), slot, kind, hash)
		require.NoError(t, err)
		random := secret[len(secret)-20:]
		require.NotContains(t, stored+string(record.Document)+record.ID, random)
	}
	require.Contains(t, stored, tn.workspace)
	other := w.ok(w.login("ada@example.com", "a long password")).cookie
	require.NotEqual(t, tn.cookie, other)
}
