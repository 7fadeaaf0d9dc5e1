package dashboard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// pathAPI answers each GET with the document of its path. A path without one is a capability that
// the server does not have.
type pathAPI struct {
	scriptedAPI
	documents map[string]string
}

func (a *pathAPI) Do(op Operation) Answer {
	document, has := a.documents[op.Path]
	switch {
	case !has:
		return Answer{Status: 422, Code: "capability_unavailable"}
	case op.Path == payoutsPath && op.Query["status"] != "held":
		return Answer{Status: 200, Body: []byte(`{}`)}
	}
	return Answer{Status: 200, Body: []byte(document)}
}

// Payouts, wallets and endpoints that wait for a person are counted, each with a link to its list,
// and the other currencies are shown.
func TestHomeShowsWhatWaitsForAPerson(t *testing.T) {
	api := &pathAPI{scriptedAPI: scriptedAPI{may: true}, documents: map[string]string{
		payoutsPath:                  `{"data":[{"id":"po_1","status":"held"},{"id":"po_2","status":"held"}],"nextCursor":"c"}`,
		rampWalletsPath:              `{"data":[{"id":"rw_1","status":"unproven"},{"id":"rw_2","status":"approved"}]}`,
		endpointsPath:                `{"data":[{"id":"whe_1"},{"id":"whe_2"}]}`,
		endpointPath + "/deliveries": `{"data":[{"status":"pending","attempts":[{"statusCode":200},{"statusCode":503}]}]}`,
		currenciesPath:               `{"accounts":[{"currency":"EUR","balance":{"availableMinor":"1050","pendingMinor":"0"}}]}`,
	}}
	v := &visit{Visit: newVisit(api, "GET", "ws_1", nil)}
	waiting, err := waitingFor(v)
	require.NoError(t, err)
	require.Equal(t, []Stat{
		{Name: "Payouts to release", Note: payoutMeaning("held"), Icon: "clock", Count: 2, Uncounted: true,
			Value: "2 or more", Href: v.addressOf("payouts") + "?status=held"},
		{Name: "Wallets to prove", Icon: "key", Count: 1,
			Note:  "Sign the challenge of a wallet before USDC can leave to it.",
			Value: "1", Href: v.addressOf("wallets")},
		{Name: "Failing webhook endpoints", Icon: "alert", Count: 2, Note: "The newest delivery got no 2xx answer.",
			Value: "2", Href: v.addressOf("webhooks")},
	}, waiting[0].Waits.Items)
	others, err := currencyStats(v)
	require.NoError(t, err)
	require.Equal(t, []Stat{{Name: "Euro", Value: "€10.50", Href: v.addressOf("currencies", "EUR")}}, others[0].Strip)
	delete(api.documents, rampWalletsPath)
	delete(api.documents, currenciesPath)
	api.documents[endpointPath+"/deliveries"] = `{"data":[{"status":"pending","attempts":[{"statusCode":503},{"statusCode":204}]}]}`
	v.waits = nil
	waiting, err = waitingFor(v)
	require.NoError(t, err)
	require.Len(t, waiting[0].Waits.Items, 1)
	others, err = currencyStats(v)
	require.NoError(t, err)
	require.Empty(t, others)
}
