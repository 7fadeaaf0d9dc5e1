package intent

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
)

// MaxPEM is the longest text of a key in bytes. The PEM of an Ed25519 key has 113.
const MaxPEM = 1000

const (
	publicBlock  = "PUBLIC KEY"
	privateBlock = "PRIVATE KEY"
)

// An Ed25519 key has one DER encoding (RFC 8410): a prefix below, then the 32 bytes of the key or
// of its seed. Any other bytes are another algorithm, parameters, or trailing data.
const (
	spkiPrefix  = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"
	pkcs8Prefix = "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"
)

// Errors of a PEM that is no usable key. The texts are shown to its sender.
var (
	ErrPEM       = errors.New("must be one PEM block and nothing else")
	ErrBlock     = errors.New("must be a PEM block of type " + publicBlock)
	ErrAlgorithm = errors.New("must be an Ed25519 key in SubjectPublicKeyInfo form")
	ErrPoint     = errors.New("is not a point of the curve")
	ErrWeak      = errors.New("is a point of small order, for which anybody can make signatures")
)

// ParsePublicKeyPEM parses a public key in SPKI form. A malformed key, and a key whose signatures
// prove nothing, are refused with one of the errors above.
func ParsePublicKeyPEM(text string) (ed25519.PublicKey, error) {
	block, err := onlyBlock(text)
	if err != nil {
		return nil, err
	}
	if block.Type != publicBlock {
		return nil, ErrBlock
	}
	raw, found := bytes.CutPrefix(block.Bytes, []byte(spkiPrefix))
	if !found || len(raw) != ed25519.PublicKeySize {
		return nil, ErrAlgorithm
	}
	if err := CheckPoint(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// onlyBlock parses a text of exactly one PEM block without headers. White space may surround it.
// Any other text, or one over MaxPEM bytes, is ErrPEM.
func onlyBlock(text string) (*pem.Block, error) {
	text = strings.TrimSpace(text)
	if len(text) > MaxPEM || !strings.HasPrefix(text, "-----BEGIN ") {
		return nil, ErrPEM
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || len(rest) > 0 || len(block.Headers) > 0 || strings.Count(text, "-----BEGIN ") > 1 {
		return nil, ErrPEM
	}
	return block, nil
}

// NewKey makes a key from 32 bytes of entropy. It fails only when entropy does.
func NewKey(entropy io.Reader) (ed25519.PrivateKey, error) {
	var seed [ed25519.SeedSize]byte
	if _, err := io.ReadFull(entropy, seed[:]); err != nil {
		return nil, fmt.Errorf("key entropy: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed[:]), nil
}

// PublicKey returns the public half of a key.
func PublicKey(key ed25519.PrivateKey) ed25519.PublicKey {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		panic("BUG: an Ed25519 key without a public half")
	}
	return public
}

// PublicKeyPEM encodes a public key in SPKI form.
func PublicKeyPEM(key ed25519.PublicKey) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: encodeSPKI(key)}))
}

// PrivateKeyPEM encodes a private key in PKCS #8 form.
func PrivateKeyPEM(key ed25519.PrivateKey) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: append([]byte(pkcs8Prefix), key.Seed()...)}))
}

func encodeSPKI(key ed25519.PublicKey) []byte { return append([]byte(spkiPrefix), key...) }

// KeyID returns the id of a key in a submission: the SHA-256 of its SPKI form, base64url.
func KeyID(key ed25519.PublicKey) string { return base64Hash(encodeSPKI(key)) }

// SameKeyID reports whether two key ids are equal, disregarding padding.
func SameKeyID(a, b string) bool { return strings.TrimRight(a, "=") == strings.TrimRight(b, "=") }

// Thumbprint returns the JWK thumbprint of a key (RFC 7638, RFC 8037), base64url.
func Thumbprint(key ed25519.PublicKey) string {
	return base64Hash([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(key) + `"}`))
}

func base64Hash(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// JWK is a public key by RFC 8037. Kid is its KeyID.
type JWK struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	X   string `json:"x"`
	Kid string `json:"kid"`
	Use string `json:"use"`
	Alg string `json:"alg"`
}

// JWKOf returns a public key as a JWK.
func JWKOf(key ed25519.PublicKey) JWK {
	return JWK{Kty: "OKP", Crv: "Ed25519", X: base64.RawURLEncoding.EncodeToString(key), Kid: KeyID(key), Use: "sig",
		Alg: "EdDSA"}
}

// CheckPoint refuses 32 bytes that encode no point (RFC 8032, 5.1.3), and points of small order:
// the identity, (0, -1), points with y = 0, whose double is (0, -1), and points with x² = -y²,
// whose double has y = 0.
func CheckPoint(encoded []byte) error {
	little := slices.Clone(encoded)
	negative := little[31]&0x80 != 0
	little[31] &= 0x7f
	slices.Reverse(little)
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	y := new(big.Int).SetBytes(little)
	if y.Cmp(p) >= 0 {
		return ErrPoint
	}
	y2 := new(big.Int).Mul(y, y)
	x2 := xSquared(y2, p)
	switch {
	case big.Jacobi(x2, p) < 0, x2.Sign() == 0 && negative:
		return ErrPoint
	case x2.Sign() == 0, y.Sign() == 0, y2.Add(y2, x2).Mod(y2, p).Sign() == 0:
		return ErrWeak
	}
	return nil
}

// xSquared solves the curve's equation -x² + y² = 1 + d·x²·y², with d = -121665/121666, modulo p.
func xSquared(y2, p *big.Int) *big.Int {
	d := new(big.Int).ModInverse(big.NewInt(121666), p)
	d.Mul(d, big.NewInt(-121665))
	over := new(big.Int).Sub(y2, big.NewInt(1))
	under := new(big.Int).Mul(d, y2)
	under.Add(under, big.NewInt(1)).Mod(under, p)
	x2 := over.Mul(over, under.ModInverse(under, p))
	return x2.Mod(x2, p)
}
