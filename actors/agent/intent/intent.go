// Package intent is what an agent needs to sign payment intents, and what the service needs to verify them: the canonical form of
// JSON (RFC 8785), Ed25519 keys as PEM, the names of a key, signatures. An agent may import it; it needs nothing of the rest.
//
//	key, err := intent.ParsePrivateKeyPEM(pem)
//	body, err := json.Marshal(intent.Intent{AgentID: id, IntentID: "order-1", …})
//	submission, err := intent.Sign(key, body) // the body of POST /api/agents/{id}/intents, once encoded as JSON
//
// What is signed is the canonical form of the intent's JSON as it is sent, so that white space, the order of the fields and the
// way numbers and strings are written may change on the way. The package holds no opinion on what an intent may say, or when:
// that is for whoever receives it. It reads no clock and draws no randomness by itself.
package intent

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// ErrSignature says that a signature is not the key's over the intent, or is none at all.
var ErrSignature = errors.New("signature does not verify")

// Intent is a payment that an agent means to make. IssuedAt and ExpiresAt are in Unix seconds.
type Intent struct {
	AgentID     string   `json:"agent_id"`
	Merchant    Merchant `json:"merchant"`
	Amount      Amount   `json:"amount"`
	Funding     *Funding `json:"funding,omitempty"`
	IntentID    string   `json:"intent_id"` // the agent's own; no two accepted intents of an agent share it
	IssuedAt    int64    `json:"iat"`
	ExpiresAt   int64    `json:"exp"`
	Protocol    string   `json:"protocol"` // TAP, MPP or ACP
	Description string   `json:"description,omitempty"`
}

// Merchant is who is to be paid. MCC has four digits.
type Merchant struct {
	Name              string `json:"name"`
	MCC               string `json:"mcc"`
	PartnerMerchantID string `json:"partner_merchant_id,omitempty"`
}

// Amount is in hundredths of a currency of three letters.
type Amount struct {
	Currency string `json:"currency"`
	Cents    int64  `json:"cents"`
}

// Funding is the crypto asset that the agent means to pay with.
type Funding struct {
	Asset string `json:"asset,omitempty"`
	Chain string `json:"chain,omitempty"`
}

// Submission is a signed intent, as it is sent. Intent is the JSON that was signed.
type Submission struct {
	Intent    json.RawMessage `json:"intent"`
	Signature string          `json:"signature"` // base64url
	KeyID     string          `json:"key_id"`    // KeyID of the signing key
}

// Sign signs the JSON of an intent. The submission shares the bytes of the intent.
func Sign(key ed25519.PrivateKey, intent []byte) (Submission, error) {
	canonical, err := Canonical(intent)
	if err != nil {
		return Submission{}, err
	}
	return Submission{Intent: intent, Signature: base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, canonical)),
		KeyID: KeyID(PublicKey(key))}, nil
}

// Verify returns nil when the signature (base64url, with or without padding) is the key's over the canonical form of the intent,
// and ErrSignature when it is not, or when the intent has no canonical form.
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

func decodeBase64URL(text string) ([]byte, error) {
	return base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
}
