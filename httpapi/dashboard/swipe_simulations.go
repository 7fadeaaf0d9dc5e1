package dashboard

import "encoding/json"

const simulatePath = "/api/dev/cards/{id}/simulate/{message}"

// swipeActions are the forms of a swipe's page in a sandbox workspace: what the card network sends
// about it.
func swipeActions() []action {
	amount := []Field{{Name: "amountCents", Label: "Amount", Kind: fieldDollars, Required: true, Default: "1.00"}}
	return []action{
		simulation("clear", "clearing", "Clear all of it", clearAll, nil),
		simulation("reverse", "reversal", "Reverse", nil, nil),
		simulation("expire", "expiry", "Expire", nil, nil),
		simulation("increment", "incremental", "Increment", withMerchant, amount),
		simulation("clear-part", "clearing", "Clear a part", withMerchant, amount),
		simulation("refund", "refund", "Refund", withMerchant, amount),
	}
}

// simulation is a form that sends a message of the card network about the swipe of the page. The
// message has the form's key as its id, so that sending the form twice acts once. members returns
// the members that depend on the swipe; nil adds none.
func simulation(name, message, submit string, members func(*authorization) map[string]any, fields []Field) action {
	a := action{name: name, method: "POST", path: simulatePath, submit: submit, sandbox: true, fields: fields,
		params: map[string]string{"message": message}}
	if fields != nil {
		a.title = submit
	}
	a.body = func(v *visit) (map[string]any, error) {
		swipe, card, err := v.readSwipe()
		if err != nil {
			return nil, err
		}
		v.target = card
		body := map[string]any{}
		if members != nil {
			body = members(swipe)
		}
		body["authorizationId"] = swipe.ID
		if key := v.Form.Get(keyField); key != "" {
			body["id"] = key
		}
		return body, nil
	}
	a.then = func(v *visit, answered []byte) (string, error) {
		var decided struct{ Decision, Reason string }
		err := json.Unmarshal(answered, &decided)
		if decided.Decision != "declined" {
			decided.Reason = ""
		}
		return v.addressWith("sent", name, "declined", decided.Reason), err
	}
	return a
}

// withMerchant returns the currency and the merchant of a message, which are the swipe's.
func withMerchant(a *authorization) map[string]any {
	merchant := map[string]any{"name": a.Merchant.Name, "mcc": a.Merchant.MCC}
	if a.Merchant.ID != "" {
		merchant["id"] = a.Merchant.ID
	}
	if a.Merchant.Country != "" {
		merchant["country"] = a.Merchant.Country
	}
	return map[string]any{"currency": "USD", "merchant": merchant}
}

// clearAll returns the last clearing of a swipe, of all that is held.
func clearAll(a *authorization) map[string]any {
	body := withMerchant(a)
	body["amountCents"], body["final"] = a.HeldCents, true
	return body
}

// drawSimulations draws the forms of the messages that the card network can send in the swipe's
// state.
func drawSimulations(v *visit, a *authorization) ([]Block, error) {
	var names []string
	if a.HeldCents > 0 {
		names = []string{"clear", "reverse", "expire"}
	}
	blocks, err := v.drawButtons(names...)
	if err != nil {
		return nil, err
	}
	names = nil
	if a.HeldCents > 0 {
		v.prefillForm("clear-part", "amountCents", asEntered((a.HeldCents+1)/2))
		names = append(names, "clear-part", "increment")
	}
	if a.ClearedCents > a.RefundedCents {
		v.prefillForm("refund", "amountCents", asEntered(a.ClearedCents-a.RefundedCents))
		names = append(names, "refund")
	}
	forms, err := v.drawButtons(names...)
	if blocks = append(blocks, forms...); len(blocks) > 0 {
		blocks[0].Heading, blocks[0].Text = "Simulate the card network", "What a merchant's bank would send next."
	}
	return blocks, err
}

// simulated are the notices of the messages that were sent.
var simulated = map[string]string{"clear": "The swipe is cleared.", "clear-part": "A part of the swipe is cleared.",
	"reverse": "The swipe is reversed.", "expire": "The hold has expired.", "increment": "The swipe is incremented.",
	"refund": "The swipe is refunded."}

// simulationNotice shows the result of the message in the address, or is nil.
func simulationNotice(v *visit) *Notice {
	text := simulated[v.Query.Get("sent")]
	switch declined := reasonSentence(v.Query.Get("declined")); {
	case text == "":
		return nil
	case declined != "":
		return &Notice{Text: "The increment was declined. " + declined, Refused: true}
	}
	return &Notice{Text: text}
}
