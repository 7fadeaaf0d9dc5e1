// Package partner says what Purser needs of the outside world, as small interfaces: a bank, its desk for foreign exchange, and an
// issuer of cards. The implementations live elsewhere; package sandbox has some that behave like the real thing.
//
// A partner is told what to do once or many times, for whoever tells it may crash in between: every method but Pay is idempotent
// by the id it is given. What becomes of an order of money is never an answer here. It comes later, as a signed report through
// the inbound webhook handlers.
package partner

import (
	"context"
	"errors"
	"time"
)

// ErrFull says that a partner takes no more orders for now. Nothing was kept; a later retry is safe.
var ErrFull = errors.New("partner takes no more orders now")

// Deposit is money that a customer has announced and the bank is going to see.
type Deposit struct {
	ID             string    `json:"id"` // dep_…
	WorkspaceID    string    `json:"workspaceId"`
	Rail           string    `json:"rail"` // ach, fednow or wire
	AmountUsdCents int64     `json:"amountUsdCents"`
	ExpectedAt     time.Time `json:"expectedAt"`
}

// Bank is where the dollars are.
type Bank interface {
	// Expect announces a deposit. When it returns nil the bank has kept the order and will report the money's arrival; the same
	// id again changes nothing.
	Expect(ctx context.Context, d Deposit) error
	Payments
}

// ErrRefused says that a partner will not do what it was asked: the issuer take a person on, the bank pay. Asking again changes
// nothing.
var ErrRefused = errors.New("the partner refuses")

// Person is somebody under whom cards are issued. It is personal data: it is sent, and never logged or kept on the way.
type Person struct {
	Reference                               string // the same reference is the same enrolment
	FirstName, LastName, Email, PhoneNumber string
	Address                                 Address
	DateOfBirth, SsnLast4                   string // "" when they were not given
}

// Address is where a person lives, or a physical card is sent.
type Address struct {
	Line1      string `json:"line1"`
	City       string `json:"city"`
	Region     string `json:"region,omitempty"`
	PostalCode string `json:"postalCode"`
	Country    string `json:"country"`
}

// Issuer is the partner that issues the cards.
type Issuer interface {
	// Enrol takes a person on and returns the id of their account with the issuer; ErrRefused when it will not. After any other
	// error it is not known whether the person is enrolled, and the same reference may be sent again.
	Enrol(ctx context.Context, p Person) (account string, err error)
	// Mirror binds agents of a workspace to the issuer and says how they stand now: what was said of one before is replaced.
	// There are at most 10,000. ErrRefused when the issuer will not have them; after any other error the same may be sent again.
	Mirror(ctx context.Context, workspaceID string, agents []Agent) error
}

// Agent is an AI agent that acts for a workspace, with the key it signs with.
type Agent struct {
	ID, Name     string
	PublicKeyPem string // SubjectPublicKeyInfo
	KeyID        string // base64url of the SHA-256 of the key
	State        string // active, frozen or terminated
}
