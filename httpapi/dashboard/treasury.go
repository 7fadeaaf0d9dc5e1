package dashboard

import (
	"cmp"
	"net/url"
	"time"

	"purser/httpapi/web"
	"purser/persistence/money"
)

// treasury is the answer of GET /api/treasury.
type treasury struct {
	Balances []dollarBalance
	Ledger   []ledgerEntry
	Snapshot struct{ MonthSpendUsdCents money.Cents }
}

type dollarBalance struct {
	Account                                  string
	AvailableCents, HeldCents, IncomingCents money.Cents
}

type ledgerEntry struct {
	ID, Source, Direction, Reference, TransferGroup string
	CardID                                          *string
	AmountCents                                     money.Cents
	BalanceCents                                    *money.Cents
	BookedAt                                        time.Time
}

const (
	ledgerPath    = "/api/treasury/ledger"
	statementPath = "/api/treasury/statement"
)

// statementMonths is the number of months that the form of statements offers.
const statementMonths = 24

// treasuryPages are the page of the dollars and their ledger, and the file of a statement.
func treasuryPages() []page {
	return []page{
		{path: "treasury", access: member, section: "Dollars", show: showTreasury, actions: []action{
			{name: "deposit", method: "POST", path: "/api/treasury/deposits", title: "Test deposit",
				submit: "Deposit", sandbox: true,
				done:  "The deposit is on its way. It arrives in about two seconds.",
				fixed: map[string]any{"source": "bank_fiat"}, fields: []Field{
					{Name: "amountUsdCents", Label: "Amount", Kind: fieldDollars, Required: true},
					{Name: "rail", Label: "Rail", Kind: fieldChoice, Default: "fednow", Options: []Option{
						{Value: "fednow", Label: "FedNow"}, {Value: "ach", Label: "ACH"}, {Value: "wire",
							Label: "Wire"}}}}},
		}},
		{path: "treasury/statement", access: member, section: "Dollars", show: saveStatement},
	}
}

// readTreasury reads the balances and the newest entries of the ledger.
func readTreasury(v *visit) (*treasury, error) {
	t := &treasury{}
	return t, v.readInto(t, "/api/treasury")
}

// dollarAccount returns the balance of the dollar account.
func (t *treasury) dollarAccount() dollarBalance {
	for _, b := range t.Balances {
		if b.Account == "usd" {
			return b
		}
	}
	return dollarBalance{}
}

// hasMoved reports whether the workspace has had any dollars.
func (t *treasury) hasMoved() bool { return len(t.Ledger) > 0 || t.dollarAccount().IncomingCents > 0 }

// ledgerFilters are the parameters of the ledger in the interface and in the page's address.
var ledgerFilters = []string{"from", "to", "source", "direction", "cardId", "transferGroup", "amountFromCents",
	"amountToCents"}

// showTreasury shows the accounts, the ledger that the address selects, the deposits of the sandbox
// and the statements.
func showTreasury(v *visit) (*View, error) {
	t, err := readTreasury(v)
	if err != nil {
		return nil, err
	}
	var list struct {
		Data       []ledgerEntry
		NextCursor *string
	}
	filtered, err := v.readFiltered(&list, ledgerPath, ledgerFilters...)
	if err != nil {
		return nil, err
	}
	table, err := ledgerTable(v, list.Data)
	if err != nil {
		return nil, err
	}
	v.addPaging(table, list.NextCursor)
	table.Empty = emptyText("No money has moved yet.", filtered, list.NextCursor)
	filters := []Field{
		{Name: "from", Label: "From day", Kind: fieldDate, Chip: "Time"},
		{Name: "to", Label: "To day", Kind: fieldDate, Chip: "Time"},
		v.amountField("amountFrom", "Amount from"), v.amountField("amountTo", "Amount to"),
		{Name: "source", Label: "Source", Kind: fieldChoice, Options: choices("bank_deposit", "stablecoin_deposit",
			"checkout", "card_settlement", "card_refund", "payout", "payout_return", "physical_card_fee",
			"ramp_onramp",
			"ramp_offramp", "ramp_reversal")},
		{Name: "direction", Label: "Direction", Kind: fieldChoice, Options: []Option{{Value: "", Label: "All"},
			{Value: "credit", Label: "In"}, {Value: "debit", Label: "Out"}}},
		{Name: "cardId", Label: "Card", Kind: fieldText},
	}
	if v.Query.Get("transferGroup") != "" { // a link of the ledger sets it
		filters = append(filters, Field{Name: "transferGroup", Label: "Movement", Kind: fieldText})
	}
	table.Filters = v.drawFilters("direction", filters)
	blocks := []Block{{Table: t.accountTable()}, {Table: table}}
	forms, err := v.drawForms("deposit")
	return &View{Title: "Dollars", Live: v.Query.Get("cursor") == "",
		Blocks: append(append(blocks, forms...), statementChoices(v)...)}, err
}

// accountTable draws the balance of each account.
func (t *treasury) accountTable() *Table {
	names := map[string]string{"usd": "US dollars", "stablecoin": "USDC"}
	table := &Table{Caption: "Accounts", Empty: "No accounts.", Columns: []Column{{Name: "Account"},
		{Name: "Available", Number: true}, {Name: "Held", Number: true}, {Name: "Incoming", Number: true}}}
	for _, b := range t.Balances {
		table.Rows = append(table.Rows, []Cell{plainCell(cmp.Or(names[b.Account], inWords(b.Account))),
			dollarCell(b.AvailableCents), dollarCell(b.HeldCents), dollarCell(b.IncomingCents)})
	}
	return table
}

// ledgerTable draws lines of the ledger. A line leads to its card and to the lines of its movement.
func ledgerTable(v *visit, entries []ledgerEntry) (*Table, error) {
	cardOf := oncePerID(v.cardCell)
	t := &Table{Caption: "Ledger, newest first", Columns: []Column{{Name: "Booked (UTC)", Role: roleSecond},
		{Name: "Source", Role: rolePrimary}, {Name: "Card"}, {Name: "Reference"}, {Name: "Movement"},
		{Name: "Amount", Number: true, Role: roleAmount}, {Name: "Balance", Number: true, Role: roleStatus}}}
	for i := range entries {
		e := &entries[i]
		balance, card := Cell{}, Cell{}
		if e.BalanceCents != nil {
			balance = dollarCell(*e.BalanceCents)
		}
		if e.CardID != nil && v.API.May("GET", "/api/cards") {
			var err error
			if card, err = cardOf(*e.CardID); err != nil {
				return nil, err
			}
		}
		amount := plainCell("+" + web.Dollars(e.AmountCents))
		if e.Direction == "debit" {
			amount = plainCell(minusDollars(e.AmountCents))
		}
		t.Rows = append(t.Rows, []Cell{t.addDay(v.Now, e.BookedAt), plainCell(inWords(e.Source)), card,
			idCell(e.Reference),
			linkCell(cutID(e.TransferGroup), v.ownAddress()+"?transferGroup="+url.QueryEscape(e.TransferGroup)),
			amount, balance})
	}
	return t, nil
}

// statementChoices is the form that leads to a statement, for a role that may read it.
func statementChoices(v *visit) []Block {
	if !v.API.May("GET", statementPath) {
		return nil
	}
	months := Field{Name: "month", Label: "Month", Kind: fieldChoice}
	first := monthOf(v.Now)
	for i := range statementMonths {
		month := first.AddDate(0, -i, 0)
		months.Options = append(months.Options, Option{Value: month.Format(monthForm),
			Label: month.Format("Jan 2006")})
	}
	format := Field{Name: "format", Label: "Format", Kind: fieldChoice, Options: []Option{{Value: "csv",
		Label: "CSV"},
		{Value: "camt053", Label: "ISO 20022 camt.053"}}}
	return []Block{{Heading: "Statements", Text: "The dollars of a month as a file. This month's statement ends today.",
		Choices: &Choices{Action: v.addressOf("treasury", "statement"), Submit: "Download", Fields: []Field{months,
			format}}}}
}

// monthForm is the form of a month in an address.
const monthForm = "2006-01"

// monthOf returns the first day of a time's month, in UTC.
func monthOf(at time.Time) time.Time {
	return time.Date(at.UTC().Year(), at.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
}

// saveStatement saves the statement of the address's month, or of this one, up to today. It fails
// with the operation's refusal.
func saveStatement(v *visit) (*View, error) {
	month := cmp.Or(v.Query.Get("month"), v.Now.UTC().Format(monthForm))
	from, to := month+"-01", month+"-01"
	if first, err := time.Parse(monthForm, month); err == nil {
		last, today := first.AddDate(0, 1, -1), v.Now.UTC()
		if first.Equal(monthOf(today)) {
			last = today
		}
		to = last.Format(time.DateOnly)
	}
	answered := v.API.Do(Operation{Method: "GET", Path: statementPath, Params: map[string]string{},
		Query: map[string]string{"from": from, "to": to, "format": cmp.Or(v.Query.Get("format"), "csv")}})
	if answered.Code != "" {
		return nil, &refusal{answered.Status, answered.Code, answered.Message, answered.Wait}
	}
	return nil, &download{answered}
}
