package demo

import "fmt"

// step is a line of the tour: a title, what is printed behind it once the answers are as expected,
// and the calls. All texts may have names.
type step struct {
	title, prints string
	calls         []call
}

// steps are the steps of the tour, in order. A step needs those before it. Amounts are in cents.
var steps = []step{
	{"Sign up and make a workspace", "$run@example.com has $workspace", []call{
		{session, "POST /api/dashboard/signup", `{"email":"$run@example.com","password":"$password"}`,
			`{"user":{"email":"$run@example.com"}}`},
		{session, "POST /api/workspaces", `{"name":"Workspace of $run"}`,
			`{"workspace":{"id":"$workspace","mode":"sandbox"},"secret":"$firstKey"}`},
	}},
	{"Make an API key with the scopes that this tour needs", "it begins with $prefix", []call{
		{firstKey, "GET /api/treasury", ``, `403 {"error":"missing_scope:read:treasury"}`},
		{session, "POST /api/auth/keys", `{"label":"demo","scopes":[$scopes]}`,
			`{"apiKey":{"prefix":"$prefix"},"secret":"$key"}`},
		{key, "GET /api/workspaces", ``, `{"workspace":{"id":"$workspace","name":"Workspace of $run"}}`},
	}},
	{"Announce a deposit, which the bank reports a little later", "1,000.00 dollars are available", []call{
		announceDeposit(1_000_00),
		{request: "again"},
		awaitDollars(1_000_00),
	}},
	{"A deposit that the bank reports twice counts once", "1,050.91 dollars are available", []call{
		announceDeposit(50_91), // the sandbox bank reports an amount that ends in 91 twice
		awaitDollars(1_050_91),
	}},
	{"Mint three cards", "$grocer, $tight and $generous", []call{
		mintCard("grocer", `"monthlyLimitUsdCents":50000,"perTxnLimitUsdCents":20000,`+
			`"allowedMccs":["5411","5812"],"allowedMerchants":["Corner Grocer*","Cafe Aroma"]`),
		mintCard("tight", `"monthlyLimitUsdCents":3000,"perTxnLimitUsdCents":1000000`),
		mintCard("generous", `"monthlyLimitUsdCents":1000000,"perTxnLimitUsdCents":1000000`),
	}},
	{"A swipe that fits every rule, and its repeat", "12.50 dollars are held once", []call{
		approvedSwipe("lunch", "grocer", 12_50, atGrocer, `"responseCode":"00","approvedAmountCents":1250`),
		{request: "again"},
	}},
	{"Thirteen declines, each for another reason", "the reasons and response codes are right", []call{
		declinedSwipe("invalid_request", "30", "negative", "grocer", -1, atGrocer),
		declinedSwipe("card_not_found", "14", "unknown", "stranger", 12_50, atGrocer),
		declinedSwipe("currency_not_supported", "12", "euros", "grocer", 12_50, at("EUR", "Corner Grocer", "5411")),
		declinedSwipe("mcc_not_allowed", "57", "casino", "grocer", 12_50, at("USD", "Corner Grocer", "7995")),
		declinedSwipe("merchant_not_allowed", "57", "other", "grocer", 12_50, at("USD", "Somebody Else", "5411")),
		declinedSwipe("per_transaction_limit_exceeded", "61", "big", "grocer", 200_01, atGrocer),
		declinedSwipe("monthly_limit_exceeded", "61", "month", "tight", 30_01, atGrocer),
		declinedSwipe("insufficient_funds", "51", "rich", "generous", 1_050_91, atGrocer),
		declinedSwipe("duplicate_mismatch", "94", "lunch", "grocer", 12_51, atGrocer),
		declinedSwipe("authorization_not_found", "25", "orphan", "grocer", 5_00,
			atGrocer+`,"kind":"incremental","originalId":"$neverSent"`),
		{key, "PATCH /api/cards/$tight", `{"state":"frozen"}`, `{"card":{"state":"frozen"}}`},
		declinedSwipe("card_frozen", "62", "frozen", "tight", 12_50, atGrocer),
		{key, "PATCH /api/cards/$tight", `{"state":"terminated"}`, `{"card":{"state":"terminated"}}`},
		declinedSwipe("card_terminated", "46", "ended", "tight", 12_50, atGrocer),
		sendReversal("early", `"originalId":"$late"`, `{"authorizationId":null}`),
		declinedSwipe("reversed_before_arrival", "12", "late", "grocer", 12_50, atGrocer),
	}},
	{"A partial approval takes what is there, and a reversal gives it back", "1,038.41 of 10,000.00 were approved", []call{
		approvedSwipe("all", "generous", 10_000_00, atGrocer+`,"partialApproval":true`,
			`"responseCode":"10","approvedAmountCents":103841,"authorizationId":"$holdOfAll"`),
		sendReversal("giveBack", `"authorizationId":"$holdOfAll"`, `{"heldAmountCents":0}`),
	}},
	{"The life of an authorization, from an increment to a refund", "12.00 dollars were cleared, 4.00 refunded", []call{
		approvedSwipe("more", "grocer", 5_00, atGrocer+`,"kind":"incremental","originalId":"$lunch"`,
			`"responseCode":"00","approvedAmountCents":500`),
		sendReversal("part", `"originalId":"$lunch","amountCents":250`, `{"heldAmountCents":1500}`),
		swipe("clearings", "clearing", "grocer", 12_00, atGrocer+`,"originalId":"$lunch","final":true`,
			`{"status":"posted"}`),
		swipe("refunds", "refund", "grocer", 4_00, atGrocer+`,"originalId":"$lunch"`, `{"status":"posted"}`),
		swipe("clearings", "clearing", "grocer", 12_01, atGrocer+`,"originalId":"$lunch","final":true`,
			`409 {"error":"duplicate_mismatch"}`),
	}},
	{"A simulated swipe whose hold runs out", "7.00 dollars were held", []call{
		{key, "POST /api/dev/cards/$generous/simulate/authorization",
			`{"amountCents":700,` + at("USD", "Cafe Aroma", "5812") + `}`, `{"decision":"approved","authorizationId":"$hold"}`},
		{key, "until GET /api/authorizations?limit=1", ``, `{"data":[{"id":"$hold","heldCents":700}]}`},
		{key, "POST /api/dev/cards/$generous/simulate/expiry", `{"authorizationId":"$hold"}`, `{"heldAmountCents":0}`},
		{key, "until GET /api/authorizations?limit=1", ``, `{"data":[{"id":"$hold","heldCents":0}]}`},
	}},
	{"An AI agent signs what it means to pay; a replay and a forgery are refused", "the agent is $agent", []call{
		{key, "once POST /api/agents", `{"agentName":"Shopper of $run","protocols":["TAP"],"publicKeyPem":"$publicKeyPem"}`,
			`{"agent":{"id":"$agent","keyId":"$keyId"},"privateKeyPem":null}`},
		{key, "POST /api/agents/$agent/intents", `$intent`, `{"accepted":true}`},
		{key, "POST /api/agents/$agent/intents", `$intent`, `422 {"error":"intent_replay","reason":"intent_replay"}`},
		{key, "POST /api/agents/$agent/intents", `$forgedIntent`,
			`401 {"error":"signature_invalid","reason":"bad_signature"}`},
		{key, "GET /api/agents/$agent/intents", ``,
			`{"data":[{"accepted":true},{"rejection_reason":"intent_replay"},{"rejection_reason":"bad_signature"}]}`},
	}},
	{"A payment link that is paid on the sandbox chain", "look at it: $page", []call{
		{key, "once POST /api/v1/checkout/sessions",
			`{"amountUsdCents":2500,"description":"Two paperbacks","merchantReference":"$order",` +
				`"successUrl":"https://shop.example/thanks","acceptedChains":["base","polygon"]}`,
			`{"session":{"id":"$link","status":"pending","hostedUrl":"$page"}}`},
		{session, "GET /checkout/$link", ``, `Do not send real money`},
		{session, "POST /api/v1/checkout/sessions/$link/select", `{"asset":"USDC","chain":"base"}`,
			`{"amountUnits":"25000000","address":"$payTo"}`},
		{admin, "POST /sandbox-pay", `{"chain":"base","reference":"$payment","from":"0xcustomer",` +
			`"transfers":[{"asset":"USDC","address":"$payTo","amountUnits":"25000000"}]}`, `{"txHash":"$transaction"}`},
		{session, "until GET /api/v1/checkout/sessions/$link/status", ``, `{"status":"completed"}`},
		{key, "GET /api/v1/checkout/sessions/$link", ``,
			`{"session":{"status":"completed","receivedUsdCents":2500,"txHash":"$transaction"}}`},
		{key, "until GET /api/treasury", ``, `{"snapshot":{"stablecoinUsdCents":2500}}`},
	}},
	{"Dollars into USDC and back, and USDC to a wallet whose key signs for it", "sent in $sent", []call{
		{key, "once POST /api/ramp/account", `{}`, ``},
		{key, "until GET /api/ramp/account", ``, `{"account":{"status":"linked"}}`},
		{key, "once POST /api/ramp/wallets", `{"chain":"base","address":"$walletAddress","label":"Demo"}`,
			`{"wallet":{"id":"$wallet","status":"unproven"}}`},
		{session, "GET /api/dashboard/ramp/wallets", ``, `{"data":[{"id":"$wallet","challenge":"$challenge"}]}`},
		{session, "POST /api/dashboard/ramp/wallets/$wallet/proof", `{"signature":"$walletSignature"}`, ``},
		{session, "until GET /api/dashboard/ramp/wallets", ``, `{"data":[{"id":"$wallet","status":"approved"}]}`},
		// The sandbox ramp charges half a percent, and half of that for an amount that ends in 88.
		{key, "once POST /api/ramp/quotes", `{"direction":"onramp","amount":"40.00"}`,
			`{"quote":{"id":"$onrampQuote","maxFee":"0.20","receive":"39.80"}}`},
		{key, "once POST /api/ramp/orders", `{"quoteId":"$onrampQuote"}`,
			`{"order":{"id":"$onramp","status":"created"}}`},
		{key, "once POST /api/ramp/quotes", `{"direction":"offramp","amount":"10.88"}`,
			`{"quote":{"id":"$offrampQuote","maxFee":"0.06","receive":"10.82"}}`},
		{key, "once POST /api/ramp/orders", `{"quoteId":"$offrampQuote"}`,
			`{"order":{"id":"$offramp","status":"created"}}`},
		{key, "once POST /api/ramp/quotes", `{"direction":"withdraw","amount":"10.00","walletId":"$wallet"}`,
			`{"quote":{"id":"$withdrawalQuote","maxFee":"0.05","receive":"9.95"}}`},
		{key, "once POST /api/ramp/withdrawals", `{"quoteId":"$withdrawalQuote"}`,
			`{"withdrawal":{"id":"$withdrawal","status":"created"}}`},
		{key, "until GET /api/ramp/orders/$onramp", ``, `{"order":{"status":"completed","fee":"0.20"}}`},
		{key, "until GET /api/ramp/orders/$offramp", ``, `{"order":{"status":"completed","fee":"0.03"}}`},
		{key, "until GET /api/ramp/orders/$withdrawal", ``,
			`{"order":{"status":"completed","fee":"0.05","txHash":"$sent"}}`},
	}},
	{"Balances in euros and yen, a payment from abroad, and a conversion if it is on", "500.00 euros came in", []call{
		{session, "POST /api/mca/onboarding", ``, ``},
		{session, "POST /api/mca/accounts/EUR", ``, ``},
		{session, "POST /api/mca/accounts/JPY", ``, ``},
		awaitCurrencies("0", "0"),
		{session, "POST /api/dev/mca/simulate-payin", `{"currency":"EUR","amountMinor":"50000","reference":"Demo"}`,
			`202`},
		awaitCurrencies("50000", "0"),
		{key, "if GET /api/mca/accounts", ``, `{"features":{"convert":true}}`},
		{key, "once POST /api/mca/quotes", `{"sellCurrency":"EUR","buyCurrency":"JPY","amountMinor":"10000"}`,
			`201 {"id":"$quote","buy":{"amountMinor":"16253"}}`},
		{key, "once POST /api/mca/conversions", `{"quoteId":"$quote"}`, `202`},
		awaitCurrencies("40000", "16253"),
	}},
	{"The same reads for a model, over the Model Context Protocol", "a tool's answer is that of its route", []call{
		mcp("initialize", `{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"demo","version":"1"}}`,
			`{"result":{"serverInfo":{"name":"purser"}}}`),
		mcp("tools/list", `{}`, `{"result":{"tools":[{"name":"list_agents"}]}}`),
		{key, "GET /api/agents?limit=10", ``, `{"data":[{"id":"$agent"}]}`},
		mcp("tools/call", `{"name":"list_agents","arguments":{"limit":10}}`,
			`{"result":{"content":[{"text":"$answer"}]}}`),
		mcp("tools/call", `{"name":"pay_everybody"}`, `{"error":{"code":-32601}}`),
	}},
	{"The books", "1,013.76 dollars and 43.92 USDC, as the ledger has them", []call{
		awaitDollars(1_013_76),
		{key, "GET /api/treasury", ``, `{"balances":[{"account":"usd","heldCents":0}],` +
			`"snapshot":{"fiatUsdCents":101376,"stablecoinUsdCents":4392},"ledger":[` +
			`{"source":"bank_deposit","amountCents":100000},{"source":"bank_deposit","amountCents":5091},` +
			`{"source":"card_settlement","amountCents":1200},{"source":"card_refund","amountCents":400},` +
			`{"source":"checkout","amountCents":2500},{"source":"ramp_onramp","amountCents":4000},` +
			`{"source":"ramp_onramp","amountCents":3980},{"source":"ramp_offramp","amountCents":1088},` +
			`{"source":"ramp_offramp","amountCents":1085},{"source":"ramp_offramp","amountCents":1000}]}`},
		{key, "GET /api/cards/$grocer", ``, `{"card":{"monthSpendUsdCents":1200}}`},
	}},
}

var atGrocer = at("USD", "Corner Grocer 12", "5411")

func at(currency, merchant, mcc string) string {
	return `"currency":"` + currency + `","merchant":{"name":"` + merchant + `","mcc":"` + mcc + `","country":"US"}`
}

func announceDeposit(cents int) call {
	return call{key, "once POST /api/treasury/deposits",
		fmt.Sprintf(`{"source":"bank_fiat","rail":"fednow","amountUsdCents":%d}`, cents), `202 {"deposit":{"status":"pending"}}`}
}

func awaitDollars(cents int) call {
	return call{key, "until GET /api/treasury", ``,
		fmt.Sprintf(`{"balances":[{"account":"usd","availableCents":%d,"incomingCents":0}]}`, cents)}
}

func awaitCurrencies(euroCents, yen string) call {
	return call{key, "until GET /api/mca/accounts", ``, `{"accounts":[` +
		`{"currency":"EUR","status":"active","balance":{"availableMinor":"` + euroCents + `"}},` +
		`{"currency":"JPY","status":"active","balance":{"availableMinor":"` + yen + `"}}]}`}
}

// mintCard issues a card. It keeps the card's id as $name and its token as $nameToken.
func mintCard(name, rules string) call {
	return call{key, "once POST /api/cards", `{"holderKind":"agent","holderLabel":"Demo ` + name + `",` + rules + `}`,
		`{"card":{"id":"$` + name + `","partnerCardToken":"$` + name + `Token","state":"active"},"fixture":true}`}
}

func approvedSwipe(id, card string, cents int, more, want string) call {
	return swipe("authorizations", id, card, cents, more, `{"decision":"approved","reason":"approved",`+want+`}`)
}

func declinedSwipe(reason, code, id, card string, cents int, more string) call {
	return swipe("authorizations", id, card, cents, more,
		`{"decision":"declined","reason":"`+reason+`","responseCode":"`+code+`","approvedAmountCents":0}`)
}

// swipe is a message of the card network with the id $id: an authorization, a clearing or a refund.
func swipe(route, id, card string, cents int, more, want string) call {
	return call{network, "POST /v1/" + route,
		fmt.Sprintf(`{"id":"$%s","cardToken":"$%sToken","amountCents":%d,%s}`, id, card, cents, more), want}
}

func sendReversal(id, what, want string) call {
	return call{network, "POST /v1/reversals", `{"id":"$` + id + `",` + what + `}`, want}
}

func mcp(method, params, want string) call {
	return call{key, "POST /api/mcp", `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`, want}
}
