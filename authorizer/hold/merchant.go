package hold

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A normalised entry of a merchant allowlist is its folded name. When folding changed it, the entry
// as written follows after a separator, because merchants match by exact id and by folded name.
// U+0000 is in no request.
const rawSeparator = "\x00"

// NormalizeMerchant converts an entry of an allowlist into the form that MatchMerchant reads. Call
// it once, when the rule is made. The card's actor calls it; the audit checks that stored entries
// have the form.
func NormalizeMerchant(entry string) string {
	folded := string(appendFolded(make([]byte, 0, len(entry)), entry))
	if folded == entry {
		return folded
	}
	return folded + rawSeparator + entry
}

// MatchMerchant reports whether an allowlist of normalised entries allows a merchant: nil allows
// all, an empty list none. An entry matches the exact id of the merchant, or its name after case
// folding and collapsing of spaces. An entry with a trailing * matches the beginning of either. It
// does not allocate.
func MatchMerchant(allowed []string, m *Merchant) bool {
	if allowed == nil {
		return true
	}
	if len(allowed) == 0 || len(m.Name) > MaxMerchantName*utf8.UTFMax {
		return false
	}
	var buffer [MaxMerchantName * utf8.UTFMax]byte
	name := appendFolded(buffer[:0], m.Name)
	for _, entry := range allowed {
		folded, raw, changed := strings.Cut(entry, rawSeparator)
		if !changed {
			raw = folded
		}
		if m.ID != "" && raw == m.ID || folded == string(name) || endsWild(folded) &&
			matchPrefix(folded, raw, name, m.ID) {
			return true
		}
	}
	return false
}

func endsWild(folded string) bool { return len(folded) > 0 && folded[len(folded)-1] == '*' }

// matchPrefix reports whether a merchant's name or id begins with an entry that ends with a star.
func matchPrefix(folded, raw string, name []byte, id string) bool {
	prefix := folded[:len(folded)-1]
	if len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix {
		return true
	}
	begin, wild := strings.CutSuffix(raw, "*")
	return wild && id != "" && strings.HasPrefix(id, begin)
}

// appendFolded appends s with folded case, trimmed, and with single spaces inside.
func appendFolded(dst []byte, s string) []byte {
	gap := false
	for _, r := range s {
		if unicode.IsSpace(r) {
			gap = len(dst) > 0
			continue
		}
		if gap {
			dst, gap = append(dst, ' '), false
		}
		dst = utf8.AppendRune(dst, foldRune(r))
	}
	return dst
}

// foldRune returns the same rune for all runes that differ only by case.
func foldRune(r rune) rune {
	if r >= utf8.RuneSelf {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		r = least
	}
	if r >= 'A' && r <= 'Z' {
		r += 'a' - 'A'
	}
	return r
}

// ParseMCC reads a merchant category code of four digits, and returns false for any other text.
func ParseMCC[T string | []byte](s T) (uint16, bool) {
	if len(s) != 4 {
		return 0, false
	}
	mcc := uint16(0)
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		mcc = mcc*10 + uint16(s[i]-'0')
	}
	return mcc, true
}
