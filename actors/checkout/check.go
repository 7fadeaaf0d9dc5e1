package checkout

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"purser/actors/fault"
)

// Check fails with invalid_body and the names of all fields with values that no link can have. It
// ignores Accepted and the fields that depend on it.
func (c *Create) Check() error {
	var reasons fault.Reasons
	reasons.RequireThat(c.AmountUsdCents >= 1 && c.AmountUsdCents <= MaxAmountCents,
		"amountUsdCents: 1 to %d", MaxAmountCents)
	reasons.RequireThat(isWebAddress(c.Text.SuccessURL),
		"successUrl: an http or https address of at most %d bytes", MaxURL)
	reasons.RequireThat(c.Text.CancelURL == "" || isWebAddress(c.Text.CancelURL),
		"cancelUrl: an http or https address of at most %d bytes", MaxURL)
	reasons.RequireThat(utf8.RuneCountInString(c.Text.MerchantReference) <= MaxReference,
		"merchantReference: 1 to %d characters", MaxReference)
	reasons.RequireThat(utf8.RuneCountInString(c.Text.Description) <= MaxDescription,
		"description: at most %d characters", MaxDescription)
	reasons.RequireThat(c.Expires >= MinExpires && c.Expires <= MaxExpires,
		"expiresInSeconds: %d to %d", int(MinExpires.Seconds()), int(MaxExpires.Seconds()))
	reasons.RequireThat(c.SettlementOption == HoldStablecoin || c.SettlementOption == ConvertToFiat,
		"settlementOption: %s or %s", HoldStablecoin, ConvertToFiat)
	metadata, err := jsonv2.Marshal(c.Text.Metadata) // json.Marshal lengthens <, > and &
	reasons.RequireThat(err == nil && len(metadata) <= MaxMetadata,
		"metadata: at most %d bytes of JSON", MaxMetadata)
	return reasons.AsRefusal()
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
