package ident

import (
	"crypto/sha256"
	"fmt"
	"io"
)

// Token is the 18 bytes of a card token: the slot in the first two, 128 random bits after it.
type Token [18]byte

const (
	idChars     = 26 // 128 bits
	tokenChars  = 28 // 12 + 128 bits
	secretChars = 54 // 12 + 256 bits
)

// NewToken returns a card token of a slot with 128 bits from entropy. The error is that of
// reading them.
func NewToken(slot Slot, entropy io.Reader) (Token, error) {
	var t Token
	t[0], t[1] = byte(slot>>8), byte(slot)
	if _, err := io.ReadFull(entropy, t[2:]); err != nil {
		return Token{}, fmt.Errorf("token entropy: %w", err)
	}
	return t, nil
}

// Slot returns the slot the token carries.
func (t Token) Slot() Slot { return Slot(t[0])<<8 | Slot(t[1]) }

// String writes the token with its prefix.
func (t Token) String() string {
	dst := append(make([]byte, 0, len(CardToken)+1+tokenChars), CardToken...)
	return string(appendBits(append(dst, '_'), t[:], tokenChars))
}

// ParseToken reads a card token without allocating. It fails with ErrMalformed for any other text.
func ParseToken(s []byte) (Token, error) {
	var t Token
	n := len(CardToken)
	if len(s) != n+1+tokenChars || string(s[:n]) != CardToken || s[n] != '_' || !decodeBits(t[:], s[n+1:]) {
		return Token{}, ErrMalformed
	}
	return t, nil
}

// NewSecret draws an API or session secret of a slot. Only its hash is ever kept. It fails only
// when entropy does.
func NewSecret(prefix string, slot Slot, entropy io.Reader) (string, error) {
	var b [34]byte
	b[0], b[1] = byte(slot>>8), byte(slot)
	if _, err := io.ReadFull(entropy, b[2:]); err != nil {
		return "", fmt.Errorf("secret entropy: %w", err)
	}
	dst := append(make([]byte, 0, len(prefix)+1+secretChars), prefix...)
	return string(appendBits(append(dst, '_'), b[:], secretChars)), nil
}

// ParseSecret reads the slot of a secret and returns the SHA-256 under which it is stored, in hex.
// It fails with ErrMalformed for a text that is no secret with the prefix.
func ParseSecret(prefix, secret string) (Slot, string, error) {
	var b [34]byte
	rest, ok := cut(prefix, secret)
	if !ok || len(rest) != secretChars || !decodeBits(b[:], rest) {
		return 0, "", ErrMalformed
	}
	return Slot(b[0])<<8 | Slot(b[1]), fmt.Sprintf("%x", sha256.Sum256([]byte(secret))), nil
}

// The first 16 bits of a token or secret hold a 12-bit slot; the four leading zeros are not
// written.

// appendBits appends the base-32 text of a secret's bytes, chars characters long. The first 12 bits
// are the slot.
func appendBits(dst, b []byte, chars int) []byte {
	acc, bits := uint32(b[0]&0x0f)<<8|uint32(b[1]), 12
	rest := b[2:]
	for range chars {
		if bits < 5 && len(rest) > 0 {
			acc, bits, rest = acc<<8|uint32(rest[0]), bits+8, rest[1:]
		}
		if bits < 5 {
			acc, bits = acc<<(5-bits), 5
		}
		bits -= 5
		dst = append(dst, alphabet[acc>>bits&31])
	}
	return dst
}

// decodeBits is the inverse of appendBits. It returns false for a character outside the alphabet or
// a text of another length.
func decodeBits[T string | []byte](b []byte, s T) bool {
	acc, bits, n := uint32(0), 0, -1
	for i := range len(s) {
		v := decoding[s[i]]
		if v == 0xff {
			return false
		}
		acc, bits = acc<<5|uint32(v), bits+5
		if n < 0 && bits >= 12 {
			slot := acc >> (bits - 12) & 0xfff
			b[0], b[1], n, bits = byte(slot>>8), byte(slot), 2, bits-12
		}
		if n >= 2 && bits >= 8 && n < len(b) {
			bits -= 8
			b[n] = byte(acc >> bits)
			n++
		}
	}
	return n == len(b) && acc&(1<<bits-1) == 0
}

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var decoding = func() (d [256]byte) {
	for i := range d {
		d[i] = 0xff
	}
	for i := range len(alphabet) {
		d[alphabet[i]] = byte(i)
	}
	return d
}()

// appendBase32 writes 16 bytes as 26 characters, the first holding three bits.
func appendBase32(dst, b []byte) []byte {
	acc, bits := uint32(0), 2 // two leading zeros make 130 bits
	for _, v := range b {
		acc, bits = acc<<8|uint32(v), bits+8
		for bits >= 5 {
			bits -= 5
			dst = append(dst, alphabet[acc>>bits&31])
		}
	}
	return dst
}

// decodeBase32 decodes the 26 characters of a UUID into b. It returns false for a character outside
// the alphabet, a value over 128 bits or a text of another length.
func decodeBase32[T string | []byte](b []byte, s T) bool {
	acc, bits, n := uint32(0), -2, 0
	for i := range len(s) {
		v := decoding[s[i]]
		if v == 0xff || i == 0 && v > 7 {
			return false
		}
		acc, bits = acc<<5|uint32(v), bits+5
		if bits >= 8 {
			bits -= 8
			b[n] = byte(acc >> bits)
			n++
		}
	}
	return n == len(b)
}
