package dashboard

import (
	"cmp"
	"encoding/json"
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
	amount := Field{Name: "amount", Label: "Amount", Kind: fieldText, Required: true, Hint: "In dollars."}
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

// showRamp shows the account with the ramp, offers quotes and lists the orders, newest first.
func showRamp(v *visit) (*View, error) {
	var linked struct{ Account struct{ Status string } }
	if err := v.readInto(&linked, rampAccountPath); err != nil {
		return nil, err
	}
	view := &View{Title: "Ramp", Lead: "Dollars into USDC and back, and USDC to a wallet of yours.",
		Live: v.Query.Get("cursor") == ""}
	var blocks []Block
	var err error
	switch linked.Account.Status {
	case rampLinked:
		blocks, err = rampForms(v)
	case "pending":
		blocks = []Block{{Text: "The partner is linking the account. That takes a moment."}}
	default:
		if blocks, err = v.drawButtons("link"); len(blocks) > 0 {
			blocks[0].Text = "Before the first order, an account with the ramp's partner is linked."
		}
	}
	if err != nil {
		return nil, err
	}
	view.Blocks = append(view.Blocks, blocks...)
	var list rampOrderList
	if err := v.readInto(&list, rampOrdersPath, "cursor", v.Query.Get("cursor"), "limit", "50"); err != nil {
		return nil, err
	}
	t := &Table{Caption: "Orders, newest first", Empty: "No orders yet.", Columns: []Column{{Name: "Time (UTC)"},
		{Name: "Order"}, {Name: "State"}, {Name: "Amount", Number: true}, {Name: "Fee", Number: true}}}
	for _, o := range list.Data {
		t.Rows = append(t.Rows, []Cell{timeCell(o.CreatedAt), linkCell(nameOf(rampDirections, o.Direction),
			v.addressOf("ramp", o.ID)), stateCell(o.Status), plainCell(dollarsText(o.Amount)),
			plainCell(dollarsText(o.Fee))})
	}
	view.Blocks = append(view.Blocks, Block{Table: v.addPaging(t, list.NextCursor)})
	return view, nil
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
	note := "Add one to withdraw USDC to it."
	if len(wallets.Data) > 0 {
		note = strconv.Itoa(len(approved)) + " approved"
	}
	blocks := []Block{{Stats: []Stat{{Name: "Wallets for withdrawals", Value: strconv.Itoa(len(wallets.Data)),
		Note: note, Href: v.addressOf("wallets")}}}}
	names := []string{"quote"}
	if len(approved) > 0 {
		v.offerOptions("withdraw", "walletId", approved)
		names = append(names, "withdraw")
	}
	forms, err := v.drawForms(names...)
	return append(blocks, forms...), err
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
	view := &View{Title: "Quote", Lead: nameOf(rampDirections, q.Direction), Live: true,
		Up: &Link{"Ramp", v.addressOf("ramp")}}
	facts := []Fact{{"You give", plainCell(dollarsText(q.Amount))},
		{"At least this arrives", plainCell(dollarsText(q.Receive))},
		{"The fee is at most", plainCell(dollarsText(q.MaxFee))}, {"State", stateCell(q.Status)},
		{"The quote ends (UTC)", lockCell(q.Status, q.ExpiresAt, v.Now)}}
	if q.WalletID != nil {
		facts = append(facts, Fact{"Wallet", linkCell(*q.WalletID, v.addressOf("wallets", *q.WalletID))})
	}
	view.Blocks = append(view.Blocks, Block{Facts: facts})
	switch q.Status {
	case quoteLocked:
		name := "order"
		if q.Direction == directionWithdraw {
			name = "withdraw"
		}
		buttons, err := v.drawButtons(name)
		view.Blocks = append(view.Blocks, buttons...)
		return view, err
	case quoteUsed:
		view.Blocks = append(view.Blocks, Block{Text: "This quote is ordered."})
	default:
		view.Blocks = append(view.Blocks, Block{Text: "The quote has ended. Ask for another on the ramp's page."})
	}
	return view, nil
}

// afterRampOrder returns the address of the page of a new order or withdrawal.
func afterRampOrder(v *visit, answered []byte) (string, error) {
	var made struct{ Order, Withdrawal rampOrder }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("ramp", cmp.Or(made.Order.ID, made.Withdrawal.ID)), err
}

// showRampOrder shows one order with its states as a line.
func showRampOrder(v *visit) (*View, error) {
	var shown struct{ Order rampOrder }
	if err := v.readInto(&shown, rampOrderPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	o := &shown.Order
	fee := "The fee is at most"
	if o.Status == "completed" {
		fee = "Fee"
	}
	facts := []Fact{{"State", stateCell(o.Status)}, {"You give", plainCell(dollarsText(o.Amount))},
		{fee, plainCell(dollarsText(o.Fee))}, {"Id", codeCell(o.ID)}}
	if o.WalletID != "" {
		facts = append(facts, Fact{"Wallet", linkCell(o.WalletID, v.addressOf("wallets", o.WalletID))})
	}
	if o.TxHash != nil {
		facts = append(facts, Fact{"Transaction", codeCell(*o.TxHash)})
	}
	life := Block{Heading: "Life (UTC)"}
	for _, step := range o.History {
		at := timeCell(step.At)
		life.Steps = append(life.Steps, Step{Name: inWords(step.Status), At: &at})
	}
	return &View{Title: "Order", Lead: nameOf(rampDirections, o.Direction), Live: true,
		Up: &Link{"Ramp", v.addressOf("ramp")}, Blocks: []Block{{Facts: facts}, life}}, nil
}
