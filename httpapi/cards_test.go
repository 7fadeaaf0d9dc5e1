package httpapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	waitFor = time.Minute
	pause   = 5 * time.Millisecond
)

func TestTheLifeOfACard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	require.Equal(t, []any{}, w.mint(tn, `,"allowedMccs":[]`).at("card", "allowedMccs"), "none, and not all")
	minted := w.mint(tn, `,"allowedMccs":["5411"],"allowedMerchants":null`)
	require.Equal(t, true, minted.at("fixture"))
	require.Equal(t, "active", minted.text("card", "state"))
	id := minted.text("card", "id")
	path := "/api/cards/" + id
	change := func(body string) testReply { return w.do(tn.all, "PATCH", path, body) }
	require.Equal(t, "frozen", w.ok(change(`{"state":"frozen"}`)).text("card", "state"))
	require.Equal(t, "frozen", w.ok(change(`{"state":"frozen"}`)).text("card", "state"))
	require.Nil(t, w.ok(change(`{"allowedMccs":null}`)).at("card", "allowedMccs"))
	require.Equal(t, []any{}, w.ok(change(`{"allowedMccs":[]}`)).at("card", "allowedMccs"))
	require.Equal(t, 5, w.ok(change(`{"monthlyLimitUsdCents":5}`)).cents("card", "monthlyLimitUsdCents"))
	w.fails(change(`{}`), 400, "invalid_body")
	w.fails(change(`{"state":"melted"}`), 400, "invalid_body")
	w.fails(change(`{"state":null}`), 400, "invalid_body")
	w.fails(change(`{"monthlyLimitUsdCents":0}`), 400, "invalid_body")
	w.fails(change(`{"last4":"0000"}`), 400, "invalid_body")
	w.ok(change(`{"state":"terminated"}`))
	w.ok(change(`{"state":"terminated"}`))
	w.fails(change(`{"state":"active"}`), 409, "card_terminated")
	w.fails(change(`{"monthlyLimitUsdCents":9}`), 409, "card_terminated")
	read := w.ok(w.get(tn.all, path))
	require.Equal(t, "terminated", read.text("card", "state"))
	require.Empty(t, read.at("recentAuthorizations"))
}

func TestCardsArePaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	var want []string
	for range 5 {
		want = append([]string{w.mint(tn, "").text("card", "id")}, want...)
	}
	var got []string
	path := "/api/cards?limit=2"
	for pages := 0; ; pages++ {
		require.Less(t, pages, 4)
		r := w.ok(w.get(tn.all, path))
		for i := 0; r.at("data", i) != nil; i++ {
			got = append(got, r.text("data", i, "id"))
		}
		if r.at("nextCursor") == nil {
			break
		}
		path = "/api/cards?limit=2&cursor=" + r.text("nextCursor")
	}
	require.Equal(t, want, got)
	cursor := w.ok(w.get(tn.all, "/api/cards?limit=1")).text("nextCursor")
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "limit=", "limit=%2B5", "limit=05", "cursor=x",
		"cursor=", "limit=1&limit=2",
		"page=2", "cursor=" + cursor + "0"} {
		w.fails(w.get(tn.all, "/api/cards?"+query), 400, "invalid_query")
	}
	w.fails(w.get(tn.all, "/api/auth/keys?cursor="+cursor), 400, "invalid_query")
	w.fails(w.get(w.newTenant("bob").all, "/api/cards?cursor="+cursor), 400, "invalid_query")
}

func TestACardholderMustExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fails(w.post(tn.all, "/api/cards", `{"holderKind":"human","holderLabel":"a","monthlyLimitUsdCents":1,"perTxnLimitUsdCents":1,
		"cardholderId":"chld_0000000000e000g0000000000a"}`), 404, "not_found")
	require.Nil(t, w.mint(tn, `,"cardholderId":null`).at("card", "cardholderId"), "as the card itself shows it")
	connected := newWorld(t, func(c *Config) { c.Issuer = IssuerConnected })
	tn = connected.newTenant("ada")
	connected.fails(connected.post(tn.all, "/api/cards",
		`{"holderKind":"human","holderLabel":"a","monthlyLimitUsdCents":1,"perTxnLimitUsdCents":1}`), 409,
		"cardholder_required")
}

// simulator sends simulated network messages about one card.
type simulator struct {
	*world
	tn   tenant
	card string
}

// shop is the currency and the merchant of a simulated message.
const shop = `"currency":"USD","merchant":{"name":"Shop","mcc":"5411"}`

func newSimulator(t *testing.T, cents int) *simulator {
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fund(tn, cents)
	return &simulator{world: w, tn: tn, card: w.mint(tn, "").text("card", "id")}
}

func (s *simulator) simulate(message, body string) testReply {
	s.t.Helper()
	return s.post(s.tn.all, "/api/dev/cards/"+s.card+"/simulate/"+message, body)
}

// A card is swiped, and its authorization is increased, partly reversed, cleared, refunded and
// expired. Each repeat gets its first answer, and the limits and the frozen card decline.
func TestSwipes(t *testing.T) {
	t.Parallel()
	s := newSimulator(t, 80_000)
	first := s.swipe(s.tn, s.card, "s1", 40_000)
	require.Equal(t, "approved", first.text("decision"))
	require.Equal(t, "s1", first.text("id"))
	require.Equal(t, first.raw, s.swipe(s.tn, s.card, "s1", 40_000).raw)
	for _, declined := range []struct {
		id     string
		cents  int
		reason string
	}{{"s1", 40_001, "duplicate_mismatch"}, {"s2", 50_001, "per_transaction_limit_exceeded"},
		{"s3", 45_000, "insufficient_funds"}} {
		require.Equal(t, declined.reason, s.swipe(s.tn, s.card, declined.id, declined.cents).text("reason"))
	}

	more := s.ok(s.simulate("incremental", `{"id":"s4","originalId":"s1","amountCents":1000,`+shop+`}`))
	require.Equal(t, "approved", more.text("decision"))
	require.Equal(t, first.text("authorizationId"), more.text("authorizationId"))
	back := s.ok(s.simulate("reversal", `{"authorizationId":"`+first.text("authorizationId")+`","amountCents":500}`))
	require.Equal(t, 40_500, back.cents("heldAmountCents"))
	require.Regexp(t, `^sim-[0-9a-f]{16}$`, back.text("id"))

	cleared := s.ok(s.simulate("clearing", `{"id":"c1","originalId":"s1","amountCents":30000,`+shop+`}`))
	require.Equal(t, "posted", cleared.text("status"))
	s.fails(s.simulate("clearing", `{"id":"c1","originalId":"s1","amountCents":30001,`+shop+`}`), 409,
		"duplicate_mismatch")
	refunded := s.ok(s.simulate("refund", `{"id":"f1","originalId":"s1","amountCents":100,`+shop+`}`))
	require.Equal(t, "posted", refunded.text("status"))
	over := s.ok(s.simulate("expiry", `{"authorizationId":"`+first.text("authorizationId")+`"}`))
	require.Equal(t, 0, over.cents("heldAmountCents"))

	s.ok(s.do(s.tn.all, "PATCH", "/api/cards/"+s.card, `{"state":"frozen"}`))
	require.Equal(t, "card_frozen", s.swipe(s.tn, s.card, "s5", 1).text("reason"))
	s.checkSwipes(s.tn, s.card)
}

// A malformed message is refused like the network's port refuses it: an authorization is declined
// where the port declines, and every other message is invalid_body.
func TestMalformedSimulationsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSimulator(t, 100)
	for _, cents := range []string{"-1", "1e3", "100.0"} {
		declined := s.ok(s.simulate("authorization", `{"amountCents":`+cents+`,`+shop+`}`))
		require.Equal(t, "invalid_request", declined.text("reason"), cents)
		s.fails(s.simulate("clearing", `{"amountCents":`+cents+`,`+shop+`}`), 400, "invalid_body")
	}
	for _, body := range []string{`{"amountCents":"100",` + shop + `}`,
		`{"cardToken":"x","amountCents":1,` + shop + `}`,
		`{"id":"` + someUUID + `x","amountCents":1,` + shop + `}`, `{"id":7,"amountCents":1,` + shop + `}`} {
		s.fails(s.simulate("authorization", body), 400, "invalid_body")
	}
	for body, field := range map[string]string{`{}`: "authorizationId", `{"authorizationId":7}`: "authorizationId",
		`{"authorizationId":null}`: "authorizationId", `{"authorizationId":"auth_1","amountCents":1}`: "amountCents",
		`{"authorizationId":"auth_1","id":7}`:  "id",
		`{"authorizationId":"auth_1","id":""}`: "id"} {
		r := s.simulate("expiry", body)
		s.fails(r, 400, "invalid_body")
		require.Regexp(t, "^"+field+" ", r.text("message"), body)
	}
	s.fails(s.simulate("expiry", `{"authorizationId":"auth_1"}`), 404, "not_found")
	s.fails(s.simulate("chargeback", `{}`), 404, "not_found")
	// A malformed body is refused before the card is looked up.
	unknown := "/api/dev/cards/card_0000000000e000g0000000000a/simulate/authorization"
	s.fails(s.post(s.tn.all, unknown, `{"id":""}`), 400, "invalid_body")
	s.fails(s.post(s.tn.all, unknown, `{"id":"s9"}`), 404, "not_found")
}

// A simulated message acts on the card of its path alone, whichever way it names the authorization
// of another card.
func TestSimulationsStayOnTheirCard(t *testing.T) {
	t.Parallel()
	s := newSimulator(t, 80_000)
	held := s.swipe(s.tn, s.card, "s1", 1000).text("authorizationId")
	s.ok(s.simulate("incremental", `{"id":"s2","originalId":"s1","amountCents":100,`+shop+`}`))
	theirs := s.card
	s.card = s.mint(s.tn, "").text("card", "id")
	for _, name := range []string{`"originalId":"s1"`, `"originalId":"s2"`, `"authorizationId":"` + held + `"`} {
		s.fails(s.simulate("reversal", `{`+name+`}`), 404, "not_found")
		require.Equal(t, "authorization_not_found",
			s.ok(s.simulate("incremental", `{`+name+`,"amountCents":1,`+shop+`}`)).text("reason"))
		for _, message := range []string{"clearing", "refund"} {
			s.ok(s.simulate(message, `{`+name+`,"amountCents":1,`+shop+`}`))
		}
	}
	s.fails(s.simulate("expiry", `{"authorizationId":"`+held+`"}`), 404, "not_found")
	s.relayed()
	shown := s.ok(s.get(s.tn.all, "/api/authorizations/"+held))
	for member, cents := range map[string]int{"heldCents": 1100, "clearedCents": 0, "refundedCents": 0} {
		require.Equal(t, cents, shown.cents("authorization", member), member)
	}
	s.card = theirs
	s.ok(s.simulate("reversal", `{"originalId":"s2"}`))
}

// checkSwipes checks the card, the authorizations and the treasury after TestSwipes.
func (w *world) checkSwipes(tn tenant, id string) {
	t := w.t
	t.Helper()
	card := w.ok(w.get(tn.all, "/api/cards/"+id))
	require.Equal(t, 30_000, card.cents("card", "monthSpendUsdCents"))
	last := card.at("recentAuthorizations").([]any)
	require.Equal(t, "card_frozen", card.text("recentAuthorizations", 0, "reason"))
	require.Equal(t, "s5", card.text("recentAuthorizations", 0, "networkId"))
	all := w.ok(w.get(tn.all, "/api/authorizations"))
	require.Equal(t, last, all.at("data"))
	byCard := w.ok(w.get(tn.all, "/api/authorizations?cardId="+id))
	require.Equal(t, last, byCard.at("data"))
	approved := w.ok(w.get(tn.all, "/api/authorizations?decision=approved"))
	require.Len(t, approved.at("data"), 1)
	require.Equal(t, "s1", approved.text("data", 0, "networkId"))
	require.Equal(t, 30_000, approved.cents("data", 0, "clearedCents"))
	require.Equal(t, 0, approved.cents("data", 0, "heldCents"))
	w.fails(w.get(tn.all, "/api/authorizations?decision=maybe"), 400, "invalid_query")

	treasury := w.ok(w.get(tn.all, "/api/treasury"))
	require.Equal(t, 80_000-30_000+100, treasury.cents("balances", 0, "availableCents"))
	require.Equal(t, "card_refund", treasury.text("ledger", 0, "source"))
	require.Equal(t, "card_settlement", treasury.text("ledger", 1, "source"))
	require.Equal(t, "bank_deposit", treasury.text("ledger", 2, "source"))

	w.clock.turn(15 * 24 * time.Hour) // another month
	require.Equal(t, 0, w.ok(w.get(tn.all, "/api/cards/"+id)).cents("card", "monthSpendUsdCents"))
}

func TestAuthorizationsArePagedThroughAFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fund(tn, 100)
	id := w.mint(tn, "").text("card", "id")
	for i := range 8 {
		cents := 1
		if i%2 == 1 {
			cents = 1000 // declined
		}
		w.swipe(tn, id, fmt.Sprint("n", i), cents)
	}
	w.relayed()
	for _, filter := range []string{"decision=approved", "decision=approved&cardId=" + id} {
		var got []string
		cursor := ""
		for pages := 0; ; pages++ {
			require.Less(t, pages, 4)
			r := w.ok(w.get(tn.all, "/api/authorizations?limit=2&"+filter+cursor))
			for i := 0; r.at("data", i) != nil; i++ {
				got = append(got, r.text("data", i, "networkId"))
			}
			if r.at("nextCursor") == nil {
				break
			}
			cursor = "&cursor=" + r.text("nextCursor")
		}
		require.Equal(t, []string{"n6", "n4", "n2", "n0"}, got)
	}
}

func TestDeposits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	empty := w.ok(w.get(tn.all, "/api/treasury"))
	require.Equal(t, 0, empty.cents("balances", 0, "availableCents"))
	require.Empty(t, empty.at("ledger"))
	body := `{"source":"bank_fiat","rail":"wire","amountUsdCents":5000}`
	made := w.post(tn.all.with("Idempotency-Key", someUUID), "/api/treasury/deposits", body)
	require.Equal(t, 202, made.status, made.raw)
	require.Equal(t, "pending", made.text("deposit", "status"))
	again := w.post(tn.all.with("Idempotency-Key", someUUID), "/api/treasury/deposits", body)
	require.Equal(t, 202, again.status)
	require.Equal(t, made.raw, again.raw)
	waiting := w.ok(w.get(tn.all, "/api/treasury"))
	require.Equal(t, 0, waiting.cents("balances", 0, "availableCents"))
	require.Equal(t, 5000, waiting.cents("balances", 0, "incomingCents"))
	settled := fmt.Sprintf(`{"id":"e1","type":"deposit.settled","data":{"depositId":%q}}`, made.text("deposit", "id"))
	w.ok(w.report(settled))
	w.ok(w.report(settled)) // sent twice
	w.ok(w.report(fmt.Sprintf(`{"id":"e2","type":"deposit.received","data":{"workspaceId":%q,"amountUsdCents":70,"rail":"ach",
		"reference":"INV-7"}}`, tn.workspace)))
	after := w.ok(w.get(tn.all, "/api/treasury"))
	require.Equal(t, 5070, after.cents("balances", 0, "availableCents"))
	require.Equal(t, 5070, after.cents("snapshot", "totalUsdCents"))
	require.Len(t, after.at("ledger"), 2)

	stable := `{"source":"partner_stablecoin","asset":"USDC","chain":"polygon","amountUsdCents":5}`
	w.fails(w.post(tn.all, "/api/treasury/deposits", stable), 422, "capability_unavailable")
	for _, bad := range []string{`{}`, `{"source":"bank_fiat","rail":"ach"}`,
		`{"source":"bank_fiat","rail":"ach","amountUsdCents":0}`,
		`{"source":"bank_fiat","rail":"ach","amountUsdCents":1,"asset":"USDC"}`,
		`{"source":"partner_stablecoin","amountUsdCents":5}`} {
		w.fails(w.post(tn.all, "/api/treasury/deposits", bad), 400, "invalid_body")
	}
}

func TestReportsThatMatchNothingAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	for i, report := range []string{
		`"type":"deposit.settled","data":{"depositId":"dep_0000000000e000g0000000000a"}`,
		`"type":"deposit.settled","data":{"depositId":7}`,
		`"type":"deposit.settled","data":{}`,
		`"type":"deposit.received","data":{"workspaceId":"ws_0000000000e000g0000000000a","amountUsdCents":1,"rail":"ach"}`,
		`"type":"deposit.received","data":{"workspaceId":"` + tn.workspace + `","amountUsdCents":-1,"rail":"ach"}`,
		`"type":"payout.settled","data":{"payoutId":"po_1"},"more":true`,
	} {
		w.ok(w.report(fmt.Sprintf(`{"id":"u%d",%s}`, i, report)))
	}
	require.Equal(t, 0, w.ok(w.get(tn.all, "/api/treasury")).cents("balances", 0, "availableCents"))
	w.keptUnmatched(6)
	w.ok(w.report(`{"id":"u5","type":"payout.settled","data":{"payoutId":"po_1"},"more":true}`))
	w.keptUnmatched(6)
}

func TestReportsMustBeSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"id":"e1","type":"deposit.settled","data":{}}`
	for _, header := range []as{nil, {"partner-signature": "t=1,v1=00"}, {"partner-signature": "nonsense"}} {
		w.fails(w.post(header, "/api/webhooks/bank-transfer", body), 401, "signature_invalid")
	}
	w.fails(w.report(`{"id":"e1","id":"e2","type":"x","data":{}}`), 400, "invalid_body")
	w.fails(w.report(`{"id":"e1"}`), 400, "invalid_body")
}
