// Package webhook is how webhooks come in and go out. What partners report is verified by the header
// "partner-signature: t=<unix>,v1=<hex HMAC-SHA256 of t.body>"; what Purser announces to a workspace's endpoints is signed in the
// same form under "service-signature" and posted by a Sender, to where a Guard lets it. The package reads no clock to sign or
// verify by; what a report means is for its handler, and when a delivery is tried is for the actors.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Tolerance is how far a signature's time may be from ours, either way.
const Tolerance = 5 * time.Minute

// maxSignatures bounds the v1 parts of one header: a partner that rotates its secret sends two.
const maxSignatures = 4

// ErrSignature says that a report is not signed by the partner, or not now.
var ErrSignature = errors.New("partner signature invalid")

// Sign makes the value of the partner-signature header for a body sent at a time.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac(secret, t, body))
}

// Formed reports whether a header has the form of a signature made within Tolerance of now. Verify
// checks the signature itself.
func Formed(header string, now time.Time) bool {
	_, _, err := parseHeader(header, now)
	return err == nil
}

// Verify accepts a body when one of the secrets made one of the signatures in the header within Tolerance of now. Every
// other outcome is ErrSignature.
func Verify(secrets []string, header string, body []byte, now time.Time) error {
	stamp, given, err := parseHeader(header, now)
	if err != nil {
		return err
	}
	valid := false
	for _, secret := range secrets {
		want := mac(secret, stamp, body)
		for _, sum := range given {
			valid = hmac.Equal(want, sum) || valid
		}
	}
	if !valid {
		return ErrSignature
	}
	return nil
}

// parseHeader reads a header: its time, as written and within Tolerance of now, and its signatures,
// at least one.
func parseHeader(header string, now time.Time) (stamp string, given [][]byte, err error) {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			if stamp != "" {
				return "", nil, ErrSignature
			}
			stamp = value
		case "v1":
			sum, err := hex.DecodeString(value)
			if err != nil || len(given) == maxSignatures {
				return "", nil, ErrSignature
			}
			given = append(given, sum)
		}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || !within(seconds, now.Unix()) || len(given) == 0 {
		return "", nil, ErrSignature
	}
	return stamp, given, nil
}

func within(signed, now int64) bool {
	const tolerance = int64(Tolerance / time.Second)
	return signed >= now-tolerance && signed <= now+tolerance
}

// mac signs the time as it is written in the header, so that no other spelling of it verifies.
func mac(secret, stamp string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(stamp))
	h.Write([]byte{'.'})
	h.Write(body)
	return h.Sum(nil)
}
