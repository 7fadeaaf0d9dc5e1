package demo

import (
	"context"
	"fmt"
	"strings"

	"purser/cmd/purser/apiclient"
)

// The amount and the coin of the tour's payment link.
const (
	linkCents = 25_00
	linkUnits = "25000000" // of a coin of 6 decimals
	linkAsset = "USDC"
	linkChain = "base"
)

// visitCheckout creates a payment link, reads its page, selects a coin and a network, and pays on
// the sandbox chain. It fails when a request has no answer, and when the sandbox chain takes no
// payment.
func visitCheckout(ctx context.Context, t *Tour) error {
	made, err := t.mustPost(ctx, t.API, "/api/v1/checkout/sessions",
		jsonObject{"amountUsdCents": linkCents, "description": "Two paperbacks", "successUrl": "https://shop.example/thanks",
			"merchantReference": t.networkID("order"), "acceptedChains": []string{linkChain, "polygon"}})
	if err != nil {
		return err
	}
	t.link = "/api/v1/checkout/sessions/" + made.Text("session", "id")
	t.expect("status of the new link", made.Text("session", "status"), "pending")
	t.remark = "look at it: " + made.Text("session", "hostedUrl")
	fmt.Fprintf(t.Out, "    %s\n", t.remark)
	page, err := t.Session.Send(ctx, apiclient.Request{Method: "GET", Path: "/checkout/" + made.Text("session", "id")})
	if err != nil {
		return err
	}
	t.expect("status of the page", page.Status, 200)
	t.expect("the page says it is a sandbox", strings.Contains(string(page.Raw), "Do not send real money"), true)
	picked, err := t.Post(ctx, t.Session, t.link+"/select", jsonObject{"asset": linkAsset, "chain": linkChain}, 200)
	if err != nil {
		return err
	}
	t.expect("amountUnits", picked.Text("amountUnits"), linkUnits)
	paid, err := t.Post(ctx, t.admin, "/sandbox-pay", jsonObject{"chain": linkChain, "reference": t.networkID("payment"),
		"from": "0xcustomer", "transfers": []jsonObject{{"asset": linkAsset, "address": picked.Text("address"),
			"amountUnits": linkUnits}}}, 200)
	if err != nil {
		return err
	}
	if paid.Status != 200 {
		return fmt.Errorf("nobody can pay on %s: %d %s (its node is a real one, or --admin-url is another server's)", linkChain,
			paid.Status, shortJSON(paid.Raw))
	}
	return t.followLink(ctx, paid.Text("txHash"))
}

// followLink polls a payment link until it is completed and the treasury shows the payment. A link
// that does not complete in time is a difference; an error is a request without an answer.
func (t *Tour) followLink(ctx context.Context, txHash string) error {
	last := ""
	if _, err := t.pollUntil(ctx, t.Session, t.link+"/status", func(a apiclient.Answer) bool {
		now := fmt.Sprintf("%s, %v of %v confirmations", a.Text("status"), a.At("confirmations", "seen"),
			a.At("confirmations", "of"))
		if now != last {
			fmt.Fprintf(t.Out, "    the link is %s\n", now)
		}
		last = now
		return a.Text("status") == "completed"
	}); err != nil {
		return err
	}
	a, err := t.callExpecting(ctx, t.API, apiclient.Request{Method: "GET", Path: t.link}, 200)
	if err != nil {
		return err
	}
	t.expect("status of the link", a.Text("session", "status"), "completed")
	t.expect("receivedUsdCents", a.At("session", "receivedUsdCents"), linkCents)
	t.expect("txHash", a.Text("session", "txHash"), txHash)
	return t.AwaitValue(ctx, t.API, "/api/treasury", fmt.Sprint(linkCents), func(a apiclient.Answer) string {
		return fmt.Sprint(a.At("snapshot", "stablecoinUsdCents"))
	})
}
