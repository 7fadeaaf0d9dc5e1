package main

import (
	"context"
	"encoding/json"
	"fmt"
)

// What the tour receives in euros, and what it converts of it, in cents.
const (
	paidInMinor = "50000"
	soldMinor   = "10000"
	keptMinor   = "40000"
	boughtMinor = "16254" // yen, at the rate of the sandbox's desk
)

// visitCurrencies opens balances in euros and yen, receives, and converts where the server does.
func visitCurrencies(ctx context.Context, t *tour) error {
	if _, err := t.keyed(ctx, t.session, "/api/mca/onboarding", nil, 200); err != nil {
		return err
	}
	for _, currency := range []string{"EUR", "JPY"} {
		if _, err := t.keyed(ctx, t.session, "/api/mca/accounts/"+currency, nil, 200); err != nil {
			return err
		}
	}
	if err := t.holds(ctx, map[string]string{"EUR": "0", "JPY": "0"}); err != nil {
		return err
	}
	payin := fields{"currency": "EUR", "amountMinor": paidInMinor, "reference": "Demo"}
	if _, err := t.keyed(ctx, t.session, "/api/dev/mca/simulate-payin", payin, 202); err != nil {
		return err
	}
	if err := t.holds(ctx, map[string]string{"EUR": paidInMinor, "JPY": "0"}); err != nil {
		return err
	}
	shown, err := t.api.send(ctx, request{method: "GET", path: "/api/mca/accounts"})
	if err != nil || shown.at("features", "convert") != true {
		return err
	}
	quote, err := t.keyed(ctx, t.api, "/api/mca/quotes", fields{"sellCurrency": "EUR", "buyCurrency": "JPY",
		"amountMinor": soldMinor}, 201)
	if err != nil {
		return err
	}
	t.expect("yen bought", quote.text("buy", "amountMinor"), boughtMinor)
	if _, err := t.keyed(ctx, t.api, "/api/mca/conversions", fields{"quoteId": quote.text("id")}, 202); err != nil {
		return err
	}
	return t.holds(ctx, map[string]string{"EUR": keptMinor, "JPY": boughtMinor})
}

// keyed is call for a POST with an Idempotency-Key of its own.
func (t *tour) keyed(ctx context.Context, c *client, path string, body fields, status int) (answer, error) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return answer{}, err
		}
	}
	return t.call(ctx, c, request{method: "POST", path: path, body: raw, idempotencyKey: newUUID()}, status)
}

// holds asks for the balances in currencies until they are active and have what they should.
func (t *tour) holds(ctx context.Context, want map[string]string) error {
	return t.awaitValue(ctx, t.api, "/api/mca/accounts", fmt.Sprint(want), func(a answer) string {
		active := map[string]string{}
		for _, row := range a.rows("accounts") {
			amounts, _ := row["balance"].(map[string]any)
			if row["status"] == "active" {
				active[fmt.Sprint(row["currency"])] = fmt.Sprint(amounts["availableMinor"])
			}
		}
		return fmt.Sprint(active)
	})
}
