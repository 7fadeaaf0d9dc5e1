package httpapi

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

// Cost of a password hash (OWASP's argon2id: 19 MiB, two passes, one lane) and how many run at once.
const (
	argonMemory     = 19 << 10 // KiB
	argonTime       = 2
	argonLanes      = 1
	argonSalt       = 16 // bytes
	argonKey        = 32
	maxHashes       = 4       // at once: 76 MiB
	maxStoredMemory = 1 << 20 // KiB that a stored hash may ask for
	maxStoredTime   = 16
)

var errHash = errors.New("password hash is malformed")

// passwordHasher makes and checks argon2id hashes in the PHC form. At most maxHashes run at once; others wait.
type passwordHasher struct {
	entropy io.Reader
	slots   chan struct{}
	dummy   string // checked for an unknown account, so that it takes the same work
}

func newPasswordHasher(entropy io.Reader) (*passwordHasher, error) {
	h := &passwordHasher{entropy: entropy, slots: make(chan struct{}, maxHashes)}
	var err error
	h.dummy, err = h.hash(context.Background(), "no account has this password")
	return h, err
}

// hash returns the PHC string of a password, or the context's error when no slot came free.
func (h *passwordHasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, argonSalt)
	if _, err := io.ReadFull(h.entropy, salt); err != nil {
		return "", fmt.Errorf("password salt: %w", err)
	}
	if err := h.enter(ctx); err != nil {
		return "", err
	}
	defer h.leave()
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonLanes, argonKey)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonLanes,
		b64.EncodeToString(salt), b64.EncodeToString(key)), nil
}

// matches tells whether the password is the one of the hash. An empty hash (no such account) costs the same and never matches.
func (h *passwordHasher) matches(ctx context.Context, hash, password string) (bool, error) {
	known := hash != ""
	if !known {
		hash = h.dummy
	}
	var version, memory, time, lanes uint32
	fields := strings.Split(hash, "$")
	if len(fields) != 6 || fields[1] != "argon2id" {
		return false, errHash
	}
	if _, err := fmt.Sscanf(fields[2]+" "+fields[3], "v=%d m=%d,t=%d,p=%d", &version, &memory, &time, &lanes); err != nil {
		return false, errHash
	}
	salt, saltErr := base64.RawStdEncoding.DecodeString(fields[4])
	want, keyErr := base64.RawStdEncoding.DecodeString(fields[5])
	if saltErr != nil || keyErr != nil || version != argon2.Version || memory > maxStoredMemory || time < 1 ||
		time > maxStoredTime || lanes != argonLanes || len(want) != argonKey {
		return false, errHash
	}
	if err := h.enter(ctx); err != nil {
		return false, err
	}
	defer h.leave()
	got := argon2.IDKey([]byte(password), salt, time, memory, uint8(lanes), argonKey)
	return subtle.ConstantTimeCompare(got, want) == 1 && known, nil
}

func (h *passwordHasher) enter(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *passwordHasher) leave() { <-h.slots }
