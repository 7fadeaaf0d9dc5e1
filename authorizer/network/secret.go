package network

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
)

// MaxSecrets is the number of secrets that are valid at once: two during a rotation.
const MaxSecrets = 2

var errSecrets = errors.New("network secrets: one, or two while rotating, none of them empty")

// secrets holds the SHA-256 sums of the valid secrets. Hashing makes the time of a comparison
// independent of the length and the position of a difference.
type secrets struct {
	sums  [MaxSecrets][sha256.Size]byte
	count int
}

// newSecrets hashes the secrets that the network may show. It fails for none, for more than
// MaxSecrets and for an empty one.
func newSecrets(plain []string) (secrets, error) {
	var s secrets
	if len(plain) == 0 || len(plain) > MaxSecrets {
		return s, errSecrets
	}
	for i, secret := range plain {
		if secret == "" {
			return s, errSecrets
		}
		s.sums[i] = sha256.Sum256([]byte(secret))
	}
	s.count = len(plain)
	return s, nil
}

// admits reports in constant time whether a secret is valid.
func (s *secrets) admits(given []byte) bool {
	sum := sha256.Sum256(given)
	ok := 0
	for i := range s.count {
		ok |= subtle.ConstantTimeCompare(sum[:], s.sums[i][:])
	}
	return ok == 1
}
