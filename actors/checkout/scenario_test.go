package checkout_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"purser/actors/checkout"
	"purser/actors/checkout/address"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/persistence/money"
)

var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// scenario is one link with its timers and records. Every step also checks the package's contract:
// Decide changes nothing, events decode to themselves, and the merchant's text is in the sealed
// record only.
type scenario struct {
	state   checkout.State
	now     time.Time
	timers  map[string]time.Time
	watched bool
}

func newScenario() *scenario { return &scenario{now: began, timers: map[string]time.Time{}} }

const merchantText = "order of Jane Doe"

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step {
		s := newScenario()
		return func(t *testing.T, d *datadriven.TestData) string { return s.step(t, arguments{t, d}) }
	})
}

type arguments struct {
	t *testing.T
	d *datadriven.TestData
}

func (a arguments) text(name, otherwise string) string {
	if !a.d.HasArg(name) {
		return otherwise
	}
	var value string
	a.d.ScanArgs(a.t, name, &value)
	return value
}

func (a arguments) list(name string) []string {
	if !a.d.HasArg(name) {
		return nil
	}
	return strings.Split(a.text(name, ""), "+")
}

func (a arguments) number(name string, otherwise int) int {
	n, err := strconv.Atoi(a.text(name, strconv.Itoa(otherwise)))
	require.NoError(a.t, err)
	return n
}

func (a arguments) duration(name string, otherwise time.Duration) time.Duration {
	return decisiontest.Duration(a.t, a.text(name, otherwise.String()))
}

func (s *scenario) step(t *testing.T, a arguments) string {
	switch a.d.Cmd {
	case "new":
		*s = *newScenario()
		return ""
	case "accept":
		return describeAccepted(a)
	case "create":
		return s.create(t, a)
	case "pick":
		return s.send(t, checkout.Select{Asset: a.d.CmdArgs[0].Key, Chain: a.d.CmdArgs[1].Key})
	case "cancel":
		return s.send(t, checkout.Cancel{})
	case "simulate":
		return s.send(t, checkout.Simulate{})
	case "credit":
		return s.send(t, checkout.Credit{})
	case "see", "gone":
		return s.send(t, s.observation(a))
	case "wait":
		return s.advanceClock(t, a.duration("for", 0))
	case "status":
		return s.describeStatus()
	case "payments":
		return s.describePayments()
	case "table":
		return transitionTable(t)
	}
	a.d.Fatalf(t, "no such step")
	return ""
}

func servedEverywhere(string) bool { return true }

func describeAccepted(a arguments) string {
	without := a.text("without", "")
	accepted, err := checkout.Accept(a.list("assets"), a.list("chains"),
		func(chain string) bool { return chain != without })
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "on %s\n", strings.Join(accepted.Chains, ", "))
	for _, p := range accepted.Pairs {
		fmt.Fprintf(&out, "  %s on %s\n", p.Asset, p.Chain)
	}
	return out.String()
}

func (s *scenario) create(t *testing.T, a arguments) string {
	accepted, err := checkout.Accept(a.list("assets"), a.list("chains"), servedEverywhere)
	require.NoError(t, err)
	for i := range accepted.Pairs {
		accepted.Pairs[i].Address = addressOf(accepted.Pairs[i].Chain)
	}
	c := checkout.Create{ID: "cs_1", Workspace: "ws_1", AmountUsdCents: money.Cents(a.number("cents", 2_500)),
		Accepted: accepted,
		Expires:  a.duration("expires", checkout.DefaultExpires), SettlementOption: checkout.HoldStablecoin,
		Prices: map[string]string{"ETH": "3150.42", "BTC": "97000"},
		Tolerance: checkout.Tolerance{BasisPoints: int64(a.number("points", 0)),
			Cents: money.Cents(a.number("cent", 0))},
		Text: checkout.Text{SuccessURL: a.text("success", "https://shop.example/thanks"), CancelURL: a.text("back", ""),
			Description: merchantText, MerchantReference: strings.Repeat("é", a.number("reference", 1)),
			Metadata: map[string]json.RawMessage{"note": json.RawMessage(`"` + strings.Repeat("x",
				a.number("metadata", 1)) + `"`)}}}
	return s.send(t, c)
}

func addressOf(chain string) string { return "address-" + string(address.FamilyOf(chain)) }

// observation returns the observation of a transfer. "coins" are whole coins.
func (s *scenario) observation(a arguments) checkout.Observed {
	asset, chain := a.text("asset", "USDC"), a.text("chain", "polygon")
	decimals := map[string]int64{"ETH": 18, "BTC": 8}[asset]
	if decimals == 0 {
		decimals = 6
	}
	coins, ok := new(big.Rat).SetString(a.text("coins", "25"))
	require.True(a.t, ok)
	units := coins.Mul(coins, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(decimals), nil)))
	require.True(a.t, units.IsInt())
	return checkout.Observed{Chain: chain, Asset: asset, Address: a.text("to", addressOf(chain)),
		TxHash: a.text("tx", "0xa"),
		Index:  a.number("index", 0), Amount: units.Num().String(), Block: 100, BlockHash: a.text("block", "0xb1"),
		Confirmations: a.number("blocks", 0), Threshold: a.number("of", 12), At: s.now.Add(-a.duration("ago", 0)),
		From: "0xpayer", Removed: a.d.Cmd == "gone"}
}

// advanceClock advances the clock and fires the due timers.
func (s *scenario) advanceClock(t *testing.T, d time.Duration) string {
	var out strings.Builder
	until := s.now.Add(d)
	for {
		key := ""
		for _, k := range slices.Sorted(maps.Keys(s.timers)) {
			if due := s.timers[k]; !due.After(until) && (key == "" || due.Before(s.timers[key])) {
				key = k
			}
		}
		if key == "" {
			break
		}
		s.now = s.timers[key]
		fmt.Fprintf(&out, "after %s:\n%s", s.now.Sub(began), s.send(t, decision.Fire{Key: key, Due: s.now}))
	}
	s.now = until
	return out.String()
}

func (s *scenario) send(t *testing.T, command any) string {
	d, err := decisiontest.Decide(t, &s.state, s.now, command)
	if err != nil {
		return decisiontest.RefusalLine(t, err)
	}
	var out strings.Builder
	for _, e := range d.Events {
		s.apply(t, &out, e)
	}
	if fire, ok := command.(decision.Fire); ok && !slices.ContainsFunc(d.Timers,
		func(t decision.Timer) bool { return t.Key == fire.Key }) {
		delete(s.timers, fire.Key)
	}
	s.store(t, &out, d)
	out.WriteString(decisiontest.TallyLines(d.Tallies))
	require.NotContains(t, decisiontest.JSON(t, d.Events)+decisiontest.JSON(t, s.state), merchantText)
	s.describeReply(t, &out, d.Reply)
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

func (s *scenario) apply(t *testing.T, out *strings.Builder, e decision.Event) {
	types := decisiontest.Apply(t, &s.state, checkout.DecodeEvent, e)
	switch e := e.(type) {
	case checkout.Moved:
		fmt.Fprintf(out, "%s → %s\n", e.From, e.To)
	case checkout.SessionCompleted:
		fmt.Fprintf(out, "%s → completed by %s\n", e.From, e.TxHash)
		if e.ShortfallCents > 0 {
			fmt.Fprintf(out, "  %d short\n", e.ShortfallCents)
		}
	case checkout.SessionCredited:
		fmt.Fprintf(out, "credited %d\n", e.AmountUsdCents-e.ShortfallCents)
	default:
		out.WriteString(types)
	}
}

func (s *scenario) store(t *testing.T, out *strings.Builder, d decision.Decision) {
	for _, r := range d.Records {
		switch r.Kind {
		case checkout.RecordText:
			require.True(t, r.Personal)
		case checkout.RecordWatch:
			s.watched = !r.Delete
			fmt.Fprintf(out, "  watched: %t\n", s.watched)
		}
	}
	for _, timer := range d.Timers {
		if s.timers[timer.Key] = timer.Due; timer.Due.IsZero() {
			delete(s.timers, timer.Key)
			continue
		}
		fmt.Fprintf(out, "  timer %s at %s\n", timer.Key, timer.Due.Sub(began))
	}
	require.Equal(t, s.watched, s.state.Watching)
	if s.state.Watching {
		require.Contains(t, s.timers, "watch", "a watch has an end")
	}
	if s.state.Status == checkout.Pending || s.state.Status == checkout.Awaiting {
		require.Contains(t, s.timers, "end", "a link has an end")
	}
}

func (s *scenario) describeReply(t *testing.T, out *strings.Builder, reply any) {
	switch r := reply.(type) {
	case checkout.Selection:
		fmt.Fprintf(out, "to %s: %s %s (%s units)\n", r.Pair.Address, r.Coins, r.Pair.Asset, r.Units)
	case checkout.Noted:
		if r != checkout.NotedNew {
			fmt.Fprintf(out, "%s\n", r)
		}
	case checkout.View:
		require.Equal(t, s.state.View(s.now), r, "the reply shows the state after the events")
	}
}

func (s *scenario) describeStatus() string {
	v := s.state.CustomerView(s.now)
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %d of %d, received %d, due %d", v.Status, v.Confirmations.Seen, v.Confirmations.Of,
		v.ReceivedUsdCents,
		v.DueUsdCents)
	m := s.state.View(s.now)
	if v.LateUsdCents > 0 {
		fmt.Fprintf(&out, ", late %d", v.LateUsdCents)
	}
	if v.Cancelled {
		out.WriteString(", cancelled")
	}
	if v.Asset != nil {
		fmt.Fprintf(&out, ", %s on %s", *v.Asset, *v.Chain)
	} else if m.Asset != nil {
		fmt.Fprintf(&out, ", picked %s on %s", *m.Asset, *m.Chain)
	}
	if m.ToleranceUsdCents > 0 {
		fmt.Fprintf(&out, ", tolerance %d, shortfall %d", m.ToleranceUsdCents, m.ShortfallUsdCents)
	}
	fmt.Fprintf(&out, ", %d can be paid\n", len(v.ReceivingAddresses))
	return out.String()
}

func (s *scenario) describePayments() string {
	var out strings.Builder
	for _, p := range s.state.View(s.now).Payments {
		fmt.Fprintf(&out, "%s/%d: %s units of %s on %s, %s, %d of 3", p.TxHash, p.Index, p.Units, p.Asset, p.Chain,
			p.Status,
			p.Confirmations.Seen)
		if p.Reason != nil {
			fmt.Fprintf(&out, ", does not count: %s", *p.Reason)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// transitionTable brings a link into each status and applies each action to it.
func transitionTable(t *testing.T) string {
	usdc := checkout.Observed{Chain: "polygon", Asset: "USDC", Address: addressOf("polygon"), TxHash: "0x1",
		BlockHash: "0xb",
		Block:     1, Threshold: 12, At: began}
	pay := func(tx, units string, blocks int) checkout.Observed {
		o := usdc
		o.TxHash, o.Amount, o.Confirmations = tx, units, blocks
		return o
	}
	gone := pay("0x1", "25000000", 0)
	gone.Removed = true
	pick := checkout.Select{Asset: "USDC", Chain: "polygon"}
	ways := []struct {
		status string
		steps  []any
		wait   time.Duration
	}{
		{checkout.Pending, nil, 0},
		{checkout.Awaiting, []any{pick}, 0},
		{checkout.Confirming, []any{pick, pay("0x1", "25000000", 1)}, 0},
		{checkout.Underpaid, []any{pick, pay("0x1", "24000000", 12)}, 0},
		{checkout.Completed, []any{pick, pay("0x1", "25000000", 12)}, 0},
		{checkout.Expired, []any{pick}, 40 * time.Minute},
		{checkout.Failed, []any{pick, pay("0x1", "25000000", 1), gone}, 25 * time.Hour},
	}
	tries := []struct {
		name    string
		command any
	}{
		{"pick", checkout.Select{Asset: "USDC", Chain: "base"}}, {"cancel", checkout.Cancel{}},
		{"simulate", checkout.Simulate{}},
		{"a payment in full", pay("0x2", "25000000", 12)}, {"a part of it", pay("0x2", "1000000", 12)},
		{"a payment to confirm", pay("0x2", "25000000", 1)},
		{"a withdrawal", func() any { o := gone; return o }()}, {"a repeat of the pick", pick},
	}
	var out strings.Builder
	for _, way := range ways {
		for _, try := range tries {
			s := newScenario()
			accepted, err := checkout.Accept([]string{"USDC"}, nil, servedEverywhere)
			require.NoError(t, err)
			for i := range accepted.Pairs {
				accepted.Pairs[i].Address = addressOf(accepted.Pairs[i].Chain)
			}
			s.send(t, checkout.Create{ID: "cs_1", Workspace: "ws_1", AmountUsdCents: 2_500, Accepted: accepted,
				Expires: checkout.DefaultExpires, SettlementOption: checkout.HoldStablecoin,
				Text: checkout.Text{SuccessURL: "https://shop.example"}})
			for _, step := range way.steps {
				s.send(t, step)
			}
			s.advanceClock(t, way.wait)
			require.Equal(t, way.status, s.state.Status)
			reply := s.send(t, try.command)
			outcome := "stays"
			if s.state.Status != way.status {
				outcome = "→ " + s.state.Status
			} else if strings.HasPrefix(reply, "refused") {
				outcome = strings.TrimSpace(reply)
			}
			fmt.Fprintf(&out, "%-17s %-21s %s\n", way.status, try.name, outcome)
		}
	}
	return out.String()
}
