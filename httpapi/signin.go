package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/user"
	"purser/httpapi/password"
)

// Limits of sign-in and sign-up, per minute. They apply even when the rate limits are off.
const (
	loginsPerAccount  = 10 // from places that are new to the account
	loginsPerPlace    = 10 // from one place that has signed in before
	loginsPerAddress  = 30
	signupsPerAddress = 30
	changesPerUser    = 10
)

// Limits of attempts that are over a limit. Each waits for signInDelay once and is then checked.
const (
	signInDelay       = 5 * time.Second // less than requestTimeout
	maxDelayed        = 256
	delayedPerAccount = 4
	delayedPerAddress = 2
)

// passwordRetry is the advised wait after the queue of password hashes was full.
const passwordRetry = time.Second

// limitSignUp bounds the accounts that one address creates. Sign-ins have their own counts. It
// fails with rate_limited, and with rate_limit_unavailable when the limiter's table is full.
func (h *sessionHandlers) limitSignUp(c *call) error {
	return h.limits.countRequest("signup-address/"+c.peer, signupsPerAddress)
}

// guardSignIn bounds the guesses of an account's password. Guesses from new places share one count,
// and each known place has its own, so strangers cannot use up the attempts of the owner's usual
// place. The address counts over all accounts. account is a hash or id that names the account. It
// fails like delayOver.
func (h *sessionHandlers) guardSignIn(c *call, account string, known bool) error {
	counted, limit := "login-account/"+account, loginsPerAccount
	if known {
		counted, limit = "login-place/"+account+"/"+c.peer, loginsPerPlace
	}
	return h.delayOver(c, []rateCount{{"login-address/" + c.peer, loginsPerAddress}, {counted, limit}}, counted)
}

// guardChange bounds the guesses of the current password in a password change. It fails like
// delayOver.
func (h *sessionHandlers) guardChange(c *call) error {
	counted := "password-user/" + c.who.user
	return h.delayOver(c, []rateCount{{counted, changesPerUser}}, counted)
}

// rateCount names a count of the limiter and its limit.
type rateCount struct {
	caller string
	limit  int
}

// delayOver counts an attempt. An attempt over a limit is delayed, because a refusal would lock the
// owner out. It is refused only when no place for a delayed attempt is free. It fails with
// rate_limited then, with rate_limit_unavailable when the limiter's table is full, and with
// unavailable when the request ends during the delay.
func (h *sessionHandlers) delayOver(c *call, counts []rateCount, account string) error {
	over := false
	for _, count := range counts {
		wait, err := h.limits.counts.admitOne(count.caller, count.limit)
		if err != nil {
			return limiterFault()
		}
		over = over || wait > 0
	}
	if !over {
		return nil
	}
	err := h.delays.delayRequest(c.ctx, delayPlace{"address/" + c.peer, delayedPerAddress},
		delayPlace{account, delayedPerAccount})
	if errors.Is(err, errNoDelay) {
		h.limits.refusals.WithLabelValues("sign-in").Inc()
		return &waitError{fault: fault.New(fault.RateLimited, "too many attempts wait already"), wait: signInDelay}
	}
	return passwordFault(err)
}

// errNoDelay means that no place for a delayed attempt is free.
var errNoDelay = errors.New("no place for a delayed attempt")

// delayLine delays requests. Its places bound the waiting requests, and so their goroutines and
// connections. It is safe for concurrent use.
type delayLine struct {
	// elapse returns after a duration, or with the context's error. Set it before the first use.
	elapse func(ctx context.Context, d time.Duration) error

	mu     sync.Mutex
	total  int
	counts map[string]int
}

// delayPlace names a count of delayed attempts and its maximum.
type delayPlace struct {
	name string
	most int
}

func newDelayLine() *delayLine { return &delayLine{elapse: pauseFor, counts: map[string]int{}} }

// delayRequest delays a request by signInDelay. It returns errNoDelay at once when a place is full.
// It returns the context's error when the request ends during the delay.
func (l *delayLine) delayRequest(ctx context.Context, places ...delayPlace) error {
	if !l.takePlaces(places) {
		return errNoDelay
	}
	defer l.releasePlaces(places)
	return l.elapse(ctx, signInDelay)
}

// takePlaces takes one place of every name, or none and returns false when one of them or the whole
// line is full.
func (l *delayLine) takePlaces(places []delayPlace) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= maxDelayed {
		return false
	}
	for _, place := range places {
		if l.counts[place.name] >= place.most {
			return false
		}
	}
	l.total++
	for _, place := range places {
		l.counts[place.name]++
	}
	return true
}

// releasePlaces returns the places that takePlaces took.
func (l *delayLine) releasePlaces(places []delayPlace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	for _, place := range places {
		if l.counts[place.name]--; l.counts[place.name] == 0 {
			delete(l.counts, place.name)
		}
	}
}

// pauseFor waits for d, or returns the context's error as soon as it ends.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passwordFault turns an error of the password queue into a fault: a full queue or an ended request
// is unavailable with a wait, any other error stays. Nothing has changed.
func passwordFault(err error) error {
	full := errors.Is(err, password.ErrFull)
	if !full && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	f := fault.New(fault.Unavailable, "too many people are signing in; nothing changed")
	return &waitError{fault: f, wait: passwordRetry}
}

// placesOf reads the places from which a user has signed in; it returns none for an unknown user.
// It fails only with an error of the store.
func (h *sessionHandlers) placesOf(ctx context.Context, id string) (user.Places, error) {
	if id == "" {
		return nil, nil
	}
	places, err := query.SignInPlaces.Read(ctx, h.actors, id, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return places, err
}
