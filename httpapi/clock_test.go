package httpapi

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stored answer is replayed for 24 hours. A minute later the request executes again.
func TestAStoredAnswerLivesADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	deposit := func() testReply {
		return w.post(tn.all.with("Idempotency-Key", "6f1f6ad4-6e0b-4c3e-9f6b-0d8b3d9e8a10"), "/api/treasury/deposits",
			`{"source":"bank_fiat","rail":"ach","amountUsdCents":5}`)
	}
	first := deposit()
	require.Equal(t, 202, first.status, first.raw)
	require.Empty(t, first.header("Idempotent-Replayed"))
	w.clock.turn(23*time.Hour + 59*time.Minute)
	replayed := deposit()
	require.Equal(t, first.raw, replayed.raw)
	require.Equal(t, "true", replayed.header("Idempotent-Replayed"))
	w.clock.turn(2 * time.Minute)
	fresh := deposit()
	require.Equal(t, 202, fresh.status, fresh.raw)
	require.Empty(t, fresh.header("Idempotent-Replayed"))
	require.NotEqual(t, first.text("deposit", "id"), fresh.text("deposit", "id"))
	require.Equal(t, 10, w.ok(w.get(tn.all, "/api/treasury")).cents("balances", 0, "incomingCents"))
}

// overLimit requires 429 with both headers. They hold the wait until the oldest request leaves the
// window.
func (w *world) overLimit(r testReply, wait time.Duration) {
	w.t.Helper()
	w.fails(r, 429, "rate_limited")
	require.Equal(w.t, strconv.Itoa(int((wait+time.Second-1)/time.Second)), r.header("Retry-After"))
	require.Equal(w.t, strconv.FormatInt(wait.Milliseconds(), 10), r.header("x-ratelimit-reset-ms"))
}

// The default limits are 100 requests a minute per key, 600 per workspace and 1,200 per address.
// One more is refused, and a minute after the first request another is admitted.
func TestDefaultRateLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.RateLimits = DefaultRateLimits() })
	limits := DefaultRateLimits()
	ada, bob := w.newTenant("ada"), w.newTenant("bob")
	keys := map[string][]as{}
	for _, tn := range []tenant{ada, bob} {
		for len(keys[tn.workspace]) < limits.PerWorkspace/limits.PerKey {
			made := w.ok(w.post(session(tn.cookie), "/api/auth/keys", `{"label":"k","scopes":["read:cards"]}`))
			keys[tn.workspace] = append(keys[tn.workspace], key(made.text("secret")))
		}
	}
	w.clock.turn(rateWindow)
	sent := 0
	for i, who := range keys[ada.workspace] {
		for range limits.PerKey {
			w.ok(w.get(who, "/api/workspaces"))
			if sent++; sent == 1 {
				w.clock.turn(1500 * time.Millisecond)
			}
		}
		if i == 0 {
			w.overLimit(w.get(who, "/api/workspaces"), rateWindow-1500*time.Millisecond) // the key's 101st
			sent++
		}
	}
	// the workspace's 601st, of a key not used yet
	w.overLimit(w.get(ada.all, "/api/workspaces"), rateWindow-1500*time.Millisecond)
	sent++
	for i := 0; sent < limits.PerAddress; i++ {
		w.ok(w.get(keys[bob.workspace][i/limits.PerKey], "/api/workspaces"))
		sent++
	}
	w.overLimit(w.get(nil, "/api/v1/openapi.json"), rateWindow-1500*time.Millisecond) // the address's 1,201st
	w.clock.turn(rateWindow - 1501*time.Millisecond)
	w.overLimit(w.get(keys[ada.workspace][0], "/api/workspaces"), time.Millisecond)
	w.clock.turn(time.Millisecond)
	w.ok(w.get(keys[ada.workspace][0], "/api/workspaces"))
}

// A step of the wall clock by an hour changes neither the request limits nor the sign-in limits.
func TestAStepOfTheWallClockChangesNoLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.RateLimits = RateLimits{PerKey: 2, PerWorkspace: 100, PerAddress: 100} })
	tn := w.newTenant("ada")
	delayed := w.countDelays()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		w.clock.turn(rateWindow)
		*delayed = 0
		for range 2 {
			w.ok(w.get(tn.all, "/api/workspaces"))
		}
		for i := range loginsPerAccount {
			w.at(fmt.Sprint("10.0.1.", i),
				func() { w.fails(w.login("ada@example.com", wrong), 401, "invalid_credentials") })
		}
		w.clock.step(step)
		w.overLimit(w.get(tn.all, "/api/workspaces"), rateWindow)
		w.at("10.0.2.1", func() { w.fails(w.login("ada@example.com", wrong), 401, "invalid_credentials") })
		require.Equal(t, 1, *delayed, "sign-ins after a step of %s", step)
		w.clock.turn(rateWindow)
		w.ok(w.get(tn.all, "/api/workspaces"))
		w.at("10.0.2.1", func() { w.fails(w.login("ada@example.com", wrong), 401, "invalid_credentials") })
		require.Equal(t, 1, *delayed, "a minute after a step of %s", step)
	}
}

// A session lasts exactly 14 days, used or not.
func TestSessionLastsFourteenDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	used, unused := w.ok(w.signup("ada@example.com")).cookie, w.ok(w.signup("bob@example.com")).cookie
	for range 13 {
		w.clock.turn(24 * time.Hour)
		w.ok(w.get(session(used), "/api/dashboard/me"))
	}
	w.clock.turn(24*time.Hour - time.Millisecond)
	w.ok(w.get(session(used), "/api/dashboard/me"))
	w.ok(w.get(session(unused), "/api/dashboard/me"))
	w.clock.turn(time.Millisecond)
	w.fails(w.get(session(used), "/api/dashboard/me"), 401, "unauthorized")
	w.fails(w.get(session(unused), "/api/dashboard/me"), 401, "unauthorized")
	w.fails(w.post(session(used), "/api/workspaces", `{"name":"Late"}`), 401, "unauthorized")
	w.ok(w.post(nil, "/api/dashboard/login", `{"email":"ada@example.com","password":"a long password"}`))
}
