package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
)

func TestTheIssuerEnrolsCompletePersons(t *testing.T) {
	var issuer partner.Issuer = sandbox.Issuer{}
	ada := partner.Person{Reference: "r1", FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		PhoneNumber: "+14155550100", Address: partner.Address{Line1: "1 Main St", City: "Oakland", Region: "CA",
			PostalCode: "94607", Country: "US"}}
	enrol := func(change func(*partner.Person)) (string, error) {
		p := ada
		change(&p)
		return issuer.Enrol(t.Context(), p)
	}
	account, err := enrol(func(*partner.Person) {})
	require.NoError(t, err)
	again, err := enrol(func(*partner.Person) {})
	require.NoError(t, err)
	require.Equal(t, account, again, "one reference is one account")
	other, err := enrol(func(p *partner.Person) { p.Reference = "r2" })
	require.NoError(t, err)
	require.NotEqual(t, account, other)
	for _, change := range []func(*partner.Person){
		func(p *partner.Person) { p.LastName = sandbox.LastNameRefused },
		func(p *partner.Person) { p.Email = "" },
		func(p *partner.Person) { p.Address.City = "" },
	} {
		_, err := enrol(change)
		require.ErrorIs(t, err, partner.ErrRefused)
	}
	_, err = enrol(func(p *partner.Person) { p.LastName = sandbox.LastNameSilent })
	require.Error(t, err)
	require.NotErrorIs(t, err, partner.ErrRefused)
}

func TestTheIssuerMirrorsCompleteAgents(t *testing.T) {
	var issuer partner.Issuer = sandbox.Issuer{}
	whole := partner.Agent{ID: "agt_1", Name: "Travel agent", PublicKeyPem: "-----BEGIN PUBLIC KEY-----", KeyID: "k",
		State: "frozen"}
	require.NoError(t, issuer.Mirror(t.Context(), "ws_1", []partner.Agent{whole, whole}))
	nameless := whole
	nameless.Name = ""
	require.ErrorIs(t, issuer.Mirror(t.Context(), "ws_1", []partner.Agent{whole, nameless}), partner.ErrRefused)
	require.ErrorIs(t, issuer.Mirror(t.Context(), "", []partner.Agent{whole}), partner.ErrRefused)
}
