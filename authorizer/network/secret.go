package network

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
)

// MaxSecrets is how many secrets of the card network are valid at once: two, while one replaces the other.
const MaxSecrets = 2

var errSecrets = errors.New("network secrets: one, or two while rotating, none of them empty")

// secrets are the SHA-256 of the valid secrets; hashing makes the comparison independent of where and in how many characters
// a guess differs.
type secrets struct {
	sums  [MaxSecrets][sha256.Size]byte
	count int
}

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

// admits tells in constant time whether a given secret is one of the valid ones.
func (s *secrets) admits(given []byte) bool {
	sum := sha256.Sum256(given)
	ok := 0
	for i := range s.count {
		ok |= subtle.ConstantTimeCompare(sum[:], s.sums[i][:])
	}
	return ok == 1
}
