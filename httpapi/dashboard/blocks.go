package dashboard

// View is the content of a page: blocks, one below the other.
type View struct {
	Title  string
	Lead   string // a sentence below the title, or ""
	Up     *Link  // the list that the page belongs to, or nil
	Ways   []Link // beside the title, to what one does next: the last one is the usual
	Notice *Notice
	Blocks []Block
	Live   bool // the script fetches the page again when the workspace changes
}

// Block is a part of a page. Exactly one of its kinds is set; Heading may stand above it.
type Block struct {
	Heading string
	Stats   []Stat
	Waits   []Stat // a count that waits for a person each, and in Note what to do
	Table   *Table
	Facts   []Fact
	Form    *Form
	Choices *Filters // a form that leads to another address
	Buttons []*Form  // forms without fields, in one row
	Bars    *Bars
	Chart   *Chart
	Code    *Code
	QR      *QR
	Steps   []Step
	Text    string
}

// Notice shows the result of the last action. A refusal is an alert.
type Notice struct {
	Text    string
	Refused bool
}

// Link leads to another page.
type Link struct{ Text, Href string }

// Stat is a figure with its name; Href leads to the list behind it, or is "". A page has at most
// one Total.
type Stat struct {
	Name, Value, Note, Href string
	Total                   bool
}

// Table is a list. Without rows its Empty sentence is shown.
type Table struct {
	Caption string
	Columns []Column
	Rows    [][]Cell
	Empty   string
	Filters *Filters
	Next    string // the address of the next page, or ""
	First   string // the address of the first page when this is a later one, or ""
	Oldest  bool   // the pages begin with another row than the newest
}

// Column heads the cells of a table. Numbers are set flush right.
type Column struct {
	Name   string
	Number bool
}

// Filters is a form of choices that narrows a table. It changes the address. Submit is the text of
// its button, or "" for Filter.
type Filters struct {
	Action, Submit string
	Fields         []Field
}

// Fact is a term with its value.
type Fact struct {
	Term string
	Cell Cell
}

// Cell is a value in a table or a fact.
type Cell struct {
	Text    string
	Href    string // the page that the text leads to, or ""
	Tone    string // "good", "bad", "warn" or "soft" draws the text as a badge; "" does not
	Stamp   string // the time in RFC 3339 when the text is a time, or ""
	Left    int64  // the seconds until Stamp, which the script counts down; 0 counts nothing
	Code    bool   // an id or another text for programs
	Limit   int64  // the cents of a limit, drawn as a bar beside the text; 0 draws none
	Used    int64  // the cents of the limit that are used
	Limited string // the bar in words, for screen readers
	Form    *Form  // a button
}

// Bars is a chart of named counts. The counts stand beside the bars as text.
type Bars struct {
	Caption string
	Empty   string
	Bars    []Bar
}

// Bar is one row of Bars. Width is its length in thousandths of the longest.
type Bar struct {
	Name  string
	Href  string
	Count int
	Width int
}

// QR is a text that a phone's camera reads. Label is for screen readers.
type QR struct{ Text, Label string }

// Chart is a chart of amounts over time, with a table of them beside it. Text is the chart in
// words.
type Chart struct {
	Text, First, Last string // First and Last are the ends of its axis
	Width             int
	Columns           []ChartColumn
	Table             *Table
}

// ChartColumn is one amount of a Chart. Its base is at chartHeight.
type ChartColumn struct {
	X, Y, Height int
	Name         string // the amount in words
}

// Sizes of a Chart. A column has the width columnWidth of every columnStep.
const (
	chartHeight = 200
	columnStep  = 30
)

// addColumn adds an amount of at most most to the chart.
func (c *Chart) addColumn(amount, most int64, name string) {
	height := 0
	if most > 0 && amount > 0 {
		height = max(1, int(float64(amount)/float64(most)*chartHeight))
	}
	c.Columns = append(c.Columns, ChartColumn{X: len(c.Columns) * columnStep, Y: chartHeight - height, Height: height,
		Name: name})
	c.Width = len(c.Columns) * columnStep
}

// Code is a text that a person copies.
type Code struct{ ID, Label, Text string }

// Step is a state in the life of a record.
type Step struct {
	Name string
	Note string
	At   *Cell
}

// newBars scales the bars to the longest.
func newBars(caption, empty string, bars []Bar) *Bars {
	longest := 1
	for _, b := range bars {
		longest = max(longest, b.Count)
	}
	for i := range bars {
		bars[i].Width = bars[i].Count * 1000 / longest
	}
	return &Bars{Caption: caption, Empty: empty, Bars: bars}
}
