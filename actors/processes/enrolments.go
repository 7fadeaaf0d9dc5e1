package processes

import (
	"context"
	"errors"
	"log/slog"

	"purser/actors/cardholder"
	"purser/actors/fault"
	"purser/actors/partner"
)

// Enrolments has the issuing partner take on cardholders.
type Enrolments struct {
	issuer partner.Issuer // nil: no partner is connected
	log    *slog.Logger
}

// Enrol asks the issuing partner to take a person on. A repeat with the same reference is the same
// enrolment. The state is active, rejected when the partner refuses the person, or pending for an
// incomplete person and for every person when no partner is connected. It fails with unavailable
// when the partner does not answer.
func (n *Enrolments) Enrol(ctx context.Context, reference string, p cardholder.Person) (cardholder.Enrolment, error) {
	if n.issuer == nil || !p.Complete() {
		return cardholder.Enrolment{State: cardholder.StatePending}, nil
	}
	a := p.ShippingAddress
	account, err := n.issuer.Enrol(ctx, partner.Person{Reference: reference, FirstName: p.FirstName,
		LastName: p.LastName,
		Email:    p.Email, PhoneNumber: p.PhoneNumber, DateOfBirth: p.DateOfBirth, SsnLast4: p.SsnLast4,
		Address: partner.Address{Line1: a.Line1, City: a.City, Region: a.Region, PostalCode: a.PostalCode,
			Country: a.Country}})
	switch {
	case errors.Is(err, partner.ErrRefused):
		return cardholder.Enrolment{State: cardholder.StateRejected}, nil
	case err != nil:
		n.log.Warn("the issuing partner did not enrol a cardholder", "err", err)
		return cardholder.Enrolment{}, fault.New(fault.Unavailable,
			"The issuing partner does not answer; nothing changed.")
	}
	return cardholder.Enrolment{State: cardholder.StateActive, Account: account}, nil
}
