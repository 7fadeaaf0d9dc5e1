package httpapi

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/workspace"
	"purser/authorizer/hold"
)

// swipedCard returns the address of a workspace's pages, a card and an approved swipe of 10
// dollars.
func (w *world) swipedCard(tn tenant) (home, card, swipe string) {
	w.t.Helper()
	w.fund(tn, 100_000)
	card = w.mint(tn, "").text("card", "id")
	swipe = w.ok(w.post(tn.all, "/api/dev/cards/"+card+"/simulate/authorization",
		`{"amountCents":1000,"currency":"USD","merchant":{"name":"Cafe","mcc":"5812"}}`)).text("authorizationId")
	return "/dashboard/" + tn.workspace, card, swipe
}

// The page of a swipe sends each message of the network, and shows the life of the swipe after it.
func TestASwipesPageShowsItsLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	home, card, swipe := w.swipedCard(tn)
	address, n := home+"/swipes/"+swipe, 0
	send := func(name, amount string) string {
		n++
		sent := w.visit(session(tn.cookie), address+"/"+name, url.Values{"key": {newUUID(n)},
			"amountCents": {amount}})
		require.Equal(t, 303, sent.status, sent.text)
		return w.visit(session(tn.cookie), sent.location, nil).text
	}
	steps := func(page string) (all []string) {
		list := page[strings.Index(page, `<ol class="steps">`):strings.Index(page, "</ol>")]
		for _, item := range strings.Split(list, "<p><span>")[1:] {
			line, _, _ := strings.Cut(item, "</p>")
			line = strings.TrimSuffix(strings.ReplaceAll(line, `</span> <span class="number">`, " "), "</span>")
			all = append(all, strings.ReplaceAll(line, "&#43;", "+"))
		}
		return all
	}
	page := w.visit(session(tn.cookie), address, nil)
	require.Equal(t, 200, page.status, page.text)
	require.Contains(t, page.text, "fits its limits and the balance.")
	require.Contains(t, page.text, "00 Approved")
	require.Contains(t, page.text, `href="`+home+"/cards/"+card+`"`)
	require.Contains(t, page.text, `<span class="k">&#34;networkId&#34;</span>: <span class="s">&#34;sim-`)
	require.Equal(t, []string{"Authorized $10.00", "Still held $10.00"}, steps(page.text))
	incremented := send("increment", "5.00")
	require.Contains(t, incremented, "The swipe is incremented.")
	require.Equal(t, []string{"Authorized $10.00", "Incremented +$5.00", "Still held $15.00"}, steps(incremented))
	declined := send("increment", "5000.00")
	require.Contains(t, declined,
		"The increment was declined. The amount is above the card&#39;s limit of one transaction.")
	require.Equal(t, steps(incremented), steps(declined))
	require.Equal(t, []string{"Authorized $10.00", "Incremented +$5.00", "Cleared in part −$4.00",
		"Still held $11.00"},
		steps(send("clear-part", "4")))
	require.Equal(t, []string{"Authorized $10.00", "Incremented +$5.00", "Cleared −$15.00"}, steps(send("clear", "")))
	refunded := send("refund", "2.50")
	require.Equal(t, []string{"Authorized $10.00", "Incremented +$5.00", "Cleared −$15.00", "Refunded +$2.50"},
		steps(refunded))
	require.NotContains(t, refunded, `action="`+address+`/clear`, "nothing is held")
	require.Contains(t, refunded, `action="`+address+`/refund`)

	for name, last := range map[string]string{"reverse": "Reversed", "expire": "Expired"} {
		_, _, swipe = w.swipedCard(tn)
		address = home + "/swipes/" + swipe
		require.Equal(t, []string{"Authorized $10.00", last}, steps(send(name, "")))
	}
}

func TestASimulationThatIsSentTwiceActsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	home, card, swipe := w.swipedCard(tn)
	form := url.Values{"key": {newUUID(1)}, "amountCents": {"3"}, "merchant": {"Cafe"}, "mcc": {"5812"}}
	for range 2 {
		require.Equal(t, 303, w.visit(session(tn.cookie), home+"/cards/"+card+"/swipe", form).status)
	}
	require.Len(t, w.ok(w.get(tn.all, "/api/authorizations")).at("data"), 2, "one of them is the form's")
	form.Set("key", newUUID(2))
	for range 2 {
		require.Equal(t, 303, w.visit(session(tn.cookie), home+"/swipes/"+swipe+"/clear-part", form).status)
	}
	require.Equal(t, 300, w.ok(w.get(tn.all, "/api/authorizations/"+swipe)).cents("authorization", "clearedCents"))
}

// The filters of the list are the parameters of the interface, and a person's dollars become cents.
func TestTheListOfSwipesFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	home, card, swipe := w.swipedCard(tn)
	entered := w.visit(session(tn.cookie),
		home+"/swipes?decision=&amountFrom=$9.99&amountTo=&merchant=ca&cursor=x", nil)
	require.Equal(t, 303, entered.status, entered.text)
	require.Equal(t, home+"/swipes?amountFromCents=999&merchant=ca", entered.location)
	day := w.clock.now().Format(time.DateOnly)
	for query, shown := range map[string]bool{"amountFromCents=999&merchant=ca": true, "amountFromCents=1001": false,
		"amountToCents=999": false, "reason=approved": true, "reason=timeout": false,
		"from=" + day + "&to=" + day: true,
		"merchant=b":                 false, "cardId=" + card: true, "decision=declined": false} {
		page := w.visit(session(tn.cookie), home+"/swipes?"+query, nil)
		require.Equal(t, 200, page.status, page.text)
		require.Equal(t, shown, strings.Contains(page.text, `href="`+home+"/swipes/"+swipe+`"`), query)
		require.Equal(t, !shown, strings.Contains(page.text, "No swipe matches."), query)
	}
	require.Regexp(t, `Card: [^<]+ ··\x{a0}\d{4}</summary>`, w.visit(session(tn.cookie), home+"/swipes?cardId="+card,
		nil).text)
	filled := w.visit(session(tn.cookie), home+"/swipes?amountFromCents=999&from="+day+"&reason=approved", nil).text
	for _, field := range []string{`value="9.99"`, `type="date" value="` + day + `"`,
		`<option value="approved" selected>`} {
		require.Contains(t, filled, field)
	}
	require.Contains(t, w.visit(session(tn.cookie), home+"/swipes?from=2026-11-20T12:00:00Z", nil).text,
		`type="text" value="2026-11-20T12:00:00Z"`)
}

// A member has no scope of cards: the member reads no swipe, and has no entry of swipes.
func TestAMemberReadsNoSwipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	home, _, swipe := w.swipedCard(tn)
	_, cookie := w.person(tn, workspace.Member)
	for _, address := range []string{home + "/swipes", home + "/swipes/" + swipe} {
		require.Equal(t, 403, w.visit(session(cookie), address, nil).status, address)
	}
	require.NotContains(t, w.visit(session(cookie), home, nil).text, `href="`+home+"/swipes")
}

// The pages offer and explain every reason that an authorization can have, in the words of the
// guide.
func TestThePagesKnowEveryReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	page := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/swipes", nil).text
	offered := attributesOf(w.parsePage(page), "option", "value")
	guide, err := os.ReadFile("docs/cards-and-decisions.md")
	require.NoError(t, err)
	_, _, swipe := w.swipedCard(tn)
	for r := hold.ReasonApproved; r <= hold.ReasonForcedPost; r++ {
		require.True(t, slices.Contains(offered, r.String()), r.String())
		_, row, _ := strings.Cut(string(guide), "| `"+r.String()+"` | `"+r.ResponseCode(false)+"` | ")
		says, _, _ := strings.Cut(strings.ReplaceAll(row, "`", ""), ".")
		address := "/dashboard/" + tn.workspace + "/swipes/" + swipe + "?sent=increment&declined=" + r.String()
		declined := strings.ReplaceAll(w.visit(session(tn.cookie), address, nil).text, "&#39;", "'")
		require.Contains(t, declined, "The increment was declined. "+says, r.String())
	}
}
