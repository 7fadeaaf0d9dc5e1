package hold_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// The scenarios describe the life of a card in the field's terms. Amounts are dollars, a step names
// its authorization, and "left" is the spendable balance of the workspace and the card's spend in
// the month.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		w := &world{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.run(t, d) })
	})
}

// world is one workspace with two cards ("the card" and "other"), and their state.
type world struct {
	now    int64
	ledger money.Cents
	card   money.Cents // the workspace's cardCents
	cards  map[string]*plastic
	holds  map[string]*hold.Hold  // by network id
	owner  map[string]string      // the name of each hold's card
	early  map[string]bool        // tombstones by network id
	last   map[string]hold.Entry  // by network id
	rest   map[string]money.Cents // of the last increment of each hold, by the hold's network id
	ids    int
}

type plastic struct {
	rule  hold.Rule
	spend hold.Spend
}

func (w *world) id() ident.UUID {
	w.ids++
	return ident.Derive(7, time.UnixMilli(w.now), strconv.Itoa(w.ids))
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "card":
		return w.issue(t, d)
	case "rule":
		w.change(t, d, &w.cards["card"].rule)
		return ""
	case "funds":
		w.ledger += cents(t, d, "add")
		return w.left("card")
	case "time":
		w.now = when(t, arg(d, "to"))
		return ""
	case "show":
		return describe(w.holds[d.CmdArgs[0].Key])
	case "expire":
		return w.time(t, d, func(v *hold.View, e *hold.Entry) { hold.Expire(v, e) })
	case "take-back":
		return w.time(t, d, func(v *hold.View, e *hold.Entry) {
			approval := w.last[d.CmdArgs[0].Key]
			hold.TakeBack(v, &approval, e)
		})
	}
	return w.message(t, d)
}

func (w *world) issue(t *testing.T, d *datadriven.TestData) string {
	*w = world{
		now: when(t, arg(d, "at")), ledger: cents(t, d, "funds"), cards: map[string]*plastic{},
		holds: map[string]*hold.Hold{},
		owner: map[string]string{}, early: map[string]bool{}, last: map[string]hold.Entry{},
		rest: map[string]money.Cents{},
	}
	workspace := w.id()
	for _, name := range []string{"card", "other"} {
		p := &plastic{rule: hold.Rule{Card: w.id(), Workspace: workspace, State: hold.CardActive,
			MonthCents:  money.MaxAmount,
			PerTxnCents: money.MaxAmount}}
		w.change(t, d, &p.rule)
		w.cards[name] = p
	}
	return ""
}

func (w *world) change(t *testing.T, d *datadriven.TestData, r *hold.Rule) {
	if d.HasArg("limit") {
		r.PerTxnCents = cents(t, d, "limit")
	}
	if d.HasArg("month") {
		r.MonthCents = cents(t, d, "month")
	}
	if d.HasArg("state") {
		require.NoError(t, r.State.UnmarshalText([]byte(arg(d, "state"))))
	}
	if a, ok := d.Arg("mccs"); ok {
		r.MCCs = []uint16{}
		for _, s := range a.Vals {
			if mcc, ok := hold.ParseMCC(s); ok {
				r.MCCs = append(r.MCCs, mcc)
			}
		}
	}
	if a, ok := d.Arg("merchants"); ok {
		r.Merchants = []string{}
		for _, s := range a.Vals {
			if s != "none" {
				r.Merchants = append(r.Merchants, hold.NormalizeMerchant(strings.ReplaceAll(s, "_", " ")))
			}
		}
	}
}

var kinds = map[string]hold.Kind{
	"swipe": hold.Authorization, "increment": hold.Incremental, "reverse": hold.Reversal, "clear": hold.Clearing,
	"refund": hold.Refund,
}

func (w *world) message(t *testing.T, d *datadriven.TestData) string {
	kind, ok := kinds[d.Cmd]
	require.True(t, ok, "no such step: %s", d.Cmd)
	m := hold.Message{
		Kind: kind, ID: fmt.Sprintf("%s %s", d.Cmd, d.CmdArgs[0].Key), Currency: [3]byte([]byte("USD")),
		Amount: cents(t, d, "amount"), Merchant: hold.Merchant{Name: "Corner Shop", MCC: 5411},
		PartialApproval: d.HasArg("partial"), Final: d.HasArg("final"), WholeHold: !d.HasArg("amount"),
		Invalid: arg(d, "invalid"),
	}
	name := d.CmdArgs[0].Key
	if kind == hold.Authorization {
		m.ID = name
	} else if !d.HasArg("alone") {
		m.OriginalID = name
	}
	if d.HasArg("currency") {
		copy(m.Currency[:], arg(d, "currency"))
	}
	if d.HasArg("mcc") {
		m.Merchant.MCC, _ = hold.ParseMCC(arg(d, "mcc"))
	}
	if d.HasArg("merchant") {
		m.Merchant.Name = strings.ReplaceAll(arg(d, "merchant"), "_", " ")
	}
	m.Merchant.ID = arg(d, "merchant-id")
	if d.HasArg("until") {
		m.HoldExpiresAt = when(t, arg(d, "until"))
	}
	return w.decide(d, name, &m)
}

func (w *world) decide(d *datadriven.TestData, name string, m *hold.Message) string {
	card := "card"
	if d.HasArg("card") {
		card = arg(d, "card")
	}
	if m.Kind == hold.Reversal {
		card = w.owner[name]
	}
	v := hold.View{Now: w.now, NewID: w.id(), Spendable: w.ledger + w.card, Tombstoned: w.early[name]}
	if p := w.cards[card]; p != nil {
		v.Spend = p.spend
		if m.Kind != hold.Reversal {
			v.Rule = &p.rule
		}
	}
	if m.Kind != hold.Authorization && m.OriginalID != "" {
		v.Hold = w.holds[name]
	}
	v.OfIncrement, v.Left = d.HasArg("increment"), w.rest[name]
	var e hold.Entry
	hold.Decide(&v, m, &e)
	switch {
	case m.Kind == hold.Incremental:
		w.rest[name] = e.Approved
	case v.OfIncrement:
		w.rest[name] += e.HoldDelta
	}
	if e.Tombstone {
		w.early[e.OriginalID] = true
	}
	return w.apply(name, card, &e)
}

// time applies an entry without a message: an expiry or the return of a timed-out approval.
func (w *world) time(_ *testing.T, d *datadriven.TestData, decide func(*hold.View, *hold.Entry)) string {
	name := d.CmdArgs[0].Key
	card := w.owner[name]
	v := hold.View{Now: w.now, Spendable: w.ledger + w.card, Spend: w.cards[card].spend, Hold: w.holds[name]}
	var e hold.Entry
	decide(&v, &e)
	return w.apply(name, card, &e)
}

func (w *world) apply(name, card string, e *hold.Entry) string {
	var spend hold.Spend
	if p := w.cards[card]; p != nil {
		spend = p.spend
	}
	after := hold.Hold{}
	hold.Apply(e, &spend, &after, &w.card)
	if p := w.cards[card]; p != nil {
		p.spend = spend
	}
	if !after.ID.IsZero() {
		if known := w.holds[name]; known != nil && known.ID != after.ID {
			name += "'" // a forced post beside the authorization with that name
		}
		w.holds[name], w.owner[name] = &after, card
	}
	if e.Decision == hold.Approved {
		w.last[name] = *e
	}
	return w.outcome(e, card)
}

func (w *world) outcome(e *hold.Entry, card string) string {
	var b strings.Builder
	b.WriteString(e.Decision.String())
	switch {
	case e.Decision == hold.Approved && e.Approved < e.Amount:
		fmt.Fprintf(&b, " %s in part (%s)", dollars(e.Approved), e.Reason.ResponseCode(true))
	case e.Decision == hold.Approved, e.Decision == hold.Declined:
		fmt.Fprintf(&b, " %s (%s)", e.Reason, e.Reason.ResponseCode(false))
	case e.Reason != hold.ReasonApproved:
		fmt.Fprintf(&b, " %s", e.Reason)
	}
	if e.Tombstone {
		b.WriteString(", remembered for " + e.OriginalID)
	}
	if e.Workspace == ident.System {
		b.WriteString(", in no workspace")
	}
	b.WriteString("\n")
	if e.HasChecked && e.Decision == hold.Declined {
		c := e.Checked
		fmt.Fprintf(&b, "compared: limit %s, spent %s, asked %s\n", dollars(c.LimitCents), dollars(c.SpentCents),
			dollars(c.AskedCents))
	}
	moves := []string{}
	for _, m := range []struct {
		what string
		by   money.Cents
	}{{"funds", e.CardDelta}, {"hold", e.HoldDelta}, {"month", e.SpendDelta}, {"posted", e.Posted}} {
		if m.by != 0 {
			moves = append(moves, fmt.Sprintf("%s %s", m.what, signed(m.by)))
		}
	}
	if len(moves) > 0 {
		fmt.Fprintf(&b, "moves: %s\n", strings.Join(moves, ", "))
	}
	if !e.After.ID.IsZero() {
		b.WriteString(describe(&e.After))
	}
	if len(moves) > 0 {
		b.WriteString(w.left(card))
	}
	return b.String()
}

func describe(h *hold.Hold) string {
	var b strings.Builder
	fmt.Fprintf(&b, "authorization: %s (%s)", h.Status, h.ResponseCode())
	for _, part := range []struct {
		what string
		of   money.Cents
	}{{"held", h.Held}, {"cleared", h.Cleared}, {"refunded", h.Refunded}} {
		if part.of != 0 {
			fmt.Fprintf(&b, ", %s %s", part.what, dollars(part.of))
		}
	}
	if h.ExpiresAt != 0 {
		fmt.Fprintf(&b, ", until %s", time.UnixMilli(h.ExpiresAt).UTC().Format("2006-01-02T15:04"))
	}
	return b.String() + "\n"
}

func (w *world) left(card string) string {
	s := fmt.Sprintf("left: funds %s", dollars(w.ledger+w.card))
	if p := w.cards[card]; p != nil && p.spend.Month != 0 {
		s += fmt.Sprintf(", spent %s in %d", dollars(p.spend.Cents), p.spend.Month)
	}
	return s + "\n"
}

func arg(d *datadriven.TestData, key string) string {
	if a, ok := d.Arg(key); ok && len(a.Vals) > 0 {
		return a.Vals[0]
	}
	return ""
}

func cents(t *testing.T, d *datadriven.TestData, key string) money.Cents {
	s := arg(d, key)
	if s == "" {
		return 0
	}
	whole, part, found := strings.Cut(s, ".")
	require.True(t, found && len(part) == 2, "%s=%s is not dollars and cents", key, s)
	n, err := strconv.ParseInt(whole+part, 10, 64)
	require.NoError(t, err)
	return money.Cents(n)
}

func dollars(c money.Cents) string {
	sign := ""
	if c < 0 {
		sign, c = "-", -c
	}
	return fmt.Sprintf("%s%d.%02d", sign, c/100, c%100)
}

func signed(c money.Cents) string {
	if c > 0 {
		return "+" + dollars(c)
	}
	return dollars(c)
}

func when(t *testing.T, s string) int64 {
	at, err := time.Parse("2006-01-02T15:04", s)
	require.NoError(t, err)
	return at.UnixMilli()
}
