package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	Asset, Chain, Address                                             *string // nil until the customer chooses
	AcceptedAssets                                                    []string
	AmountUsdCents, ReceivedUsdCents, LateUsdCents                    money.Cents
	DueUsdCents, ShortfallUsdCents                                    money.Cents
	Cancelled, Simulated                                              bool
	Confirmations                                                     struct{ Seen, Of int }
	CreatedAt, ExpiresAt                                              time.Time
	CompletedAt                                                       *time.Time
	Payments                                                          []chainPayment
}

// stateCell is a cell of the link's state.
func (c *checkoutLink) stateCell() Cell {
	if c.Cancelled && c.Status == "expired" {
		return stateCell("cancelled")
	}
	return stateCell(c.Status)
}

// isUnconfirmed reports whether the link ended with payments that came in time and were not
// confirmed.
func (c *checkoutLink) isUnconfirmed() bool {
	return c.Status == "expired" && c.ReceivedUsdCents > c.LateUsdCents
}

// wayText is the coin and the network that the customer chose, or "".
func (c *checkoutLink) wayText() string {
	if c.Asset == nil || c.Chain == nil {
		return ""
	}
	return *c.Asset + " on " + inWords(*c.Chain)
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
var checkoutFilters = []string{"status", "reference", "amountFromCents", "amountToCents", "from", "to"}

// showCheckouts lists the links that the address selects, newest first.
func showCheckouts(v *visit) (*View, error) {
	var list checkoutList
	filtered, err := v.readFiltered(&list, checkoutsPath, checkoutFilters...)
	if err != nil {
		return nil, err
	}
	t := v.addPaging(&Table{Caption: "Payment links, newest first", Columns: []Column{
		{Name: "Created (UTC)", Role: roleSecond}, {Name: "For", Role: rolePrimary}, {Name: "Your reference"},
		{Name: "Steps"}, {Name: "State", Role: roleStatus}, {Name: "Received", Number: true},
		{Name: "Amount", Number: true, Role: roleAmount}}}, list.NextCursor)
	t.Empty = emptyText("No payment links yet.", filtered, list.NextCursor)
	for i := range list.Data {
		c := &list.Data[i]
		amount := dollarCell(c.AmountUsdCents)
		if c.Status == "expired" || c.Status == "failed" {
			amount.Mark = "soft"
		}
		t.Rows = append(t.Rows, []Cell{t.addDay(v.Now, c.CreatedAt), linkCell(cmp.Or(c.Description, cutID(c.ID)),
			v.addressOf("checkout", c.ID)), plainCell(c.MerchantReference), {Dashes: c.stepperSteps()}, c.stateCell(),
			plainCell(c.receivedText()), amount})
	}
	t.Filters = v.drawFilters("", []Field{
		{Name: "status", Label: "State", Kind: fieldChoice, Options: choices("pending", "awaiting_payment",
			"confirming",
			"completed", "underpaid", "failed", "expired")},
		{Name: "from", Label: "From day", Kind: fieldDate, Chip: "Time"},
		{Name: "to", Label: "To day", Kind: fieldDate, Chip: "Time"},
		{Name: "amountFrom", Label: "Amount from", Kind: fieldDollars, Value: v.enteredFilter("amountFromCents"),
			Chip: "Amount"},
		{Name: "amountTo", Label: "Amount to", Kind: fieldDollars, Value: v.enteredFilter("amountToCents"),
			Chip: "Amount"},
		{Name: "reference", Label: "Your reference", Kind: fieldText},
	})
	forms, err := v.drawForms("create")
	view := &View{Title: "Checkout links", Live: v.Query.Get("cursor") == "",
		Blocks: append([]Block{{Table: t}}, forms...)}
	if len(forms) > 0 {
		view.Ways = []Way{{Link: Link{"New payment link", "#f-amountUsdCents"}, Icon: "plus"}}
	}
	return view, err
}

// linkWays are the states in which the stepper of a link stands, by the link's state: one for each
// of created, coin chosen, paid and completed.
var linkWays = map[string][4]string{
	"pending":          {"done", "current"},
	"awaiting_payment": {"done", "done", "current"},
	"confirming":       {"done", "done", "done", "current"},
	"underpaid":        {"done", "done", "waits"},
	"completed":        {"done", "done", "done", "done"},
	"failed":           {"done", "done", "failed"},
	"expired":          {"done", "failed"},
}

// stepperSteps are the steps of a link. A link that ended shows its end in the place of the first
// step that did not come.
func (c *checkoutLink) stepperSteps() []StepperStep {
	states, end := linkWays[c.Status], c.ExpiresAt.UTC().Format("2 Jan, 15:04")
	steps := []StepperStep{{"Created", c.CreatedAt.UTC().Format("2 Jan, 15:04"), states[0]},
		{"Coin chosen", c.wayText(), states[1]}, {"Paid", "", states[2]}, {"Completed", "", states[3]}}
	switch c.Status {
	case "pending":
		steps[1].Name, steps[1].Note = "Coin", "The customer chooses, until "+end
	case "awaiting_payment":
		steps[2].Name, steps[2].Note = "Payment", "Waits for the customer, until "+end
	case "confirming":
		steps[3].Name = "Confirming"
		steps[3].Note = fmt.Sprintf("%d of %d confirmations", c.Confirmations.Seen, c.Confirmations.Of)
	case "underpaid":
		steps[2].Name, steps[2].Note = "Underpaid", web.Dollars(max(0, c.DueUsdCents))+" missing"
	case "completed":
		steps[2].Note = c.receivedText()
		if c.CompletedAt != nil {
			steps[3].Note = c.CompletedAt.UTC().Format("2 Jan, 15:04")
		}
	case "failed":
		steps[2].Name, steps[2].Note = "Failed", "Nothing is credited"
	case "expired":
		i := 1
		if c.Asset != nil {
			i, steps[1].State = 2, "done"
		}
		if c.isUnconfirmed() {
			i, end, steps[2].State, steps[2].Note = 3, "Not confirmed in time", "done", c.receivedText()
		}
		steps[i] = StepperStep{c.stateCell().Text, end, "failed"}
	}
	return steps
}

// receivedText is the sum that came in, with its late part. A simulated payment moves nothing on a
// chain.
func (c *checkoutLink) receivedText() string {
	inTime := c.ReceivedUsdCents - c.LateUsdCents
	switch {
	case c.Simulated:
		return "Simulated"
	case c.LateUsdCents > 0 && inTime == 0:
		return web.Dollars(c.LateUsdCents) + " late"
	case c.LateUsdCents > 0:
		return web.Dollars(inTime) + ", " + web.Dollars(c.LateUsdCents) + " late"
	}
	return web.Dollars(inTime)
}

// unconfirmed says how a link ended whose payment came in time and was not confirmed.
const unconfirmed = "A payment was seen, and the network did not confirm it in time."

// meaning says what the link waits for, or how it ended.
func (c *checkoutLink) meaning() string {
	switch {
	case c.isUnconfirmed():
		return unconfirmed
	case c.Cancelled && c.Status == "expired":
		return "It was cancelled."
	}
	return linkMeanings[c.Status]
}

// linkMeanings say what a link in a state waits for.
var linkMeanings = map[string]string{
	"pending":          "The customer has not chosen a coin yet.",
	"awaiting_payment": "The customer has the address, and has not paid yet.",
	"confirming":       "A payment is seen, and the network confirms it.",
	"underpaid":        "Some of the amount has come.",
	"completed":        "It is paid, and the amount is credited.",
	"failed":           "The payment failed.",
	"expired":          "It has ended without a payment in time.",
}

// customerSees says what the hosted page shows in a state of a link.
func (c *checkoutLink) customerSees() string {
	switch c.Status {
	case "pending":
		return "The customer sees the amount and chooses one of " + strings.Join(c.AcceptedAssets, ", ") + "."
	case "awaiting_payment":
		return "The customer sees the address, its code and the amount in " + c.wayText() + "."
	case "confirming":
		return "The customer sees the payment and its confirmations."
	case "underpaid":
		return "The customer sees what is missing and, until the link ends, where to send it."
	case "completed":
		return "The customer sees that the payment is complete, a receipt, and the way back to your site."
	}
	return "The customer sees that the link has ended, and is sent to you."
}

// showCheckout shows one link: what a person can do about its payments, its way, the customer's
// page, its money and its payments on chains.
func showCheckout(v *visit) (*View, error) {
	var shown struct{ Session checkoutLink }
	if err := v.readInto(&shown, checkoutPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	c := &shown.Session
	view := &View{Title: web.Dollars(c.AmountUsdCents), Amount: true, Badges: []Cell{c.stateCell()},
		Lead: cmp.Or(c.Description, "Payment link"), Up: &Link{"Checkout links", v.addressOf("checkout")}, Live: true,
		Ways: []Way{{Link: Link{"Open the page", c.HostedURL}, Icon: "out"}}}
	if c.CompletedAt != nil {
		view.Ways = append(view.Ways, Way{Link: Link{"Open the receipt", c.HostedURL + "/receipt"}, Icon: "ledger"})
	}
	way := Block{Heading: c.meaning(), Panel: true, Stepper: c.stepperSteps()}
	mayPay := v.Sandbox && v.API.May("POST", checkoutPath+"/simulate")
	switch {
	case c.Status == "awaiting_payment" && mayPay:
		buttons, err := v.drawButtons("pay")
		if err != nil {
			return nil, err
		}
		way.Buttons = buttons[0].Buttons
	case c.Status == "pending" && mayPay:
		way.Text = "Once a coin is chosen on the customer's page, the payment can be simulated here."
	}
	if c.Status == "pending" || c.Status == "awaiting_payment" {
		cancel, err := v.drawForm("cancel")
		if err != nil {
			return nil, err
		}
		if cancel != nil {
			view.Forms = []*Form{cancel}
		}
	}
	page := Block{Panel: true, Text: c.customerSees(), Code: &Code{ID: "link", Label: "The customer's page",
		Text: c.HostedURL}}
	view.Blocks = append(refundNotes(c), Block{Columns: &Columns{MainSide, []Block{way, page},
		[]Block{c.moneyBlock(), c.detailsBlock()}}}, Block{Table: paymentTable(c)})
	return view, nil
}

// moneyBlock is the sum of a link: asked, received, and still due, too much or not credited.
func (c *checkoutLink) moneyBlock() Block {
	b := Block{Heading: "Money", Panel: true, Sum: []SumLine{{Name: "Asked for",
		Amount: web.Dollars(c.AmountUsdCents)}}}
	if c.Simulated {
		b.Sum = append(b.Sum, SumLine{Name: "Simulated", Amount: minusDollars(c.AmountUsdCents)},
			SumLine{Name: "Still due", Amount: web.Dollars(0), Ruled: true})
		return b
	}
	if c.isUnconfirmed() {
		b.Sum = append(b.Sum, SumLine{Name: "Received in time", Amount: web.Dollars(c.ReceivedUsdCents - c.LateUsdCents)})
		if c.LateUsdCents > 0 {
			b.Sum = append(b.Sum, SumLine{Name: "Came too late", Amount: web.Dollars(c.LateUsdCents)})
		}
		b.Sum = append(b.Sum, SumLine{Name: "Not credited", Amount: web.Dollars(c.ReceivedUsdCents), Ruled: true})
		return b
	}
	b.Sum = append(b.Sum, SumLine{Name: "Received in time", Amount: minusDollars(c.ReceivedUsdCents - c.LateUsdCents)})
	if c.ShortfallUsdCents > 0 {
		b.Sum = append(b.Sum, SumLine{Name: "Missing, and accepted", Amount: minusDollars(c.ShortfallUsdCents)})
	}
	last := SumLine{Name: "Still due", Amount: web.Dollars(max(0, c.DueUsdCents-c.ShortfallUsdCents)), Ruled: true}
	switch {
	case c.DueUsdCents < 0:
		last.Name, last.Amount = "Too much", web.Dollars(-c.DueUsdCents)
	case c.Status == "expired" || c.Status == "failed":
		last.Name = "Not paid"
	}
	b.Sum = append(b.Sum, last)
	if c.LateUsdCents > 0 {
		b.Sum = append(b.Sum, SumLine{Name: "Came too late", Amount: web.Dollars(c.LateUsdCents)})
	}
	return b
}

// detailsBlock is where a link is paid to, its times and its ids.
func (c *checkoutLink) detailsBlock() Block {
	facts := []Fact{{"Coins", plainCell(strings.Join(c.AcceptedAssets, ", "))}}
	if c.Address != nil {
		facts = []Fact{{"Paid in", plainCell(c.wayText())}, {"To", copiedCell(*c.Address)}}
	}
	facts = append(facts, Fact{"Your reference", plainCell(c.MerchantReference)},
		Fact{"Created (UTC)", timeCell(c.CreatedAt)}, Fact{"Ends (UTC)", timeCell(c.ExpiresAt)})
	if c.CompletedAt != nil {
		facts = append(facts, Fact{"Completed (UTC)", timeCell(*c.CompletedAt)})
	}
	return Block{Heading: "Details", Panel: true, Facts: append(facts, Fact{"Id", idCell(c.ID)})}
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
		{Name: "Sent (UTC)", Role: roleSecond}, {Name: "Network", Role: rolePrimary}, {Name: "State",
			Role: roleStatus},
		{Name: "From"}, {Name: "Transaction", Role: roleAction}, {Name: "Note", Role: roleAction},
		{Name: "Amount", Number: true, Role: roleAmount}}}
	if c.Simulated {
		t.Empty = "The payment was simulated. No transaction is on a chain."
	}
	for _, p := range c.Payments {
		amount := p.Coins
		if amount == "" {
			amount = p.Units + " units of"
		}
		transaction := idCell(p.TxHash)
		if p.ExplorerURL != nil {
			transaction = linkCell(cutID(p.TxHash), *p.ExplorerURL)
		}
		t.Rows = append(t.Rows, []Cell{timeCell(p.SentAt), plainCell(inWords(p.Chain)), stateCell(p.Status),
			idCell(p.From), transaction, plainCell(nameOf(paymentReasons, p.Reason)),
			plainCell(amount + " " + p.Asset)})
	}
	return t
}

// refundNotes say what a customer should get back: the excess of a payment, and payments that came
// too late or were not confirmed. Purser sends no coins, so the business does.
func refundNotes(c *checkoutLink) (notes []Block) {
	const advice = " Ask the customer for an address before you send it: the address that a payment came from may be " +
		"an exchange's, which cannot receive for the customer."
	add := func(heading, text string) {
		notes = append(notes, Block{Tone: "warn", Heading: heading, Text: text + advice})
	}
	excess := "The customer paid " + web.Dollars(-c.DueUsdCents) + " more than the link asked. "
	switch {
	case c.isUnconfirmed():
		add("Paid and not confirmed", unconfirmed+" "+web.Dollars(c.ReceivedUsdCents-c.LateUsdCents)+" came in time, and "+
			"nothing is credited. What the network has confirmed by now is in the wallet of your receiving addresses. Give "+
			"it back from there, or keep it and deliver.")
	case c.DueUsdCents < 0 && c.CompletedAt != nil:
		add("Paid too much", excess+"The balance is credited with the amount of the link alone; the rest is in the wallet "+
			"of your receiving addresses. Give it back from there.")
	case c.DueUsdCents < 0:
		add("Paid too much", excess+"Nothing is credited before the network confirms the payment, and then the amount of "+
			"the link alone. Give the rest back afterwards, from the wallet of your receiving addresses.")
	}
	var late []string
	for _, p := range c.Payments {
		if p.Reason == tooLate && p.Status != withdrawnPayment {
			late = append(late, p.Coins+" "+p.Asset+" on "+inWords(p.Chain))
		}
	}
	if len(late) > 0 {
		add("Paid too late", strings.Join(late, ", ")+" came after the link had ended and is not credited. It is in the "+
			"wallet of your receiving addresses. Give it back from there, or keep it and deliver.")
	}
	if c.Status == "underpaid" {
		add("Paid too little", web.Dollars(c.DueUsdCents)+" are missing, and nothing is credited. The customer can pay "+
			"the rest on the link's page until it ends, or you give back what came.")
	}
	return notes
}

// afterCheckout returns the address of the page of a new link.
func afterCheckout(v *visit, answered []byte) (string, error) {
	var made struct{ Session checkoutLink }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("checkout", made.Session.ID), err
}
