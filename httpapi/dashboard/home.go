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
	if view.Blocks, err = appendParts(view.Blocks, v, currencyStats); err != nil {
		return nil, err
	}
	main, err := appendParts(nil, v, dailySpend, newestSwipes)
	if err != nil {
		return nil, err
	}
	aside, err := appendParts(nil, v, waitingFor, declines)
	if err != nil || len(main) == 0 && len(aside) == 0 {
		return view, err
	}
	// The chart stands beside the waiting list, and the swipes beside the reasons of declines.
	for len(main) > 1 && len(aside) > 0 {
		view.Blocks = append(view.Blocks, Block{Columns: &Columns{AsideMain, aside[:1], main[:1]}})
		main, aside = main[1:], aside[1:]
	}
	layout := Block{Columns: &Columns{MainSide, main, aside}}
	if len(view.Blocks) == 1 || len(aside) > 1 {
		layout.Columns = &Columns{AsideMain, aside, main}
	}
	view.Blocks = append(view.Blocks, layout)
	return view, nil
}

// appendParts appends the blocks of parts of a page.
func appendParts(blocks []Block, v *visit, parts ...func(*visit) ([]Block, error)) ([]Block, error) {
	for _, part := range parts {
		more, err := part(v)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, more...)
	}
	return blocks, nil
}

// homeWays leads to what the role may begin: adding dollars, paying somebody, and a new card.
func homeWays(v *visit) (ways []Way) {
	for _, way := range []struct{ method, path, text, list, icon string }{
		{"POST", "/api/treasury/deposits", "Add dollars", "treasury", "in"},
		{"POST", "/api/treasury/payouts", "Pay someone", "recipients", "out"}, {"POST", "/api/cards", "New card",
			"cards", "plus"},
	} {
		if v.API.May(way.method, way.path) && (way.icon != "in" || v.Sandbox) {
			ways = append(ways, Way{Link: Link{way.text, v.addressOf(way.list)}, Icon: way.icon,
				Primary: way.list == "cards"})
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

// declines counts the declined swipes of the last day by reason.
func declines(v *visit) ([]Block, error) {
	if !v.API.May("GET", authorizationsPath) {
		return nil, nil
	}
	var totals authorizationTotals
	if err := v.readInto(&totals, totalsPath); err != nil {
		return nil, err
	}
	var bars []Bar
	for _, r := range totals.Reasons {
		bars = append(bars, Bar{Name: reasonName(r.Reason), Count: r.Count,
			Href: v.addressOf("swipes") + "?decision=declined&reason=" + url.QueryEscape(r.Reason)})
	}
	drawn := newBars("Declines, last 24 hours", "No swipe was declined.", bars)
	drawn.Note = totals.countsText()
	return []Block{{Bars: drawn}}, nil
}

// countsText writes the counts of the last day.
func (t *authorizationTotals) countsText() string {
	text := countOf(t.Approved+t.Declined, "swipe") + ": " + strconv.Itoa(t.Approved) + " approved, " +
		strconv.Itoa(t.Declined) + " declined."
	if !t.Complete {
		text += " These are the newest."
	}
	return text
}

// countOf writes a count of things, such as 1 swipe or 2 swipes.
func countOf(count int, thing string) string {
	if count == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(count) + " " + thing + "s"
}

// newestSwipes shows the newest swipes.
func newestSwipes(v *visit) ([]Block, error) {
	if !v.API.May("GET", authorizationsPath) {
		return nil, nil
	}
	var list authorizationList
	if err := v.readInto(&list, authorizationsPath, "limit", "6"); err != nil {
		return nil, err
	}
	t, err := swipeTable(v, list.Data, nil, "Newest swipes", true)
	return []Block{{Heading: "Newest swipes", More: &Link{"All swipes", v.addressOf("swipes")}, Table: t}}, err
}

// dollarStats are the figures of the dollar balance.
func (t *treasury) dollarStats(v *visit) []Stat {
	b := t.dollarAccount()
	return []Stat{
		{Name: "Dollars available", Value: web.Dollars(b.AvailableCents), Href: v.addressOf("treasury"), Total: true},
		{Name: "Held for swipes and payouts", Value: web.Dollars(b.HeldCents)},
		{Name: "Incoming", Value: web.Dollars(b.IncomingCents)},
		{Name: "Spent on cards this month", Value: web.Dollars(t.Snapshot.MonthSpendUsdCents)},
	}
}
