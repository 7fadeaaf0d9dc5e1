package demo

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

	"purser/actors/agent/intent"
	"purser/cmd/purser/apiclient"
	"purser/persistence/ident"
)

// Scopes are the scopes of the tour's API key.
var Scopes = []string{"read:treasury", "write:treasury", "read:cards", "write:cards", "read:agents", "write:agents",
	"read:checkout", "write:checkout", "write:ramps", "read:api_keys", "write:api_keys"}

// makeNames sets the names that have a value from the start, and the makers of values that depend
// on answers. The keys of an agent and of a wallet stay in the makers.
func (t *tour) makeNames() {
	agent, wallet := must(intent.NewKey(rand.Reader)), must(secp256k1.GeneratePrivateKey())
	t.names = map[string]string{"run": "demo-" + strings.ToLower(rand.Text()[:10]), "password": rand.Text(),
		"scopes":        `"` + strings.Join(Scopes, `","`) + `"`,
		"publicKeyPem":  strings.ReplaceAll(intent.PublicKeyPEM(intent.PublicKey(agent)), "\n", `\n`),
		"keyId":         intent.KeyID(intent.PublicKey(agent)),
		"walletAddress": "0x" + hex.EncodeToString(keccak(wallet.PubKey().SerializeUncompressed()[1:])[12:])}
	t.makers = map[string]func() string{
		"strangerToken": func() string { // valid, and of no card
			known := must(ident.ParseToken([]byte(t.names["grocerToken"]))) // an approved swipe had it
			return must(ident.NewToken(known.Slot(), rand.Reader)).String()
		},
		"intent": func() string {
			now := time.Now()
			lunch := intent.Intent{AgentID: t.names["agent"], IntentID: t.names["lunch"], Protocol: "TAP",
				Merchant: intent.Merchant{Name: "Corner Grocer", MCC: "5411"},
				Amount:   intent.Amount{Currency: "USD", Cents: 12_50},
				IssuedAt: now.Unix(), ExpiresAt: now.Add(5 * time.Minute).Unix()}
			return encodeJSON(must(intent.Sign(agent, []byte(encodeJSON(lunch)))))
		},
		"forgedIntent": func() string { return strings.Replace(t.names["intent"], `"cents":1250`, `"cents":9999`, 1) },
		"walletSignature": func() string { // personal_sign of EIP-191 (version 0x45): r, s, v in hex
			text := "\x19Ethereum Signed Message:\n" + strconv.Itoa(len(t.names["challenge"])) + t.names["challenge"]
			signature := ecdsa.SignCompact(wallet, keccak([]byte(text)), false) // v, r, s
			return "0x" + hex.EncodeToString(append(signature[1:], signature[0]))
		},
	}
}

func keccak(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}

var nameReference = regexp.MustCompile(`\$[A-Za-z]+`)

// fillNames replaces the names in text by their values. A name without a value gets one: of its
// maker, or a new id that no other run has.
func (t *tour) fillNames(text string) string {
	return nameReference.ReplaceAllStringFunc(text, func(reference string) string {
		name := reference[1:]
		if makes := t.makers[name]; t.names[name] == "" && makes != nil {
			t.names[name] = makes()
		} else if t.names[name] == "" {
			t.names[name] = t.names["run"] + "-" + name
		}
		return t.names[name]
	})
}

// matchJSON compares decoded JSON with the pattern want of a call, and keeps names from got. It
// fails with a member that differs, in words, and then keeps none.
func (t *tour) matchJSON(at string, want, got any) (err error) {
	before := maps.Clone(t.names)
	defer func() {
		if err != nil {
			t.names = before
		}
	}()
	switch pattern := want.(type) {
	case map[string]any:
		members, _ := got.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(pattern)) {
			if err := t.matchJSON(strings.TrimPrefix(at+"."+name, "."), pattern[name], members[name]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		elements, _ := got.([]any)
		for _, wanted := range pattern {
			if !slices.ContainsFunc(elements, func(element any) bool { return t.matchJSON(at, wanted, element) == nil }) {
				return fmt.Errorf("%s has no %s", at, t.fillNames(encodeJSON(wanted)))
			}
		}
		return nil
	case string:
		text, _ := got.(string)
		name, isName := strings.CutPrefix(pattern, "$")
		if !isName || t.names[name] != "" {
			want = t.fillNames(pattern)
		} else if text != "" {
			t.names[name], want = text, text
		}
	}
	if got != want {
		return fmt.Errorf("%s is %s, expected %s", at, encodeJSON(got), encodeJSON(want))
	}
	return nil
}

// decodeJSON returns JSON with its numbers as json.Number, and nil for other text.
func decodeJSON(text string) any { return apiclient.Answer{Raw: []byte(text)}.At() }

func encodeJSON(v any) string { return string(must(json.Marshal(v))) }

// must returns v. An error is a fault of the demo.
func must[T any](v T, err error) T {
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return v
}
