package demo

import (
	"context"
	"encoding/json"
	"fmt"

	"purser/cmd/purser/apiclient"
)

// The payment that the tour receives in euros and the part that it converts, in minor units.
const (
	paidInMinor = "50000"
	soldMinor   = "10000"
	keptMinor   = "40000"
	boughtMinor = "16253" // yen, at the rate of the sandbox's desk
)

// visitCurrencies opens balances in euros and yen, receives euros, and converts some where the
// server offers conversions. It fails only when a request has no answer; a wrong answer is a
// difference of the tour.
func visitCurrencies(ctx context.Context, t *Tour) error {
	if _, err := t.postOnce(ctx, t.Session, "/api/mca/onboarding", nil, 200); err != nil {
		return err
	}
	for _, currency := range []string{"EUR", "JPY"} {
		if _, err := t.postOnce(ctx, t.Session, "/api/mca/accounts/"+currency, nil, 200); err != nil {
			return err
		}
	}
	if err := t.awaitBalances(ctx, map[string]string{"EUR": "0", "JPY": "0"}); err != nil {
		return err
	}
	payin := jsonObject{"currency": "EUR", "amountMinor": paidInMinor, "reference": "Demo"}
	if _, err := t.postOnce(ctx, t.Session, "/api/dev/mca/simulate-payin", payin, 202); err != nil {
		return err
	}
	if err := t.awaitBalances(ctx, map[string]string{"EUR": paidInMinor, "JPY": "0"}); err != nil {
		return err
	}
	shown, err := t.API.Send(ctx, apiclient.Request{Method: "GET", Path: "/api/mca/accounts"})
	if err != nil || shown.At("features", "convert") != true {
		return err
	}
	quote, err := t.postOnce(ctx, t.API, "/api/mca/quotes", jsonObject{"sellCurrency": "EUR", "buyCurrency": "JPY",
		"amountMinor": soldMinor}, 201)
	if err != nil {
		return err
	}
	t.expect("yen bought", quote.Text("buy", "amountMinor"), boughtMinor)
	if _, err := t.postOnce(ctx, t.API, "/api/mca/conversions", jsonObject{"quoteId": quote.Text("id")}, 202); err != nil {
		return err
	}
	return t.awaitBalances(ctx, map[string]string{"EUR": keptMinor, "JPY": boughtMinor})
}

// postOnce sends a POST with a new Idempotency-Key and expects the status. Another status is an
// error.
func (t *Tour) postOnce(ctx context.Context, c *apiclient.Client, path string, body jsonObject, status int) (apiclient.Answer, error) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return apiclient.Answer{}, err
		}
	}
	return t.callExpecting(ctx, c, apiclient.Request{Method: "POST", Path: path, Body: raw, IdempotencyKey: apiclient.NewIdempotencyKey()}, status)
}

// awaitBalances polls the balances in currencies until the active ones are the wanted ones. It
// fails like AwaitValue.
func (t *Tour) awaitBalances(ctx context.Context, want map[string]string) error {
	return t.AwaitValue(ctx, t.API, "/api/mca/accounts", fmt.Sprint(want), func(a apiclient.Answer) string {
		active := map[string]string{}
		for _, row := range a.Rows("accounts") {
			amounts, _ := row["balance"].(map[string]any)
			if row["status"] == "active" {
				active[fmt.Sprint(row["currency"])] = fmt.Sprint(amounts["availableMinor"])
			}
		}
		return fmt.Sprint(active)
	})
}
