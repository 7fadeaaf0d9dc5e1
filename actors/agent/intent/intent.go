// Package intent signs and verifies payment intents: the canonical form of JSON (RFC 8785), Ed25519
// keys as PEM, key ids and signatures. Agents may import it; it depends on no other package of
// Purser.
//
//	block, _ := pem.Decode(text) // privateKeyPem of the registration
//	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
//	body, err := json.Marshal(intent.Intent{AgentID: id, IntentID: "order-1", …})
//	submission, err := intent.Sign(key.(ed25519.PrivateKey), body) // POST /api/agents/{id}/intents
//
// A signature covers the canonical form of the intent's JSON. White space, field order and the
// spelling of numbers and strings may therefore change in transit. The package does not check an
// intent's content or times: the receiver does. It reads no clock and draws no randomness by
// itself.
package intent

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// ErrSignature reports a signature that is malformed or not the key's over the intent.
var ErrSignature = errors.New("signature does not verify")

// Intent is a payment that an agent intends to make. IssuedAt and ExpiresAt are Unix seconds.
type Intent struct {
	AgentID     string   `json:"agent_id"`
	Merchant    Merchant `json:"merchant"`
	Amount      Amount   `json:"amount"`
	Funding     *Funding `json:"funding,omitempty"`
	IntentID    string   `json:"intent_id"` // chosen by the agent; unique among its accepted intents
	IssuedAt    int64    `json:"iat"`
	ExpiresAt   int64    `json:"exp"`
	Protocol    string   `json:"protocol"` // TAP, MPP or ACP
	Description string   `json:"description,omitempty"`
}

// Merchant is the payee. MCC has four digits.
type Merchant struct {
	Name              string `json:"name"`
	MCC               string `json:"mcc"`
	PartnerMerchantID string `json:"partner_merchant_id,omitempty"`
}

// Amount is in hundredths of a currency, which has three letters.
type Amount struct {
	Currency string `json:"currency"`
	Cents    int64  `json:"cents"`
}

// Funding is the crypto asset of the payment.
type Funding struct {
	Asset string `json:"asset,omitempty"`
	Chain string `json:"chain,omitempty"`
}

// Submission is a signed intent as sent. Intent is the JSON that was signed.
type Submission struct {
	Intent    json.RawMessage `json:"intent"`
	Signature string          `json:"signature"` // base64url
	KeyID     string          `json:"key_id"`    // KeyID of the signing key
}

// Sign signs the JSON of an intent. The submission shares the bytes of the intent. It fails with
// the errors of Canonical. Clients, such as the tour of package demo, call it; the server only
// verifies.
func Sign(key ed25519.PrivateKey, intent []byte) (Submission, error) {
	canonical, err := Canonical(intent)
	if err != nil {
		return Submission{}, err
	}
	return Submission{Intent: intent, Signature: base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, canonical)),
		KeyID: KeyID(PublicKey(key))}, nil
}

// Verify checks that the signature (base64url, with or without padding) is the key's over the
// canonical form of the intent. The error is ErrSignature, also for an intent without a canonical
// form.
func Verify(key ed25519.PublicKey, intent []byte, signature string) error {
	bytes, err := decodeBase64URL(signature)
	if err != nil || len(bytes) != ed25519.SignatureSize || len(key) != ed25519.PublicKeySize {
		return ErrSignature
	}
	canonical, err := Canonical(intent)
	if err != nil || !ed25519.Verify(key, canonical, bytes) {
		return ErrSignature
	}
	return nil
}

// decodeBase64URL reads base64url with or without padding. It fails for any character outside the
// alphabet, line feeds included, which package base64 skips in strict encodings too.
func decodeBase64URL(text string) ([]byte, error) {
	if at := strings.IndexAny(text, "\r\n"); at >= 0 {
		return nil, base64.CorruptInputError(at)
	}
	return base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
}
