package dashboard

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"purser/httpapi/web"
)

const (
	rampAccountPath   = "/api/ramp/account"
	rampQuotesPath    = "/api/ramp/quotes"
	rampQuotePath     = rampQuotesPath + "/{id}"
	rampOrdersPath    = "/api/ramp/orders"
	rampOrderPath     = rampOrdersPath + "/{id}"
	withdrawalsPath   = "/api/ramp/withdrawals"
	rampWalletsPath   = "/api/dashboard/ramp/wallets"
	rampWalletPath    = rampWalletsPath + "/{id}"
	directionOn       = "onramp"
	directionOff      = "offramp"
	directionWithdraw = "withdraw"
	rampLinked        = "linked"
	walletApproved    = "approved"
)

// rampOrder is an order of the ramp, or a withdrawal, in the interface. Amounts are decimals.
type rampOrder struct {
	ID, Direction, Status, Amount, Fee, WalletID string
	TxHash                                       *string
	CreatedAt                                    time.Time
	History                                      []struct {
		Status string
		At     time.Time
	}
}

type rampOrderList struct {
	Data       []rampOrder
	NextCursor *string
}

// rampQuote is a quote of the ramp in the interface.
type rampQuote struct {
	ID, Direction, Amount, Receive, MaxFee, Status string
	WalletID                                       *string
	ExpiresAt                                      time.Time
}

// rampDirections are the directions in words.
var rampDirections = map[string]string{directionOn: "Dollars into USDC", directionOff: "USDC into dollars",
	directionWithdraw: "USDC to a wallet"}

// rampPages are the list of orders with the forms of quotes, the page of a quote, which orders, and
// that of an order.
func rampPages() []page {
	amount := Field{Name: "amount", Label: "Amount", Kind: fieldDollars, Required: true}
	return []page{
		{path: "ramp", access: member, section: "Ramp", show: showRamp, actions: []action{
			{name: "link", method: "POST", path: rampAccountPath, submit: "Link the account", sandbox: true,
				done: "The account is requested. The partner links it in a moment."},
			{name: "quote", method: "POST", path: rampQuotesPath, title: "Change dollars and USDC",
				submit: "Get a quote", sandbox: true, body: rampAmount, then: afterRampQuote, fields: []Field{
					{Name: "direction", Label: "Change", Kind: fieldChoice, Required: true, Options: []Option{
						{Value: directionOn, Label: rampDirections[directionOn]},
						{Value: directionOff, Label: rampDirections[directionOff]}}}, amount}},
			{name: "withdraw", method: "POST", path: rampQuotesPath, title: "Withdraw USDC",
				submit: "Quote the withdrawal", sandbox: true, body: rampAmount, then: afterRampQuote,
				fixed: map[string]any{"direction": directionWithdraw}, fields: []Field{
					{Name: "walletId", Label: "To the wallet", Kind: fieldChoice, Required: true}, amount}},
		}},
		{path: "ramp-quotes/{id}", access: member, section: "Ramp", show: showRampQuote, actions: []action{
			{name: "order", method: "POST", path: rampOrdersPath, submit: "Order", sandbox: true, body: quoteBody,
				then: afterRampOrder},
			{name: "withdraw", method: "POST", path: withdrawalsPath, submit: "Withdraw", sandbox: true,
				body: quoteBody, then: afterRampOrder,
				danger: "Send the USDC to the wallet? It cannot be called back."},
		}},
		{path: "ramp/{id}", access: member, section: "Ramp", show: showRampOrder},
	}
}

// dollarsText writes a decimal of the interface, such as 1234.50, as dollars. A text that is no
// amount stays as it is.
func dollarsText(decimal string) string {
	cents, err := parseDollars(decimal)
	if err != nil {
		return decimal
	}
	return web.Dollars(cents)
}

// rampAmount gives the amount as the interface takes it, without a sign and commas.
func rampAmount(v *visit) (map[string]any, error) {
	cents, err := parseDollars(v.Form.Get("amount"))
	if err != nil {
		return nil, &fieldError{"amount", "Amount " + err.Error() + "."}
	}
	return map[string]any{"amount": asEntered(cents)}, nil
}

// showRamp shows the account with the ramp, offers quotes and lists the orders that the address
// selects, newest first.
func showRamp(v *visit) (*View, error) {
	var linked struct{ Account struct{ Status string } }
	if err := v.readInto(&linked, rampAccountPath); err != nil {
		return nil, err
	}
	view := &View{Title: "Ramp", Lead: "Dollars into USDC and back, and USDC to a wallet of yours.",
		Live: v.Query.Get("cursor") == ""}
	var err error
	switch linked.Account.Status {
	case rampLinked:
		view.Ways = []Way{{Link: Link{"Wallets", v.addressOf("wallets")}}}
		view.Blocks, err = rampForms(v)
	case "pending":
		view.Blocks = []Block{{Panel: true, Text: "The partner is linking the account. That takes a moment."}}
	default:
		if view.Blocks, err = v.drawButtons("link"); len(view.Blocks) > 0 {
			view.Blocks[0].Text = "Before the first order, an account with the ramp's partner is linked."
		}
	}
	if err != nil {
		return nil, err
	}
	orders, err := rampOrders(v)
	view.Blocks = append(view.Blocks, Block{Table: orders})
	return view, err
}

// rampFilters are the parameters of the orders in the interface and in the page's address.
var rampFilters = []string{"direction", "status", "from", "to"}

// rampOrders lists the orders that the address selects under headings of their days.
func rampOrders(v *visit) (*Table, error) {
	var list rampOrderList
	filtered, err := v.readFiltered(&list, rampOrdersPath, rampFilters...)
	if err != nil {
		return nil, err
	}
	directions := choices(directionOn, directionOff, directionWithdraw)
	for i := range directions {
		directions[i].Label = cmp.Or(rampDirections[directions[i].Value], directions[i].Label)
	}
	t := &Table{Caption: "Orders, newest first", Empty: emptyText("No orders yet.", filtered, list.NextCursor),
		Columns: []Column{{Name: "Time (UTC)", Role: roleSecond}, {Name: "Order", Role: rolePrimary}, {Name: "Steps"},
			{Name: "State", Role: roleStatus}, {Name: "Fee", Number: true},
			{Name: "Amount", Number: true, Role: roleAmount}},
		Filters: v.drawFilters("direction", []Field{
			{Name: "direction", Label: "Order", Kind: fieldChoice, Options: directions},
			{Name: "status", Label: "State", Kind: fieldChoice, Options: choices("created", "processing", "completed",
				"failed")},
			{Name: "from", Label: "From day", Kind: fieldDate, Chip: "Time"},
			{Name: "to", Label: "To day", Kind: fieldDate, Chip: "Time"}})}
	for i := range list.Data {
		o := &list.Data[i]
		amount := plainCell(dollarsText(o.Amount))
		if o.Status == "failed" {
			amount.Mark = "void"
		}
		t.Rows = append(t.Rows, []Cell{t.addDay(v.Now, o.CreatedAt), linkCell(nameOf(rampDirections, o.Direction),
			v.addressOf("ramp", o.ID)), {Dashes: o.stepperSteps()}, stateCell(o.Status),
			plainCell(dollarsText(o.Fee)),
			amount})
	}
	return v.addPaging(t, list.NextCursor), nil
}

// rampForms shows the wallets and offers quotes of a linked account. A withdrawal needs an approved
// wallet.
func rampForms(v *visit) ([]Block, error) {
	wallets, err := readWallets(v)
	if err != nil {
		return nil, err
	}
	approved := []Option{}
	for _, w := range wallets.Data {
		if w.Status == walletApproved {
			approved = append(approved, Option{Value: w.ID, Label: w.name() + " on " + inWords(w.Chain)})
		}
	}
	strip := Block{Strip: []Stat{{Name: "Account with the partner", Value: "Linked"},
		{Name: "Wallets for withdrawals", Value: strconv.Itoa(len(wallets.Data)), Href: v.addressOf("wallets")},
		{Name: "Approved wallets", Value: strconv.Itoa(len(approved))}}}
	names := []string{"quote"}
	if len(approved) > 0 {
		v.offerOptions("withdraw", "walletId", approved)
		names = append(names, "withdraw")
	}
	forms, err := v.drawForms(names...)
	if len(forms) > 1 {
		forms = []Block{{Columns: &Columns{Halves, forms[:1], forms[1:]}}}
	}
	return append([]Block{strip}, forms...), err
}

// afterRampQuote returns the address of the page of a new quote.
func afterRampQuote(v *visit, answered []byte) (string, error) {
	var made struct{ Quote rampQuote }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("ramp-quotes", made.Quote.ID), err
}

// showRampQuote shows a quote while it is locked, and orders it.
func showRampQuote(v *visit) (*View, error) {
	var shown struct{ Quote rampQuote }
	if err := v.readInto(&shown, rampQuotePath, "id", v.recordID()); err != nil {
		return nil, err
	}
	q := &shown.Quote
	view := &View{Title: dollarsText(q.Amount), Amount: true, Badges: []Cell{stateCell(q.Status)},
		Lead: "Quote for " + nameOf(rampDirections, q.Direction), Live: true, Up: &Link{"Ramp", v.addressOf("ramp")}}
	facts := []Fact{{"Id", idCell(q.ID)}}
	action, submit := "order", "Order"
	if q.Direction == directionWithdraw {
		action, submit = "withdraw", "Withdraw"
	}
	if q.WalletID != nil {
		wallet, err := walletCell(v, *q.WalletID)
		if err != nil {
			return nil, err
		}
		facts = append(facts, Fact{"To the wallet", wallet})
	}
	order, err := v.drawQuote(q.Status, action, submit, "This quote is ordered.",
		"The quote has ended. Ask for another on the ramp's page.")
	order.Facts = []Fact{{"Locked until (UTC)", lockCell(q.Status, q.ExpiresAt, v.Now)}}
	order.Sum = []SumLine{{Name: "You give", Amount: dollarsText(q.Amount)},
		{Name: "The fee is at most", Amount: "\u2212" + dollarsText(q.MaxFee)},
		{Name: "At least this arrives", Amount: dollarsText(q.Receive), Ruled: true, Result: true}}
	view.Blocks = []Block{{Columns: &Columns{MainSide, []Block{order}, []Block{{Heading: "Details", Panel: true,
		Facts: facts}}}}}
	return view, err
}

// afterRampOrder returns the address of the page of a new order or withdrawal.
func afterRampOrder(v *visit, answered []byte) (string, error) {
	var made struct{ Order, Withdrawal rampOrder }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("ramp", cmp.Or(made.Order.ID, made.Withdrawal.ID)), err
}

// rampMeanings say what each state of an order means for its amount.
var rampMeanings = map[string]string{
	"created":    "What you give is set aside, and the partner gets the order.",
	"processing": "The partner has the order.",
	"completed":  "What you receive is there.",
	"failed":     "The partner did not take it. What you gave is back.",
}

// rampWays are the states in which the stepper of an order stands, by the order's state: one for
// each of ordered, with the partner and completed.
var rampWays = map[string][3]string{
	"created":    {"done", "current"},
	"processing": {"done", "done", "current"},
	"completed":  {"done", "done", "done"},
	"failed":     {"done", "done", "failed"},
}

// stepperSteps are the steps of an order with the times that its history has.
func (o *rampOrder) stepperSteps() []StepperStep {
	states := rampWays[o.Status]
	last := "Completed"
	if o.Status == "failed" {
		last = "Failed"
	}
	return []StepperStep{{"Ordered", o.CreatedAt.UTC().Format("2 Jan, 15:04"), states[0]},
		{"With the partner", o.timeOf("processing"), states[1]}, {last, o.timeOf("completed", "failed"), states[2]}}
}

// timeOf returns the time at which the order came into one of some states, or "".
func (o *rampOrder) timeOf(states ...string) string {
	for _, step := range o.History {
		if slices.Contains(states, step.Status) {
			return step.At.UTC().Format("2 Jan, 15:04")
		}
	}
	return ""
}

// sumLines are the given amount, the fee, and the rest, which arrives. Before the end the fee is the
// highest one, and the rest the least. An order that has failed moves nothing.
func (o *rampOrder) sumLines() []SumLine {
	fee, arrives := "The fee is at most", "At least this arrives"
	if o.Status == "completed" {
		fee, arrives = "Fee", "Received"
	}
	given, err := parseDollars(o.Amount)
	kept, errFee := parseDollars(o.Fee)
	if o.Status == "failed" || err != nil || errFee != nil {
		return nil
	}
	return []SumLine{{Name: "You give", Amount: web.Dollars(given)}, {Name: fee, Amount: "\u2212" +
		web.Dollars(kept)},
		{Name: arrives, Amount: web.Dollars(given - kept), Ruled: true, Result: true}}
}

// showRampOrder shows one order: its way, and its states as a line.
func showRampOrder(v *visit) (*View, error) {
	var shown struct{ Order rampOrder }
	if err := v.readInto(&shown, rampOrderPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	o := &shown.Order
	facts := []Fact{{"Id", idCell(o.ID)}}
	if o.WalletID != "" {
		wallet, err := walletCell(v, o.WalletID)
		if err != nil {
			return nil, err
		}
		facts = append(facts, Fact{"To the wallet", wallet})
	}
	if o.TxHash != nil {
		facts = append(facts, Fact{"Transaction", idCell(*o.TxHash)})
	}
	way := Block{Heading: rampMeanings[o.Status], Panel: true, Stepper: o.stepperSteps(), Sum: o.sumLines()}
	life := Block{Heading: "Life (UTC)", Panel: true}
	for _, step := range o.History {
		at := timeCell(step.At)
		life.Steps = append(life.Steps, Step{Name: inWords(step.Status), At: &at})
	}
	return &View{Title: dollarsText(o.Amount), Amount: true, Badges: []Cell{stateCell(o.Status)},
		Lead: nameOf(rampDirections, o.Direction), Live: true, Up: &Link{"Ramp", v.addressOf("ramp")},
		Blocks: []Block{{Columns: &Columns{MainSide, []Block{way, life}, []Block{{Heading: "Details", Panel: true,
			Facts: facts}}}}}}, nil
}
