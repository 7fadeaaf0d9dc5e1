// Package seal encrypts personal data where it is stored: AES-256-GCM under the deployment's data
// key.
//
// Personal data is names, emails, phone numbers, addresses, birth dates, SSN digits and the label
// of a card. It is never in an event, a log line, an idempotency record or an actor's state. A
// domain package puts it in a record of its own and marks that record Personal (see package
// decision). The runtime seals such a document on its way into the journal and opens it on its way
// out. Domain packages therefore stay pure, and handlers never hold a key. The journal sees
// {"sealed": "…"}.
//
// Each record has a cipher of its own, derived from the data key and the record's name. A sealed
// document therefore cannot be opened as another record, and no key seals so many messages that
// random nonces collide. A deployment that loses its data key loses the personal data and nothing
// else.
//
// A Sealer has one key that seals and up to MaxKeys in all that open. A sealed document names its
// key, so that the runtime can seal it again under the first key while a data key rotates.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// KeyBytes is the length of a data key.
const KeyBytes = 32

// MaxKeys is the most data keys that a Sealer has.
const MaxKeys = 4

// The first byte of a sealed document is the version of its form. The id of the key, a nonce and
// the ciphertext follow.
const (
	version byte = 2

	keyIDBytes   = 8
	named        = 1 + keyIDBytes // bytes before the nonce
	purpose      = "purser personal data v1|"
	purposeKeyID = "purser data key id v1"

	fingerprintBytes   = 8
	purposeFingerprint = "purser secret fingerprint v1|"
)

// ErrSealed reports a document that cannot be opened: it was sealed under another key or for
// another record, or is damaged.
var ErrSealed = errors.New("sealed document cannot be opened")

// Sealer seals and opens documents. It is safe for concurrent use when its entropy is.
type Sealer struct {
	keys    []dataKey // the first seals
	entropy io.Reader
}

type dataKey struct {
	id  [keyIDBytes]byte
	key []byte
}

// New returns a Sealer that seals under a data key of KeyBytes bytes, with nonces from entropy. It
// also opens documents sealed under one of the older keys. It fails without entropy, for a key of
// another length, and for more than MaxKeys keys.
func New(key []byte, entropy io.Reader, older ...[]byte) (*Sealer, error) {
	s := &Sealer{entropy: entropy}
	if entropy == nil || 1+len(older) > MaxKeys {
		return nil, fmt.Errorf("seal: entropy and at most %d keys are required", MaxKeys)
	}
	for _, k := range append([][]byte{key}, older...) {
		id, err := keyID(k)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, dataKey{id: id, key: bytes.Clone(k)})
	}
	return s, nil
}

// keyID derives the id of a key, which reveals nothing of the key. It fails for a key that is not
// KeyBytes long.
func keyID(key []byte) (id [keyIDBytes]byte, err error) {
	if len(key) != KeyBytes {
		return id, fmt.Errorf("seal: a key of %d bytes is required", KeyBytes)
	}
	derived, err := hkdf.Key(sha256.New, key, nil, purposeKeyID, keyIDBytes)
	return [keyIDBytes]byte(derived), err
}

// Fingerprint derives a fingerprint by which a store recognises a secret of the deployment. Another
// deployment, name or secret gives another fingerprint.
func Fingerprint(deployment, name, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(purposeFingerprint + deployment + "|" + name))
	return hex.EncodeToString(mac.Sum(nil)[:fingerprintBytes])
}

// KeyID returns the id of the sealing key in hexadecimal digits.
func (s *Sealer) KeyID() string { return hex.EncodeToString(s.keys[0].id[:]) }

// Rotating reports whether the Sealer has older keys. The process that seals documents under a new
// key asks it.
func (s *Sealer) Rotating() bool { return len(s.keys) > 1 }

// Stale reports whether a document is not sealed under the first key.
func (s *Sealer) Stale(sealed []byte) bool {
	return len(sealed) < named || sealed[0] != version || [keyIDBytes]byte(sealed[1:]) != s.keys[0].id
}

// Seal returns the document sealed for the record of that name: version, key id, nonce, ciphertext.
// It fails only when entropy does.
func (s *Sealer) Seal(record string, document []byte) ([]byte, error) {
	key := &s.keys[0]
	box, err := key.recordCipher(record)
	if err != nil {
		return nil, err
	}
	head := named + box.NonceSize()
	sealed := make([]byte, head, head+len(document)+box.Overhead())
	sealed[0] = version
	copy(sealed[1:], key.id[:])
	if _, err := io.ReadFull(s.entropy, sealed[named:]); err != nil {
		return nil, fmt.Errorf("seal: nonce: %w", err)
	}
	return box.Seal(sealed, sealed[named:head], document, sealed[:named]), nil
}

// Open returns the document that was sealed for the record of that name. It fails with ErrSealed
// for a document that no key opens, or that was sealed for another record.
func (s *Sealer) Open(record string, sealed []byte) ([]byte, error) {
	if len(sealed) < named || sealed[0] != version {
		return nil, ErrSealed
	}
	for i := range s.keys {
		key := &s.keys[i]
		if [keyIDBytes]byte(sealed[1:]) != key.id {
			continue
		}
		box, err := key.recordCipher(record)
		if err != nil {
			return nil, err
		}
		head := named + box.NonceSize()
		if len(sealed) < head {
			return nil, ErrSealed
		}
		if document, err := box.Open(nil, sealed[named:head], sealed[head:], sealed[:named]); err == nil {
			return document, nil
		}
	}
	return nil, ErrSealed
}

// recordCipher derives the cipher of a record. It fails only for a key of a wrong length, which New
// refuses.
func (k *dataKey) recordCipher(record string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.key, nil, purpose+record, KeyBytes)
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
