package password

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Cost of a hash: OWASP's argon2id with 19 MiB, two passes and one lane.
const (
	argonMemory     = 19 << 10 // KiB
	argonTime       = 2
	argonLanes      = 1
	argonSalt       = 16 // bytes
	argonKey        = 32
	maxStoredMemory = 1 << 20 // KiB that a stored hash may ask for
	maxStoredTime   = 16
)

var errMalformed = errors.New("password hash is malformed")

// Derivation is the input of one argon2id run with one lane.
type Derivation struct {
	Password []byte `json:"password"`
	Salt     []byte `json:"salt"`
	Memory   uint32 `json:"memory"` // KiB
	Time     uint32 `json:"time"`
}

// Deriver derives a key of 32 bytes. A Queue calls it once at a time.
type Deriver func(d Derivation) ([]byte, error)

// DeriveInProcess is a Deriver that runs in the calling process. The worker process calls it, and a
// server without a worker.
func DeriveInProcess(d Derivation) ([]byte, error) {
	return argon2.IDKey(d.Password, d.Salt, d.Time, d.Memory, argonLanes, argonKey), nil
}

// Hasher makes and checks hashes in the PHC form. It is safe for concurrent use.
type Hasher struct {
	entropy io.Reader
	queue   *Queue
	dummy   stored // checked for an unknown account, so that it takes the same work
}

// NewHasher returns a hasher over a deriver. It fails only without entropy.
func NewHasher(entropy io.Reader, derive Deriver) (*Hasher, error) {
	h := &Hasher{entropy: entropy, queue: newQueue(derive)}
	h.dummy = stored{salt: make([]byte, argonSalt), key: make([]byte, argonKey), memory: argonMemory, time: argonTime}
	for _, random := range [][]byte{h.dummy.salt, h.dummy.key} {
		if _, err := io.ReadFull(entropy, random); err != nil {
			return nil, fmt.Errorf("password entropy: %w", err)
		}
	}
	return h, nil
}

// Waiting returns the number of queued and running hashes.
func (h *Hasher) Waiting() int { return h.queue.queuedCount() }

// Hash returns the PHC string of a password. It returns ErrFull when the queue has no place for the
// address, and the context's error when the context ends first. Other errors are the deriver's.
func (h *Hasher) Hash(ctx context.Context, c Caller, password string) (string, error) {
	salt := make([]byte, argonSalt)
	if _, err := io.ReadFull(h.entropy, salt); err != nil {
		return "", fmt.Errorf("password salt: %w", err)
	}
	key, err := h.queue.runQueued(ctx, c, Derivation{Password: []byte(password), Salt: salt, Memory: argonMemory,
		Time: argonTime})
	if err != nil {
		return "", err
	}
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonLanes,
		b64.EncodeToString(salt), b64.EncodeToString(key)), nil
}

// Matches reports whether a password is that of a hash. An empty hash stands for an unknown
// account: it costs the same and never matches. It fails with ErrFull when the queue has no place,
// with the context's error, and for a hash that does not parse.
func (h *Hasher) Matches(ctx context.Context, c Caller, hash, password string) (bool, error) {
	known, want := hash != "", h.dummy
	if known {
		var err error
		if want, err = parseStored(hash); err != nil {
			return false, err
		}
	}
	got, err := h.queue.runQueued(ctx, c, Derivation{Password: []byte(password), Salt: want.salt, Memory: want.memory,
		Time: want.time})
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want.key) == 1 && known, nil
}

// stored is a parsed hash in PHC form.
type stored struct {
	salt, key    []byte
	memory, time uint32
}

// parseStored parses a PHC string of Hash. It fails with errMalformed for any other text, and for
// parameters beyond the bounds.
func parseStored(hash string) (stored, error) {
	var version, lanes uint32
	var s stored
	fields := strings.Split(hash, "$")
	if len(fields) != 6 || fields[1] != "argon2id" {
		return s, errMalformed
	}
	if _, err := fmt.Sscanf(fields[2]+" "+fields[3], "v=%d m=%d,t=%d,p=%d", &version, &s.memory, &s.time,
		&lanes); err != nil {
		return s, errMalformed
	}
	var saltErr, keyErr error
	s.salt, saltErr = base64.RawStdEncoding.DecodeString(fields[4])
	s.key, keyErr = base64.RawStdEncoding.DecodeString(fields[5])
	if saltErr != nil || keyErr != nil || version != argon2.Version || s.memory > maxStoredMemory || s.time < 1 ||
		s.time > maxStoredTime || lanes != argonLanes || len(s.key) != argonKey {
		return s, errMalformed
	}
	return s, nil
}
