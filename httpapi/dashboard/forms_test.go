package dashboard

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sendForm sends a form of a page whose operation gives an answer.
func sendForm(t *testing.T, path string, answer Answer, form url.Values) (status int, page string) {
	t.Helper()
	r, err := newSite(t).Serve(newVisit(&scriptedAPI{may: true, answer: answer}, "POST", path, form))
	require.NoError(t, err)
	return r.Status, string(r.Body)
}

// Every value that is not of its field's kind is named at once, each beside its field, and the
// focus is on the first of them.
func TestAllFaultsOfAFormAreShownAtOnce(t *testing.T) {
	status, page := sendForm(t, "ws_1/cards/mint", Answer{}, url.Values{"monthlyLimitUsdCents": {"ten"},
		"perTxnLimitUsdCents": {""}, "holderLabel": {"Kept"}})
	require.Equal(t, 422, status)
	require.Contains(t, page, `id="f-monthlyLimitUsdCents-problem">Monthly limit must be an amount in dollars`)
	require.Contains(t, page, `id="f-perTxnLimitUsdCents-problem">Limit of one swipe is required.`)
	require.Equal(t, 1, strings.Count(page, " autofocus"))
	require.Contains(t, fieldOf(page, "monthlyLimitUsdCents"), " autofocus")
}

// The reasons of an operation stand beside their fields in the words of the page, and the focus is
// on the first field of the form that one names, whatever their order.
func TestTheReasonsOfAnOperationNameLabelsAndDollars(t *testing.T) {
	form := url.Values{"monthlyLimitUsdCents": {"5"}, "perTxnLimitUsdCents": {"5"}, "holderLabel": {"x"}}
	for reason, shown := range map[string]map[string]string{
		"holderLabel must have at most 60 characters; monthlyLimitUsdCents must be at most 1000000000000": {
			"holderLabel":          "Label must have at most 60 characters",
			"monthlyLimitUsdCents": "Monthly limit must be at most $10,000,000,000.00"},
		"perTxnLimitUsdCents: 1 to 250000": {
			"perTxnLimitUsdCents": "Limit of one swipe must be from $0.01 to $2,500.00"},
		"perTxnLimitUsdCents must not exceed monthlyLimitUsdCents": {
			"perTxnLimitUsdCents": "Limit of one swipe must not exceed Monthly limit"},
	} {
		status, page := sendForm(t, "ws_1/cards/mint", Answer{Status: 400, Code: "invalid_body", Message: reason}, form)
		require.Equal(t, 400, status)
		for name, text := range shown {
			require.Contains(t, page, `id="f-`+name+`-problem">`+text+"<", reason)
		}
		require.NotContains(t, page, "UsdCents must")
		require.Equal(t, 1, strings.Count(page, " autofocus"), reason)
	}
	_, page := sendForm(t, "ws_1/cards/mint", Answer{Status: 400, Code: "invalid_body",
		Message: "perTxnLimitUsdCents must be at least 1; monthlyLimitUsdCents must be at least 1"}, form)
	require.Contains(t, fieldOf(page, "monthlyLimitUsdCents"), " autofocus")
}

// A reason about the whole form has its cents in dollars too.
func TestCentsInAReasonAreShownInDollars(t *testing.T) {
	_, page := sendForm(t, "ws_1/recipients/rcp_1/pay", Answer{Status: 422, Code: "limit_exceeded",
		Message: "one key or person pays out at most 25000000 cents a day; 12 cents are left today"},
		url.Values{"amountCents": {"300000"}, "rail": {"wire"}, "description": {"Rent"}})
	require.Contains(t, page, "One key or person pays out at most $250,000.00 a day; $0.12 are left today")
}

// A choice and a group of checks at fault are marked and named like any other field.
func TestAChoiceAtFaultHasTheFocus(t *testing.T) {
	_, page := sendForm(t, "ws_1/cards/mint", Answer{Status: 400, Code: "invalid_body",
		Message: "holderKind must be one of agent, human"}, url.Values{"monthlyLimitUsdCents": {"5"},
		"perTxnLimitUsdCents": {"5"}, "holderLabel": {"x"}, "holderKind": {"robot"}})
	require.Contains(t, fieldOf(page, "holderKind"), ` aria-invalid="true"`)
	require.Contains(t, fieldOf(page, "holderKind"), " autofocus")
	_, page = sendForm(t, "ws_1/webhooks/create", Answer{}, url.Values{"url": {"https://hooks.example.com"}})
	require.Contains(t, page, "Events need at least one choice.")
	require.Equal(t, 1, strings.Count(page, " autofocus"))
	require.Contains(t, fieldOf(page, "events"), " autofocus")
}

// fieldOf returns the tag of the first element with a name in a form that posts.
func fieldOf(page, name string) string {
	_, forms, _ := strings.Cut(page, " novalidate")
	_, rest, _ := strings.Cut(forms, ` name="`+name+`"`)
	tag, _, _ := strings.Cut(rest, ">")
	return tag
}
