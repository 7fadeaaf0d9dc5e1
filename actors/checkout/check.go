package checkout

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"purser/actors/fault"
)

// Check fails with invalid_body and the field's name for values that no link can have. It ignores
// Accepted and the fields that depend on it. PrepareCheckout calls it before it takes addresses for
// the link, and createLink calls it again.
func (c *Create) Check() error {
	switch {
	case c.AmountUsdCents < 1 || c.AmountUsdCents > MaxAmountCents:
		return invalidBody("amountUsdCents: 1 to %d", MaxAmountCents)
	case !isWebAddress(c.Text.SuccessURL):
		return invalidBody("successUrl: an http or https address of at most %d bytes", MaxURL)
	case c.Text.CancelURL != "" && !isWebAddress(c.Text.CancelURL):
		return invalidBody("cancelUrl: an http or https address of at most %d bytes", MaxURL)
	case utf8.RuneCountInString(c.Text.MerchantReference) > MaxReference:
		return invalidBody("merchantReference: 1 to %d characters", MaxReference)
	case utf8.RuneCountInString(c.Text.Description) > MaxDescription:
		return invalidBody("description: at most %d characters", MaxDescription)
	case c.Expires < MinExpires || c.Expires > MaxExpires:
		return invalidBody("expiresInSeconds: %d to %d", int(MinExpires.Seconds()), int(MaxExpires.Seconds()))
	case c.SettlementOption != HoldStablecoin && c.SettlementOption != ConvertToFiat:
		return invalidBody("settlementOption: %s or %s", HoldStablecoin, ConvertToFiat)
	}
	metadata, err := json.Marshal(c.Text.Metadata)
	if err != nil || len(metadata) > MaxMetadata {
		return invalidBody("metadata: at most %d bytes of JSON", MaxMetadata)
	}
	return nil
}

func invalidBody(format string, args ...any) error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}

// isWebAddress reports whether a browser can be sent to an address and shows where it goes: http or
// https, a host, no user and no opaque part.
func isWebAddress(text string) bool {
	if len(text) > MaxURL || strings.ContainsFunc(text, isUnsafeRune) {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Opaque == ""
}

// isUnsafeRune reports a character that browsers interpret differently.
func isUnsafeRune(r rune) bool { return r == '\\' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
