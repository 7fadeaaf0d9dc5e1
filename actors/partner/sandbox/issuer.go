package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"purser/actors/partner"
)

// Magic last names choose the issuer's behaviour.
const (
	LastNameRefused = "Refused" // the issuer refuses the person
	LastNameSilent  = "Silent"  // the issuer does not answer
)

var errIssuerNoAnswer = errors.New("sandbox issuer: no answer")

// Issuer is a partner.Issuer without a store: an account's id is derived from its reference, so
// that equal references give the same account after a restart too.
type Issuer struct{}

// Enrol implements partner.Issuer: it accepts every person with complete data and returns the
// account's id. It fails with partner.ErrRefused for missing data and LastNameRefused, and with no
// answer for LastNameSilent.
func (Issuer) Enrol(_ context.Context, p partner.Person) (string, error) {
	a := p.Address
	for _, needed := range []string{p.Reference, p.FirstName, p.LastName, p.Email, p.PhoneNumber, a.Line1, a.City,
		a.PostalCode,
		a.Country} {
		if needed == "" {
			return "", partner.ErrRefused
		}
	}
	switch p.LastName {
	case LastNameRefused:
		return "", partner.ErrRefused
	case LastNameSilent:
		return "", errIssuerNoAnswer
	}
	sum := sha256.Sum256([]byte("sandbox issuer account|" + p.Reference))
	return "ich_" + hex.EncodeToString(sum[:12]), nil
}

// Mirror implements partner.Issuer: it accepts agents that each have an id, a name, a key and a
// state. An absent one is partner.ErrRefused.
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
