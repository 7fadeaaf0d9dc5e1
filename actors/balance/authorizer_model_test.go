package balance_test

import (
	"time"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// authorizerModel is a card authorizer of one workspace without storage: it decides messages with
// hold.Decide and keeps the entries that the relay would bring.
type authorizerModel struct {
	now     time.Time
	ledger  money.Cents
	card    money.Cents
	spends  map[string]*hold.Spend // by card
	holds   map[string]*hold.Hold  // by the network id of their first message
	entries []hold.Entry
}

func newAuthorizerModel() *authorizerModel {
	return &authorizerModel{now: start, spends: map[string]*hold.Spend{}, holds: map[string]*hold.Hold{}}
}

func cardNamed(name string) ident.UUID { return ident.Derive(77, start, "card/"+name) }

// send decides a message of a card on the authorization with the network id of. The card "" is
// unknown to the authorizer.
func (n *authorizerModel) send(m hold.Message, card, of string) *hold.Entry {
	if m.Currency == [3]byte{} {
		m.Currency = [3]byte{'U', 'S', 'D'}
	}
	m.OriginalID = of
	v := hold.View{
		Now: n.now.UnixMilli(), Spend: *n.spend(card), Spendable: n.ledger + n.card, Hold: n.holds[of],
		NewID: ident.Derive(77, n.now, "auth/"+m.ID),
	}
	if card != "" {
		v.Rule = &hold.Rule{
			Card: cardNamed(card), Workspace: workspaceID, State: hold.CardActive, PerTxnCents: 1_000_000,
			MonthCents: 5_000_000,
		}
	}
	var e hold.Entry
	hold.Decide(&v, &m, &e)
	return n.appendEntry(e, card, of)
}

func (n *authorizerModel) expire(card, of string) *hold.Entry {
	v := hold.View{Now: n.now.UnixMilli(), Spend: *n.spend(card), Hold: n.holds[of]}
	var e hold.Entry
	hold.Expire(&v, &e)
	return n.appendEntry(e, card, of)
}

// undoTimeout undoes an approval that was answered as a timeout.
func (n *authorizerModel) undoTimeout(card string, approval *hold.Entry) *hold.Entry {
	v := hold.View{Now: n.now.UnixMilli(), Spend: *n.spend(card), Hold: n.holds[approval.NetworkID]}
	var e hold.Entry
	hold.TakeBack(&v, approval, &e)
	return n.appendEntry(e, card, approval.NetworkID)
}

func (n *authorizerModel) appendEntry(e hold.Entry, card, of string) *hold.Entry {
	e.WsSeq = uint64(len(n.entries) + 1)
	first := of
	if n.holds[of] == nil {
		first = e.NetworkID
	}
	h := n.holds[first]
	if h == nil {
		h = &hold.Hold{}
	}
	hold.Apply(&e, n.spend(card), h, &n.card)
	if !h.ID.IsZero() {
		n.holds[first] = h
	}
	n.entries = append(n.entries, e)
	return &n.entries[len(n.entries)-1]
}

func (n *authorizerModel) spend(card string) *hold.Spend {
	if n.spends[card] == nil {
		n.spends[card] = &hold.Spend{}
	}
	return n.spends[card]
}

func (n *authorizerModel) held() money.Cents {
	sum := money.Cents(0)
	for _, h := range n.holds {
		sum += h.Held
	}
	return sum
}
