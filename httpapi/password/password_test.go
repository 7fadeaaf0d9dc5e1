package password

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asWorker is the flag that makes the test binary the worker of the tests.
const asWorker = "-as-password-worker"

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, asWorker) {
		if err := Work(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var somewhere = Caller{Address: "192.0.2.1"}

func TestHashesAreCheckedInThePHCForm(t *testing.T) {
	h, err := NewHasher(rand.Reader, DeriveInProcess)
	require.NoError(t, err)
	ctx := t.Context()
	hash, err := h.Hash(ctx, somewhere, "a long password")
	require.NoError(t, err)
	require.Regexp(t, `^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`, hash)
	f := func(hash, password string, want bool) {
		t.Helper()
		got, err := h.Matches(ctx, somewhere, hash, password)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	f(hash, "a long password", true)
	f(hash, "a long passworD", false)
	f("", "no account has this password", false)
	for _, bad := range []string{"x", "$argon2id$v=19$m=19456,t=2,p=1$AAAA", "$argon2i$v=19$m=19456,t=2,p=1$AAAA$AAAA",
		"$argon2id$v=19$m=99999999,t=2,p=1" + hash[len(hash)-67:], "$argon2id$v=18" + hash[len("$argon2id$v=19"):]} {
		_, err := h.Matches(ctx, somewhere, bad, "a long password")
		require.Error(t, err, bad)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = h.Hash(ended, somewhere, "a long password")
	require.ErrorIs(t, err, context.Canceled)
}

// blocked is a deriver that runs when it is released, and records the derived passwords.
type blocked struct {
	mu      sync.Mutex
	active  int
	most    int
	ran     []string
	release chan struct{}
}

func (b *blocked) derive(d Derivation) ([]byte, error) {
	b.mu.Lock()
	b.active++
	b.most = max(b.most, b.active)
	b.mu.Unlock()
	<-b.release
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active--
	b.ran = append(b.ran, string(d.Password))
	return make([]byte, argonKey), nil
}

// An address that fills its share waits behind its own derivations; another address has the next
// turn.
func TestAddressesTakeTurns(t *testing.T) {
	b := &blocked{release: make(chan struct{})}
	q := newQueue(b.derive)
	var all sync.WaitGroup
	enter := func(address, name string) {
		before := q.queuedCount()
		all.Go(func() {
			if _, err := q.runQueued(context.Background(), Caller{Address: address},
				Derivation{Password: []byte(name)}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		for q.queuedCount() == before {
			runtime.Gosched()
		}
	}
	enter("flood", "f0")
	for !q.begun() {
		runtime.Gosched()
	}
	for i := range MaxQueuedPerAddress {
		enter("flood", fmt.Sprint("f", i+1))
	}
	_, err := q.runQueued(t.Context(), Caller{Address: "flood"}, Derivation{})
	require.ErrorIs(t, err, ErrFull)
	enter("ada", "a0")
	enter("bob", "b0")
	close(b.release)
	all.Wait()
	require.Equal(t, []string{"f0", "f1", "a0", "b0", "f2", "f3", "f4"}, b.ran)
	require.Equal(t, 1, b.most, "one at a time")
	require.Zero(t, q.queuedCount())
}

// begun reports whether a derivation runs and none waits.
func (q *Queue) begun() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued == 1 && q.strangers.count+q.known.count == 0
}

// Strangers leave places for known callers. A caller that goes away frees its place.
func TestTheQueueIsBoundedAndGivesPlacesBack(t *testing.T) {
	b := &blocked{release: make(chan struct{})}
	q := newQueue(b.derive)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	enter := func(n int, known bool) {
		for range n {
			before := q.queuedCount()
			all.Go(func() {
				_, _ = q.runQueued(ctx, Caller{Address: fmt.Sprint(known, before), Known: known}, Derivation{})
			})
			for q.queuedCount() == before {
				runtime.Gosched()
			}
		}
	}
	enter(1, false)
	for !q.begun() {
		runtime.Gosched()
	}
	strangers := MaxQueued - placesForKnown
	enter(strangers, false)
	_, err := q.runQueued(t.Context(), Caller{Address: "a stranger"}, Derivation{})
	require.ErrorIs(t, err, ErrFull)
	enter(MaxQueued-strangers-1, true)
	_, err = q.runQueued(t.Context(), Caller{Address: "known", Known: true}, Derivation{})
	require.ErrorIs(t, err, ErrFull)
	cancel()
	all.Wait()
	require.LessOrEqual(t, q.queuedCount(), 1, "a caller who is gone leaves no place taken, but for what runs")
	close(b.release)
	_, err = q.runQueued(t.Context(), Caller{Address: "a stranger"}, Derivation{})
	require.NoError(t, err)
}

// Known callers have every second turn, however many strangers wait.
func TestKnownCallersHaveEverySecondTurn(t *testing.T) {
	b := &blocked{release: make(chan struct{})}
	q := newQueue(b.derive)
	var all sync.WaitGroup
	enter := func(c Caller, name string) {
		before := q.queuedCount()
		all.Go(func() { _, _ = q.runQueued(context.Background(), c, Derivation{Password: []byte(name)}) })
		for q.queuedCount() == before {
			runtime.Gosched()
		}
	}
	enter(Caller{Address: "0"}, "s0")
	for !q.begun() {
		runtime.Gosched()
	}
	for i := 1; i < 4; i++ {
		enter(Caller{Address: fmt.Sprint(i)}, fmt.Sprint("s", i))
	}
	enter(Caller{Address: "home", Known: true}, "k1")
	enter(Caller{Address: "work", Known: true}, "k2")
	close(b.release)
	all.Wait()
	require.Equal(t, []string{"s0", "k1", "s1", "k2", "s2", "s3"}, b.ran)
}

// The worker derives the same key as DeriveInProcess, and a dead worker is replaced.
func TestAWorkerDerivesAndIsReplaced(t *testing.T) {
	w := NewWorker(os.Args[0], asWorker)
	d := Derivation{Password: []byte("a long password"), Salt: []byte("0123456789abcdef"), Memory: 64, Time: 1}
	want, err := DeriveInProcess(d)
	require.NoError(t, err)
	for range 2 {
		got, err := w.Derive(d)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NoError(t, w.cmd.Process.Kill())
	}
	require.NoError(t, w.Close())
	_, err = w.Derive(d)
	require.Error(t, err)

	broken := NewWorker(os.DevNull)
	_, err = broken.Derive(d)
	require.Error(t, err)
	var timeout interface{ Timeout() bool }
	require.False(t, errors.As(err, &timeout) && timeout.Timeout())
	require.NoError(t, broken.Close())
}

// The worker ends when its server has ended, for whatever reason.
func TestAWorkerEndsWithItsInput(t *testing.T) {
	w := NewWorker(os.Args[0], asWorker)
	_, err := w.Derive(Derivation{Password: []byte("x"), Salt: []byte("0123456789abcdef"), Memory: 64, Time: 1})
	require.NoError(t, err)
	require.NoError(t, w.in.Close())
	ended := make(chan error, 1)
	go func() { ended <- w.cmd.Wait() }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.FailNow(t, "the worker lives on")
	}
}
