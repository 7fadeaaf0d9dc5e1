// Package partner has the interfaces of Purser's partners: a bank, its desk for foreign exchange, a
// card issuer, a ramp between dollars and USDC, nodes of blockchains, and a source of prices.
// Package sandbox has implementations that simulate partners.
//
// Every method except Pay is idempotent by the id that it gets, because its caller may crash and
// repeat it. No method returns the outcome of an order of money. The partner reports the outcome
// later, signed, to the inbound webhook handlers.
package partner

import (
	"context"
	"errors"
	"time"

	"purser/persistence/money"
)

// ErrFull says that a partner takes no orders now. It kept nothing, so that a retry is safe.
var ErrFull = errors.New("partner takes no more orders now")

// Deposit is a bank transfer that a customer announced.
type Deposit struct {
	ID             string      `json:"id"` // dep_…
	WorkspaceID    string      `json:"workspaceId"`
	Rail           string      `json:"rail"` // ach, fednow or wire
	AmountUsdCents money.Cents `json:"amountUsdCents"`
	ExpectedAt     time.Time   `json:"expectedAt"`
}

// Bank is the partner that holds the dollars.
type Bank interface {
	// Expect announces a deposit. After nil the bank has the announcement and will report the
	// money's arrival. A repeat of an id changes nothing.
	Expect(ctx context.Context, d Deposit) error
	Payments
}

// ErrRefused says that a partner refuses the request for good; a retry gets the same answer.
var ErrRefused = errors.New("the partner refuses")

// Person is a cardholder to enrol with the issuer. It is personal data: senders neither log nor
// store it.
type Person struct {
	Reference                               string // equal references are one enrolment
	FirstName, LastName, Email, PhoneNumber string
	Address                                 Address
	DateOfBirth, SsnLast4                   string // "" when not given
}

// Address is a person's address, or the destination of a physical card.
type Address struct {
	Line1      string `json:"line1"`
	City       string `json:"city"`
	Region     string `json:"region,omitempty"`
	PostalCode string `json:"postalCode"`
	Country    string `json:"country"`
}

// Issuer is the partner that issues the cards.
type Issuer interface {
	// Enrol enrols a person and returns the issuer's id of the account. ErrRefused says that the
	// issuer refuses the person. After any other error the outcome is unknown, and the same
	// reference may be sent again.
	Enrol(ctx context.Context, p Person) (account string, err error)
	// Mirror replaces the issuer's copy of a workspace's agents, at most 10,000 of them. ErrRefused
	// says that the issuer refuses them. After any other error the same call may be repeated.
	Mirror(ctx context.Context, workspaceID string, agents []Agent) error
}

// Agent is an AI agent that acts for a workspace, with its public signing key.
type Agent struct {
	ID, Name     string
	PublicKeyPem string // SubjectPublicKeyInfo
	KeyID        string // base64url of the SHA-256 of the key
	State        string // active, frozen or terminated
}
