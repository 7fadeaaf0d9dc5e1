package actors

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// maxKeysInFlight bounds the idempotency keys whose first request is not answered yet.
const maxKeysInFlight = 100_000

// Key makes a command happen once: the claim on it commits in the same batch as the effect, and a repeat within Expires gets the
// first answer. Seal renders the answer of a committed command and seals it, for it is stored and may hold a secret.
type Key struct {
	Scope, Key  string
	Fingerprint [32]byte
	Expires     time.Time
	Seal        func(reply any) ([]byte, error)
}

// Replayed is the reply when the key was used before with the same fingerprint. Answer is what Seal returned then.
type Replayed struct{ Answer []byte }

func onceHash(scope, key string) [32]byte {
	return sha256.Sum256([]byte(scope + "\x00" + key))
}

// inFlight makes the second of two requests with one key wait for the first.
type inFlight struct {
	mu   sync.Mutex
	keys map[[32]byte]chan struct{}
}

// enter waits until nobody else holds the key. The caller must leave it. False: too many, or the context ended.
func (f *inFlight) enter(ctx context.Context, key [32]byte) bool {
	for {
		f.mu.Lock()
		held, taken := f.keys[key]
		if !taken {
			full := len(f.keys) >= maxKeysInFlight
			if !full {
				f.keys[key] = make(chan struct{})
			}
			f.mu.Unlock()
			return !full
		}
		f.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return false
		}
	}
}

func (f *inFlight) leave(key [32]byte) {
	f.mu.Lock()
	held := f.keys[key]
	delete(f.keys, key)
	f.mu.Unlock()
	close(held)
}
