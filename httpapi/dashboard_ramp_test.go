package httpapi

import (
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// A person links the ramp, changes dollars into USDC at a quote, proves a wallet and withdraws to
// it.
func TestTheRampByForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("olga")
	page := func(path string) string {
		r := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+path, nil)
		require.Equal(t, 200, r.status, r.text)
		return r.text
	}
	require.NotContains(t, page("/ramp"), "Get a quote", "before the account is linked")
	w.sendForm(tn, "/ramp", "link", url.Values{})
	w.link(tn)
	require.NotContains(t, page("/ramp"), "Withdraw USDC", "without an approved wallet")
	quote := w.sendForm(tn, "/ramp", "quote", url.Values{"direction": {"onramp"}, "amount": {"$100.5"}})
	require.Contains(t, quote.text, `data-left="60"`)
	require.Contains(t, quote.text, "$99.50")
	address := regexp.MustCompile(`/ramp-quotes/rq_\w+`).FindString(quote.text)
	order := w.sendForm(tn, address, "order", url.Values{})
	require.Contains(t, order.text, "Dollars into USDC")
	require.Contains(t, order.text, `<ol class="steps"><li><p><span>Created`)
	require.Contains(t, page(address), "This quote is ordered.")

	k := solanaKey("cold")
	added := w.sendForm(tn, "/wallets", "add", url.Values{"chain": {k.chain}, "address": {k.address},
		"label": {"Cold"}})
	challenge := regexp.MustCompile(`<code id="challenge">([^<]+)</code>`).FindStringSubmatch(added.text)
	require.NotNil(t, challenge, added.text)
	text := html.UnescapeString(challenge[1])
	wallet := regexp.MustCompile(`/wallets/wal_\w+`).FindString(added.text)
	require.Contains(t, added.text, `data-wallet="solana" data-address="`+k.address+`" data-challenge="`)
	wrong := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+wallet+"/prove",
		url.Values{"signature": {solanaKey("another").sign(text)}})
	require.Equal(t, 401, wrong.status)
	require.Contains(t, wrong.text, `role="alert"`)
	require.Contains(t, wrong.text, "Send the signature", "it can be sent again")
	proven := w.sendForm(tn, wallet, "prove", url.Values{"signature": {k.sign(text)}})
	require.NotContains(t, proven.text, "Send the signature")
	w.awaitCondition(func() bool { return w.wallet(tn, wallet[len("/wallets/"):])["status"] == "approved" })
	require.Contains(t, page("/ramp"), "Cold on Solana")
	quote = w.sendForm(tn, "/ramp", "withdraw", url.Values{"walletId": {wallet[len("/wallets/"):]}, "amount": {"25"}})
	address = regexp.MustCompile(`/ramp-quotes/rq_\w+`).FindString(quote.text)
	require.Contains(t, w.sendForm(tn, address, "withdraw", url.Values{}).text, "USDC to a wallet")
	require.Contains(t, page("/ramp"), "/ramp/rw_", "the list of orders")
	require.Contains(t, page("/ramp?direction=onramp"), "/ramp/ro_")
	require.NotContains(t, page("/ramp?direction=onramp"), "/ramp/rw_")
	require.Contains(t, page("/ramp?status=failed"), "Nothing matches.")
}

// A quote of the ramp has no form once its time is over.
func TestARampQuoteOfAPageExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("olga")
	w.link(tn)
	address := "/dashboard/" + tn.workspace + "/ramp-quotes/" + w.quoteRamp(tn, "onramp", "100.00")
	require.Contains(t, w.visit(session(tn.cookie), address, nil).text, "/order\"")
	w.clock.turn(61 * time.Second)
	late := w.visit(session(tn.cookie), address, nil).text
	require.NotContains(t, late, "/order\"")
	require.Contains(t, late, "The quote has ended.")
}
