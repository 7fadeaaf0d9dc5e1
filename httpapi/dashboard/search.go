package dashboard

import (
	"net/url"
	"strings"

	"purser/persistence/ident"
)

// searchPages is the address of the search in the header. It leads to a record or to a list.
func searchPages() []page {
	return []page{{path: "search", access: member, section: "Home", show: showSearch}}
}

// recordLists are the lists whose pages show records of a prefix.
var recordLists = map[string]string{ident.Card: "cards", ident.Authorization: "swipes", ident.Payout: "payouts",
	ident.Counterparty: "recipients", ident.Agent: "agents", ident.Key: "keys", ident.Endpoint: "webhooks",
	ident.Checkout: "checkout", ident.Conversion: "conversions", ident.FXQuote: "payout-quotes",
	ident.CurrencyQuote: "conversion-quotes", ident.RampQuote: "ramp-quotes", ident.RampOrder: "ramp",
	ident.RampWallet: "wallets"}

// showSearch shows the form of the search without a text. Otherwise it leads to the record of an
// id, to the cards of four digits, to the movement of a transfer group, or else to the swipes at
// merchants whose names begin with the text.
func showSearch(v *visit) (*View, error) {
	text := strings.TrimSpace(v.Query.Get("q"))
	prefix, _, hasPrefix := strings.Cut(text, "_")
	list := recordLists[prefix]
	switch {
	case text == "":
		return &View{Title: "Search", Blocks: []Block{{Choices: &Choices{Action: v.ownAddress(), Submit: "Search",
			Fields: []Field{
				{Name: "q", Label: "An id, or how a merchant's name begins", Kind: fieldText}}}}}}, nil
	case hasPrefix && list != "":
		return nil, &moved{v.addressOf(list, text)}
	case len(text) == 4 && isDigits(text):
		return nil, &moved{v.addressOf("cards") + "?last4=" + text}
	case hasPrefix && prefix == ident.TransferGroup:
		return nil, &moved{v.addressOf("treasury") + "?transferGroup=" + url.QueryEscape(text)}
	}
	return nil, &moved{v.addressOf("swipes") + "?merchant=" + url.QueryEscape(text)}
}
