package authorizer

import (
	"fmt"
	"io"
	"sync"
)

// entropy is the one source of random bits, which the shards share.
type entropy struct {
	mu     sync.Mutex
	source io.Reader
}

// randomBits is a shard's part of the entropy. The shard's lock guards it, so that a decision needs
// no second lock.
type randomBits struct {
	buffer [512]byte
	left   int
}

func (r *randomBits) drawBits(from *entropy) (b [8]byte, err error) {
	if r.left < len(b) {
		if err := from.fill(r.buffer[:]); err != nil {
			return b, fmt.Errorf("authorizer: entropy: %w", err)
		}
		r.left = len(r.buffer)
	}
	copy(b[:], r.buffer[len(r.buffer)-r.left:])
	r.left -= len(b)
	return b, nil
}

func (s *entropy) fill(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.ReadFull(s.source, b)
	return err
}
