package dashboard

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence/money"
)

// scriptedAPI answers every operation with one answer, and records the operations.
type scriptedAPI struct {
	answer   Answer
	may      bool
	operated []Operation
}

func (a *scriptedAPI) Do(op Operation) Answer {
	a.operated = append(a.operated, op)
	if op.Method == "GET" {
		return Answer{Status: 200, Body: []byte(`{}`)}
	}
	return a.answer
}
func (a *scriptedAPI) May(string, string) bool { return a.may }
func (a *scriptedAPI) NewKey() (string, error) { return "00000000-0000-4000-8000-000000000001", nil }

func newVisit(api API, method, path string, form url.Values) *Visit {
	return &Visit{Method: method, Path: path, Query: url.Values{}, Form: form, API: api, Email: "ada@example.com",
		Workspace: "ws_1", Name: "Ada", Role: "owner", Sandbox: true, Now: time.Unix(0, 0)}
}

func newSite(t *testing.T) *Site {
	t.Helper()
	s, err := New()
	require.NoError(t, err)
	return s
}

func TestDollarsAreReadAsCents(t *testing.T) {
	for text, want := range map[string]money.Cents{"12": 1200, "12.5": 1250, "12.50": 1250,
		"$1,234.56": 123456, "1,234,567": 123456700, " 0.01 ": 1,
		"999999999999.99": 99999999999999} {
		cents, err := parseDollars(text)
		require.NoError(t, err, text)
		require.Equal(t, want, cents, text)
		if again, err := parseDollars(asEntered(cents)); err != nil || again != cents {
			t.Fatalf("%s is entered as %s", text, asEntered(cents))
		}
	}
	for _, text := range []string{"", ".5", "-1", "+1", "1.234", "1e3", "one", "1.2.3", "9999999999999",
		"0x1", "1 2", "٣", "12,50", ",123", "1,23", "1,2345", "1234,567", "1,,234", "1,234,5", "0,250", "00,250"} {
		_, err := parseDollars(text)
		require.Error(t, err, text)
		if strings.Contains(text, ",") {
			_, err = parseAmount(text, "EUR", "amountMinor")
			require.Error(t, err, text)
		}
	}
}

func FuzzDollarsAreReadAsCents(f *testing.F) {
	for _, text := range []string{"12.50", "$1,234.5", "", "-1", "99999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cents, err := parseDollars(text)
		if err != nil {
			return
		}
		again, err := parseDollars(asEntered(cents))
		require.NoError(t, err)
		require.Equal(t, cents, again)
		require.GreaterOrEqual(t, cents, money.Cents(0))
	})
}

// A value that is not of its field's kind draws the page again with the sent values, and runs
// nothing.
func TestAWrongValueNamesItsField(t *testing.T) {
	api := &scriptedAPI{may: true}
	r, err := newSite(t).Serve(newVisit(api, "POST", "ws_1/recipients/rcp_1/pay", url.Values{"amountCents": {"ten"},
		"rail": {"wire"}, "description": {"Rent"}}))
	require.NoError(t, err)
	require.Equal(t, 422, r.Status)
	for _, op := range api.operated {
		require.Equal(t, "GET", op.Method)
	}
	api = &scriptedAPI{may: true}
	r, err = newSite(t).Serve(newVisit(api, "POST", "ws_1/cards/mint", url.Values{"monthlyLimitUsdCents": {"ten"},
		"holderLabel": {"Kept"}}))
	require.NoError(t, err)
	require.Equal(t, 422, r.Status)
	require.Contains(t, string(r.Body), "Monthly limit must be an amount in dollars and cents")
	require.Contains(t, string(r.Body), `value="Kept"`)
	require.Contains(t, string(r.Body), `aria-invalid="true"`)
}

// A refusal of the operation stands beside the field that it names.
func TestARefusalStandsBesideItsField(t *testing.T) {
	api := &scriptedAPI{may: true, answer: Answer{Status: 400, Code: "invalid_body",
		Message: "holderLabel is too long"}}
	r, err := newSite(t).Serve(newVisit(api, "POST", "ws_1/cards/mint", url.Values{"monthlyLimitUsdCents": {"5"},
		"perTxnLimitUsdCents": {"5"}, "holderLabel": {"x"}}))
	require.NoError(t, err)
	require.Equal(t, 400, r.Status)
	require.Contains(t, string(r.Body), `id="f-holderLabel-problem">Label is too long`)
}

// A form whose outcome is not known keeps its key and its values, so that a person can send it
// again.
func TestAFormOfUnknownOutcomeKeepsItsKey(t *testing.T) {
	for _, answer := range []Answer{{Status: 500, Code: "outcome_unknown"}, {Status: 503, Code: "unavailable"},
		{Status: 429, Code: "rate_limited", Wait: time.Second}} {
		api := &scriptedAPI{may: true, answer: answer}
		r, err := newSite(t).Serve(newVisit(api, "POST", "ws_1/recipients/rcp_1/pay", url.Values{"amountCents": {"10"},
			"rail": {"ach"}, "description": {"Rent for May"}, "key": {"00000000-0000-4000-8000-00000000000f"}}))
		require.NoError(t, err)
		require.Equal(t, answer.Status, r.Status)
		require.Equal(t, answer.Wait, r.Wait)
		require.Contains(t, string(r.Body), `name="key" value="00000000-0000-4000-8000-00000000000f"`)
		require.Contains(t, string(r.Body), "Rent for May")
		require.Contains(t, string(r.Body), "it acts once")
	}
}

func TestListsAreSplitAndTrimmed(t *testing.T) {
	require.Equal(t, []string{"USDC", "USDT"}, splitTexts(" USDC, USDT,,\r\n", ",\n\r"))
	require.Equal(t, []string{"Acme, Inc."}, splitTexts("Acme, Inc.\n\n", "\n\r"))
	require.Empty(t, splitTexts(",,,", ","))
}

// The key of a form is the Idempotency-Key of its operation, and ids come from the address alone.
func TestAFormRunsItsOperation(t *testing.T) {
	api := &scriptedAPI{may: true, answer: Answer{Status: 200, Body: []byte(`{"payout":{"id":"po_1"}}`)}}
	r, err := newSite(t).Serve(newVisit(api, "POST", "ws_1/recipients/rcp_1/pay", url.Values{"amountCents": {"10"},
		"rail": {"ach"}, "key": {"k"}, "description": {"d"}, "id": {"rcp_2"}, "counterpartyId": {"rcp_2"}}))
	require.NoError(t, err)
	require.Equal(t, Response{Status: 303, Location: "/dashboard/ws_1/payouts/po_1"}, r)
	require.Equal(t, []Operation{{Method: "POST", Path: payoutsPath, Params: map[string]string{"id": "rcp_1"},
		Query: map[string]string{}, Key: "k",
		Body: map[string]any{"amountCents": money.Cents(1000), "rail": "ach", "description": "d",
			"counterpartyId": "rcp_1"}}},
		api.operated)
}

// A page stays below 60 KB also with its longest list.
func TestAListOfFiftyRowsIsBelow60KB(t *testing.T) {
	s := newSite(t)
	var list authorizationList
	for range 50 {
		a := authorization{ID: "auth_01m7wd7tg0fvr98017q1dstnb4", Decision: "declined", Reason: "per_transaction_limit_exceeded",
			ResponseCode: "61", Status: "declined", AmountCents: 1 << 40, At: time.Unix(1e9, 0)}
		a.Merchant.Name = strings.Repeat("m", 80)
		list.Data = append(list.Data, a)
	}
	v := &visit{Visit: newVisit(&scriptedAPI{may: true}, "GET", "ws_1/swipes", nil), page: &page{}}
	table, err := swipeTable(v, list.Data, nil, "Swipes", false)
	require.NoError(t, err)
	for i := range table.Rows {
		table.Rows[i] = append(table.Rows[i], linkCell(strings.Repeat("c", 60), v.addressOf("cards",
			"card_01m7wd7tg0ewcaydxa69av0j61")))
	}
	table.Columns = append(table.Columns, Column{Name: "Card", Role: roleSecond})
	r, err := s.renderView(v, 200, &View{Title: "Swipes", Blocks: []Block{{Table: table}}})
	require.NoError(t, err)
	require.Less(t, len(r.Body), 60<<10)
}

// recordAPI answers every GET with one document.
type recordAPI struct {
	scriptedAPI
	document string
}

func (a *recordAPI) Do(Operation) Answer { return Answer{Status: 200, Body: []byte(a.document)} }

// The body of a delivery and its errors are of a customer or a receiver. They are shown as text.
func TestADeliveryIsShownAsText(t *testing.T) {
	api := &recordAPI{document: `{"delivery":{"id":"whd_1","endpointId":"whe_1","event":"<b>x</b>","status":"failed",
		"failure":"gave_up","payload":{"description":"<script>alert(1)</script>"},
		"attempts":[{"at":"2026-11-20T12:00:00Z","statusCode":null,"error":"<i>dns</i>","durationMs":7},
			{"at":"2026-11-20T13:00:00Z","statusCode":503,"error":null,"durationMs":9}]}}`}
	r, err := newSite(t).Serve(newVisit(api, "GET", "ws_1/webhooks/deliveries/whd_1", nil))
	require.NoError(t, err)
	require.Equal(t, 200, r.Status)
	page := string(r.Body)
	for _, raw := range []string{"<b>x", "<script>alert", "<i>dns"} {
		require.NotContains(t, page, raw)
	}
	require.Contains(t, page, "&lt;script&gt;alert(1)&lt;/script&gt;")
	require.Less(t, strings.Index(page, "503 Service Unavailable"), strings.Index(page, "&lt;i&gt;dns"), "newest first")
}

// A record of the most attempts keeps its page below 60 KB.
func TestADeliveryOfManyAttemptsIsBelow60KB(t *testing.T) {
	table := attemptTable(make([]attempt, 400))
	require.Len(t, table.Rows, maxShownAttempts)
	require.Contains(t, table.Caption, "400")
}

// The lists of cards and agents stay below 60 KB too, with the longest texts and a button in each
// row.
func TestListsWithButtonsAreBelow60KB(t *testing.T) {
	s, long := newSite(t), strings.Repeat("ü", 200)
	var cards, agents []map[string]any
	for range rowsWithButton {
		cards = append(cards, map[string]any{"id": "card_01m7wd7tg0ewcaydxa69av0j61", "holderLabel": long[:2*60],
			"last4": "1234", "state": "active", "monthlyLimitUsdCents": 1 << 40, "monthSpendUsdCents": 1 << 39,
			"perTxnLimitUsdCents": 1 << 40, "createdAt": time.Unix(1e9, 0)})
		agents = append(agents, map[string]any{"id": "agt_01kagj5fkve16r6sydcvyx2dnv", "agentName": long[:2*80],
			"description": long, "state": "active", "protocols": []string{"TAP", "MPP", "ACP"},
			"createdAt": time.Unix(1e9, 0)})
	}
	for path, list := range map[string][]map[string]any{"cards": cards, "agents": agents} {
		document, err := json.Marshal(map[string]any{"data": list, "nextCursor": strings.Repeat("c", 24)})
		require.NoError(t, err)
		v := newVisit(&recordAPI{scriptedAPI{may: true}, string(document)}, "GET", "ws_01m7wd7tg0e0ga3pznwcsgs1ay/"+path,
			nil)
		v.Workspace = "ws_01m7wd7tg0e0ga3pznwcsgs1ay"
		r, err := s.Serve(v)
		require.NoError(t, err)
		require.Equal(t, 200, r.Status)
		require.Less(t, len(r.Body), 60<<10, path)
	}
}

func TestAmountsAndDaysForPeople(t *testing.T) {
	for amount, want := range map[string]string{"0.05 EUR": "€0.05", "999 JPY": "¥999", "1000 JPY": "¥1,000",
		"-1234567.50 EUR": "−€1,234,567.50", "1234.500 KWD": "1,234.500 KWD", "": ""} {
		require.Equal(t, want, grouped(amount))
	}
	require.Equal(t, "7 Dec 2026", dayCell("2026-12-07").Text)
	require.Equal(t, "soon", dayCell("soon").Text)
}
