package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"purser/cmd/purser/apiclient"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/retry"
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

// visitSignup signs a user up and creates a workspace. It fails when the server refuses either.
func visitSignup(ctx context.Context, t *Tour) error {
	who := jsonObject{"email": "demo-" + t.run + "@example.com", "password": "demo-" + rand.Text()}
	if _, err := t.mustPost(ctx, t.Session, "/api/dashboard/signup", who); err != nil {
		return err
	}
	a, err := t.mustPost(ctx, t.Session, "/api/workspaces", jsonObject{"name": "Demo " + t.run})
	if err != nil {
		return err
	}
	t.firstKey = a.Text("secret")
	t.expect("mode", a.Text("workspace", "mode"), "sandbox")
	t.expect("the key begins with apk_", strings.HasPrefix(t.firstKey, "apk_"), true)
	return nil
}

// visitKeys shows that a key without scopes is refused, and makes the tour's API key. It fails when
// a request has no answer.
func visitKeys(ctx context.Context, t *Tour) error {
	refused, err := t.callExpecting(ctx, apiclient.New(t.Session.BaseURL, t.firstKey), apiclient.Request{Method: "GET", Path: "/api/treasury"}, 403)
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
	got, err := t.callExpecting(ctx, t.API, apiclient.Request{Method: "GET", Path: "/api/workspaces"}, 200)
	if err != nil {
		return err
	}
	t.expect("the answer names the workspace", strings.Contains(string(got.Raw), "Demo "+t.run), true)
	return nil
}

// visitDeposit announces a deposit, repeats the request, and waits for the dollars. It fails when a
// request has no answer.
func visitDeposit(ctx context.Context, t *Tour) error {
	if err := AnnounceDeposit(ctx, t, depositCents); err != nil {
		return err
	}
	first := t.told[len(t.told)-1]
	again, err := t.callExpecting(ctx, t.API,
		apiclient.Request{Method: "POST", Path: first.Path, IdempotencyKey: first.IdempotencyKey, Body: []byte(first.Body)}, first.Status)
	if err != nil {
		return err
	}
	t.expect("a repeat with the same Idempotency-Key is replayed", again.Replayed, true)
	t.expect("the replayed answer", string(again.Raw), string(first.Answer))
	return awaitDollars(ctx, t, depositCents)
}

func visitDoubleReport(ctx context.Context, t *Tour) error {
	if err := AnnounceDeposit(ctx, t, twiceDepositCents); err != nil {
		return err
	}
	return awaitDollars(ctx, t, fundedCents)
}

func AnnounceDeposit(ctx context.Context, t *Tour, cents money.Cents) error {
	a, err := t.Post(ctx, t.API, "/api/treasury/deposits",
		jsonObject{"source": "bank_fiat", "rail": "fednow", "amountUsdCents": cents}, 202)
	if err == nil {
		t.expect("deposit status", a.Text("deposit", "status"), "pending")
	}
	return err
}

// awaitDollars polls the treasury until the dollars are available. It fails when they are not
// within the tour's limit.
func awaitDollars(ctx context.Context, t *Tour, cents money.Cents) error {
	shown := func(available, incoming any) string {
		return fmt.Sprint(available, " available, ", incoming, " incoming")
	}
	return t.AwaitValue(ctx, t.API, "/api/treasury", shown(cents, 0), func(a apiclient.Answer) string {
		usd := apiclient.DollarBalance(a)
		return shown(usd["availableCents"], usd["incomingCents"])
	})
}

// visitCards issues the tour's three cards. It fails when the server refuses one.
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
		a, err := t.mustPost(ctx, t.API, "/api/cards", c.rules)
		if err != nil {
			return err
		}
		t.cards[c.name] = card{id: a.Text("card", "id"), token: a.Text("card", "partnerCardToken")}
		t.expect("state of the new card", a.Text("card", "state"), "active")
		t.expect("fixture", a.At("fixture"), true)
	}
	return nil
}

// networkMessage returns a message of the card network about an amount at a grocer's. Changes
// replace its fields.
func (t *Tour) networkMessage(id, card string, cents money.Cents, changes jsonObject) jsonObject {
	m := jsonObject{"id": t.networkID(id), "cardToken": t.cards[card].token, "amountCents": cents, "currency": "USD",
		"merchant": jsonObject{"id": "m-1", "name": "Corner Grocer 12", "mcc": "5411", "country": "US"}}
	for name, value := range changes {
		m[name] = value
	}
	return m
}

// networkID returns the id of a message of this run, or of its latest retry.
func (t *Tour) networkID(name string) string {
	id := "demo-" + t.run + "-" + name
	for later, found := t.anew[id]; found; later, found = t.anew[id] {
		id = later
	}
	return id
}

// authorize sends an authorization. A timed-out authorization stays declined, so authorize gives m
// a new id and returns true for again, at most maxRetries times. The error is a request without an
// answer.
func (t *Tour) authorize(ctx context.Context, m jsonObject) (a apiclient.Answer, again bool, err error) {
	a, err = t.Post(ctx, t.network, "/v1/authorizations", m, 200)
	id := fmt.Sprint(m["id"])
	first, times, _ := strings.Cut(id, retryMark)
	made, _ := strconv.Atoi(times) // 0 of the first one
	if again = err == nil && apiclient.IsUndecided(a) && made < maxRetries; again {
		t.anew[id] = fmt.Sprint(first, retryMark, made+1)
		m["id"] = t.anew[id]
		fmt.Fprintln(t.Out, "    a busy machine: the swipe is made anew")
		if !retry.Pause(ctx, apiclient.DecidePause) {
			err = ctx.Err()
		}
	}
	return a, again, err
}

// swipeAndExpect sends an authorization until it is decided and expects the decision. Another
// decision is a difference; the error is a request without an answer.
func (t *Tour) swipeAndExpect(ctx context.Context, m jsonObject, reason, code string, approved int64) (a apiclient.Answer, err error) {
	for again := true; again; {
		if a, again, err = t.authorize(ctx, m); err != nil {
			return a, err
		}
	}
	t.expectSwipe(a, reason, code, approved)
	return a, nil
}

// expectSwipe compares the answer to a swipe with the expected decision, reason, response code and
// approved cents. A difference is recorded by expect and does not stop the tour.
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

// visitApproved sends an authorization that must be approved, and repeats it. It fails when a
// request has no answer.
func visitApproved(ctx context.Context, t *Tour) error {
	m := t.networkMessage("lunch", "grocer", swipeCents, nil)
	first, err := t.swipeAndExpect(ctx, m, "approved", "00", swipeCents)
	if err != nil {
		return err
	}
	again, err := t.swipeAndExpect(ctx, m, "approved", "00", swipeCents)
	t.expect("the answer to the same message again", string(again.Raw), string(first.Raw))
	return err
}

// visitDeclines sends an authorization for each reason of a decline. It fails when a request has no
// answer.
func visitDeclines(ctx context.Context, t *Tour) error {
	stranger, err := t.unknownToken()
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
		{"invalid_request", "30", t.networkMessage("negative", "grocer", -1, nil)},
		{"card_not_found", "14", t.networkMessage("stranger", "grocer", swipeCents, jsonObject{"cardToken": stranger})},
		{"card_frozen", "62", t.networkMessage("frozen", "tight", swipeCents, nil)},
		{"currency_not_supported", "12", t.networkMessage("euros", "grocer", swipeCents, jsonObject{"currency": "EUR"})},
		{"mcc_not_allowed", "57", t.networkMessage("casino", "grocer", swipeCents, elsewhere("Corner Grocer", "7995"))},
		{"merchant_not_allowed", "57", t.networkMessage("other", "grocer", swipeCents, elsewhere("Somebody Else", "5411"))},
		{"per_transaction_limit_exceeded", "61", t.networkMessage("big", "grocer", grocerPerTxnCents+1, nil)},
		{"insufficient_funds", "51", t.networkMessage("rich", "generous", fundedCents, nil)},
		{"duplicate_mismatch", "94", t.networkMessage("lunch", "grocer", swipeCents+1, nil)},
		{"authorization_not_found", "25", t.networkMessage("orphan", "grocer", incrementCents,
			jsonObject{"kind": "incremental", "originalId": t.networkID("never-sent")})},
	} {
		if _, err := t.swipeAndExpect(ctx, c.message, c.reason, c.code, 0); err != nil {
			return err
		}
	}
	return visitLaterDeclines(ctx, t)
}

// visitLaterDeclines shows the declines that need a change of the card first. It fails when the
// server does not answer as the tour needs; visitDeclines calls it.
func visitLaterDeclines(ctx context.Context, t *Tour) error {
	if err := t.setState(ctx, "tight", "active"); err != nil {
		return err
	}
	if _, err := t.swipeAndExpect(ctx, t.networkMessage("month", "tight", tightMonthCents+1, nil), "monthly_limit_exceeded", "61",
		0); err != nil {
		return err
	}
	if err := t.setState(ctx, "tight", "terminated"); err != nil {
		return err
	}
	if _, err := t.swipeAndExpect(ctx, t.networkMessage("ended", "tight", swipeCents, nil), "card_terminated", "46", 0); err != nil {
		return err
	}
	return visitEarlyReversal(ctx, t)
}

// visitEarlyReversal reverses an authorization before it is sent, so that it must be declined. It
// fails when a request has no answer.
func visitEarlyReversal(ctx context.Context, t *Tour) error {
	for again := true; again; {
		late := t.networkMessage("late", "grocer", swipeCents, nil)
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
	a, err := t.callExpecting(ctx, t.API, r, 200)
	t.expect("card state", a.Text("card", "state"), state)
	return err
}

// unknownToken returns a valid card token without a card. It fails when the card's own token is
// malformed. visitDeclines swipes with it.
func (t *Tour) unknownToken() (string, error) {
	known, err := ident.ParseToken([]byte(t.cards["grocer"].token))
	if err != nil {
		return "", fmt.Errorf("partnerCardToken %q: %w", t.cards["grocer"].token, err)
	}
	token, err := ident.NewToken(known.Slot(), rand.Reader)
	return token.String(), err
}

// visitPartial has an amount above the funds approved in part, and reverses it. It fails when a
// request has no answer.
func visitPartial(ctx context.Context, t *Tour) error {
	m := t.networkMessage("all-there-is", "generous", generousLimitCents, jsonObject{"partialApproval": true})
	a, err := t.swipeAndExpect(ctx, m, "approved", "10", fundedCents-swipeCents)
	if err != nil {
		return err
	}
	return t.reverseAndExpect(ctx, jsonObject{"id": t.networkID("give-back"), "authorizationId": a.Text("authorizationId")}, 0)
}

func (t *Tour) reverseAndExpect(ctx context.Context, m jsonObject, held int64) error {
	a, err := t.Post(ctx, t.network, "/v1/reversals", m, 200)
	t.expect("heldAmountCents", a.At("heldAmountCents"), held)
	return err
}

// visitLife sends the messages of an authorization's life: increment, partial reversal, clearing,
// refund, and a repeat with another amount, which must be refused. It fails when a request has no
// answer.
func visitLife(ctx context.Context, t *Tour) error {
	lunch := t.networkID("lunch")
	more := t.networkMessage("more", "grocer", incrementCents, jsonObject{"kind": "incremental", "originalId": lunch})
	if _, err := t.swipeAndExpect(ctx, more, "approved", "00", incrementCents); err != nil {
		return err
	}
	part := jsonObject{"id": t.networkID("part"), "originalId": lunch, "amountCents": partReversalCents}
	if err := t.reverseAndExpect(ctx, part, swipeCents+incrementCents-partReversalCents); err != nil {
		return err
	}
	clearing := t.networkMessage("clearing", "grocer", clearedCents, jsonObject{"originalId": lunch, "final": true})
	if err := t.presentAndExpect(ctx, "/v1/clearings", clearing); err != nil {
		return err
	}
	refund := t.networkMessage("refund", "grocer", refundedCents, jsonObject{"originalId": lunch})
	if err := t.presentAndExpect(ctx, "/v1/refunds", refund); err != nil {
		return err
	}
	other := t.networkMessage("clearing", "grocer", clearedCents+1, jsonObject{"originalId": lunch, "final": true})
	a, err := t.Post(ctx, t.network, "/v1/clearings", other, 409)
	t.expect("error", a.Text("error"), "duplicate_mismatch")
	return err
}

// presentAndExpect sends a clearing or a refund and expects that it is posted. It fails when the
// answer's status is not 200.
func (t *Tour) presentAndExpect(ctx context.Context, path string, m jsonObject) error {
	a, err := t.Post(ctx, t.network, path, m, 200)
	t.expect("status", a.Text("status"), "posted")
	return err
}

// visitExpiry simulates a swipe and the expiry of its hold. It uses the simulation routes, which
// play the card network for a sandbox workspace. It fails when a request has no answer.
func visitExpiry(ctx context.Context, t *Tour) error {
	path := "/api/dev/cards/" + t.cards["generous"].id + "/simulate/"
	a, err := t.simulateSwipe(ctx, path+"authorization")
	if err != nil {
		return err
	}
	t.expect("decision", a.Text("decision"), "approved")
	id := a.Text("authorizationId")
	if err := t.awaitAuthorization(ctx, id, 700); err != nil {
		return err
	}
	expiry := []byte(`{"authorizationId":"` + id + `"}`)
	a, err = t.callExpecting(ctx, t.API, apiclient.Request{Method: "POST", Path: path + "expiry", Body: expiry}, 200)
	if err != nil {
		return err
	}
	t.expect("heldAmountCents", a.At("heldAmountCents"), 0)
	return t.awaitAuthorization(ctx, id, 0)
}

// simulateSwipe simulates a swipe, and a new one after each timeout. A server whose process was
// paused declines all simulated swipes of the next hold.AnswerWithin, so the retries pause. After
// maxRetries it returns the last answer. The error is a request without an answer.
func (t *Tour) simulateSwipe(ctx context.Context, path string) (apiclient.Answer, error) {
	swipe := []byte(`{"amountCents":700,"currency":"USD","merchant":{"name":"Cafe Aroma","mcc":"5812"}}`)
	for made := 1; ; made++ {
		a, err := t.callExpecting(ctx, t.API, apiclient.Request{Method: "POST", Path: path, Body: swipe}, 200)
		if err != nil || !apiclient.IsUndecided(a) || made > maxRetries {
			return a, err
		}
		if !retry.Pause(ctx, apiclient.DecidePause) {
			return apiclient.Answer{}, ctx.Err()
		}
	}
}

// awaitAuthorization polls the newest authorization until it has the id and the held cents. The
// relay sends decisions to the journal in their order, so the journal then has every earlier
// decision too. It fails when the authorization is not so within the tour's limit.
func (t *Tour) awaitAuthorization(ctx context.Context, id string, held int64) error {
	want := fmt.Sprint(id, " holds ", held)
	return t.AwaitValue(ctx, t.API, "/api/authorizations?limit=1", want, func(a apiclient.Answer) (newest string) {
		for _, row := range a.Rows("data") {
			newest = fmt.Sprint(row["id"], " holds ", row["heldCents"])
		}
		return newest
	})
}

// visitBooks checks that the balances, the ledger and a card's spend add up at the end of the tour.
// It fails when a request has no answer.
func visitBooks(ctx context.Context, t *Tour) error {
	if err := awaitDollars(ctx, t, endAvailableCents+rampedUSDCents); err != nil {
		return err
	}
	a, err := t.callExpecting(ctx, t.API, apiclient.Request{Method: "GET", Path: "/api/treasury"}, 200)
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
	one, err := t.callExpecting(ctx, t.API, apiclient.Request{Method: "GET", Path: "/api/cards/" + t.cards["grocer"].id}, 200)
	if err != nil {
		return err
	}
	t.expect("monthSpendUsdCents", one.At("card", "monthSpendUsdCents"), clearedCents)
	return nil
}
