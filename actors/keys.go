package actors

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// maxKeysInFlight bounds the idempotency keys of unanswered requests.
const maxKeysInFlight = 100_000

// Key gives a command at most one effect. The key's claim commits in the batch of the effect, and a
// repeat before Expires gets the first answer. Seal encodes and seals the reply of a committed
// command, because the stored answer may hold a secret.
type Key struct {
	Scope, Key  string
	Fingerprint [32]byte
	Expires     time.Time
	Seal        func(reply any) ([]byte, error)
	acquired    bool // by AcquireKey, so that Ask does not acquire it again
}

// Replayed is the reply to a repeat with the same fingerprint. Answer is the value that Seal
// returned for the first request.
type Replayed struct{ Answer []byte }

func onceHash(scope, key string) [32]byte {
	return sha256.Sum256([]byte(scope + "\x00" + key))
}

// keysInFlight makes requests with one key run one after the other. It is safe for concurrent use.
type keysInFlight struct {
	mu   sync.Mutex
	keys map[[32]byte]chan struct{}
}

// acquire blocks until no other request holds the key. It returns false when maxKeysInFlight keys
// are held or the context ends. After true the caller must call release.
func (f *keysInFlight) acquire(ctx context.Context, key [32]byte) bool {
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

func (f *keysInFlight) release(key [32]byte) {
	f.mu.Lock()
	held := f.keys[key]
	delete(f.keys, key)
	f.mu.Unlock()
	close(held)
}
