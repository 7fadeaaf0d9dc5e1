package dashboard

import "strings"

// rowsWithButton is the length of a page of a list with a button in each row, which keeps it below
// 60 KB.
const rowsWithButton = 25

// drawChange draws the button that freezes an active record of a list, or makes a frozen one
// active. The form posts to the record's own page and comes back to the list. The cell is empty for
// another state, and for a role that may not.
func (v *visit) drawChange(actions []action, state, address, name string) (Cell, error) {
	wanted := map[string]string{"active": "freeze", "frozen": "unfreeze"}[state]
	for i := range actions {
		a := &actions[i]
		if a.name != wanted || !v.API.May(a.method, a.path) {
			continue
		}
		key, err := v.API.NewKey()
		return Cell{Form: &Form{Name: a.name, Action: address + "/" + a.name + "?list=1", Submit: a.submit, Of: name,
			Key: key}}, err
	}
	return Cell{}, nil
}

// backToList leads from a change to the list whose button made it, or else back to the record's
// page.
func backToList(list, name string) func(*visit, []byte) (string, error) {
	return func(v *visit, _ []byte) (string, error) {
		if v.Query.Get("list") != "" {
			return v.addressOf(list) + "?changed=" + name, nil
		}
		return v.addressWith(doneParameter, name), nil
	}
}

// changeNotice shows the result of the change in the list's address, or is nil.
func (v *visit) changeNotice(actions []action) *Notice {
	for _, a := range actions {
		if a.name == v.Query.Get("changed") && a.done != "" {
			return &Notice{Text: a.done}
		}
	}
	return nil
}

// nestMembers moves fields of a form into an object of the body. It leaves out empty fields, and
// the object when all are empty.
func nestMembers(object string, names ...string) func(*visit) (map[string]any, error) {
	return func(v *visit) (map[string]any, error) {
		body, nested := map[string]any{}, map[string]any{}
		for _, name := range names {
			body[name] = nil
			if text := strings.TrimSpace(v.Form.Get(name)); text != "" {
				nested[name] = text
			}
		}
		if len(nested) > 0 {
			body[object] = nested
		}
		return body, nil
	}
}
