package intent_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/agent/intent"
)

// Encoded keys equal those of crypto/x509, which also decodes them.
func TestKeysAreEncodedAsByX509(t *testing.T) {
	key, err := intent.NewKey(rand.Reader)
	require.NoError(t, err)
	public := intent.PublicKey(key)
	spki, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.Equal(t, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})),
		intent.PublicKeyPEM(public))
	require.Equal(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		intent.PrivateKeyPEM(key))

	readPublic, err := intent.ParsePublicKeyPEM("\n" + intent.PublicKeyPEM(public) + "\n")
	require.NoError(t, err)
	require.Equal(t, public, readPublic)
}

// The sample of RFC 8037, appendix A.3, for the key of appendix A.2.
func TestThumbprintOfRFC8037(t *testing.T) {
	x, err := base64.RawURLEncoding.DecodeString("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
	require.NoError(t, err)
	require.Equal(t, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", intent.Thumbprint(x))
	require.Equal(t, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", intent.JWKOf(x).X)
}

// point is a point of the curve. Its arithmetic is the test's own: the addition law of RFC 8032,
// without special cases for small orders.
type point struct{ x, y *big.Int }

var (
	prime, _ = new(big.Int).SetString("57896044618658097711785492504343953926634992332820282019728792003956564819949", 10)
	curveD   = modPrime(new(big.Int).Mul(big.NewInt(-121665), new(big.Int).ModInverse(big.NewInt(121666), prime)))
)

func modPrime(n *big.Int) *big.Int { return n.Mod(n, prime) }

func mulModPrime(a, b *big.Int) *big.Int { return modPrime(new(big.Int).Mul(a, b)) }

func (p point) double() point {
	xy := mulModPrime(p.x, p.y)
	k := mulModPrime(curveD, mulModPrime(xy, xy))
	over := func(numerator, denominator *big.Int) *big.Int {
		return mulModPrime(numerator, new(big.Int).ModInverse(modPrime(denominator), prime))
	}
	one := big.NewInt(1)
	return point{over(modPrime(new(big.Int).Add(xy, xy)), new(big.Int).Add(one, k)),
		over(modPrime(new(big.Int).Add(mulModPrime(p.x, p.x), mulModPrime(p.y, p.y))), new(big.Int).Sub(one, k))}
}

func (p point) isIdentity() bool { return p.x.Sign() == 0 && p.y.Cmp(big.NewInt(1)) == 0 }

// pointAt decodes a point; ok is false when the bytes encode none.
func pointAt(encoded []byte) (point, bool) {
	little := slices.Clone(encoded)
	odd := uint(little[31] >> 7)
	little[31] &= 0x7f
	slices.Reverse(little)
	y := new(big.Int).SetBytes(little)
	if y.Cmp(prime) >= 0 {
		return point{}, false
	}
	y2 := mulModPrime(y, y)
	under := modPrime(new(big.Int).Add(mulModPrime(curveD, y2), big.NewInt(1)))
	over := modPrime(new(big.Int).Sub(y2, big.NewInt(1)))
	x := new(big.Int).ModSqrt(mulModPrime(over, new(big.Int).ModInverse(under, prime)), prime)
	if x == nil || x.Sign() == 0 && odd == 1 {
		return point{}, false
	}
	if x.Bit(0) != odd {
		x = modPrime(x.Neg(x))
	}
	return point{x, y}, true
}

func pemOf(encoded []byte) string { return intent.PublicKeyPEM(encoded) }

// The eight points whose order divides eight, in all their encodings, canonical or not.
func TestPointsOfSmallOrderAreRefused(t *testing.T) {
	refused := 0
	for _, text := range []string{
		"0100000000000000000000000000000000000000000000000000000000000000",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"0000000000000000000000000000000000000000000000000000000000000080",
		"0000000000000000000000000000000000000000000000000000000000000000",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	} {
		n, ok := new(big.Int).SetString(text, 16)
		require.True(t, ok)
		encoded := n.FillBytes(make([]byte, 32))
		p, found := pointAt(encoded)
		require.True(t, found, text)
		require.True(t, p.double().double().double().isIdentity(), "the sample is of small order: %s", text)
		_, err := intent.ParsePublicKeyPEM(pemOf(encoded))
		require.ErrorIs(t, err, intent.ErrWeak, text)
		refused++
	}
	require.Equal(t, 8, refused)
	for last := 0xed; last <= 0xff; last++ { // non-canonical encodings: p and the numbers above it, up to 2^255
		encoded := append([]byte{byte(last)}, slices.Repeat([]byte{0xff}, 31)...)
		for _, top := range []byte{0x7f, 0xff} {
			encoded[31] = top
			_, err := intent.ParsePublicKeyPEM(pemOf(encoded))
			require.ErrorIs(t, err, intent.ErrPoint, "%x", encoded)
		}
	}
}

// Any 32 bytes are accepted exactly when they encode a point whose multiple by eight is not the
// identity. Real keys are accepted.
func TestCheckPointAgreesWithASecondArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		encoded := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "encoded")
		p, found := pointAt(encoded)
		_, err := intent.ParsePublicKeyPEM(pemOf(encoded))
		require.Equal(t, found && !p.double().double().double().isIdentity(), err == nil, "%x: %v", encoded, err)

		key := ed25519.NewKeyFromSeed(encoded)
		_, err = intent.ParsePublicKeyPEM(intent.PublicKeyPEM(intent.PublicKey(key)))
		require.NoError(t, err)
	})
}

func TestSignatures(t *testing.T) {
	key, err := intent.NewKey(rand.Reader)
	require.NoError(t, err)
	public := intent.PublicKey(key)
	text, err := json.Marshal(intent.Intent{AgentID: "agt_1", IntentID: "o", Merchant: intent.Merchant{Name: "<&>"}})
	require.NoError(t, err)
	s, err := intent.Sign(key, text)
	require.NoError(t, err)
	require.Equal(t, intent.KeyID(public), s.KeyID)
	require.NoError(t, intent.Verify(public, text, s.Signature))
	require.NoError(t, intent.Verify(public, append([]byte(" "), text...), s.Signature+"=="))
	require.True(t, intent.SameKeyID(s.KeyID, s.KeyID+"="))

	other, err := intent.NewKey(rand.Reader)
	require.NoError(t, err)
	for what, err := range map[string]error{
		"another key":      intent.Verify(intent.PublicKey(other), text, s.Signature),
		"another intent":   intent.Verify(public, []byte(`{}`), s.Signature),
		"no JSON":          intent.Verify(public, []byte(`{`), s.Signature),
		"no key":           intent.Verify(nil, text, s.Signature),
		"no signature":     intent.Verify(public, text, ""),
		"a short one":      intent.Verify(public, text, s.Signature[:84]),
		"other characters": intent.Verify(public, text, "+"+s.Signature[1:]),
		"a line feed":      intent.Verify(public, text, s.Signature[:40]+"\n"+s.Signature[40:]),
		"a line's end":     intent.Verify(public, text, s.Signature+"\r\n"),
		"before padding":   intent.Verify(public, text, s.Signature+"\n=="),
		"spare bits":       intent.Verify(public, text, s.Signature[:85]+string(s.Signature[85]+1)),
	} {
		require.ErrorIs(t, err, intent.ErrSignature, what)
	}
	_, err = intent.Sign(key, []byte(`{"cents":9007199254740993}`))
	require.ErrorIs(t, err, intent.ErrNumber)
}

// FuzzParsePublicKeyPEM checks that an accepted key encodes to a key that is accepted again.
func FuzzParsePublicKeyPEM(f *testing.F) {
	f.Add("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEArd6WZ/80xWMocComixF0Wn7m+1VExwLcwWYPy/SFIpU=\n-----END PUBLIC KEY-----\n")
	f.Add("-----BEGIN PUBLIC KEY-----\nA: b\n\nMCow\n-----END PUBLIC KEY-----")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := intent.ParsePublicKeyPEM(text)
		if err != nil {
			return
		}
		require.Len(t, key, ed25519.PublicKeySize)
		again, err := intent.ParsePublicKeyPEM(intent.PublicKeyPEM(key))
		require.NoError(t, err)
		require.Equal(t, key, again)
	})
}

func BenchmarkVerify(b *testing.B) {
	key, err := intent.NewKey(rand.Reader)
	require.NoError(b, err)
	text := []byte(`{"agent_id":"agt_01kagj5fkve16r6sydcvyx2dnv","merchant":{"name":"Acme Books","mcc":"5942"},` +
		`"amount":{"currency":"USD","cents":1999},"intent_id":"order-1","iat":1795219200,"exp":1795219500,"protocol":"TAP"}`)
	s, err := intent.Sign(key, text)
	require.NoError(b, err)
	for b.Loop() {
		require.NoError(b, intent.Verify(intent.PublicKey(key), text, s.Signature))
	}
}
