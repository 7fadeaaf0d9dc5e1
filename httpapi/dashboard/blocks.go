package dashboard

import (
	"slices"
	"time"

	"purser/persistence/money"
)

// View is the content of a page: blocks, one below the other.
type View struct {
	Title  string
	Amount bool    // the title is an amount
	Badges []Cell  // states beside the title
	Lead   string  // a sentence below the title, or ""
	Up     *Link   // the list that the page belongs to, or nil
	Ways   []Way   // beside the title, to what one does next
	Forms  []*Form // buttons beside the title
	Notice *Notice
	Blocks []Block
	Door   []Block // beside the form of a page without navigation: what happens next
	Live   bool    // the script fetches the page again when the workspace changes
}

// Block is a part of a page. Exactly one of its kinds is set; Heading may stand above it.
type Block struct {
	Heading string
	More    *Link  // beside the heading
	Panel   bool   // the block stands apart, in a box
	Tone    string // "warn" tints a block that a person acts on; "" does not
	Notice  *Notice
	Columns *Columns
	Stats   []Stat
	Strip   []Stat // figures of one row, in one box
	Waits   *Waiting
	Card    *PaymentCard
	Limit   *LimitBar
	Sum     []SumLine
	Stepper []StepperStep
	Table   *Table
	Facts   []Fact
	Form    *Form
	Choices *Choices
	Buttons []*Form // forms without fields, in one row
	Bars    *Bars
	Chart   *Chart
	Code    *Code
	QR      *QR
	Steps   []Step
	Text    string
}

// Layouts of Columns.
const (
	MainSide  = "main-side"  // wide, narrow
	SideMain  = "side-main"  // narrow, wide
	Halves    = "halves"     // equal ones
	AsideMain = "aside-main" // the narrow one comes first for screen readers and on a phone, and stands to the right
)

// Columns are two columns of blocks. Below 1120 px the first stands above the second.
type Columns struct {
	Layout        string
	First, Second []Block
}

// Waiting lists records that wait for a person.
type Waiting struct{ Items []Stat }

// PaymentCard is a drawn card.
type PaymentCard struct {
	Label, Kind, Last4 string
	Human, Frozen      bool
}

// LimitBar draws the used part of a limit. Left is the rest in words.
type LimitBar struct {
	Name, Used, Limit, Left string
	Share                   Share
}

// Share is the used part of a limit in thousandths. It is drawn as a bar.
type Share struct{ Width int }

// Tone names the part: near from 80 % on, over from the limit on.
func (s Share) Tone() string {
	switch {
	case s.Width >= 1000:
		return "over"
	case s.Width >= 800:
		return "near"
	}
	return ""
}

// shareOf returns the used part of a limit, at most all of it.
func shareOf(used, limit money.Cents) Share {
	if limit <= 0 || used >= limit {
		return Share{1000}
	}
	return Share{int(float64(max(used, 0)) / float64(limit) * 1000)}
}

// SumLine is a line of a sum. Ruled lines have a line above.
type SumLine struct {
	Name, Amount  string
	Ruled, Result bool
	Bad           bool
}

// StepperStep is a step of a record on its way. State is "done", "current", "waits", "failed" or
// "" for a step to come.
type StepperStep struct{ Name, Note, State string }

// Notice shows the result of the last action, or in a block what a person should know. A refusal is
// an alert.
type Notice struct {
	Fact    string // before the text, or ""
	Text    string
	Refused bool
	More    *Link // behind the text, or nil
}

// Link leads to another page.
type Link struct{ Text, Href string }

// Way is a Link with an icon. The primary one is the usual next step.
type Way struct {
	Link
	Icon    string
	Primary bool
}

// Stat is a figure with its name; Href leads to the list behind it, or is "". A page has at most
// one Total.
type Stat struct {
	Name, Value, Note, Href string
	Command                 string // the program's command that explains the figure or acts on it, or ""
	Icon                    string // the icon of an item that waits
	Count                   int    // the counted records of an item that waits
	Uncounted               bool   // there are more than Count
	Total                   bool
}

// Table is a list. Without rows its Empty sentence is shown.
type Table struct {
	Caption  string
	Columns  []Column
	Rows     [][]Cell
	Named    bool           // a heading above says the caption
	Days     map[int]string // headings above rows, by the row's index
	Empty    string
	Filters  *Filters
	Next     string // the address of the next page, or ""
	First    string // the address of the first page when this is a later one, or ""
	Oldest   bool   // the pages begin with another row than the newest
	EmptyWay *Link  // below Empty, to make the first
	lastDay  string
}

// Column heads the cells of a table. Numbers are set flush right.
type Column struct {
	Name   string
	Number bool
	Role   string // the place of the cell on a phone; "" shows it on wide screens alone
}

// Roles of columns. On a phone a row with a primary cell has two lines: primary and amount, then
// second and status. A table without a primary column becomes a list of names and values.
const (
	rolePrimary = "primary"
	roleAmount  = "amount"
	roleSecond  = "detail"
	roleStatus  = "status"
	roleAction  = "action" // a button below both lines
)

// Records reports whether the rows have two lines on a phone.
func (t *Table) Records() bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Role == rolePrimary })
}

// addDay puts a heading above the next row when its day, in UTC, is another than that of the row
// before. It returns the cell of the time within the day.
func (t *Table) addDay(now, at time.Time) Cell {
	day, today := at.UTC().Format("2 January 2006"), now.UTC()
	switch day {
	case today.Format("2 January 2006"):
		day = "Today, " + at.UTC().Format("2 January")
	case today.AddDate(0, 0, -1).Format("2 January 2006"):
		day = "Yesterday, " + at.UTC().Format("2 January")
	}
	if t.lastDay != day {
		if t.Days == nil {
			t.Days = map[int]string{}
		}
		t.Days[len(t.Rows)], t.lastDay = day, day
	}
	return Cell{Text: at.UTC().Format("15:04:05"), Stamp: at.UTC().Format(time.RFC3339)}
}

// Filters narrow a table by the page's address.
type Filters struct {
	Segments []Segment // links that exclude each other
	Chips    []Chip
	Clear    string // the address without a filter, or "" when none is set
}

// Segment is a link of Filters.
type Segment struct {
	Link
	Current bool
}

// Chip is a filter. Set is its value in words, or "".
type Chip struct {
	Name, Set, Remove string
	Action            string
	Links             []Link // usual values, before the form
	Fields            []Field
	Kept              []Field // hidden fields: the other filters of the address
}

// Choices is a form that leads to another address.
type Choices struct {
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
	Text   string
	Href   string // the page that the text leads to, or ""
	Tone   string // "good", "bad", "warn", "info" or "soft" draws the text as a badge; "" does not
	Icon   string // of the badge
	Mark   string // "soft" for an amount that never moved, "void" for one that was taken back
	Tags   []Tag
	Dashes []StepperStep // a short stepper
	Copy   string        // the whole of a shortened id, which the script copies
	Stamp  string        // the time in RFC 3339 when the text is a time, or ""
	Left   int64         // the seconds until Stamp, which the script counts down; 0 counts nothing
	Code   bool          // an id or another text for programs
	Share  *Share        // drawn as a bar below the text
	Form   *Form         // a button
}

// Bars is a chart of named counts. The counts stand beside the bars as text.
type Bars struct {
	Caption string
	Note    string // a sentence below
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

// Tag is a word with its code.
type Tag struct{ Code, Text string }

// QR is a text that a phone's camera reads. Label is for screen readers.
type QR struct{ Text, Label string }

// Code is a text that a person copies. A folded one opens by its label.
type Code struct {
	ID, Label, Text string
	Folded          bool
	Language        string // whose tokens are coloured, or ""
}

// Step is a state in the life of a record.
type Step struct {
	Name   string
	Amount string // at the end of its line, or ""
	Text   string // a sentence below, or ""
	At     *Cell
	Bad    bool
	Next   bool // will come
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
