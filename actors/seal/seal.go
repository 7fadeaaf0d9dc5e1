// Package seal keeps personal data unreadable where it is stored: AES-256-GCM under the deployment's data key.
//
// What tells of a person (names, emails, phone numbers, addresses, birth dates, SSN digits, the label of a card) is never in an
// event, a log line, an idempotency record or an actor's state. A domain package puts it in a record of its own and marks that
// record Personal (see package decision). The runtime seals such a document on its way into the journal and opens it on its
// way out, so that domain packages stay pure and handlers never hold a key. The journal sees {"sealed": "…"}.
//
// Every record has a cipher of its own, derived from the data key and the record's name, so that a sealed document can not be
// read in another record's place, and one key never seals so many messages that its random nonces could meet. The package
// does not rotate keys: who loses the data key has lost the personal data, and nothing else.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// KeyBytes is the length of a data key.
const KeyBytes = 32

const (
	version byte = 1 // first byte of what Seal returns
	purpose      = "purser personal data v1|"
)

// ErrSealed says that a document can not be opened: it was sealed under another key or for another record, or is damaged.
var ErrSealed = errors.New("sealed document cannot be opened")

// Sealer seals and opens. It is safe for concurrent use when its entropy is.
type Sealer struct {
	key     []byte
	entropy io.Reader
}

// New makes a Sealer of a data key of KeyBytes bytes; entropy gives the nonces.
func New(key []byte, entropy io.Reader) (*Sealer, error) {
	if len(key) != KeyBytes || entropy == nil {
		return nil, fmt.Errorf("seal: a key of %d bytes and entropy are required", KeyBytes)
	}
	return &Sealer{key: append([]byte{}, key...), entropy: entropy}, nil
}

// Seal returns the document sealed for the record of that name: a version, a nonce, the ciphertext.
func (s *Sealer) Seal(record string, document []byte) ([]byte, error) {
	box, err := s.box(record)
	if err != nil {
		return nil, err
	}
	head := 1 + box.NonceSize()
	sealed := make([]byte, head, head+len(document)+box.Overhead())
	sealed[0] = version
	if _, err := io.ReadFull(s.entropy, sealed[1:]); err != nil {
		return nil, fmt.Errorf("seal: nonce: %w", err)
	}
	return box.Seal(sealed, sealed[1:head], document, sealed[:1]), nil
}

// Open returns what was sealed for the record of that name; the error is ErrSealed.
func (s *Sealer) Open(record string, sealed []byte) ([]byte, error) {
	box, err := s.box(record)
	if err != nil {
		return nil, err
	}
	head := 1 + box.NonceSize()
	if len(sealed) < head || sealed[0] != version {
		return nil, ErrSealed
	}
	document, err := box.Open(nil, sealed[1:head], sealed[head:], sealed[:1])
	if err != nil {
		return nil, ErrSealed
	}
	return document, nil
}

func (s *Sealer) box(record string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, s.key, nil, purpose+record, KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	box, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return box, nil
}
