package ident

import "strings"

// secretPrefixes are the prefixes of all secrets and tokens, each with its underscore. The
// redaction of logs and the check of ids that clients choose use this table alone.
var secretPrefixes = []string{APISecret + "_", SessionSecret + "_", InviteSecret + "_",
	ResetSecret + "_", EmailSecret + "_", ChallengeSecret + "_", SigningSecret + "_", CardToken + "_"}

// redacted stands in place of the characters behind a secret's prefix.
const redacted = "[redacted]"

// minRedacted is the length from which characters behind a prefix are redacted. Words such as
// reset_issued are shorter, and so are the prefixes that lists of keys show.
const minRedacted = 16

// SecretPrefixes returns the prefixes of all secrets and tokens, without the underscore.
func SecretPrefixes() []string {
	prefixes := make([]string, 0, len(secretPrefixes))
	for _, prefix := range secretPrefixes {
		prefixes = append(prefixes, strings.TrimSuffix(prefix, "_"))
	}
	return prefixes
}

// HasSecretPrefix reports whether a part of a text begins like a secret or token.
func HasSecretPrefix(text string) bool {
	for _, prefix := range secretPrefixes {
		for from := 0; ; {
			i := strings.Index(text[from:], prefix)
			if i < 0 {
				break
			}
			if from += i; from == 0 || !isAlphanumeric(text[from-1]) {
				return true
			}
			from += len(prefix)
		}
	}
	return false
}

// RedactSecrets replaces what looks like a secret or token of Purser by its prefix and
// "[redacted]". A text without one is returned as it is, without an allocation.
func RedactSecrets(text string) string {
	for _, prefix := range secretPrefixes {
		if strings.Contains(text, prefix) {
			text = redactPrefix(text, prefix)
		}
	}
	return text
}

// redactPrefix redacts the secrets of one prefix.
func redactPrefix(text, prefix string) string {
	var out strings.Builder
	for {
		i := strings.Index(text, prefix)
		if i < 0 {
			out.WriteString(text)
			return out.String()
		}
		i += len(prefix)
		end := i
		for end < len(text) && isAlphanumeric(text[end]) {
			end++
		}
		out.WriteString(text[:i])
		if end-i >= minRedacted {
			out.WriteString(redacted)
		} else {
			out.WriteString(text[i:end])
		}
		text = text[end:]
	}
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
