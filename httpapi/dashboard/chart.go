package dashboard

import (
	"fmt"
	"strconv"

	"purser/persistence/money"
)

// Chart is a chart of dollars over time, with a table of them below it. Text is the chart in words.
type Chart struct {
	Text        string
	Total, Note string // the sum, and a sentence about it
	Height      int
	Columns     []ChartColumn
	Lines       []ChartLine
	Labels      []ChartLabel
	Table       *Table
}

// ChartColumn is one amount of a Chart. X and Width are parts of the chart's width in percent.
type ChartColumn struct {
	X, Width  string
	Y, Height int
	Name      string // the amount in words
}

// ChartLine is a line of the grid, with its amount.
type ChartLine struct {
	Y, TextY int
	Text     string
}

// ChartLabel names a place of the time axis. X is in percent.
type ChartLabel struct{ X, Text, Anchor string }

// Sizes of a Chart. Its columns have the share columnShare of their places.
const (
	chartHeight = 200
	chartTop    = 16 // for the text of the highest line
	chartLines  = 3
	chartLabels = 5
	columnShare = 0.7
	labelRoom   = 3 // columns that a label covers
)

// ChartEntry is an amount of a Chart, and its place in words.
type ChartEntry struct {
	Amount      money.Cents
	Label, Name string
}

// newChart draws entries, of which one at least is above zero. Amounts below zero have no column.
func newChart(entries []ChartEntry) *Chart {
	var most money.Cents
	for _, e := range entries {
		most = max(most, e.Amount)
	}
	step := axisStep(most)
	top := step * chartLines
	c := &Chart{Height: chartHeight}
	heightOf := func(amount money.Cents) int {
		return int(float64(max(amount, 0)) / float64(top) * (chartHeight - chartTop))
	}
	for i := range chartLines + 1 {
		amount := step * money.Cents(i)
		line := ChartLine{Y: chartHeight - heightOf(amount)}
		if i > 0 {
			line.Text, line.TextY = axisText(amount), line.Y-4
		}
		c.Lines = append(c.Lines, line)
	}
	place := 100 / float64(len(entries))
	every := max(1, (len(entries)-1)/(chartLabels-1))
	for i, e := range entries {
		height := heightOf(e.Amount)
		if e.Amount > 0 {
			height = max(1, height)
		}
		x := float64(i) * place
		c.Columns = append(c.Columns, ChartColumn{X: percentText(x + place*(1-columnShare)),
			Width: percentText(place * columnShare),
			Y:     chartHeight - height, Height: height, Name: e.Name})
		if fromEnd := len(entries) - 1 - i; fromEnd%every == 0 {
			label := ChartLabel{X: percentText(x + place), Text: e.Label, Anchor: "end"}
			if x < place*labelRoom {
				label.X, label.Anchor = percentText(x), "start"
			}
			c.Labels = append(c.Labels, label)
		}
	}
	return c
}

func percentText(share float64) string { return fmt.Sprintf("%.2f%%", share) }

// axisStep returns the smallest 1, 2 or 5 times a power of ten dollars of which chartLines reach an
// amount.
func axisStep(most money.Cents) money.Cents {
	for power := money.Cents(100); ; power *= 10 {
		for _, factor := range []money.Cents{1, 2, 5} {
			if step := factor * power; step*chartLines >= most {
				return step
			}
		}
	}
}

// axisText writes the dollars of an axis, which alone are shortened: $500, $1.5k, $2M.
func axisText(amount money.Cents) string {
	dollars := float64(amount / 100)
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}} {
		if dollars >= unit.of {
			return "$" + strconv.FormatFloat(dollars/unit.of, 'f', -1, 64) + unit.name
		}
	}
	return "$" + strconv.FormatFloat(dollars, 'f', -1, 64)
}
