package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/card"
	"purser/actors/cardholder"
	"purser/persistence"
	"purser/persistence/ident"
)

const (
	completePerson = `{"displayName":"Ada L.","kind":"control_person","firstName":"Ada","lastName":"Lovelace","email":"ada.private@example.com",
		"phoneNumber":"+14155550199","shippingAddress":{"line1":"1 Secret St","city":"Oakland","region":"CA","postalCode":"94607","country":"US"},
		"dateOfBirth":"1985-12-10","ssnLast4":"9876"}`
	namedOnly   = `{"displayName":"Bob","kind":"employee"}`
	plainCard   = `{"holderKind":"human","holderLabel":"Grace Hopper","monthlyLimitUsdCents":1,"perTxnLimitUsdCents":1}`
	cardUnderID = `{"holderKind":"human","holderLabel":"a","monthlyLimitUsdCents":1,"perTxnLimitUsdCents":1,"cardholderId":%q}`
)

func connected(c *Config) { c.Issuer = IssuerConnected }

func (w *world) addCardholder(tn tenant, body string) string {
	w.t.Helper()
	return w.ok(w.post(tn.all, "/api/cardholders", body)).text("cardholder", "id")
}

func TestStandInCardsEnrolNoCardholder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mia")
	made := w.ok(w.post(tn.all, "/api/cardholders", completePerson))
	require.Equal(t, "pending", made.text("cardholder", "state"))
	require.Equal(t, "Lovelace", made.text("cardholder", "lastName"))
	minted := w.ok(w.post(tn.all, "/api/cards", plainCard))
	require.Equal(t, true, minted.at("fixture"))
	require.Nil(t, minted.at("card", "cardholderId"))
	id := made.text("cardholder", "id")
	under := w.ok(w.post(tn.all, "/api/cards", fmt.Sprintf(cardUnderID, id)))
	require.Equal(t, id, under.text("card", "cardholderId"))
	require.Equal(t, id, w.ok(w.get(tn.all, "/api/cards/"+under.text("card", "id"))).text("card", "cardholderId"))
}

func TestTheConnectedIssuerIssuesUnderActiveCardholders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, connected)
	tn, other := w.newTenant("mia"), w.newTenant("other")
	w.fails(w.post(tn.all, "/api/cards", plainCard), 409, "cardholder_required")
	pending := w.addCardholder(tn, namedOnly)
	refused := w.ok(w.post(tn.all, "/api/cardholders", strings.Replace(completePerson, "Lovelace", "Refused", 1)))
	require.Equal(t, "rejected", refused.text("cardholder", "state"))
	w.fails(w.post(tn.all, "/api/cards", plainCard), 409, "cardholder_required")
	w.fails(w.post(tn.all, "/api/cards", fmt.Sprintf(cardUnderID, pending)), 409, "cardholder_required")
	silent := w.post(tn.all, "/api/cardholders", strings.Replace(completePerson, "Lovelace", "Silent", 1))
	w.fails(silent, 503, "unavailable")

	first := w.ok(w.post(tn.all, "/api/cardholders", completePerson))
	require.Equal(t, "active", first.text("cardholder", "state"))
	oldest, second := first.text("cardholder", "id"), w.addCardholder(tn, completePerson)
	w.fails(w.post(other.all, "/api/cards", plainCard), 409, "cardholder_required")
	minted := w.ok(w.post(tn.all, "/api/cards", plainCard))
	require.Equal(t, false, minted.at("fixture"))
	require.Equal(t, oldest, minted.text("card", "cardholderId"))
	require.Equal(t, second, w.ok(w.post(tn.all, "/api/cards", fmt.Sprintf(cardUnderID, second))).text("card",
		"cardholderId"))
	w.fails(w.post(other.all, "/api/cards", fmt.Sprintf(cardUnderID, second)), 404, "not_found")
	list := w.ok(w.get(tn.all, "/api/cardholders?limit=3"))
	require.Equal(t, second, list.text("data", 0, "id"))
	require.Equal(t, "rejected", list.text("data", 2, "state"))
	rest := w.ok(w.get(tn.all, "/api/cardholders?cursor="+list.text("nextCursor")))
	require.Equal(t, pending, rest.text("data", 0, "id"))
	require.Nil(t, rest.at("data", 0, "email"))
	require.Empty(t, w.ok(w.get(other.all, "/api/cardholders")).at("data"))
}

func TestACardholderIsSavedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, connected)
	tn := w.newTenant("mia")
	once := tn.all.with("Idempotency-Key", someUUID)
	first := w.ok(w.post(once, "/api/cardholders", completePerson))
	again := w.ok(w.post(once, "/api/cardholders", completePerson))
	require.Equal(t, first.raw, again.raw)
	require.Equal(t, "true", again.header("Idempotent-Replayed"))
	w.fails(w.post(once, "/api/cardholders", namedOnly), 422, "idempotency_key_mismatch")
	require.Len(t, w.ok(w.get(tn.all, "/api/cardholders")).at("data"), 1)
}

func TestCardholdersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mia")
	long := strings.Repeat("Ä", 61)
	for _, change := range [][2]string{
		{`"control_person"`, `"boss"`}, {`"Ada L."`, `""`}, {`"displayName":"Ada L.",`, ``},
		{`"Lovelace"`, `"` + long + `"`},
		{`"ada.private@example.com"`, `"nobody"`}, {`"+14155550199"`, `"14155550199"`}, {`"+14155550199"`, `"+123456"`},
		{`"Oakland"`, `""`}, {`"city":"Oakland",`, ``}, {`"US"`, `"us"`}, {`"US"`, `"USA"`},
		{`"1985-12-10"`, `"1985-13-10"`},
		{`"1985-12-10"`, `"2126-11-20"`}, {`"1985-12-10"`, `"1899-12-31"`}, {`"9876"`, `"98765"`}, {`"9876"`, `9876`},
		{`"kind"`, `"state":"active","kind"`},
	} {
		body := strings.Replace(completePerson, change[0], change[1], 1)
		require.NotEqual(t, completePerson, body)
		w.fails(w.post(tn.all, "/api/cardholders", body), 400, "invalid_body")
	}
	require.Empty(t, w.ok(w.get(tn.all, "/api/cardholders")).at("data"))
}

// Personal fields are in the journal only in sealed form, and no answer has the birth date or the
// SSN digits.
func TestPersonalFieldsAreSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, connected)
	tn := w.newTenant("mia")
	id := w.ok(w.post(tn.all.with("Idempotency-Key", someUUID), "/api/cardholders", completePerson)).text("cardholder",
		"id")
	minted := w.ok(w.post(tn.all, "/api/cards", plainCard))
	require.Equal(t, "Grace Hopper", minted.text("card", "holderLabel"))
	one := w.ok(w.get(tn.all, "/api/cards/"+minted.text("card", "id")))
	require.Equal(t, "Grace Hopper", one.text("card", "holderLabel"))
	require.Equal(t, "Grace Hopper", w.ok(w.get(tn.all, "/api/cards")).text("data", 0, "holderLabel"))
	answers := w.ok(w.get(tn.all, "/api/cardholders")).raw
	require.Contains(t, answers, "ada.private@example.com")
	for _, secret := range []string{"1985-12-10", "9876", "+14155550199", "Secret St"} {
		require.NotContains(t, answers, secret)
	}
	stored := w.storedOf(tn)
	require.Contains(t, stored, id)
	for _, secret := range []string{"1985-12-10", "9876\"", "+14155550199", "Secret St", "Lovelace", "Ada L.",
		"ada.private",
		"Hopper", "mia@example.com", "$argon2id$"} {
		require.NotContains(t, stored, secret)
	}
}

// storedOf returns every event and document in the shards of a tenant and its owner.
func (w *world) storedOf(tn tenant) string {
	w.t.Helper()
	var all strings.Builder
	owner := w.ok(w.get(session(tn.cookie), "/api/dashboard/me")).text("user", "id")
	for _, id := range []string{tn.workspace, owner} {
		slot, err := ident.SlotOf(id)
		require.NoError(w.t, err)
		events, err := w.journal.Events(w.t.Context(), slot.Shard(), 0, 1000)
		require.NoError(w.t, err)
		for _, e := range events {
			all.Write(e.Payload)
		}
		for _, kind := range []string{"user", "user_email", "credential", "workspace", "card", card.RecordLabel,
			"cardholder",
			cardholder.RecordPerson} {
			records, err := w.journal.Records(w.t.Context(), slot.Shard(), kind, "", 1000)
			require.NoError(w.t, err)
			for _, r := range records {
				all.Write(r.Document)
			}
		}
	}
	return all.String()
}

// haveAlready makes a tenant count n of a kind: it writes the tally to the journal, where the next
// mint reads it.
func (w *world) haveAlready(tn tenant, kind string, n int64) {
	w.t.Helper()
	slot, err := ident.SlotOf(tn.workspace)
	require.NoError(w.t, err)
	w.settled() // no other writer is active
	document, err := json.Marshal(actors.Tally{Count: n, First: "of old"})
	require.NoError(w.t, err)
	w.write(tn, slot, persistence.Record{Kind: actors.TallyKind(kind), Workspace: tn.workspace, ID: tn.workspace,
		Slot:     slot,
		Document: document})
}

func TestCardsAndCardholdersPerWorkspaceAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mia")
	w.haveAlready(tn, "card", card.MaxPerWorkspace-2)
	w.haveAlready(tn, cardholder.TallyAll, cardholder.MaxPerWorkspace-1)
	w.ok(w.post(tn.all, "/api/cards", plainCard))
	const callers = 8
	results := make(chan int, callers)
	for range callers {
		go func() { results <- w.post(tn.all, "/api/cards", plainCard).status }()
	}
	minted := 0
	for range callers {
		if status := <-results; status == 200 {
			minted++
		} else {
			require.Equal(t, 422, status)
		}
	}
	require.Equal(t, 1, minted)
	w.fails(w.post(tn.all, "/api/cards", plainCard), 422, "limit_exceeded")
	require.Len(t, w.ok(w.get(tn.all, "/api/cards")).at("data"), 2)
	w.ok(w.post(tn.all, "/api/cardholders", namedOnly))
	w.fails(w.post(tn.all, "/api/cardholders", namedOnly), 422, "limit_exceeded")
	w.ok(w.post(w.newTenant("other").all, "/api/cards", plainCard))
}
