package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// drawFilters draws the filters of the page. The options of the field named segment become links
// that exclude each other; the other fields become chips, those of one Chip a chip together.
func (v *visit) drawFilters(segment string, fields []Field) *Filters {
	drawn := &Filters{}
	set := setFilters(v, fields)
	for _, f := range fillFilters(v, fields) {
		if f.Name == segment {
			for _, o := range f.Options {
				drawn.Segments = append(drawn.Segments, Segment{Link{o.Label, v.addressWith(f.Name, o.Value,
					"cursor", "")}, o.Chosen})
			}
			continue
		}
		name := cmp.Or(f.Chip, f.Label)
		i := slices.IndexFunc(drawn.Chips, func(c Chip) bool { return c.Name == name })
		if i < 0 {
			i, drawn.Chips = len(drawn.Chips), append(drawn.Chips, Chip{Name: name, Action: v.ownAddress()})
		}
		drawn.Chips[i].Fields = append(drawn.Chips[i].Fields, f)
	}
	for i := range drawn.Chips {
		finishChip(v, &drawn.Chips[i], set)
	}
	if len(set) > 0 {
		drawn.Clear = v.ownAddress()
	}
	return drawn
}

// maxChoices bounds the records that a filter offers by name: the newest. A page with 100 cards to
// choose from is larger than BenchmarkListPages permits.
const maxChoices = "25"

// completeChoices begins the options of a filter with all, and adds the record of the address when
// it is not among them, by its cell. It fails like cellOf.
func (v *visit) completeChoices(f *Field, cellOf func(id string) (Cell, error)) error {
	f.Options = slices.Insert(f.Options, 0, Option{Label: "All"})
	set := v.Query.Get(f.Name)
	if slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == set }) {
		return nil
	}
	shown, err := cellOf(set)
	f.Options = append(f.Options, Option{Value: set, Label: shown.Text})
	return err
}

// setFilters returns the parameters of the fields that the address sets, in their order.
func setFilters(v *visit, fields []Field) (set []string) {
	for _, f := range fields {
		if name := f.parameterName(); v.Query.Get(name) != "" {
			set = append(set, name)
		}
	}
	return set
}

// parameterName returns the parameter of the address that holds a filter.
func (f *Field) parameterName() string { return cmp.Or(enteredAmounts[f.Name], f.Name) }

// finishChip fills a chip: its value in words, the address without it, and the other filters.
func finishChip(v *visit, c *Chip, set []string) {
	without := []string{"cursor", ""}
	var own []string
	for _, f := range c.Fields {
		own = append(own, f.parameterName())
		without = append(without, f.parameterName(), "", f.Name, "")
	}
	c.Set, c.Remove = chipText(c.Fields), v.addressWith(without...)
	offerDays(v, c)
	for _, name := range set {
		if !slices.Contains(own, name) {
			c.Kept = append(c.Kept, Field{Name: name, Value: v.Query.Get(name), Kind: fieldHidden})
		}
	}
}

// offeredDays are the periods up to today that a chip offers, in days.
var offeredDays = []int{7, 30}

// offerDays offers the periods up to today in a chip of days, and names one that is set.
func offerDays(v *visit, c *Chip) {
	if c.Fields[0].Name != "from" {
		return
	}
	for _, days := range offeredDays {
		first, name := v.Now.UTC().AddDate(0, 0, 1-days).Format(time.DateOnly), fmt.Sprintf("last %d days", days)
		if v.Query.Get("from") == first && v.Query.Get("to") == "" {
			c.Set = name
		}
		c.Links = append(c.Links, Link{inWords(name), v.addressWith("from", first, "to", "", "cursor", "")})
	}
}

// chipText writes the values of a chip. The two fields of a chip are the ends of a range.
func chipText(fields []Field) string {
	texts := make([]string, len(fields))
	for i := range fields {
		texts[i] = fields[i].valueText()
	}
	switch {
	case len(texts) == 1 || texts[1] == "" && texts[0] == "":
		return texts[0]
	case texts[1] == "":
		return "from " + texts[0]
	case texts[0] == "":
		return "up to " + texts[1]
	case texts[0] == texts[1]:
		return texts[0]
	}
	return texts[0] + " to " + texts[1]
}

// valueText writes the value of a filter in words.
func (f *Field) valueText() string {
	for _, o := range f.Options {
		if o.Chosen && o.Value != "" {
			return o.Label
		}
	}
	at, err := time.Parse(time.DateOnly, f.Value)
	switch {
	case f.Value == "":
		return ""
	case f.Kind == fieldDate && err == nil:
		return at.Format("2 Jan 2006")
	case f.Kind == fieldDollars:
		return "$" + f.Value
	}
	if strings.HasSuffix(f.Name, "Id") || f.Name == "transferGroup" {
		return cutID(f.Value)
	}
	return f.Value
}
