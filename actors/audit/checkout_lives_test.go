package audit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/checkout"
	"purser/actors/decision"
	"purser/persistence/ident"
	"purser/persistence/money"
)

var lifeBegins = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// checkoutLife is a link of 25.00 in USDC with a tolerance of 12 cents that the decisions of the
// checkout package move.
type checkoutLife struct {
	*testing.T
	stores *auditedStores
	state  checkout.State
	now    time.Time
	events int
}

// do decides a command after a delay, and stores its events.
func (l *checkoutLife) do(after time.Duration, command any) {
	l.Helper()
	l.now = l.now.Add(after)
	d, err := l.state.Decide(decision.Meta{At: l.now}, command)
	require.NoError(l, err)
	for _, e := range d.Events {
		l.state.Apply(e)
		payload, err := decision.Encode(e)
		require.NoError(l, err)
		l.stores.event("checkout", soldID, e.EventType(), string(payload))
		l.events++
	}
}

// pay observes a transfer of USDC in a block with a number of confirmations out of three.
func (l *checkoutLife) pay(after time.Duration, hash, block string, units, confirmations int, removed bool) {
	l.Helper()
	l.do(after, checkout.Observed{Chain: "base", Asset: "USDC", Address: "0xa", TxHash: hash,
		Amount: fmt.Sprint(units), BlockHash: block, Confirmations: confirmations, Threshold: 3,
		At: l.now.Add(after), From: "0x2", Removed: removed})
}

// credit credits the completed link to the balance.
func (l *checkoutLife) credit() {
	cents := l.state.AmountUsdCents - l.state.ShortfallCents
	l.stores.event("balance", workspace, "balance.checkout_credited.v1", fmt.Sprintf(
		`{"session":%q,"amountUsdCents":%d,"postings":[%s,%s]}`, soldID, cents,
		posting("sold", "stablecoin", int(cents)), posting("sold", "chain", -int(cents))))
	l.do(time.Second, checkout.Credit{})
	editDocument("balance", `"usdCents"`, fmt.Sprintf(`"stablecoinCents":%d,"usdCents"`, cents))(l.stores)
	l.stores.version("balance", 5)
	l.stores.record("ledger_entry", id(ident.LedgerEntry, "sold"), 0, fmt.Sprintf(
		`{"direction":"credit","amountCents":%d,"transferGroup":%q}`, cents, id(ident.TransferGroup, "sold")))
}

// checkoutLives are lives of a link, with the status in which each ends.
var checkoutLives = map[string]struct {
	live   func(*checkoutLife)
	status string
}{
	"not selected": {func(*checkoutLife) {}, checkout.Pending},
	"cancelled":    {func(l *checkoutLife) { l.do(0, checkout.Cancel{}) }, checkout.Expired},
	"paid exactly": {func(l *checkoutLife) {
		l.do(0, checkout.Select{Asset: "USDC", Chain: "base"})
		for confirmations := range 4 {
			l.pay(time.Second, "0x1", "0xb1", 25_000_000, confirmations, false)
		}
		l.credit()
	}, checkout.Completed},
	"paid too much by two payments": {func(l *checkoutLife) {
		l.do(0, checkout.Select{Asset: "USDC", Chain: "base"})
		l.pay(time.Second, "0x1", "0xb1", 24_000_000, 3, false)
		l.pay(time.Second, "0x2", "0xb2", 2_000_000, 3, false)
		l.credit()
	}, checkout.Completed},
	"underpaid": {func(l *checkoutLife) {
		l.do(0, checkout.Select{Asset: "USDC", Chain: "base"})
		l.pay(time.Second, "0x1", "0xb1", 24_000_000, 3, false)
	}, checkout.Underpaid},
	"underpaid within the tolerance": {func(l *checkoutLife) {
		l.do(0, checkout.Select{Asset: "USDC", Chain: "base"})
		l.pay(time.Second, "0x1", "0xb1", 24_880_000, 3, false)
		require.Equal(l, money.Cents(12), l.state.ShortfallCents)
		l.credit()
	}, checkout.Completed},
	"paid late": {func(l *checkoutLife) {
		l.do(0, checkout.Select{Asset: "USDC", Chain: "base"})
		l.do(time.Hour+checkout.LastLook, decision.Fire{Key: "end"})
		l.pay(time.Second, "0x1", "0xb1", 25_000_000, 3, false)
		require.Equal(l, checkout.TooLate, l.state.Payments[0].Reason)
	}, checkout.Expired},
	"moved between blocks": {func(l *checkoutLife) {
		l.do(0, checkout.Select{Asset: "USDC", Chain: "base"})
		for i := range 6 {
			block := fmt.Sprint("0xb", i)
			l.pay(time.Second, "0x1", block, 25_000_000, 1, false)
			l.pay(time.Second, "0x1", block, 25_000_000, 1, true)
		}
		l.pay(time.Second, "0x1", "0xb5", 25_000_000, 3, false)
		l.pay(time.Second, "0x1", "0xb5", 25_000_000, 3, true) // after the completion
		l.credit()
	}, checkout.Completed},
	"simulated": {func(l *checkoutLife) {
		l.do(0, checkout.Select{Asset: "USDC", Chain: "base"})
		l.do(time.Second, checkout.Simulate{})
		l.credit()
	}, checkout.Completed},
}

// liveLink makes a link and its life. The last step, edit, changes the link's record and events.
func liveLink(t *testing.T, live func(*checkoutLife), edit func(string) string) (*auditedStores, checkout.State) {
	l := &checkoutLife{T: t, stores: newAuditedStores(), now: lifeBegins}
	l.do(0, checkout.Create{ID: soldID, Workspace: workspace, AmountUsdCents: 2500,
		Text: checkout.Text{SuccessURL: "https://shop.example/"}, Expires: time.Hour,
		Accepted: checkout.Accepted{Assets: []string{"USDC"}, Chains: []string{"base"},
			Pairs: []checkout.Pair{{Asset: "USDC", Chain: "base", Address: "0xa"}}},
		SettlementOption: checkout.HoldStablecoin, Tolerance: checkout.Tolerance{BasisPoints: 50}})
	live(l)
	document, err := json.Marshal(&l.state)
	require.NoError(t, err)
	l.stores.record("checkout", soldID, uint64(l.events), edit(string(document)))
	for i := range l.stores.events {
		l.stores.events[i].Payload = json.RawMessage(edit(string(l.stores.events[i].Payload)))
	}
	open := 0
	if l.state.Status == checkout.Pending {
		open = 1
	}
	l.stores.record("tally_checkout_open", workspace, 0, fmt.Sprintf(`{"count":%d,"first":%q}`, open, soldID))
	return l.stores, l.state
}

func TestEveryHonestLifeOfACheckoutIsClean(t *testing.T) {
	for name, c := range checkoutLives {
		t.Run(name, func(t *testing.T) {
			s, state := liveLink(t, c.live, func(stored string) string { return stored })
			require.Equal(t, c.status, state.Status)
			require.Empty(t, s.runAudit(t).Findings)
			editDocument("checkout", `"amountUsdCents":2500`, `"amountUsdCents":9500`)(s)
			findings := s.runAudit(t).Findings
			require.Len(t, findings, 1)
			require.Equal(t, []string{"checkout", soldID, "amount", "2500", "9500"}, []string{findings[0].Kind,
				findings[0].ID, findings[0].What, findings[0].Expected, findings[0].Actual})
		})
	}
}

// A link of a version without tolerances has none in its events and its record.
func TestACheckoutStoredBeforeTolerancesIsClean(t *testing.T) {
	s, _ := liveLink(t, checkoutLives["paid exactly"].live, func(stored string) string {
		return strings.ReplaceAll(stored, `"toleranceCents":12,`, "")
	})
	require.NotContains(t, string(s.events[7].Payload), "toleranceCents")
	require.Empty(t, s.runAudit(t).Findings)
}

// A record that is falsified before its payment makes the link complete with the false amount.
func TestALinkThatIsFalsifiedBeforeItsPaymentIsNamed(t *testing.T) {
	s, _ := liveLink(t, func(l *checkoutLife) {
		l.do(0, checkout.Select{Asset: "USDC", Chain: "base"})
		l.state.AmountUsdCents = 9500
		l.do(time.Second, checkout.Simulate{})
		l.credit()
	}, func(stored string) string { return stored })
	var named []string
	for _, f := range s.runAudit(t).Findings {
		require.Equal(t, soldID, f.ID)
		named = append(named, f.What)
	}
	require.ElementsMatch(t, []string{"completed amount", "amount"}, named)
}
