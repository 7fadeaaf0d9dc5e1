package httpapi

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/partner/sandbox"
	"purser/actors/workspace"
)

// The list of links is narrowed by state, reference and time, in pages, and shows nothing of
// others.
func TestTheListOfLinksIsFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.newTenant("mine"), w.newTenant("other")
	w.newCheckout(other, `,"merchantReference":"order-1"`)
	var made []string
	for i := range 5 {
		made = append(made, w.newCheckout(tn, fmt.Sprintf(`,"merchantReference":"order-%d"`, i%2)).text("session", "id"))
		w.clock.turn(time.Minute)
	}
	w.pick(made[3], "USDC", "base")
	ids := func(query string) (listed []string) {
		for cursor := ""; ; {
			page := w.ok(w.get(tn.all, checkoutPath+"?limit=2"+query+cursor))
			for i := range page.at("data").([]any) {
				listed = append(listed, page.text("data", i, "id"))
			}
			if page.text("nextCursor") == "" {
				return listed
			}
			cursor = "&cursor=" + page.text("nextCursor")
		}
	}
	require.Equal(t, []string{made[4], made[3], made[2], made[1], made[0]}, ids(""))
	require.Equal(t, []string{made[3], made[1]}, ids("&reference=order-1"))
	require.Equal(t, []string{made[3]}, ids("&status=awaiting_payment&reference=order-1"))
	require.Equal(t, []string{made[1], made[0]}, ids("&to=2026-11-20T12:02:00Z"))
	require.Equal(t, []string{made[4]}, ids("&from=2026-11-20T12:04:00Z"))
	require.Empty(t, ids("&reference=order"))
	w.clock.turn(time.Hour)
	require.Len(t, ids("&status=expired"), 5, "as they are shown, at the time of the request")
	w.fails(w.get(tn.all, checkoutPath+"?status=paid"), 400, "invalid_query")
}

// The page leads to the links beyond the first 50.
func TestThePageOfLinksHasOlderOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	oldest := w.newCheckout(tn, `,"merchantReference":"first"`).text("session", "id")
	for range defaultLimit {
		w.newCheckout(tn, "")
	}
	address := "/dashboard/" + tn.workspace + "/checkout"
	first := w.visit(session(tn.cookie), address, nil).text
	require.NotContains(t, first, oldest)
	older := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(first)
	require.NotNil(t, older, first)
	require.Contains(t, w.visit(session(tn.cookie), older[1], nil).text, oldest)
	found := w.visit(session(tn.cookie), address+"?reference=first&status=pending", nil).text
	require.Contains(t, found, oldest)
	require.Contains(t, found, `value="first"`)
	moved := w.visit(session(tn.cookie), address+"?amountFrom=25.01&amountTo=30&status=pending", nil)
	require.Equal(t, address+"?amountFromCents=2501&amountToCents=3000&status=pending", moved.location)
	require.Contains(t, w.visit(session(tn.cookie), moved.location, nil).text, "Nothing matches.")
	exact := w.visit(session(tn.cookie), address+"?amountFromCents=2500&amountToCents=2500", nil).text
	require.Contains(t, exact, "Amount: $25.00")
	require.Contains(t, exact, "/checkout/cs_")
}

// The page of a live link shows each payment with its explorer, and advises on the refund.
func TestThePageOfALinkSaysWhatToGiveBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Live})
	id := w.newCheckout(tn, `,"acceptedChains":["polygon"]`).text("session", "id")
	w.pick(id, "USDC", "polygon")
	w.payOnChain(id, "USDC", "30000000")
	w.clock.turn(2 * time.Minute)
	w.awaitText(id, "Payment complete")
	shown := w.ok(w.get(tn.all, checkoutPath+"/"+id))
	require.Equal(t, "30", shown.text("session", "payments", 0, "coins"))
	explorer := "https://polygonscan.com/tx/" + shown.text("session", "txHash")
	require.Equal(t, explorer, shown.text("session", "payments", 0, "explorerUrl"))
	page := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/checkout/"+id, nil).text
	require.Contains(t, page, `<a href="`+explorer+`"`)
	require.Contains(t, page, "30 USDC")
	require.Contains(t, page, "The customer paid $5.00 more than the link asked.")
	require.Contains(t, page, id+"/receipt")
	require.NotContains(t, page, "/cancel\"")
}

// A payment after the end of a link is shown with the advice to give it back.
func TestThePageOfALinkShowsALatePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	made := w.newCheckout(tn, `,"acceptedChains":["polygon"]`)
	id := made.text("session", "id")
	w.pick(id, "USDC", "polygon")
	w.clock.turn(31 * time.Minute)
	_, err := w.chains.Chain("polygon").Pay(t.Context(), "late", "0xpayer", sandbox.ChainPayment{Asset: "USDC",
		Address: made.text("session", "receivingAddresses", 0, "address"), Amount: "25000000"})
	require.NoError(t, err)
	w.clock.turn(time.Minute)
	address := "/dashboard/" + tn.workspace + "/checkout/" + id
	w.awaitCondition(func() bool {
		return len(w.ok(w.get(tn.all, checkoutPath+"/"+id)).at("session", "payments").([]any)) > 0
	})
	page := w.visit(session(tn.cookie), address, nil).text
	require.Contains(t, page, "25 USDC on Polygon came after the link had ended and is not credited.")
	require.Contains(t, page, "Does not count: too late")
}
