package dashboard

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"purser/persistence/money"
)

const (
	currenciesPath = "/api/mca/accounts"
	currencyPath   = currenciesPath + "/{currency}"
	activityPath   = "/api/mca/activity"
)

// currencyList is the answer of GET /api/mca/accounts.
type currencyList struct {
	KYB      struct{ ActionRequired bool }
	Accounts []currencyAccount
	Coverage struct {
		Currencies []struct {
			Currency         money.Currency
			Receive, Convert bool
		}
	}
	Features struct{ Convert bool }
}

// currencyAccount is a balance in a currency in the interface.
type currencyAccount struct {
	Currency            money.Currency
	Status, ScopeStatus string
	Balance             struct{ AvailableMinor, PendingMinor string }
}

// shownAmount is an amount in a currency in the interface.
type shownAmount struct {
	Currency money.Currency
	Display  string
}

// receivingDetails is the answer of GET /api/mca/accounts/{currency}/details.
type receivingDetails struct {
	Details []struct {
		Rail, HolderName string
		Fields           map[string]string
	}
}

type activityList struct {
	Data []struct {
		Kind, Direction, Reference string
		Amount                     shownAmount
		ConversionID               *string
		CreatedAt                  time.Time
	}
	NextCursor *string
}

// currencyPages are the list of currency accounts and the page of one account.
func currencyPages() []page {
	return []page{
		{path: "currencies", access: member, section: "Currencies", show: showCurrencies, actions: []action{
			{name: "set-up", method: "POST", path: "/api/mca/onboarding", submit: "Set up currencies",
				done: "Currencies are set up. Open an account."},
			{name: "open", method: "POST", path: currencyPath, title: "New account", submit: "Open the account",
				then: afterOpening, fields: []Field{{Name: "currency", Label: "Currency", Kind: fieldChoice,
					Required: true}}},
		}},
		{path: "currencies/{currency}", access: member, section: "Currencies", show: showCurrency, actions: []action{
			quoteAction(),
			{name: "payin", method: "POST", path: "/api/dev/mca/simulate-payin", title: "Test payment",
				submit: "Pay in", sandbox: true, body: payinBody,
				done: "The payment is on its way. It arrives in about two seconds.", fields: []Field{
					{Name: "amountMinor", Label: "Amount", Kind: fieldText, Required: true, Default: "1000",
						Hint: "In the currency of the account, such as 250."},
					{Name: "reference", Label: "Sender's reference", Kind: fieldText, Default: "Invoice 7"}}},
		}},
	}
}

// readCurrencies reads the accounts in currencies.
func readCurrencies(v *visit) (*currencyList, error) {
	list := &currencyList{}
	return list, v.readInto(list, currenciesPath)
}

// account returns the account in a currency, or nil.
func (l *currencyList) account(currency string) *currencyAccount {
	for i := range l.Accounts {
		if string(l.Accounts[i].Currency) == currency {
			return &l.Accounts[i]
		}
	}
	return nil
}

// currencyNames are the names of currencies.
var currencyNames = map[string]string{"USD": "US dollar", "EUR": "Euro", "GBP": "Pound", "JPY": "Yen",
	"KWD": "Kuwaiti dinar",
	"AUD": "Australian dollar", "CAD": "Canadian dollar", "CHF": "Swiss franc", "SGD": "Singapore dollar",
	"HKD": "Hong Kong dollar", "MXN": "Mexican peso", "BRL": "Real", "INR": "Rupee"}

// minorCell is a cell of an amount that the interface gives in smallest units.
func minorCell(currency money.Currency, minor string) (Cell, error) {
	amount, err := strconv.ParseInt(minor, 10, 64)
	return plainCell(grouped(currency.Display(money.Minor(amount)))), err
}

// showCurrencies lists the accounts. Before the workspace is set up it offers that, and then to
// open an account in each other currency.
func showCurrencies(v *visit) (*View, error) {
	list, err := readCurrencies(v)
	if err != nil {
		return nil, err
	}
	t := &Table{Caption: "Currency accounts", Empty: "No account yet.", Columns: []Column{{Name: "Account",
		Role: rolePrimary}, {Name: "Currency", Role: roleSecond}, {Name: "State", Role: roleStatus},
		{Name: "Incoming", Number: true}, {Name: "Available", Number: true, Role: roleAmount}}}
	for _, a := range list.Accounts {
		available, err := minorCell(a.Currency, a.Balance.AvailableMinor)
		if err != nil {
			return nil, err
		}
		incoming, err := minorCell(a.Currency, a.Balance.PendingMinor)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, []Cell{linkCell(string(a.Currency), v.addressOf("currencies", string(a.Currency))),
			plainCell(currencyNames[string(a.Currency)]), stateCell(a.Status), incoming, available})
	}
	view := &View{Title: "Currencies", Lead: "Balances in currencies beside the dollars of the cards.", Live: true,
		Blocks: []Block{{Table: t}}}
	if list.KYB.ActionRequired {
		buttons, err := v.drawButtons("set-up")
		if len(buttons) > 0 {
			buttons[0].Text = "Before the first account, the business is set up with the bank. In the sandbox that is at once."
		}
		view.Blocks = append(view.Blocks, buttons...)
		return view, err
	}
	offered := []Option{}
	for _, c := range list.Coverage.Currencies {
		if c.Receive && list.account(string(c.Currency)) == nil {
			offered = append(offered, Option{Value: string(c.Currency), Label: string(c.Currency)})
		}
	}
	v.offerOptions("open", "currency", offered)
	forms, err := v.drawForms("open")
	if len(offered) > 0 {
		view.Blocks = append(view.Blocks, forms...)
	}
	conversions, failed := conversionBlocks(v)
	if err == nil {
		err = failed
	}
	view.Blocks = append(view.Blocks, conversions...)
	return view, err
}

// afterOpening returns the address of the page of a new account.
func afterOpening(v *visit, _ []byte) (string, error) {
	return v.addressOf("currencies", v.Form.Get("currency")), nil
}

// showCurrency shows one account: its balance, the details for payments into it, and its entries.
func showCurrency(v *visit) (*View, error) {
	list, err := readCurrencies(v)
	if err != nil {
		return nil, err
	}
	a := list.account(v.params["currency"])
	if a == nil {
		return nil, notHere()
	}
	available, err := minorCell(a.Currency, a.Balance.AvailableMinor)
	if err != nil {
		return nil, err
	}
	incoming, err := minorCell(a.Currency, a.Balance.PendingMinor)
	if err != nil {
		return nil, err
	}
	view := &View{Title: available.Text, Amount: true, Badges: []Cell{stateCell(a.Status)},
		Lead: string(a.Currency) + " account", Up: &Link{"Currencies", v.addressOf("currencies")},
		Live: v.Query.Get("cursor") == ""}
	if incoming.Text != "" && strings.Trim(a.Balance.PendingMinor, "0") != "" {
		view.Lead += ", and " + incoming.Text + " incoming"
	}
	if a.ScopeStatus != "ok" {
		view.Blocks = []Block{{Tone: "warn", Text: "The bank has paused conversions from this account."}}
	}
	main, err := convertBlocks(v, list, a)
	if err != nil {
		return nil, err
	}
	payin, err := v.drawForms("payin")
	if err != nil {
		return nil, err
	}
	receiving, err := receivingBlocks(v)
	if err != nil {
		return nil, err
	}
	activity, err := activityTable(v)
	view.Blocks = append(view.Blocks, Block{Columns: &Columns{MainSide, append(main, payin...), receiving}},
		Block{Table: activity})
	return view, err
}

// railNames are the names of the rails of payments into an account.
var railNames = map[string]string{"sepa": "SEPA", "swift": "SWIFT", "ach": "ACH", "chaps": "CHAPS",
	"wire": "wire", "faster_payments": "Faster Payments", "zengin": "Zengin", "direct_entry": "Direct Entry",
	"eft": "EFT", "sic": "SIC", "fast": "FAST", "spei": "SPEI"}

// receivingNames are the names of the members of receiving details that are abbreviations.
var receivingNames = map[string]string{"iban": "IBAN", "bic": "BIC", "bsb": "BSB", "clabe": "CLABE"}

// receivingBlocks shows where money for the account of the page is sent, a block for each rail.
func receivingBlocks(v *visit) (blocks []Block, err error) {
	var details receivingDetails
	if err := v.readInto(&details, currencyPath+"/details", "currency", v.params["currency"]); err != nil {
		return nil, err
	}
	for _, d := range details.Details {
		b := Block{Heading: "Receive by " + nameOf(railNames, d.Rail), Panel: true, Facts: []Fact{
			{"Account holder", copiedCell(d.HolderName)}}}
		for _, name := range slices.Sorted(maps.Keys(d.Fields)) {
			b.Facts = append(b.Facts, Fact{receivingName(name), copiedCell(d.Fields[name])})
		}
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		blocks = []Block{{Heading: "Receive", Panel: true, Text: "The bank has not given out the account's details yet."}}
	}
	return blocks, nil
}

// receivingName names a member of receiving details, such as routingNumber, in words.
func receivingName(member string) string {
	if name := receivingNames[member]; name != "" {
		return name
	}
	var words strings.Builder
	for _, c := range member {
		if unicode.IsUpper(c) {
			words.WriteByte(' ')
		}
		words.WriteRune(unicode.ToLower(c))
	}
	return inWords(words.String())
}

// activityNames name the kinds of entries.
var activityNames = map[string]string{"pay_in": "Payment received", "hold": "Set aside for a conversion"}

// activityTable lists the entries of the account of the page that the address selects, newest
// first.
func activityTable(v *visit) (*Table, error) {
	fields := []Field{
		{Name: "direction", Label: "Direction", Kind: fieldChoice, Options: []Option{{Value: "", Label: "All"},
			{Value: "credit", Label: "In"}, {Value: "debit", Label: "Out"}}},
		{Name: "from", Label: "From day", Kind: fieldDate, Chip: "Time"},
		{Name: "to", Label: "To day", Kind: fieldDate, Chip: "Time"},
	}
	var list activityList
	if err := v.readInto(&list, activityPath, "currency", v.params["currency"], "cursor", v.Query.Get("cursor"),
		"limit", "50", "direction", v.Query.Get("direction"), "from", v.Query.Get("from"), "to",
		v.Query.Get("to")); err != nil {
		return nil, err
	}
	t := &Table{Caption: "Entries, newest first", Columns: []Column{{Name: "Time (UTC)", Role: roleSecond},
		{Name: "Entry", Role: rolePrimary}, {Name: "Reference", Role: roleSecond},
		{Name: "Amount", Number: true, Role: roleAmount}}, Filters: v.drawFilters("direction", fields)}
	t.Empty = emptyText("No money has moved yet.", t.Filters.Clear != "", list.NextCursor)
	for _, e := range list.Data {
		entry, sign := plainCell(nameOf(activityNames, e.Kind)), "+"
		if e.ConversionID != nil {
			entry.Href = v.addressOf("conversions", *e.ConversionID)
		}
		switch {
		case e.Direction == "debit":
			sign = "\u2212"
		case e.Kind == "hold":
			entry.Text = "No longer set aside"
		}
		t.Rows = append(t.Rows, []Cell{t.addDay(v.Now, e.CreatedAt), entry, plainCell(e.Reference),
			plainCell(sign + grouped(e.Amount.Display))})
	}
	return v.addPaging(t, list.NextCursor), nil
}

// payinBody names the page's currency, and gives the amount in its smallest units.
func payinBody(v *visit) (map[string]any, error) {
	currency := money.Currency(v.params["currency"])
	minor, err := parseAmount(v.Form.Get("amountMinor"), currency, "amountMinor")
	return map[string]any{"currency": currency, "amountMinor": minor}, err
}

// parseAmount reads a decimal amount in a currency as smallest units. It fails with a fieldError of
// the named field.
func parseAmount(text string, currency money.Currency, field string) (string, error) {
	decimal, ok := withoutGroups(strings.TrimSpace(text))
	minor, err := currency.ParseDecimal(decimal)
	if err != nil || !ok {
		return "", &fieldError{field, "Amount must be a plain amount in " + string(currency) + ", such as 250."}
	}
	return money.FormatMinor(minor), nil
}
