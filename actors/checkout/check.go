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

// Check refuses what a link cannot be. It needs neither Accepted nor what comes with it.
func (c *Create) Check() error {
	switch {
	case c.AmountUsdCents < 1 || c.AmountUsdCents > MaxAmountCents:
		return invalid("amountUsdCents: 1 to %d", MaxAmountCents)
	case !isWebAddress(c.Text.SuccessURL):
		return invalid("successUrl: an http or https address of at most %d bytes", MaxURL)
	case c.Text.CancelURL != "" && !isWebAddress(c.Text.CancelURL):
		return invalid("cancelUrl: an http or https address of at most %d bytes", MaxURL)
	case utf8.RuneCountInString(c.Text.MerchantReference) > MaxReference:
		return invalid("merchantReference: 1 to %d characters", MaxReference)
	case utf8.RuneCountInString(c.Text.Description) > MaxDescription:
		return invalid("description: at most %d characters", MaxDescription)
	case c.Expires < MinExpires || c.Expires > MaxExpires:
		return invalid("expiresInSeconds: %d to %d", int(MinExpires.Seconds()), int(MaxExpires.Seconds()))
	case c.SettlementOption != HoldStablecoin && c.SettlementOption != ConvertToFiat:
		return invalid("settlementOption: %s or %s", HoldStablecoin, ConvertToFiat)
	}
	metadata, err := json.Marshal(c.Text.Metadata)
	if err != nil || len(metadata) > MaxMetadata {
		return invalid("metadata: at most %d bytes of JSON", MaxMetadata)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}

// isWebAddress says whether a browser can be sent to an address and goes where it reads: http(s), a host, nothing before the
// host.
func isWebAddress(text string) bool {
	if len(text) > MaxURL || strings.ContainsFunc(text, unfit) {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Opaque == ""
}

// unfit are characters that browsers read in their own way.
func unfit(r rune) bool { return r == '\\' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
