package dashboard

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// sureField is the field of a form that says that its question was answered.
const sureField = "sure"

// askFirst returns the page of an action's question, or nil when the action asks none or the
// question is answered. The script asks in a dialog, with the same words. It fails like the page
// that holds the form.
func askFirst(v *visit, a *action) (*View, error) {
	question := cmp.Or(a.confirm, a.danger)
	isPassword := func(f Field) bool { return f.Kind == fieldPassword }
	if question == "" || v.Form.Get(sureField) != "" || slices.ContainsFunc(a.fields, isPassword) {
		return nil, nil // a password is an answer, and stands in no page
	}
	asked := &Form{Name: a.name, Action: v.ownAddress() + "/" + a.name + strings.TrimPrefix(v.addressWith(),
		v.ownAddress()),
		Submit: a.submit, Key: v.Form.Get(keyField), Danger: a.danger != "", Sure: true}
	view, err := v.page.show(v)
	if err != nil {
		return nil, err
	}
	if shown := findForm(view.Blocks, a.name); shown != nil {
		question, asked.Submit = cmp.Or(shown.Confirm, question), shown.Submit
	}
	for _, name := range slices.Sorted(maps.Keys(v.Form)) {
		for _, value := range v.Form[name] {
			if name != keyField {
				asked.Fields = append(asked.Fields, Field{Name: name, Value: value, Kind: fieldHidden})
			}
		}
	}
	asked.Fields = append(asked.Fields, Field{Name: sureField, Value: "yes", Kind: fieldHidden})
	end := strings.LastIndex(question+" ", "? ") + 1
	return &View{Title: question[:end], Blocks: []Block{{Text: strings.TrimSpace(question[end:]), Form: asked}},
		Up: &Link{"Go back", v.addressWith()}}, nil
}

// findForm returns the form of an action in blocks, or nil.
func findForm(blocks []Block, name string) *Form {
	for _, b := range blocks {
		forms := b.Buttons
		if b.Form != nil {
			forms = append(slices.Clone(forms), b.Form)
		}
		if b.Columns != nil {
			forms = append(slices.Clone(forms), findForm(b.Columns.First, name), findForm(b.Columns.Second, name))
		}
		for _, f := range forms {
			if f != nil && f.Name == name {
				return f
			}
		}
	}
	return nil
}
