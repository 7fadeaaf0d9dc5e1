// Package cardholder is a person under whom cards are issued, and the issuing partner's answer to
// that person's enrolment. It is pure; the actor of the cardholder's id alone folds its events.
//
// The record RecordPerson alone identifies the person. It is sealed where it is stored; state and
// events hold none of it. Birth date and SSN digits are for the partner and in no View. The package
// does not call the partner: the creator of a cardholder passes the outcome of the enrolment.
package cardholder

import (
	"purser/actors/decision"
)

// States of a cardholder. Each is final today: a pending cardholder is stored and never enrolled.
const (
	StatePending  = "pending"
	StateActive   = "active"
	StateRejected = "rejected"
)

// Kinds of a cardholder.
const (
	ControlPerson = "control_person"
	Agent         = "agent"
	Employee      = "employee"
)

// Limits of a cardholder's fields, in characters, and of a workspace.
const (
	MaxDisplayName  = 80
	MaxName         = 60
	MaxEmail        = 254
	MaxAddressLine  = 100
	MaxCity         = 60
	MaxRegion       = 60
	MaxPostalCode   = 16
	MaxPerWorkspace = 100_000
)

// RecordPerson is the kind of the record chld_ id → Person.
const RecordPerson = "cardholder_person"

// Names of the tallies: all cardholders of a workspace (the kind of their records), and the active
// ones, under whom cards can be issued.
const (
	TallyAll    = "cardholder"
	TallyActive = "cardholder_active"
)

// State is a cardholder. The zero State is a cardholder that does not exist.
type State struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Kind      string         `json:"kind"`
	State     string         `json:"state"`
	Account   string         `json:"account,omitempty"` // the person's account with the issuing partner
	CreatedAt decision.Stamp `json:"createdAt"`
}

// Person is the cardholder's personal data. An empty field was not given.
type Person struct {
	DisplayName     string   `json:"displayName"`
	FirstName       string   `json:"firstName,omitempty"`
	LastName        string   `json:"lastName,omitempty"`
	Email           string   `json:"email,omitempty"`
	PhoneNumber     string   `json:"phoneNumber,omitempty"` // E.164
	ShippingAddress *Address `json:"shippingAddress,omitempty"`
	DateOfBirth     string   `json:"dateOfBirth,omitempty"` // 2006-01-02
	SsnLast4        string   `json:"ssnLast4,omitempty"`
}

// Address is the shipping address of physical cards. Country is a two-letter code.
type Address struct {
	Line1      string `json:"line1"`
	City       string `json:"city"`
	Region     string `json:"region"`
	PostalCode string `json:"postalCode"`
	Country    string `json:"country"`
}

// View is a cardholder as the interface shows it.
type View struct {
	ID          string         `json:"id"`
	DisplayName string         `json:"displayName"`
	Kind        string         `json:"kind"`
	State       string         `json:"state"`
	FirstName   *string        `json:"firstName"`
	LastName    *string        `json:"lastName"`
	Email       *string        `json:"email"`
	CreatedAt   decision.Stamp `json:"createdAt"`
}

// Enrolment is the issuing partner's answer about a person. Account is set when State is active.
type Enrolment struct{ State, Account string }

// Create stores a cardholder with the outcome of the enrolment. The reply is a View.
type Create struct {
	ID, Workspace, Kind string
	Person              Person
	Enrolment           Enrolment
}

// Complete reports whether the person has every field that the issuing partner requires. The
// process that enrols cardholders calls it; an incomplete person stays pending.
func (p Person) Complete() bool {
	return p.FirstName != "" && p.LastName != "" && p.Email != "" && p.PhoneNumber != "" && p.ShippingAddress != nil
}

// View returns the cardholder with the fields of the person that the interface may show.
// createCardholder replies it, and the cardholders' routes show it.
func (s *State) View(p Person) View {
	given := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	return View{ID: s.ID, DisplayName: p.DisplayName, Kind: s.Kind, State: s.State, FirstName: given(p.FirstName),
		LastName: given(p.LastName), Email: given(p.Email), CreatedAt: s.CreatedAt}
}
