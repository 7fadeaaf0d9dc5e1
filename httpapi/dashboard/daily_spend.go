package dashboard

import (
	"time"

	"purser/httpapi/web"
	"purser/persistence/money"
)

const dailyPath = "/api/treasury/daily"

// dailyTotals is the answer of GET /api/treasury/daily.
type dailyTotals struct {
	Days []struct {
		Day        string
		SpentCents money.Cents
	}
	Complete bool
}

// dailySpend draws the dollars spent on each day that the interface's daily totals have: a chart,
// and a table of the days with spend, newest first, each with a link to its lines of the ledger. It
// is nil without spend, and for a role that may not read the totals.
func dailySpend(v *visit) ([]Block, error) {
	if !v.API.May("GET", dailyPath) {
		return nil, nil
	}
	var totals dailyTotals
	if err := v.readInto(&totals, dailyPath); err != nil {
		return nil, err
	}
	var most, sum money.Cents
	for _, d := range totals.Days {
		most, sum = max(most, d.SpentCents), sum+d.SpentCents
	}
	if most == 0 {
		return nil, nil
	}
	table := &Table{Caption: "Days with spend, newest first", Columns: []Column{{Name: "Day (UTC)"}, {Name: "Spent",
		Number: true}}}
	var entries []ChartEntry
	for _, d := range totals.Days {
		label := dayText(d.Day)
		entries = append(entries, ChartEntry{d.SpentCents, label, label + ": " + web.Dollars(d.SpentCents)})
		if d.SpentCents != 0 {
			row := []Cell{linkCell(label, v.addressOf("treasury")+"?from="+d.Day+"&to="+d.Day),
				dollarCell(d.SpentCents)}
			table.Rows = append([][]Cell{row}, table.Rows...)
		}
	}
	chart := newChart(entries)
	chart.Total, chart.Note, chart.Table = web.Dollars(sum), "cleared in "+countOf(len(entries), "day")+
		": swipes, payouts and fees, less refunds and returns", table
	chart.Text = "Spent by day from " + entries[0].Label + " to " + entries[len(entries)-1].Label + ": " +
		web.Dollars(sum) +
		", at most " + web.Dollars(most) + " on a day."
	if !totals.Complete {
		chart.Note += ". Earlier days have too many entries to add up here"
	}
	return []Block{{Heading: "Spend by day", Chart: chart}}, nil
}

// dayText writes a day of the interface for people.
func dayText(day string) string {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return at.Format("2 Jan")
}
