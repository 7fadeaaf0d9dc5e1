package httpapi

import (
	"encoding/csv"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The page of the treasury shows the lines that its address selects, and keeps the filters in the
// address of the next page.
func TestTheLedgersPageIsNarrowedByItsAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := newLedgerLog(w)
	l.addLines(150)
	who, address := session(l.tn.cookie), "/dashboard/"+l.tn.workspace+"/treasury"
	shown := func(address string) (references []string, next string) {
		page := w.visit(who, address, nil)
		require.Equal(t, 200, page.status, page.text)
		for _, part := range strings.Split(page.text, `data-label="Reference"><code class="id" title="`)[1:] {
			reference, _, _ := strings.Cut(part, `"`)
			references = append(references, reference)
		}
		for _, href := range attributesOf(w.parsePage(page.text), "a", "href") {
			if strings.Contains(href, "cursor=") {
				next = href
			}
		}
		return references, next
	}
	l.all = l.all[:150]
	credits := []string{}
	for _, e := range l.all {
		if e.Direction == "credit" {
			credits = append(credits, e.Reference)
		}
	}
	first, next := shown(address + "?direction=credit&source=&from=")
	require.Equal(t, credits[:50], first)
	require.Contains(t, next, "direction=credit")
	rest, next := shown(next)
	require.Equal(t, credits[50:], rest)
	require.Empty(t, next)
	group, _ := shown(address + "?transferGroup=" + l.all[10].TransferGroup)
	require.Contains(t, group, l.all[10].Reference)
	require.LessOrEqual(t, len(group), 3)
	none := w.visit(who, address+"?to=2020-01-01", nil)
	require.Contains(t, none.text, "Nothing matches.")
	require.Contains(t, none.text, `value="2020-01-01"`, "the form keeps its values")
	bad := w.visit(who, address+"?to=soon", nil)
	require.Equal(t, 400, bad.status)
	require.Contains(t, bad.text, "To must be a day")
}

// A statement is saved as a file with the session of a browser: the month of the address up to
// today.
func TestAStatementIsSavedFromItsForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fund(tn, 12_345)
	who, address := session(tn.cookie), "/dashboard/"+tn.workspace+"/treasury"
	page := w.visit(who, address, nil)
	require.Contains(t, attributesOf(w.parsePage(page.text), "form", "action"), address+"/statement")
	now := w.clock.now()
	saved := w.visit(who, address+"/statement?format=csv&month="+now.Format("2006-01"), nil)
	require.Equal(t, 200, saved.status, saved.text)
	require.Equal(t, w.ok(w.get(tn.all, "/api/treasury/statement?format=csv&from="+now.Format("2006-01-")+"01&to="+
		now.Format(time.DateOnly))).raw, saved.text)
	rows, err := csv.NewReader(strings.NewReader(saved.text)).ReadAll()
	require.NoError(t, err)
	require.Contains(t, saved.text, "bank_deposit")
	require.NotEmpty(t, rows)
	xml := w.visit(who, address+"/statement?format=camt053&month="+now.AddDate(0, -1, 0).Format("2006-01"), nil)
	require.Contains(t, xml.text, "<?xml")
	for _, query := range []string{"month=soon", "month=2999-01", "month=2026-11&format=pdf"} {
		bad := w.visit(who, address+"/statement?"+query, nil)
		require.Equal(t, 400, bad.status, query)
		require.Contains(t, bad.text, "<h1>")
	}
}

// A payout and a recipient are found by the filters of their lists, and a wire abroad shows its
// tracking reference.
func TestPayoutsAndRecipientsAreFoundOnTheirPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fund(tn, 1_000_000)
	who, address := session(tn.cookie), "/dashboard/"+tn.workspace
	saved := w.visit(who, address+"/recipients/save-abroad", url.Values{"key": {newUUID(1)}, "name": {"Grace GmbH"},
		"bic": {"DEUTDEFF500"}, "iban": {"DE89 3704 0044 0532 0130 00"}, "currency": {"EUR"},
		"line1": {"Hauptstr. 5"},
		"city":  {"Berlin"}, "postalCode": {"10115"}, "country": {"DE"}})
	require.Equal(t, 303, saved.status, saved.text)
	id := saved.location[strings.LastIndex(saved.location, "/")+1:]
	payout := w.ok(w.pay(tn, `{"rail":"intl_wire","counterpartyId":"`+id+`","amountCents":1500,"description":"Rent abroad"}`)).
		text("payout", "id")
	w.newRecipient(tn)
	list := func(path string) string { return w.visit(who, address+path, nil).text }
	require.NotContains(t, list("/recipients?name=grace"), "Ada Lovelace")
	require.Contains(t, list("/recipients?name=grace"), "Grace GmbH")
	require.Contains(t, list("/payouts?status=held&counterpartyId="+id), "Rent abroad")
	require.Contains(t, list("/payouts?counterpartyId="+id), "Recipient: Grace GmbH •••• 3000")
	require.Contains(t, list("/payouts"), `<option value="`+id+`">Grace GmbH`)
	require.NotContains(t, list("/payouts?status=settled"), "Rent abroad")
	require.Contains(t, list("/payouts/"+payout), w.ok(w.get(tn.all,
		"/api/treasury/payouts/"+payout+"/tracking")).text("uetr"))
}

// A wire abroad is quoted on the recipient's page. The quote's page shows its end, and its form
// orders the wire while the rate is locked.
func TestAWireAbroadIsQuotedAndOrderedOnPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fund(tn, 1_000_000)
	who, recipient := session(tn.cookie), "/dashboard/"+tn.workspace+"/recipients/"+w.newRecipientAbroad(tn)
	quote := func(key int) string {
		asked := w.visit(who, recipient+"/quote", url.Values{"key": {newUUID(key)}, "amountMinor": {"100.50"}})
		require.Equal(t, 303, asked.status, asked.text)
		return asked.location
	}
	wrong := w.visit(who, recipient+"/quote", url.Values{"key": {newUUID(9)}, "amountMinor": {"many"}})
	require.Equal(t, 422, wrong.status)
	require.Contains(t, wrong.text, "must be a plain amount in EUR")
	first, late := quote(1), quote(2)
	page := w.visit(who, first, nil)
	require.Contains(t, page.text, "€100.50")
	require.Contains(t, page.text, `data-left="120"`)
	require.Contains(t, page.text, w.clock.now().Add(2*time.Minute).Format("15:04:05"), "its end without the script")
	ordered := w.visit(who, first+"/pay", url.Values{"key": {newUUID(3)}, "description": {"Invoice 7"}})
	require.Equal(t, 303, ordered.status, ordered.text)
	require.Contains(t, w.visit(who, ordered.location, nil).text, "Waits for release")
	require.NotContains(t, w.visit(who, first, nil).text, `/pay"`)
	id := first[strings.LastIndex(first, "/")+1:]
	require.Equal(t, "used", w.ok(w.get(tn.all, "/api/treasury/fx-quotes/"+id)).text("quote", "status"))
	w.clock.turn(2 * time.Minute)
	ended := w.visit(who, late, nil)
	require.Contains(t, ended.text, "The lock has ended")
	require.NotContains(t, ended.text, "data-left=")
	require.Equal(t, 422, w.visit(who, late+"/pay", url.Values{"key": {newUUID(4)}, "description": {"Late"}}).status)
	id = late[strings.LastIndex(late, "/")+1:]
	require.Equal(t, "expired", w.ok(w.get(tn.all, "/api/treasury/fx-quotes/"+id)).text("quote", "status"))
}

// The lists of dollars take amounts in dollars, and keep them as cents in the address.
func TestAmountsOfFiltersAreEnteredInDollars(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	home := "/dashboard/" + tn.workspace
	w.fund(tn, 1_000_00)
	for _, list := range []string{"/payouts", "/treasury"} {
		entered := w.visit(session(tn.cookie), home+list+"?amountFrom=9.99&amountTo=&cursor=x", nil)
		require.Equal(t, home+list+"?amountFromCents=999", entered.location)
		shown := w.visit(session(tn.cookie), entered.location, nil)
		require.Contains(t, shown.text, "Amount: from $9.99")
	}
	require.Contains(t, w.visit(session(tn.cookie), home+"/treasury?amountFromCents=100000", nil).text,
		"Bank deposit</td>")
	require.Contains(t, w.visit(session(tn.cookie), home+"/treasury?amountFromCents=100001", nil).text,
		"Nothing matches.")
}
