package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"purser/actors/partner"
)

// Last names that steer the issuer.
const (
	LastNameRefused = "Refused" // the issuer will not take the person on
	LastNameSilent  = "Silent"  // the issuer does not answer
)

var errSilent = errors.New("sandbox issuer: no answer")

// Issuer is a partner.Issuer. It keeps nothing: an account's id follows from the reference it was opened under, so that the same
// reference finds the same account, after a restart too.
type Issuer struct{}

// Enrol takes on everyone whose data is complete.
func (Issuer) Enrol(_ context.Context, p partner.Person) (string, error) {
	a := p.Address
	for _, needed := range []string{p.Reference, p.FirstName, p.LastName, p.Email, p.PhoneNumber, a.Line1, a.City, a.PostalCode,
		a.Country} {
		if needed == "" {
			return "", partner.ErrRefused
		}
	}
	switch p.LastName {
	case LastNameRefused:
		return "", partner.ErrRefused
	case LastNameSilent:
		return "", errSilent
	}
	sum := sha256.Sum256([]byte("sandbox issuer account|" + p.Reference))
	return "ich_" + hex.EncodeToString(sum[:12]), nil
}

// Mirror takes every agent that has a name, a key and a state.
func (Issuer) Mirror(_ context.Context, workspaceID string, agents []partner.Agent) error {
	for _, a := range agents {
		for _, needed := range []string{workspaceID, a.ID, a.Name, a.PublicKeyPem, a.KeyID, a.State} {
			if needed == "" {
				return partner.ErrRefused
			}
		}
	}
	return nil
}
