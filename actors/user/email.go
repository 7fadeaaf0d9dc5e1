package user

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode"
)

// FoldEmail returns the form in which emails are compared: without surrounding spaces, in lower
// case. ok is false for text that is no email address. The folded form gives the user's slot
// (ident.TenantSlot) and EmailHash. The routes of sign-up, login and invitations call it, and
// registerUser calls it again.
func FoldEmail(email string) (folded string, ok bool) {
	folded = strings.ToLower(strings.TrimSpace(email))
	local, domain, found := strings.Cut(folded, "@")
	if !found || local == "" || domain == "" || len(folded) > MaxEmail || strings.Contains(domain, "@") {
		return "", false
	}
	if strings.IndexFunc(folded, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) >= 0 {
		return "", false
	}
	return folded, true
}

// EmailHash returns the id of a folded email's user_email record.
func EmailHash(folded string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(folded))) }
