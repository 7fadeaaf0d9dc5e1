package dashboard

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"purser/httpapi/web"
	"purser/persistence/money"
)

const (
	checkoutsPath = "/api/v1/checkout/sessions"
	checkoutPath  = checkoutsPath + "/{id}"
)

// checkoutLink is a checkout session in the interface.
type checkoutLink struct {
	ID, Status, HostedURL, Description, MerchantReference, SuccessURL string
	AmountUsdCents, ReceivedUsdCents, LateUsdCents                    money.Cents
	DueUsdCents, ShortfallUsdCents                                    money.Cents
	Cancelled, Simulated                                              bool
	CreatedAt, ExpiresAt                                              time.Time
	CompletedAt                                                       *time.Time
	Payments                                                          []chainPayment
}

// receivedCell is a cell of the dollars that have come in, with the late part. A simulated payment
// moves nothing on a chain.
func (c *checkoutLink) receivedCell() Cell {
	switch {
	case c.Simulated:
		return plainCell(web.Dollars(c.AmountUsdCents) + ", simulated")
	case c.LateUsdCents > 0:
		return plainCell(web.Dollars(c.ReceivedUsdCents) + ", " + web.Dollars(c.LateUsdCents) +
			" of it too late")
	}
	return dollarCell(c.ReceivedUsdCents)
}

// chainPayment is a payment of a link on a chain in the interface. Reason is set when it does not
// count.
type chainPayment struct {
	Asset, Chain, TxHash, Status, Coins, Units, From, Reason string
	ExplorerURL                                              *string
	SentAt                                                   time.Time
}

type checkoutList struct {
	Data       []checkoutLink
	NextCursor *string
}

// checkoutPages are the list of checkout links and the page of one link.
func checkoutPages() []page {
	return []page{
		{path: "checkout", access: member, section: "Checkout links", show: showCheckouts, actions: []action{
			{name: "create", method: "POST", path: checkoutsPath, title: "New payment link",
				submit: "Create the link",
				then:   afterCheckout, fields: []Field{
					{Name: "amountUsdCents", Label: "Amount", Kind: fieldDollars, Required: true},
					{Name: "description", Label: "For", Kind: fieldText, Hint: "The customer sees it."},
					{Name: "merchantReference", Label: "Your reference", Kind: fieldText},
					{Name: "acceptedAssets", Label: "Coins", Kind: fieldList, Required: true, Default: "USDC",
						Hint: "Such as USDC, USDT, ETH, BTC, separated by commas."},
					{Name: "successUrl", Label: "Address after the payment", Kind: fieldText, Required: true,
						Hint: "The customer goes there, such as https://shop.example/thanks."}}},
		}},
		{path: "checkout/{id}", access: member, section: "Checkout links", show: showCheckout, actions: []action{
			{name: "pay", method: "POST", path: checkoutPath + "/simulate", submit: "Simulate the payment",
				sandbox: true,
				done:    "The payment is simulated."},
			{name: "cancel", method: "POST", path: "/api/dashboard/checkout/sessions/{id}/cancel",
				submit: "Cancel the link",
				danger: "Cancel the link? The customer can no longer pay it.", done: "The link is cancelled."},
		}},
	}
}

// checkoutFilters are the parameters of the links in the interface and in the page's address.
var checkoutFilters = []string{"status", "reference", "from", "to"}

// showCheckouts lists the links that the address selects, newest first.
func showCheckouts(v *visit) (*View, error) {
	var list checkoutList
	filtered, err := v.readFiltered(&list, checkoutsPath, checkoutFilters...)
	if err != nil {
		return nil, err
	}
	t := v.addPaging(&Table{Caption: "Payment links, newest first", Columns: []Column{{Name: "For",
		Role: rolePrimary},
		{Name: "Created (UTC)", Role: roleSecond}, {Name: "Your reference"}, {Name: "State", Role: roleStatus},
		{Name: "Amount", Number: true, Role: roleAmount},
		{Name: "Received", Number: true}, {Name: "Ends (UTC)"}}}, list.NextCursor)
	t.Empty = emptyText("No payment links yet.", filtered, list.NextCursor)
	for _, c := range list.Data {
		t.Rows = append(t.Rows, []Cell{linkCell(cmp.Or(c.Description, cutID(c.ID)),
			v.addressOf("checkout", c.ID)), timeCell(c.CreatedAt), plainCell(c.MerchantReference),
			stateCell(c.Status),
			dollarCell(c.AmountUsdCents), c.receivedCell(), Cell{Text: c.ExpiresAt.UTC().Format("2 Jan, 15:04"),
				Stamp: c.ExpiresAt.UTC().Format(time.RFC3339)}})
	}
	t.Filters = v.drawFilters("", []Field{
		{Name: "status", Label: "State", Kind: fieldChoice, Options: choices("pending", "awaiting_payment", "confirming",
			"completed", "underpaid", "failed", "expired")},
		{Name: "from", Label: "From day", Kind: fieldDate, Chip: "Time"},
		{Name: "to", Label: "To day", Kind: fieldDate, Chip: "Time"},
		{Name: "reference", Label: "Your reference", Kind: fieldText},
	})
	forms, err := v.drawForms("create")
	return &View{Title: "Checkout links", Live: v.Query.Get("cursor") == "", Blocks: append([]Block{{Table: t}}, forms...)}, err
}

// showCheckout shows one link, its address, its payments on chains, and advice on refunds.
func showCheckout(v *visit) (*View, error) {
	var shown struct{ Session checkoutLink }
	if err := v.readInto(&shown, checkoutPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	c := &shown.Session
	view := &View{Title: "Payment link", Lead: c.Description, Up: &Link{"Checkout links", v.addressOf("checkout")},
		Live: true, Blocks: refundNotes(c)}
	facts := []Fact{{"State", stateCell(c.Status)}, {"Amount", dollarCell(c.AmountUsdCents)},
		{"Received", c.receivedCell()}, {"Your reference", plainCell(c.MerchantReference)}, {"Created (UTC)", timeCell(c.CreatedAt)},
		{"Ends (UTC)", timeCell(c.ExpiresAt)}, {"Id", codeCell(c.ID)},
		{"Customer's view", linkCell("Open the page", c.HostedURL)}}
	if c.CompletedAt == nil {
		facts = append(facts, Fact{"Still due", dollarCell(max(0, c.DueUsdCents))})
	} else {
		facts = append(facts, Fact{"Completed (UTC)", timeCell(*c.CompletedAt)},
			Fact{"Receipt", linkCell("Open the receipt", c.HostedURL+"/receipt")})
	}
	if c.ShortfallUsdCents > 0 {
		facts = append(facts, Fact{"Missing, and accepted", dollarCell(c.ShortfallUsdCents)})
	}
	view.Blocks = append(view.Blocks, Block{Facts: facts}, Block{Code: &Code{ID: "link", Label: "The customer's page",
		Text: c.HostedURL}}, Block{Table: paymentTable(c)})
	offered := map[string][]string{"pending": {"cancel"}, "awaiting_payment": {"pay", "cancel"}}[c.Status]
	buttons, err := v.drawButtons(offered...)
	if len(buttons) > 0 && v.Sandbox && c.Status == "pending" {
		buttons[0].Text = "Once a coin is chosen on the customer's page, the payment can be simulated here."
	}
	view.Blocks = append(view.Blocks, buttons...)
	return view, err
}

// paymentReasons say in words why a payment on a chain does not count.
var paymentReasons = map[string]string{"wrong_token": "Does not count: another token",
	"not_accepted": "Does not count: the link does not take this coin", "too_small": "Does not count: under a cent",
	tooLate: "Does not count: too late"}

// tooLate is the reason of a payment that came after a link's end.
const tooLate = "too_late"

// withdrawnPayment is the state of a payment that its chain took back.
const withdrawnPayment = "withdrawn"

// paymentTable draws the payments of a link on chains. A payment of a live link leads to a public
// explorer.
func paymentTable(c *checkoutLink) *Table {
	t := &Table{Caption: "Payments on chain", Empty: "Nothing has been paid yet.", Columns: []Column{
		{Name: "Sent (UTC)"}, {Name: "Amount", Number: true}, {Name: "Network"}, {Name: "State"}, {Name: "Note"},
		{Name: "From"}, {Name: "Transaction"}}}
	if c.Simulated {
		t.Empty = "The payment was simulated. No transaction is on a chain."
	}
	for _, p := range c.Payments {
		amount := p.Coins
		if amount == "" {
			amount = p.Units + " units of"
		}
		transaction := codeCell(p.TxHash)
		if p.ExplorerURL != nil {
			transaction = linkCell(p.TxHash, *p.ExplorerURL)
		}
		t.Rows = append(t.Rows, []Cell{timeCell(p.SentAt), plainCell(amount + " " + p.Asset), plainCell(inWords(p.Chain)),
			stateCell(p.Status), plainCell(nameOf(paymentReasons, p.Reason)), codeCell(p.From), transaction})
	}
	return t
}

// refundNotes say what a customer should get back: the excess of a payment, and payments that came
// too late. Purser sends no coins, so the business does.
func refundNotes(c *checkoutLink) (notes []Block) {
	const advice = " Ask the customer for an address before you send it: the address that a payment came from may be an " +
		"exchange's, which cannot receive for the customer."
	if c.DueUsdCents < 0 {
		notes = append(notes, Block{Heading: "Paid too much", Text: "The customer paid " + web.Dollars(-c.DueUsdCents) +
			" more than the link asked. The balance is credited with the amount of the link alone; the rest is in the " +
			"wallet of your receiving addresses. Give it back from there." + advice})
	}
	var late []string
	for _, p := range c.Payments {
		if p.Reason == tooLate && p.Status != withdrawnPayment {
			late = append(late, p.Coins+" "+p.Asset+" on "+inWords(p.Chain))
		}
	}
	if len(late) > 0 {
		notes = append(notes, Block{Heading: "Paid too late", Text: strings.Join(late, ", ") + " came after the link had " +
			"ended and is not credited. It is in the wallet of your receiving addresses. Give it back from there, or keep " +
			"it and deliver." + advice})
	}
	if c.Status == "underpaid" {
		notes = append(notes, Block{Heading: "Paid too little", Text: web.Dollars(c.DueUsdCents) + " are missing, and nothing " +
			"is credited. The customer can pay the rest on the link's page until it ends, or you give back what came." +
			advice})
	}
	return notes
}

// afterCheckout returns the address of the page of a new link.
func afterCheckout(v *visit, answered []byte) (string, error) {
	var made struct{ Session checkoutLink }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("checkout", made.Session.ID), err
}
