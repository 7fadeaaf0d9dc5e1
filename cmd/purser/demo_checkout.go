package main

import (
	"context"
	"fmt"
	"strings"
)

// The tour's payment link: what it asks, and how a customer pays it.
const (
	linkCents = 25_00
	linkUnits = "25000000" // of a coin of 6 decimals
	linkAsset = "USDC"
	linkChain = "base"
)

// visitCheckout makes a payment link, looks at its page, picks a coin and a network as a customer would, and pays on the sandbox
// chain.
func visitCheckout(ctx context.Context, t *tour) error {
	made, err := t.create(ctx, t.api, "/api/v1/checkout/sessions",
		fields{"amountUsdCents": linkCents, "description": "Two paperbacks", "successUrl": "https://shop.example/thanks",
			"merchantReference": t.id("order"), "acceptedChains": []string{linkChain, "polygon"}})
	if err != nil {
		return err
	}
	t.link = "/api/v1/checkout/sessions/" + made.text("session", "id")
	t.expect("status of the new link", made.text("session", "status"), "pending")
	t.remark = "look at it: " + made.text("session", "hostedUrl")
	fmt.Fprintf(t.out, "    %s\n", t.remark)
	page, err := t.session.send(ctx, request{method: "GET", path: "/checkout/" + made.text("session", "id")})
	if err != nil {
		return err
	}
	t.expect("status of the page", page.status, 200)
	t.expect("the page says it is a sandbox", strings.Contains(string(page.raw), "Do not send real money"), true)
	picked, err := t.post(ctx, t.session, t.link+"/select", fields{"asset": linkAsset, "chain": linkChain}, 200)
	if err != nil {
		return err
	}
	t.expect("amountUnits", picked.text("amountUnits"), linkUnits)
	paid, err := t.post(ctx, t.admin, "/sandbox-pay", fields{"chain": linkChain, "reference": t.id("payment"),
		"from": "0xcustomer", "transfers": []fields{{"asset": linkAsset, "address": picked.text("address"),
			"amountUnits": linkUnits}}}, 200)
	if err != nil {
		return err
	}
	if paid.status != 200 {
		return fmt.Errorf("nobody can pay on %s: %d %s (its node is a real one, or --admin-url is another server's)", linkChain,
			paid.status, brief(paid.raw))
	}
	return t.completed(ctx, paid.text("txHash"))
}

// completed follows a link until it is paid and the money is there.
func (t *tour) completed(ctx context.Context, txHash string) error {
	last := ""
	if _, err := t.pollUntil(ctx, t.session, t.link+"/status", func(a answer) bool {
		now := fmt.Sprintf("%s, %v of %v confirmations", a.text("status"), a.at("confirmations", "seen"),
			a.at("confirmations", "of"))
		if now != last {
			fmt.Fprintf(t.out, "    the link is %s\n", now)
		}
		last = now
		return a.text("status") == "completed"
	}); err != nil {
		return err
	}
	a, err := t.call(ctx, t.api, request{method: "GET", path: t.link}, 200)
	if err != nil {
		return err
	}
	t.expect("status of the link", a.text("session", "status"), "completed")
	t.expect("receivedUsdCents", a.at("session", "receivedUsdCents"), linkCents)
	t.expect("txHash", a.text("session", "txHash"), txHash)
	return t.awaitValue(ctx, t.api, "/api/treasury", fmt.Sprint(linkCents), func(a answer) string {
		return fmt.Sprint(a.at("snapshot", "stablecoinUsdCents"))
	})
}
