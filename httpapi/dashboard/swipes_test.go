package dashboard

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence/money"
)

// The sum behind a decision ends with the rest or with the excess, and has only the amounts that the
// decision compared.
func TestTheSumBehindADecision(t *testing.T) {
	f := func(reason, code string, limit, spent, asked money.Cents, want ...string) {
		t.Helper()
		a := &authorization{Decision: "declined", Reason: reason, ResponseCode: code, AmountCents: asked}
		if reason == "approved" {
			a.Decision = reason
		}
		a.Checked = &struct{ LimitCents, SpentCents, AskedCents money.Cents }{limit, spent, asked}
		var lines []string
		for _, l := range a.whyBlock().Sum {
			lines = append(lines, l.Name+" "+l.Amount)
		}
		require.Equal(t, want, lines)
	}
	f("approved", "00", 100_00, 30_00, 50_00, "Monthly limit of the card $100.00", "Spent and held before −$30.00",
		"Room $70.00", "Asked for −$50.00", "Left after it $20.00")
	f("approved", "00", 100_00, 0, 0, "Monthly limit of the card $100.00", "Asked for $0.00", "Left after it $100.00")
	f("monthly_limit_exceeded", "61", 100_00, 60_00, 41_00, "Monthly limit of the card $100.00",
		"Spent and held before −$60.00", "Room $40.00", "Asked for −$41.00", "Over by $1.00")
	f("insufficient_funds", "51", 390_00, 0, 500_00, "Dollars available $390.00", "Asked for −$500.00",
		"Over by $110.00")
	f("per_transaction_limit_exceeded", "61", 20_00, 0, 25_00, "Limit of one swipe $20.00", "Asked for −$25.00",
		"Over by $5.00")
	f("approved", partialApproval, 100_00, 60_00, 90_00) // the record does not name the limit that bound
}

// A swipe that was approved in part never shows the requested amount as the approved one.
func TestAPartialApprovalDoesNotShowTheAskedAmountAsApproved(t *testing.T) {
	a := &authorization{Decision: "approved", Reason: "approved", ResponseCode: partialApproval, Status: "held",
		AmountCents: 500_00, HeldCents: 390_00}
	require.Equal(t, "Asked for", a.moneyBlock().Sum[0].Name)
	steps := a.lifeSteps()
	require.Equal(t, Step{Name: "Authorized in part", At: steps[0].At, Text: "The merchant asked for $500.00."},
		steps[0])
	require.Equal(t, "$390.00", steps[1].Amount)
}

// Three lines of a chart reach its largest amount, and no two have the same text.
func TestTheAxisOfAChart(t *testing.T) {
	for _, most := range []money.Cents{1, 100, 301, 600_01, 1_500_00, 12_345_67, 1_500_000_00, 1 << 50} {
		c := newChart([]ChartEntry{{Amount: most, Name: "a"}, {Amount: -1, Name: "b"}})
		require.GreaterOrEqual(t, axisStep(most)*chartLines, most)
		seen := map[string]bool{}
		for _, line := range c.Lines {
			require.False(t, seen[line.Text], "%d: %q", most, line.Text)
			seen[line.Text] = true
		}
		require.LessOrEqual(t, c.Columns[0].Height, chartHeight-chartTop)
		require.Zero(t, c.Columns[1].Height)
	}
	require.Equal(t, "$1.5k", axisText(1_500_00))
}

// A chip shows a text as it was entered, and cuts ids alone.
func TestAChipShowsItsValue(t *testing.T) {
	require.Equal(t, "Starbucks Coffee", chipText([]Field{{Name: "merchant", Value: "Starbucks Coffee"}}))
	require.Equal(t, "card_01m7…v0j61", chipText([]Field{{Name: "cardId", Value: "card_01m7wd7tg0ewcaydxa69av0j61"}}))
	amounts := []Field{{Name: "amountFrom", Kind: fieldDollars, Value: "10.00"}, {Name: "amountTo",
		Kind: fieldDollars}}
	require.Equal(t, "from $10.00", chipText(amounts))
	amounts[1].Value = "20.00"
	require.Equal(t, "$10.00 to $20.00", chipText(amounts))
	require.False(t, strings.Contains(cutID("short_1"), "…"))
}

// A chip of days offers periods up to today, which keep the other filters, and names the one that
// is set.
func TestAChipOfDaysOffersPeriods(t *testing.T) {
	visited := newVisit(&scriptedAPI{may: true}, "GET", "ws_1/swipes", nil)
	visited.Now, visited.Query = time.Date(2026, 11, 28, 23, 0, 0, 0, time.UTC), url.Values{"merchant": {"Harbor"},
		"to": {"2026-11-01"}, "cursor": {"x"}}
	v := &visit{Visit: visited}
	days := func() Chip {
		return v.drawFilters("", []Field{{Name: "from", Kind: fieldDate, Chip: "Time"}, {Name: "to", Kind: fieldDate,
			Chip: "Time"}}).Chips[0]
	}
	require.Equal(t, "up to 1 Nov 2026", days().Set)
	week := v.ownAddress() + "?from=2026-11-22&merchant=Harbor"
	require.Equal(t, []Link{{"Last 7 days", week}, {"Last 30 days", v.ownAddress() +
		"?from=2026-10-30&merchant=Harbor"}},
		days().Links)
	visited.Query = url.Values{"from": {"2026-11-22"}}
	require.Equal(t, "last 7 days", days().Set)
	visited.Query.Set("to", "2026-11-25")
	require.Equal(t, "22 Nov 2026 to 25 Nov 2026", days().Set)
}
