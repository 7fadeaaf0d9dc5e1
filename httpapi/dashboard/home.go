package dashboard

import (
	"net/url"
	"strconv"

	"purser/httpapi/web"
)

// homePages is the first page of a workspace.
func homePages() []page {
	return []page{{path: "", access: member, section: "Home", show: showHome, actions: []action{
		{name: "deposit", method: "POST", path: "/api/treasury/deposits",
			submit: "Add $1,000 of test dollars", sandbox: true,
			done:  "A deposit of $1,000 is on its way. It arrives in about two seconds.",
			fixed: map[string]any{"source": "bank_fiat", "rail": "fednow", "amountUsdCents": 100_000}},
		mintAction("Shopping agent"),
	}}}
}

// showHome shows the dollars, the items that wait for a person, the other currencies and the newest
// swipes.
func showHome(v *visit) (*View, error) {
	dollarsHeld, err := readTreasury(v)
	if err != nil {
		return nil, err
	}
	view := &View{Title: "Home", Ways: homeWays(v), Live: true, Blocks: []Block{{Stats: dollarsHeld.dollarStats(v)}}}
	var cards cardList
	if v.API.May("GET", "/api/cards") {
		if err := v.readInto(&cards, "/api/cards", "limit", "1"); err != nil {
			return nil, err
		}
	}
	first, err := firstSteps(v, dollarsHeld, len(cards.Data) > 0)
	if err != nil {
		return nil, err
	}
	view.Blocks = append(view.Blocks, first...)
	for _, part := range []func(*visit) ([]Block, error){waitingFor, currencyStats, dailySpend} {
		blocks, err := part(v)
		if err != nil {
			return nil, err
		}
		view.Blocks = append(view.Blocks, blocks...)
	}
	swipes, err := recentSwipes(v)
	view.Blocks = append(view.Blocks, swipes...)
	return view, err
}

// homeWays leads to what the role may begin: paying somebody, and a new card.
func homeWays(v *visit) (ways []Link) {
	for _, way := range []struct{ path, text, list string }{
		{"/api/treasury/payouts", "Pay someone", "recipients"}, {"/api/cards", "New card", "cards"},
	} {
		if v.API.May("POST", way.path) {
			ways = append(ways, Link{way.text, v.addressOf(way.list)})
		}
	}
	return ways
}

// firstSteps offers a new sandbox workspace its test dollars and its first card.
func firstSteps(v *visit, t *treasury, hasCard bool) ([]Block, error) {
	switch {
	case !v.Sandbox || t.hasMoved() && hasCard:
		return nil, nil
	case !t.hasMoved():
		blocks, err := v.drawButtons("deposit")
		if len(blocks) > 0 {
			blocks[0].Heading = "First: dollars to spend"
		}
		return blocks, err
	}
	blocks, err := v.drawForms("mint")
	if len(blocks) > 0 {
		blocks[0].Heading = "Next: a card to swipe"
	}
	return blocks, err
}

// authorizationTotals is the answer of GET /api/authorizations/totals.
type authorizationTotals struct {
	Approved, Declined int
	Reasons            []struct {
		Reason string
		Count  int
	}
	Complete bool
}

// recentSwipes counts the swipes of the last day, the declined ones by reason, and shows the
// newest.
func recentSwipes(v *visit) ([]Block, error) {
	if !v.API.May("GET", authorizationsPath) {
		return nil, nil
	}
	var totals authorizationTotals
	if err := v.readInto(&totals, totalsPath); err != nil {
		return nil, err
	}
	var list authorizationList
	if err := v.readInto(&list, authorizationsPath, "limit", "5"); err != nil {
		return nil, err
	}
	day := Block{Heading: "Swipes of the last day", Stats: []Stat{
		{Name: "Approved", Value: strconv.Itoa(totals.Approved), Href: v.addressOf("swipes") + "?decision=approved"},
		{Name: "Declined", Value: strconv.Itoa(totals.Declined), Href: v.addressOf("swipes") + "?decision=declined"}}}
	if !totals.Complete {
		day.Text = "Among the newest " + strconv.Itoa(totals.Approved+totals.Declined) + " swipes."
	}
	var bars []Bar
	for _, r := range totals.Reasons {
		bars = append(bars, Bar{Name: inWords(r.Reason), Count: r.Count,
			Href: v.addressOf("swipes") + "?decision=declined&reason=" + url.QueryEscape(r.Reason)})
	}
	return []Block{day, {Bars: newBars("Declined, by reason", "No swipe was declined.", bars)},
		{Table: swipeTable(v, list.Data, "Newest swipes")}}, nil
}

// dollarStats are the figures of the dollar balance.
func (t *treasury) dollarStats(v *visit) []Stat {
	b := t.dollarAccount()
	return []Stat{
		{Name: "Dollars available", Value: web.Dollars(b.AvailableCents), Href: v.addressOf("treasury"), Total: true},
		{Name: "Held for swipes and payouts", Value: web.Dollars(b.HeldCents)},
		{Name: "Incoming deposits", Value: web.Dollars(b.IncomingCents)},
		{Name: "Spent on cards this month", Value: web.Dollars(t.Snapshot.MonthSpendUsdCents)},
	}
}
