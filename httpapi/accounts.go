package httpapi

import (
	"context"

	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/user"
	"purser/persistence/ident"
)

// accountReader finds the accounts of users by email.
type accountReader struct{ actors Actors }

// credentialOf returns the account of a folded email. For an unknown email, id is "" and the
// credential is zero. An email whose change is under way, or that is not released yet, is unknown:
// its user's credential has another. It fails only with an error of the store.
func (r accountReader) credentialOf(ctx context.Context, folded string) (id string, c user.Credential, err error) {
	document, err := r.claimOf(ctx, r.actors.TenantSlot(folded), folded)
	id = document.UserID
	if err != nil || id == "" {
		return "", c, err
	}
	c, err = r.readCredential(ctx, id)
	if present, _ := user.FoldEmail(c.Email); err == nil && present != folded {
		return "", user.Credential{}, nil
	}
	return id, c, err
}

// claimOf returns the claim of an email in a slot, the zero document for one that was never claimed
// there. It fails only with an error of the store.
func (r accountReader) claimOf(ctx context.Context, slot ident.Slot, folded string) (user.EmailDocument, error) {
	document, err := query.Emails.Find(ctx, r.actors, slot, user.EmailHash(folded))
	if fault.Is(err, fault.NotFound) {
		return user.EmailDocument{}, nil
	}
	return document, err
}

// readCredential returns the stored email and password hash of a user. It fails with not_found for
// an unknown user, and with the store's error.
func (r accountReader) readCredential(ctx context.Context, id string) (user.Credential, error) {
	return query.Credentials.Read(ctx, r.actors, id, id)
}
