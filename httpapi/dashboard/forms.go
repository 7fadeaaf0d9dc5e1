package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// action is a form of a page. It posts to the page's address followed by its name, and runs one
// operation of the interface.
type action struct {
	name         string
	method, path string // the operation
	title        string // above the form; "" for a button alone
	submit       string // the text of its button
	done         string // the notice after it, or ""
	missing      string // the reason when a value of the form finds no record; "" shows the page of a missing page
	confirm      string // a question before the action; "" asks nothing
	danger       string // like confirm, for an action that takes something away; "" asks nothing
	fields       []Field
	fixed        map[string]any                       // members of the body that no field asks for
	body         func(*visit) (map[string]any, error) // members that depend on the fields; may be nil
	// then returns the address to go to with the operation's answer, and fails when the answer does
	// not decode; nil goes back to the page.
	then func(*visit, []byte) (string, error)
	// show returns a page for an answer that is shown only once, such as a secret; nil redirects.
	show    func(*visit, []byte) (*View, error)
	params  map[string]string // parameters of the operation's path that the page's path does not have
	sandbox bool              // offered in sandbox workspaces alone
}

// Kinds of fields.
const (
	fieldText     = "text"
	fieldDollars  = "dollars"
	fieldNumber   = "number"
	fieldList     = "list"  // values separated by commas or lines
	fieldLines    = "lines" // values on lines of their own
	fieldBlock    = "block" // a text of several lines
	fieldChoice   = "choice"
	fieldChecks   = "checks" // any number of Options
	fieldPassword = "password"
	fieldEmail    = "email"
	fieldHidden   = "hidden" // a value that the page fills
	fieldDate     = "date"   // a day in UTC
)

// Field asks for a member of an operation's body, or for a parameter of a filter.
type Field struct {
	Name         string // the member of the body
	Label, Hint  string
	Kind         string
	Options      []Option
	Required     bool
	Autocomplete string // the browser's name for the value, or ""
	Value        string
	Problem      string // the reason of a refusal that names the field, or ""
	Focus        bool   // the browser begins here: the first field at fault of a refused form
	Default      string // the value of a fresh form; of checks the chosen ones, separated by commas
	ID           string // of the element, when its name is not its own on the page
	Chip         string // the filter that the field belongs to, when it has several
}

// Option is a choice of a field.
type Option struct {
	Value, Label, Hint string
	Chosen             bool
}

// Form is an action as it is drawn.
type Form struct {
	Name, Action, Title, Submit, Confirm, Key, Problem string
	Danger                                             bool   // the action takes something away
	Of                                                 string // the record that the button of a list is about
	Fields                                             []Field
	Primary, Quiet                                     bool         // the usual next step, or one among others
	Sure                                               bool         // the form is the answer to its question
	AskOnPage                                          bool         // the question depends on the fields
	Wallet                                             *WalletProof // the challenge for the browser's own wallet
}

// actionOf finds an action of the page by its name, or returns nil.
func (p *page) actionOf(name string) *action {
	for i := range p.actions {
		if p.actions[i].name == name {
			return &p.actions[i]
		}
	}
	return nil
}

// drawForm draws an action of the page. The form is nil for an action that the role does not permit
// or that needs a sandbox workspace. After a refusal of the action it has the values that were
// sent, except passwords, and the reason. It fails for a name that is no action of the page, and
// without entropy.
func (v *visit) drawForm(name string) (*Form, error) {
	a := v.page.actionOf(name)
	if a == nil {
		return nil, fmt.Errorf("page %s has no action %s", v.page.path, name)
	}
	if a.sandbox && !v.Sandbox || !v.API.May(a.method, a.path) {
		return nil, nil
	}
	key, err := v.API.NewKey()
	if err != nil {
		return nil, err
	}
	f := &Form{Name: name, Action: v.ownAddress() + "/" + name + strings.TrimPrefix(v.addressWith(),
		v.ownAddress()), Title: a.title, Submit: a.submit, Confirm: cmp.Or(a.confirm, a.danger),
		Danger: a.danger != "",
		Key:    key}
	refused := v.failed == name
	if refused {
		v.drawn = true
	}
	if refused && v.again {
		f.Key = v.Form.Get(keyField)
	}
	if refused && len(v.wrong) == 0 && len(a.fields) > 0 {
		f.Problem = v.problem
	}
	focused := false
	for _, field := range a.fields {
		if options, read := v.offered[name+"/"+field.Name]; read {
			field.Options = options
		}
		field.Value = cmp.Or(v.filled[name+"/"+field.Name], field.Default)
		if refused && field.Kind != fieldPassword {
			field.Value = cutText(v.Form.Get(field.Name), field.Kind)
		}
		if refused {
			field.Problem = v.wrong[field.Name]
			field.Focus = field.Problem != "" && !focused && field.Kind != fieldHidden
			focused = focused || field.Focus
		}
		if v.fields[field.Name] {
			field.ID = name + "-" + field.Name
		}
		field.markChosen(v.Form[field.Name])
		if field.Kind == fieldChecks && len(field.Options) == 0 {
			continue // the page's records offer none
		}
		f.Fields = append(f.Fields, field)
	}
	if v.fields == nil {
		v.fields = map[string]bool{}
	}
	for _, field := range a.fields {
		v.fields[field.Name] = true
	}
	return f, nil
}

// maxShown bounds the text of a refused field that is shown again, in bytes. A list may be longer.
const maxShown = 2_000

// cutText returns the first maxShown bytes of a field's text, or fewer, so that it ends with a
// whole rune. A text of the kinds fieldList and fieldLines stays whole.
func cutText(text, kind string) string {
	if kind == fieldList || kind == fieldLines || len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "")
}

// prefillForm sets the values of a fresh form of an action, as pairs of a field's name and its
// value.
func (v *visit) prefillForm(action string, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		v.filled[action+"/"+pairs[i]] = pairs[i+1]
	}
}

// offerOptions sets the options of a choice that depend on the page's records.
func (v *visit) offerOptions(action, field string, options []Option) {
	if v.offered == nil {
		v.offered = map[string][]Option{}
	}
	v.offered[action+"/"+field] = options
}

// markChosen marks the options that are chosen: those of a refused form's values, or the field's
// value.
func (f *Field) markChosen(sent []string) {
	options := make([]Option, len(f.Options))
	copy(options, f.Options)
	for i := range options {
		options[i].Chosen = options[i].Value == f.Value ||
			f.Kind == fieldChecks && slices.Contains(strings.Split(f.Value, ","), options[i].Value)
		for _, value := range sent {
			options[i].Chosen = options[i].Chosen || f.Kind == fieldChecks && value == options[i].Value
		}
	}
	f.Options = options
}

// drawForms draws the named actions that the role permits, as blocks.
func (v *visit) drawForms(names ...string) (blocks []Block, err error) {
	for _, name := range names {
		f, err := v.drawForm(name)
		if err != nil {
			return nil, err
		}
		if f != nil {
			blocks = append(blocks, Block{Form: f})
		}
	}
	return blocks, nil
}

// drawButtons draws the named actions that the role permits in one row; no block when there are
// none.
func (v *visit) drawButtons(names ...string) (blocks []Block, err error) {
	forms, err := v.drawForms(names...)
	if err != nil || len(forms) == 0 {
		return nil, err
	}
	row := Block{}
	for _, f := range forms {
		f.Form.Quiet = true
		row.Buttons = append(row.Buttons, f.Form)
	}
	if only := row.Buttons[0]; len(row.Buttons) == 1 {
		only.Primary = !only.Danger
	}
	return []Block{row}, nil
}

// fieldError is a value that is not of its field's kind.
type fieldError struct{ name, text string }

func (e *fieldError) Error() string { return e.text }

// formFaults are the values of a form that are not of their fields' kinds, at least one, in the
// order of the fields.
type formFaults []*fieldError

func (f formFaults) Error() string {
	texts := make([]string, 0, len(f))
	for _, fault := range f {
		texts = append(texts, fault.text)
	}
	return strings.Join(texts, " ")
}

// byField returns the faults by the names of their fields.
func (f formFaults) byField() map[string]string {
	texts := map[string]string{}
	for _, fault := range f {
		texts[fault.name] = cmp.Or(texts[fault.name], fault.text)
	}
	return texts
}

// readMembers reads the values of an action's form as members of a JSON body. An empty value is
// left out. It fails with all formFaults at once, and with another error of the action's body.
func (a *action) readMembers(v *visit) (map[string]any, error) {
	body := map[string]any{}
	for name, value := range a.fixed {
		body[name] = value
	}
	var faults formFaults
	for _, f := range a.fields {
		value, err := f.parseValues(v.Form[f.Name])
		if err != nil {
			faults = append(faults, &fieldError{f.Name, f.Label + " " + err.Error() + "."})
		}
		if value != nil && err == nil {
			body[f.Name] = value
		}
	}
	var more map[string]any
	var err error
	if a.body != nil {
		more, err = a.body(v)
	}
	if fault, ok := errors.AsType[*fieldError](err); ok && faults.byField()[fault.name] == "" {
		faults = append(faults, fault)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	for name, value := range more {
		body[name] = value
	}
	for _, f := range a.fields {
		if value, given := more[f.Name]; given && value == nil && f.Kind != fieldList && f.Kind != fieldLines {
			delete(body, f.Name) // part of another member
		}
	}
	return body, err
}

// parseValues reads the values that a form sent for a field. An empty value is nil.
func (f *Field) parseValues(values []string) (any, error) {
	switch {
	case f.Kind == fieldChecks && len(values) > 0:
		return values, nil
	case f.Kind == fieldChecks && f.Required:
		return nil, errors.New("need at least one choice")
	case f.Kind == fieldChecks:
		return nil, nil
	}
	if len(values) > 1 {
		return nil, errors.New("is given twice")
	}
	text := ""
	if len(values) == 1 {
		text = values[0]
	}
	if f.Kind != fieldPassword {
		text = strings.TrimSpace(text)
	}
	if text == "" {
		if f.Required {
			return nil, errors.New("is required")
		}
		return nil, nil
	}
	switch f.Kind {
	case fieldDollars:
		return parseDollars(text)
	case fieldNumber:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("must be a whole number")
		}
		return n, nil
	case fieldList:
		return splitTexts(text, ",\n\r"), nil
	case fieldLines:
		return splitTexts(text, "\n\r"), nil
	}
	return text, nil
}

// splitTexts splits a text at any of the separators, without the spaces around the parts and
// without empty parts.
func splitTexts(text, separators string) []string {
	parts := []string{}
	for _, part := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(separators, c) }) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// fillFilters sets the values of a filter's fields to the address's, except where a field has one.
// The fields' elements have ids of their own, because a form of the page may have fields of the
// same names.
func fillFilters(v *visit, fields []Field) []Field {
	for i := range fields {
		f := &fields[i]
		f.ID, f.Value = "filter-"+f.Name, cmp.Or(f.Value, v.Query.Get(f.Name))
		if _, err := time.Parse(time.DateOnly, f.Value); f.Kind == fieldDate && f.Value != "" && err != nil {
			f.Kind = fieldText // a time of day, which a field of days cannot show
		}
		f.markChosen(nil)
	}
	return fields
}

// readFiltered reads a list that the address narrows by some parameters, and reports whether it
// gives one of them. It moves amounts that a person entered in dollars to the parameters of the
// interface. It fails with the operation's refusal.
func (v *visit) readFiltered(into any, path string, names ...string) (filtered bool, err error) {
	for entered := range enteredAmounts {
		if v.Query.Has(entered) {
			return false, &moved{withCents(v, names)}
		}
	}
	params := []string{"cursor", v.Query.Get("cursor"), "limit", "50"}
	for _, name := range names {
		params = append(params, name, v.Query.Get(name))
		filtered = filtered || v.Query.Get(name) != ""
	}
	return filtered, v.readInto(into, path, params...)
}

// emptyText returns the sentence for a page of a list without rows. A page ends after the records
// that one request may look at, so that a filtered page may be empty before the end of its list.
func emptyText(none string, filtered bool, next *string) string {
	switch {
	case filtered && next != nil:
		return "None of the 1,000 that were looked at matches. Go on with the older ones."
	case filtered:
		return "Nothing matches."
	}
	return none
}

// choices are the options of a filter: all, and each of some values of the interface in words.
func choices(values ...string) []Option {
	options := []Option{{Value: "", Label: "All"}}
	for _, value := range values {
		options = append(options, Option{Value: value, Label: inWords(value)})
	}
	return options
}
