package httpapi

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"purser/actors/user"
	"purser/persistence/ident"
)

// Limits of the sign-ins that wait for a code of the second factor.
const (
	challengeLife     = 5 * time.Minute
	maxChallenges     = 10_000 // open at once
	challengesPerUser = 5      // one more ends the oldest
	triesPerHour      = 20     // codes of one account, right or wrong
	tryWindow         = time.Hour
	codesPerAddress   = 30 // a minute
)

// errChallengesFull means that maxChallenges are open.
var errChallengesFull = errors.New("too many open challenges")

// openChallenge is a sign-in whose password was right and whose code is still to come.
type openChallenge struct {
	who     userDocument
	start   user.StartSession
	hash    string
	expires time.Time
}

// codeTries counts the codes that were tried for an account since a time.
type codeTries struct {
	since time.Time
	n     int
}

// challenges holds the open challenges. They are in memory: after a restart a person signs in anew.
// It is safe for concurrent use.
type challenges struct {
	mu      sync.Mutex
	pending []openChallenge // oldest first
	tries   map[string]codeTries
}

func newChallenges() *challenges { return &challenges{tries: map[string]codeTries{}} }

// open adds a challenge and returns its token. A user's oldest beyond challengesPerUser ends. It
// fails with errChallengesFull and without entropy.
func (t *challenges) open(c openChallenge, now time.Time, entropy io.Reader) (token string, err error) {
	token, err = ident.NewSecret(ident.ChallengeSecret, 0, entropy)
	if err != nil {
		return "", err
	}
	if _, c.hash, err = ident.ParseSecret(ident.ChallengeSecret, token); err != nil {
		return "", err
	}
	c.expires = now.Add(challengeLife)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = slices.DeleteFunc(t.pending, func(old openChallenge) bool { return !old.expires.After(now) })
	of := func(old openChallenge) bool { return old.who.ID == c.who.ID }
	n := 0
	for _, old := range t.pending {
		if of(old) {
			n++
		}
	}
	if n >= challengesPerUser {
		oldest := slices.IndexFunc(t.pending, of)
		t.pending = slices.Delete(t.pending, oldest, oldest+1)
	}
	if len(t.pending) >= maxChallenges {
		return "", errChallengesFull
	}
	t.pending = append(t.pending, c)
	return token, nil
}

// find returns the open challenge of a token and its hash, or nil.
func (t *challenges) find(token string, now time.Time) (hash string, found *openChallenge) {
	_, hash, err := ident.ParseSecret(ident.ChallengeSecret, token)
	if err != nil {
		return "", nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.pending {
		if c.hash == hash && c.expires.After(now) {
			return hash, &c
		}
	}
	return hash, nil
}

// end removes a challenge after its session began, and forgets the tries of its account.
func (t *challenges) end(hash, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = slices.DeleteFunc(t.pending, func(c openChallenge) bool { return c.hash == hash })
	delete(t.tries, id)
}

// countTry counts a code that is tried for an account, and returns 0. Over triesPerHour it returns
// the wait until the next may be tried. Accounts are counted up to maxChallenges, beyond which a
// new one waits.
func (t *challenges) countTry(id string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	tried, counted := t.tries[id]
	if !counted && len(t.tries) >= maxChallenges {
		for other, old := range t.tries {
			if now.Sub(old.since) >= tryWindow {
				delete(t.tries, other)
			}
		}
		if len(t.tries) >= maxChallenges {
			return passwordRetry
		}
	}
	if !counted || now.Sub(tried.since) >= tryWindow {
		tried = codeTries{since: now}
	}
	if tried.n >= triesPerHour {
		return tried.since.Add(tryWindow).Sub(now)
	}
	tried.n++
	t.tries[id] = tried
	return 0
}
