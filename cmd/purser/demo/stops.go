package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"purser/cmd/purser/apiclient"
	"purser/persistence"
	"purser/persistence/ident"
)

// The money of the tour, in cents.
const (
	depositCents       = 1_000_00
	twiceDepositCents  = 50_91 // ends in 91: the sandbox bank reports it twice
	fundedCents        = depositCents + twiceDepositCents
	swipeCents         = 12_50
	incrementCents     = 5_00
	partReversalCents  = 2_50
	clearedCents       = 12_00
	refundedCents      = 4_00
	grocerPerTxnCents  = 200_00
	tightMonthCents    = 30_00
	generousLimitCents = 10_000_00
	endAvailableCents  = fundedCents - clearedCents + refundedCents
)

var Scopes = []string{"read:treasury", "write:treasury", "read:cards", "write:cards", "read:agents", "write:agents",
	"read:checkout", "write:checkout", "write:ramps", "read:api_keys", "write:api_keys"}

type jsonObject = map[string]any

func visitSignup(ctx context.Context, t *Tour) error {
	who := jsonObject{"email": "demo-" + t.run + "@example.com", "password": "demo-" + rand.Text()}
	if _, err := t.create(ctx, t.Session, "/api/dashboard/signup", who); err != nil {
		return err
	}
	a, err := t.create(ctx, t.Session, "/api/workspaces", jsonObject{"name": "Demo " + t.run})
	if err != nil {
		return err
	}
	t.firstKey = a.Text("secret")
	t.expect("mode", a.Text("workspace", "mode"), "sandbox")
	t.expect("the key begins with apk_", strings.HasPrefix(t.firstKey, "apk_"), true)
	return nil
}

func visitKeys(ctx context.Context, t *Tour) error {
	refused, err := t.call(ctx, apiclient.New(t.Session.BaseURL, t.firstKey), apiclient.Request{Method: "GET", Path: "/api/treasury"}, 403)
	if err != nil {
		return err
	}
	t.expect("error", refused.Text("error"), "missing_scope:read:treasury")
	a, err := t.Post(ctx, t.Session, "/api/auth/keys", jsonObject{"label": "demo", "scopes": Scopes}, 200)
	if err != nil {
		return err
	}
	t.API = apiclient.New(t.Session.BaseURL, a.Text("secret")).
		WithCredential("the server does not know the API key that it has just made")
	got, err := t.call(ctx, t.API, apiclient.Request{Method: "GET", Path: "/api/workspaces"}, 200)
	if err != nil {
		return err
	}
	t.expect("the answer names the workspace", strings.Contains(string(got.Raw), "Demo "+t.run), true)
	return nil
}

func visitDeposit(ctx context.Context, t *Tour) error {
	if err := AnnounceDeposit(ctx, t, depositCents); err != nil {
		return err
	}
	first := t.told[len(t.told)-1]
	again, err := t.call(ctx, t.API,
		apiclient.Request{Method: "POST", Path: first.Path, IdempotencyKey: first.IdempotencyKey, Body: []byte(first.Body)}, first.Status)
	if err != nil {
		return err
	}
	t.expect("a repeat with the same Idempotency-Key is replayed", again.Replayed, true)
	t.expect("the replayed answer", string(again.Raw), string(first.Answer))
	return settled(ctx, t, depositCents)
}

func visitDoubleReport(ctx context.Context, t *Tour) error {
	if err := AnnounceDeposit(ctx, t, twiceDepositCents); err != nil {
		return err
	}
	return settled(ctx, t, fundedCents)
}

func AnnounceDeposit(ctx context.Context, t *Tour, cents int64) error {
	a, err := t.Post(ctx, t.API, "/api/treasury/deposits",
		jsonObject{"source": "bank_fiat", "rail": "fednow", "amountUsdCents": cents}, 202)
	if err == nil {
		t.expect("deposit status", a.Text("deposit", "status"), "pending")
	}
	return err
}

// settled asks for the treasury until the dollars are available.
func settled(ctx context.Context, t *Tour, cents int64) error {
	shown := func(available, incoming any) string {
		return fmt.Sprint(available, " available, ", incoming, " incoming")
	}
	return t.AwaitValue(ctx, t.API, "/api/treasury", shown(cents, 0), func(a apiclient.Answer) string {
		usd := apiclient.DollarBalance(a)
		return shown(usd["availableCents"], usd["incomingCents"])
	})
}

func visitCards(ctx context.Context, t *Tour) error {
	for _, c := range []struct {
		name  string
		rules jsonObject
	}{
		{"grocer", jsonObject{"monthlyLimitUsdCents": 500_00, "perTxnLimitUsdCents": grocerPerTxnCents,
			"allowedMccs": []string{"5411", "5812"}, "allowedMerchants": []string{"Corner Grocer*", "Cafe Aroma"}}},
		{"tight", jsonObject{"monthlyLimitUsdCents": tightMonthCents, "perTxnLimitUsdCents": generousLimitCents}},
		{"generous", jsonObject{"monthlyLimitUsdCents": generousLimitCents, "perTxnLimitUsdCents": generousLimitCents}},
	} {
		c.rules["holderKind"], c.rules["holderLabel"] = "agent", "Demo "+c.name
		a, err := t.create(ctx, t.API, "/api/cards", c.rules)
		if err != nil {
			return err
		}
		t.cards[c.name] = card{id: a.Text("card", "id"), token: a.Text("card", "partnerCardToken")}
		t.expect("state of the new card", a.Text("card", "state"), "active")
		t.expect("fixture", a.At("fixture"), true)
	}
	return nil
}

// message is the network's message about a card, as an amount at a grocer's; changes replace its jsonObject.
func (t *Tour) message(id, card string, cents int64, changes jsonObject) jsonObject {
	m := jsonObject{"id": t.id(id), "cardToken": t.cards[card].token, "amountCents": cents, "currency": "USD",
		"merchant": jsonObject{"id": "m-1", "name": "Corner Grocer 12", "mcc": "5411", "country": "US"}}
	for name, value := range changes {
		m[name] = value
	}
	return m
}

// id makes a network id of this walk.
func (t *Tour) id(name string) string {
	id := "demo-" + t.run + "-" + name
	for later, found := t.anew[id]; found; later, found = t.anew[id] {
		id = later
	}
	return id
}

// authorize sends an authorization. One that ran out of time is declined for good: it gets another id, and is to be sent again.
func (t *Tour) authorize(ctx context.Context, m jsonObject) (a apiclient.Answer, again bool, err error) {
	a, err = t.Post(ctx, t.network, "/v1/authorizations", m, 200)
	id := fmt.Sprint(m["id"])
	first, times, _ := strings.Cut(id, anewMark)
	made, _ := strconv.Atoi(times) // 0 of the first one
	if again = err == nil && apiclient.IsUndecided(a) && made < mostAnew; again {
		t.anew[id] = fmt.Sprint(first, anewMark, made+1)
		m["id"] = t.anew[id]
		fmt.Fprintln(t.Out, "    a busy machine: the swipe is made anew")
		if !persistence.Pause(ctx, apiclient.DecidePause) {
			err = ctx.Err()
		}
	}
	return a, again, err
}

// swipe sends an authorization and expects what follows from it.
func (t *Tour) swipe(ctx context.Context, m jsonObject, reason, code string, approved int64) (a apiclient.Answer, err error) {
	for again := true; again; {
		if a, again, err = t.authorize(ctx, m); err != nil {
			return a, err
		}
	}
	t.expectSwipe(a, reason, code, approved)
	return a, nil
}

func (t *Tour) expectSwipe(a apiclient.Answer, reason, code string, approved int64) {
	decision := "declined"
	if reason == "approved" {
		decision = "approved"
	}
	t.expect("decision", a.Text("decision"), decision)
	t.expect("reason", a.Text("reason"), reason)
	t.expect("responseCode", a.Text("responseCode"), code)
	t.expect("approvedAmountCents", a.At("approvedAmountCents"), approved)
}

func visitApproved(ctx context.Context, t *Tour) error {
	m := t.message("lunch", "grocer", swipeCents, nil)
	first, err := t.swipe(ctx, m, "approved", "00", swipeCents)
	if err != nil {
		return err
	}
	again, err := t.swipe(ctx, m, "approved", "00", swipeCents)
	t.expect("the answer to the same message again", string(again.Raw), string(first.Raw))
	return err
}

func visitDeclines(ctx context.Context, t *Tour) error {
	stranger, err := t.stranger()
	if err != nil {
		return err
	}
	elsewhere := func(name, mcc string) jsonObject { return jsonObject{"merchant": jsonObject{"name": name, "mcc": mcc}} }
	if err := t.setState(ctx, "tight", "frozen"); err != nil {
		return err
	}
	for _, c := range []struct {
		reason, code string
		message      jsonObject
	}{
		{"invalid_request", "30", t.message("negative", "grocer", -1, nil)},
		{"card_not_found", "14", t.message("stranger", "grocer", swipeCents, jsonObject{"cardToken": stranger})},
		{"card_frozen", "62", t.message("frozen", "tight", swipeCents, nil)},
		{"currency_not_supported", "12", t.message("euros", "grocer", swipeCents, jsonObject{"currency": "EUR"})},
		{"mcc_not_allowed", "57", t.message("casino", "grocer", swipeCents, elsewhere("Corner Grocer", "7995"))},
		{"merchant_not_allowed", "57", t.message("other", "grocer", swipeCents, elsewhere("Somebody Else", "5411"))},
		{"per_transaction_limit_exceeded", "61", t.message("big", "grocer", grocerPerTxnCents+1, nil)},
		{"insufficient_funds", "51", t.message("rich", "generous", fundedCents, nil)},
		{"duplicate_mismatch", "94", t.message("lunch", "grocer", swipeCents+1, nil)},
		{"authorization_not_found", "25", t.message("orphan", "grocer", incrementCents,
			jsonObject{"kind": "incremental", "originalId": t.id("never-sent")})},
	} {
		if _, err := t.swipe(ctx, c.message, c.reason, c.code, 0); err != nil {
			return err
		}
	}
	return visitLaterDeclines(ctx, t)
}

// visitLaterDeclines shows the declines that need something to happen first.
func visitLaterDeclines(ctx context.Context, t *Tour) error {
	if err := t.setState(ctx, "tight", "active"); err != nil {
		return err
	}
	if _, err := t.swipe(ctx, t.message("month", "tight", tightMonthCents+1, nil), "monthly_limit_exceeded", "61",
		0); err != nil {
		return err
	}
	if err := t.setState(ctx, "tight", "terminated"); err != nil {
		return err
	}
	if _, err := t.swipe(ctx, t.message("ended", "tight", swipeCents, nil), "card_terminated", "46", 0); err != nil {
		return err
	}
	return visitEarlyReversal(ctx, t)
}

func visitEarlyReversal(ctx context.Context, t *Tour) error {
	for again := true; again; {
		late := t.message("late", "grocer", swipeCents, nil)
		early := jsonObject{"id": fmt.Sprint(late["id"], "-reversal"), "originalId": late["id"]}
		a, err := t.Post(ctx, t.network, "/v1/reversals", early, 200)
		if err != nil {
			return err
		}
		t.expect("authorizationId of a reversal that came first", a.At("authorizationId"), nil)
		if a, again, err = t.authorize(ctx, late); err != nil {
			return err
		}
		if !again {
			t.expectSwipe(a, "reversed_before_arrival", "12", 0)
		}
	}
	return nil
}

func (t *Tour) setState(ctx context.Context, name, state string) error {
	r := apiclient.Request{Method: "PATCH", Path: "/api/cards/" + t.cards[name].id, Body: []byte(`{"state":"` + state + `"}`)}
	a, err := t.call(ctx, t.API, r, 200)
	t.expect("card state", a.Text("card", "state"), state)
	return err
}

// stranger makes a card token that nobody holds.
func (t *Tour) stranger() (string, error) {
	known, err := ident.ParseToken([]byte(t.cards["grocer"].token))
	if err != nil {
		return "", fmt.Errorf("partnerCardToken %q: %w", t.cards["grocer"].token, err)
	}
	token, err := ident.NewToken(known.Slot(), rand.Reader)
	return token.String(), err
}

func visitPartial(ctx context.Context, t *Tour) error {
	m := t.message("all-there-is", "generous", generousLimitCents, jsonObject{"partialApproval": true})
	a, err := t.swipe(ctx, m, "approved", "10", fundedCents-swipeCents)
	if err != nil {
		return err
	}
	return t.reverse(ctx, jsonObject{"id": t.id("give-back"), "authorizationId": a.Text("authorizationId")}, 0)
}

func (t *Tour) reverse(ctx context.Context, m jsonObject, held int64) error {
	a, err := t.Post(ctx, t.network, "/v1/reversals", m, 200)
	t.expect("heldAmountCents", a.At("heldAmountCents"), held)
	return err
}

func visitLife(ctx context.Context, t *Tour) error {
	lunch := t.id("lunch")
	more := t.message("more", "grocer", incrementCents, jsonObject{"kind": "incremental", "originalId": lunch})
	if _, err := t.swipe(ctx, more, "approved", "00", incrementCents); err != nil {
		return err
	}
	part := jsonObject{"id": t.id("part"), "originalId": lunch, "amountCents": partReversalCents}
	if err := t.reverse(ctx, part, swipeCents+incrementCents-partReversalCents); err != nil {
		return err
	}
	clearing := t.message("clearing", "grocer", clearedCents, jsonObject{"originalId": lunch, "final": true})
	if err := t.present(ctx, "/v1/clearings", clearing); err != nil {
		return err
	}
	refund := t.message("refund", "grocer", refundedCents, jsonObject{"originalId": lunch})
	if err := t.present(ctx, "/v1/refunds", refund); err != nil {
		return err
	}
	other := t.message("clearing", "grocer", clearedCents+1, jsonObject{"originalId": lunch, "final": true})
	a, err := t.Post(ctx, t.network, "/v1/clearings", other, 409)
	t.expect("error", a.Text("error"), "duplicate_mismatch")
	return err
}

// present sends a clearing or a refund, which is posted.
func (t *Tour) present(ctx context.Context, path string, m jsonObject) error {
	a, err := t.Post(ctx, t.network, path, m, 200)
	t.expect("status", a.Text("status"), "posted")
	return err
}

// visitExpiry uses the simulation routes, with which a sandbox workspace plays the card network itself.
func visitExpiry(ctx context.Context, t *Tour) error {
	path := "/api/dev/cards/" + t.cards["generous"].id + "/simulate/"
	a, err := t.simulateSwipe(ctx, path+"authorization")
	if err != nil {
		return err
	}
	t.expect("decision", a.Text("decision"), "approved")
	id := a.Text("authorizationId")
	if err := t.listed(ctx, id, 700); err != nil {
		return err
	}
	expiry := []byte(`{"authorizationId":"` + id + `"}`)
	a, err = t.call(ctx, t.API, apiclient.Request{Method: "POST", Path: path + "expiry", Body: expiry}, 200)
	if err != nil {
		return err
	}
	t.expect("heldAmountCents", a.At("heldAmountCents"), 0)
	return t.listed(ctx, id, 0)
}

// simulateSwipe swipes, and swipes anew after a timeout of a busy machine. Each swipe has an id of
// its own. A server that did not run for a while declines all simulated swipes of the next 150 ms,
// so there is a pause between two swipes.
func (t *Tour) simulateSwipe(ctx context.Context, path string) (apiclient.Answer, error) {
	swipe := []byte(`{"amountCents":700,"currency":"USD","merchant":{"name":"Cafe Aroma","mcc":"5812"}}`)
	for made := 1; ; made++ {
		a, err := t.call(ctx, t.API, apiclient.Request{Method: "POST", Path: path, Body: swipe}, 200)
		if err != nil || !apiclient.IsUndecided(a) || made > mostAnew {
			return a, err
		}
		if !persistence.Pause(ctx, apiclient.DecidePause) {
			return apiclient.Answer{}, ctx.Err()
		}
	}
}

// listed polls the newest authorization until it has the id and the held cents. The relay sends
// decisions to the journal in their order, so the journal then has every earlier decision too.
func (t *Tour) listed(ctx context.Context, id string, held int64) error {
	want := fmt.Sprint(id, " holds ", held)
	return t.AwaitValue(ctx, t.API, "/api/authorizations?limit=1", want, func(a apiclient.Answer) (newest string) {
		for _, row := range a.Rows("data") {
			newest = fmt.Sprint(row["id"], " holds ", row["heldCents"])
		}
		return newest
	})
}

func visitBooks(ctx context.Context, t *Tour) error {
	if err := settled(ctx, t, endAvailableCents+rampedUSDCents); err != nil {
		return err
	}
	a, err := t.call(ctx, t.API, apiclient.Request{Method: "GET", Path: "/api/treasury"}, 200)
	if err != nil {
		return err
	}
	t.expect("heldCents", apiclient.DollarBalance(a)["heldCents"], 0)
	t.expect("fiatUsdCents", a.At("snapshot", "fiatUsdCents"), endAvailableCents+rampedUSDCents)
	t.expect("stablecoinUsdCents", a.At("snapshot", "stablecoinUsdCents"), linkCents+rampedCoinCents)
	sum := int64(0)
	for _, row := range a.Rows("ledger") {
		cents := int64(0)
		if _, err := fmt.Sscan(fmt.Sprint(row["amountCents"]), &cents); err != nil {
			return fmt.Errorf("ledger amount %v: %w", row["amountCents"], err)
		}
		if row["direction"] == "debit" {
			cents = -cents
		}
		fmt.Fprintf(t.Out, "    %-8v %-18v %v cents\n", row["direction"], row["source"], cents)
		sum += cents
	}
	t.expect("the ledger's sum", sum, endAvailableCents+rampedUSDCents+linkCents+rampedCoinCents)
	t.expect("ledger entries", len(a.Rows("ledger")), 10)
	one, err := t.call(ctx, t.API, apiclient.Request{Method: "GET", Path: "/api/cards/" + t.cards["grocer"].id}, 200)
	if err != nil {
		return err
	}
	t.expect("monthSpendUsdCents", one.At("card", "monthSpendUsdCents"), clearedCents)
	return nil
}
