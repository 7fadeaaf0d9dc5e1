package httpapi

import (
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// sendForm sends a form of a page as the tenant's owner, and returns the page behind it.
func (w *world) sendForm(tn tenant, page, form string, values url.Values) pageReply {
	w.t.Helper()
	values.Set("key", uuid.NewString())
	sent := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+page+"/"+form, values)
	require.Equal(w.t, 303, sent.status, sent.text)
	return w.visit(session(tn.cookie), sent.location, nil)
}

// A person sets currencies up, opens two accounts, pays in, quotes and converts, all by form.
func TestAConversionByForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	page := func(path string) string {
		r := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+path, nil)
		require.Equal(t, 200, r.status, r.text)
		return r.text
	}
	require.NotContains(t, page("/currencies"), "New account", "before the set-up")
	require.Contains(t, w.sendForm(tn, "/currencies", "set-up", url.Values{}).text, `<option value="EUR"`)
	require.Contains(t, w.sendForm(tn, "/currencies", "open", url.Values{"currency": {"EUR"}}).text, "EUR account")
	require.Contains(t, page("/currencies/EUR"), "Open an account in another currency to convert into it.")
	w.sendForm(tn, "/currencies", "open", url.Values{"currency": {"JPY"}})
	require.NotContains(t, page("/currencies"), `<option value="EUR"`, "an open account is not offered again")
	w.clock.turn(3 * time.Second)
	w.opened(tn, "EUR", "JPY")
	require.Contains(t, page("/currencies/EUR"), "IBAN")
	paid := w.sendForm(tn, "/currencies/EUR", "payin", url.Values{"amountMinor": {"1,000.5"},
		"reference": {"Invoice 9"}})
	require.Contains(t, paid.text, "€1,000.50", "it is incoming")
	w.clock.turn(3 * time.Second)
	w.awaitCondition(func() bool { return w.available(tn, "EUR") == "100050" })
	require.Contains(t, page("/currencies/EUR"), "Invoice 9")

	quote := w.sendForm(tn, "/currencies/EUR", "quote", url.Values{"buyCurrency": {"JPY"}, "fixedSide": {"buy"},
		"amountMinor": {"16253"}})
	require.Contains(t, quote.text, "€100.00 into ¥16,253")
	require.Contains(t, quote.text, `data-left="30"`)
	address := regexp.MustCompile(`/conversion-quotes/mcq_\w+`).FindString(quote.text)
	done := w.sendForm(tn, address, "convert", url.Values{})
	require.Regexp(t, "Set aside, about to be converted|Being converted", done.text)
	require.Equal(t, "90050", w.available(tn, "EUR"))
	require.Contains(t, page(address), "The conversion of this quote is ordered.")
	for _, list := range []string{"/currencies", "/conversions", "/currencies/EUR"} {
		require.Contains(t, page(list), "/conversions/cnv_", list)
	}
	require.Contains(t, page("/conversions?status=rejected"), "Nothing matches.")
	require.Contains(t, page("/conversions?from=2026-11-20"), "/conversions/cnv_")
	require.NotContains(t, page("/currencies/EUR?direction=credit"), "/conversions/cnv_")
	require.Contains(t, page("/currencies/EUR?direction=debit"), "\u2212€100.00")
}

// After the lock the quote's page has no form, and a form that was open is refused with the reason.
func TestAQuoteOfAPageExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.setUp("mine")
	address := "/dashboard/" + tn.workspace + "/conversion-quotes/" + w.quoteConversion(tn, "EUR", "JPY",
		"100").text("id")
	require.Contains(t, w.visit(session(tn.cookie), address, nil).text, "/convert\"")
	w.clock.turn(31 * time.Second)
	late := w.visit(session(tn.cookie), address, nil).text
	require.NotContains(t, late, "/convert\"")
	require.NotContains(t, late, "data-left")
	refused := w.visit(session(tn.cookie), address+"/convert", url.Values{"key": {newUUID(1)}})
	require.Equal(t, 422, refused.status)
	require.Contains(t, refused.text, "The lock has ended.")
}

// An amount that the currency cannot have names its field, and asks for no quote.
func TestAnAmountOfAFormHasTheDecimalsOfItsCurrency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.setUp("mine")
	address := "/dashboard/" + tn.workspace + "/currencies/EUR"
	for side, wrong := range map[string]string{"buy": "1.5", "sell": "1.555"} {
		refused := w.visit(session(tn.cookie), address+"/quote", url.Values{"buyCurrency": {"JPY"},
			"fixedSide": {side}, "amountMinor": {wrong}, "key": {newUUID(1)}})
		require.Equal(t, 422, refused.status)
		require.Contains(t, refused.text, `id="f-amountMinor-problem">Amount must be a plain amount in `)
	}
	for _, unknown := range []string{"", "XXX", "a/b", "|"} {
		r := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/currencies/open",
			url.Values{"currency": {unknown}, "key": {newUUID(1)}})
		require.Contains(t, []int{400, 422}, r.status, unknown)
	}
}

// Where the server does not convert, the page of an account says so.
func TestAPageWithoutConversions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Convert = false })
	tn := w.setUp("mine")
	page := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/currencies/EUR", nil)
	require.Contains(t, page.text, "Conversion is not switched on.")
	require.NotContains(t, page.text, "Get a quote")
}
