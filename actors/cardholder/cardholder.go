// Package cardholder is a person under whom cards are issued, and whether the issuing partner has taken that person on. It is
// pure; an actor of the cardholder's id is the only one that folds its events.
//
// What tells who the person is stands in the record RecordPerson only, which is sealed where it is stored; the state and the
// events hold none of it. Birth date and SSN digits are kept for the partner and are in no View. The package does not speak to
// the partner: whoever creates a cardholder brings the outcome of the enrolment along.
package cardholder

import (
	"purser/actors/decision"
)

// States of a cardholder. Today none of them is ever left: a pending cardholder is saved and not enrolled.
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

// Names of the tallies: all cardholders of a workspace (by the kind of their records), and those that cards can be issued under.
const (
	TallyAll    = "cardholder"
	TallyActive = "cardholder_active"
)

// State is a cardholder. The zero State is one that does not exist.
type State struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Kind      string         `json:"kind"`
	State     string         `json:"state"`
	Account   string         `json:"account,omitempty"` // with the issuing partner
	CreatedAt decision.Stamp `json:"createdAt"`
}

// Person is who the cardholder is. An empty field was not given.
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

// Address is where physical cards are sent. Country has two letters.
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

// Enrolment is what the issuing partner said of a person. Account is set when State is active.
type Enrolment struct{ State, Account string }

// Create saves a cardholder with what became of the enrolment. It answers View.
type Create struct {
	ID, Workspace, Kind string
	Person              Person
	Enrolment           Enrolment
}

// Complete says whether the issuing partner has all that it needs to take the person on.
func (p Person) Complete() bool {
	return p.FirstName != "" && p.LastName != "" && p.Email != "" && p.PhoneNumber != "" && p.ShippingAddress != nil
}

// View shows the cardholder with what may be shown of the person.
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
