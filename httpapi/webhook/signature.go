// Package webhook signs, verifies and sends webhooks. Inbound reports of partners have the header
// "partner-signature: t=<unix>,<version>=<hex HMAC-SHA256>". Version 1 covers the time and the
// body, version 2 the method and the path too. Deliveries to a workspace's endpoints have the
// header "service-signature", of version 1. A Sender posts them to addresses that a Guard allows.
// Signing and verifying take the time as an argument.
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

// Tolerance is the largest difference between a signature's time and the server's, in either
// direction.
const Tolerance = 5 * time.Minute

// maxSignatures bounds the signatures of each version in one header. A partner that rotates its
// secret sends two.
const maxSignatures = 4

// ErrSignature means that the partner did not sign the request, or not now.
var ErrSignature = errors.New("partner signature invalid")

// Versions is a set of signature versions.
type Versions uint8

// The versions of a signature.
const (
	// V1 is HMAC-SHA256 of "<t>.<body>". It verifies on every path where the secret is valid.
	V1 Versions = 1 << iota
	// V2 is HMAC-SHA256 of "v2.<t>.<method> <path>\n<body>". It verifies for one request line.
	V2
)

// ParseVersions parses versions separated by commas, such as "v1,v2". Any other name is an error.
func ParseVersions(text string) (versions Versions, err error) {
	for name := range strings.SplitSeq(text, ",") {
		version := versionNamed(strings.TrimSpace(name))
		if version == 0 {
			return 0, errors.New("is not v1, v2 or both with a comma")
		}
		versions |= version
	}
	return versions, nil
}

// versionNamed returns the signature version "v1" or "v2", or 0 for another name.
func versionNamed(name string) Versions {
	switch name {
	case "v1":
		return V1
	case "v2":
		return V2
	}
	return 0
}

// Request is the part of a request that a signature of version 2 covers.
type Request struct {
	Method, Path string
	Body         []byte
}

// Sign returns the header value with a signature of version 1 of a body, made at a time. Outgoing
// webhooks carry it.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(macV1(secret, t, body))
}

// SignRequest returns the header value with a signature of version 2 of a request, made at a time.
// The sandbox's partners sign their reports with it.
func SignRequest(secret string, at time.Time, r Request) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v2=" + hex.EncodeToString(macV2(secret, t, r))
}

// Formed reports whether a header has the form of a signature of one of the versions, made within
// Tolerance of now. VerifyRequest checks the signature itself. The REST server asks it before it
// reads a report's body.
func Formed(header string, accepted Versions, now time.Time) bool {
	h, err := parseHeader(header, now)
	return err == nil && (accepted&V1 != 0 && len(h.v1) > 0 || accepted&V2 != 0 && len(h.v2) > 0)
}

// VerifyRequest accepts a request when one of the secrets made one of the header's signatures, of
// an accepted version, within Tolerance of now. It returns the strongest version that verifies.
// Every other outcome is ErrSignature.
func VerifyRequest(secrets []string, header string, r Request, accepted Versions, now time.Time) (Versions, error) {
	h, err := parseHeader(header, now)
	if err != nil {
		return 0, err
	}
	var verified Versions
	for _, secret := range secrets {
		if accepted&V2 != 0 && len(h.v2) > 0 && oneEquals(h.v2, macV2(secret, h.stamp, r)) {
			verified |= V2
		}
		if accepted&V1 != 0 && len(h.v1) > 0 && oneEquals(h.v1, macV1(secret, h.stamp, r.Body)) {
			verified |= V1
		}
	}
	switch {
	case verified&V2 != 0:
		return V2, nil
	case verified != 0:
		return V1, nil
	}
	return 0, ErrSignature
}

// oneEquals compares every given sum in constant time.
func oneEquals(given [][]byte, want []byte) (equal bool) {
	for _, sum := range given {
		equal = hmac.Equal(want, sum) || equal
	}
	return equal
}

// signatureHeader is a parsed header: its time in the original notation, and its signatures of each
// version.
type signatureHeader struct {
	stamp  string
	v1, v2 [][]byte
}

// parseHeader parses a header whose time is within Tolerance of now. It ignores parts with other
// names, for later versions. Any fault is ErrSignature.
func parseHeader(header string, now time.Time) (h signatureHeader, err error) {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		sums := &h.v1
		switch {
		case name == "t" && h.stamp != "":
			return signatureHeader{}, ErrSignature
		case name == "t":
			h.stamp = value
			continue
		case versionNamed(name) == 0:
			continue
		case versionNamed(name) == V2:
			sums = &h.v2
		}
		sum, err := hex.DecodeString(value)
		if err != nil || len(*sums) == maxSignatures {
			return signatureHeader{}, ErrSignature
		}
		*sums = append(*sums, sum)
	}
	seconds, err := strconv.ParseInt(h.stamp, 10, 64)
	if err != nil || !isTimely(seconds, now.Unix()) {
		return signatureHeader{}, ErrSignature
	}
	return h, nil
}

func isTimely(signed, now int64) bool {
	const tolerance = int64(Tolerance / time.Second)
	return signed >= now-tolerance && signed <= now+tolerance
}

// macV1 signs the time in the notation of the header, so that no other notation of it verifies.
func macV1(secret, stamp string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(stamp))
	h.Write([]byte{'.'})
	h.Write(body)
	return h.Sum(nil)
}

// macV2 begins with the version. A text of version 1 begins with a digit, so no signature of one
// version verifies as the other.
func macV2(secret, stamp string, r Request) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte("v2." + stamp + "." + r.Method + " " + r.Path + "\n"))
	h.Write(r.Body)
	return h.Sum(nil)
}
