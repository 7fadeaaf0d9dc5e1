package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	keysPath = "/api/dashboard/keys"
	keyPath  = keysPath + "/{id}"
)

// key is an API key in the interface, without its secret.
type key struct {
	ID, Label, Prefix, CreatedBy     string
	Scopes                           []string
	CreatedAt, LastUsedAt, RevokedAt time.Time
}

// maxShownDescendants bounds the keys that the page of one key lists as revoked with it.
const maxShownDescendants = 50

// scopes are the scopes of keys and what each grants, in the order of the interface.
var scopes = []struct{ name, grants string }{
	{"read:treasury", "See balances, ledger, recipients, payouts, rates and ramp orders"},
	{"write:treasury", "Make test deposits; open currency accounts and convert"},
	{"write:counterparties", "Save and remove recipients"},
	{"write:payouts", "Order payouts and firm quotes; release and cancel held payouts"},
	{"write:ramps", "Trade dollars and USDC; withdraw; add wallets"},
	{"read:cards", "See cards, cardholders, physical cards and swipes"},
	{"write:cards", "Create, change, freeze and end cards; register cardholders; order physical cards"},
	{"read:agents", "See agents and their intents"},
	{"write:agents", "Register agents and submit intents"},
	{"read:checkout", "See payment links"},
	{"write:checkout", "Create payment links and simulate their payment"},
	{"read:api_keys", "See the keys of the workspace, and its request log"},
	{"write:api_keys", "Create and revoke keys, with at most its own scopes"},
	{"read:webhooks", "Reserved: no route uses it yet"},
	{"write:webhooks", "Reserved: no route uses it yet"},
}

// keyPages are the list of API keys and the page of one key.
func keyPages() []page {
	var options []Option
	for _, s := range scopes {
		options = append(options, Option{Value: s.name, Label: s.name, Hint: s.grants})
	}
	return []page{
		{path: "keys", access: member, section: "API keys", show: showKeys, actions: []action{
			{name: "create", method: "POST", path: "/api/auth/keys", title: "New key",
				submit: "Create the key", show: showSecret,
				fields: []Field{{Name: "label", Label: "Label", Kind: fieldText, Required: true},
					{Name: "scopes", Label: "Scopes", Kind: fieldChecks, Required: true, Options: options}}},
		}},
		{path: "keys/{id}", access: member, section: "API keys", show: showKey, actions: []action{
			{name: "revoke", method: "DELETE", path: keysPath, submit: "Revoke the key",
				danger: "Revoke the key and all keys that it made? They stop working at once.",
				then:   func(v *visit, _ []byte) (string, error) { return v.addressOf("keys"), nil }},
		}},
	}
}

type keyList struct {
	Data       []key
	NextCursor *string
}

// showKeys lists the keys, newest first.
func showKeys(v *visit) (*View, error) {
	var list keyList
	if err := v.readInto(&list, keysPath, "cursor", v.Query.Get("cursor"), "limit", "50"); err != nil {
		return nil, err
	}
	forms, err := v.drawForms("create")
	return &View{Title: "API keys", Lead: "A program uses the REST interface with a key.",
		Blocks: append(append([]Block{{Table: v.addPaging(keyTable(v, list.Data, "API keys, newest first"),
			list.NextCursor)}}, forms...), developerLinks("quickstart", "Quickstart"))}, err
}

// keyTable draws keys.
func keyTable(v *visit, keys []key, caption string) *Table {
	t := &Table{Caption: caption, Empty: "None.", Columns: []Column{{Name: "Label", Role: rolePrimary},
		{Name: "Key", Role: roleSecond},
		{Name: "Scopes"}, {Name: "Created"}, {Name: "Last used (UTC)"}, {Name: "State", Role: roleAmount}}}
	for _, k := range keys {
		state := "active"
		if !k.RevokedAt.IsZero() {
			state = "revoked"
		}
		t.Rows = append(t.Rows, []Cell{linkCell(k.Label, v.addressOf("keys", k.ID)), codeCell(k.Prefix + "…"),
			scopeTags(k.Scopes), v.dateCell(k.CreatedAt), usedCell(k.LastUsedAt), stateCell(state)})
	}
	return t
}

// maxShownScopes bounds the scopes of a key in a list.
const maxShownScopes = 2

// scopeTags is a cell of the first scopes of a key.
func scopeTags(scopes []string) (cell Cell) {
	for i, scope := range scopes {
		if i == maxShownScopes {
			cell.Tags = append(cell.Tags, Tag{Text: fmt.Sprintf("+%d more", len(scopes)-i)})
			break
		}
		cell.Tags = append(cell.Tags, Tag{Code: scope})
	}
	return cell
}

// showSecret shows a new key's secret, which no later answer shows.
func showSecret(v *visit, body []byte) (*View, error) {
	var made struct {
		APIKey key
		Secret string
	}
	if err := json.Unmarshal(body, &made); err != nil {
		return nil, err
	}
	return &View{Title: "The key is created", Up: &Link{"API keys", v.addressOf("keys")},
		Ways:   []Way{{Link: Link{"All keys", v.addressOf("keys")}}},
		Notice: &Notice{Text: "Copy the secret now. It is shown only this once."},
		Blocks: []Block{{Code: &Code{ID: "secret", Label: made.APIKey.Label, Text: made.Secret}}}}, nil
}

// showKey shows one key, what its scopes grant, and the keys that are revoked with it.
func showKey(v *visit) (*View, error) {
	var shown struct {
		APIKey      key
		Descendants []key
	}
	if err := v.readInto(&shown, keyPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	k := &shown.APIKey
	maker, err := v.makerCells()(k.CreatedBy)
	if err != nil {
		return nil, err
	}
	facts := []Fact{{"Key", codeCell(k.Prefix + "…")}, {"Created (UTC)", timeCell(k.CreatedAt)},
		{"Last used (UTC)", usedCell(k.LastUsedAt)}, {"Made by", maker}, {"Id", codeCell(k.ID)}}
	if !k.RevokedAt.IsZero() {
		facts = append([]Fact{{"State", stateCell("revoked")}, {"Revoked (UTC)", timeCell(k.RevokedAt)}}, facts...)
	}
	view := &View{Title: k.Label, Up: &Link{"API keys", v.addressOf("keys")}, Blocks: []Block{{Facts: facts},
		{Table: scopeTable(k.Scopes)}}}
	if !k.RevokedAt.IsZero() {
		return view, nil
	}
	buttons, err := v.drawButtons("revoke")
	if len(buttons) > 0 {
		view.Blocks = append(view.Blocks, cascadeOf(v, shown.Descendants))
	}
	view.Blocks = append(view.Blocks, buttons...)
	return view, err
}

// makerCells returns a function that makes the cell of the key or the person that made a record.
// For a role that reads the members, a present member is shown by the email; anyone else by the id.
// The function reads the members once, and fails when they cannot be read.
func (v *visit) makerCells() func(maker string) (Cell, error) {
	readTeam := sync.OnceValues(v.readTeam)
	return func(maker string) (Cell, error) {
		if strings.HasPrefix(maker, "key_") {
			return linkCell(maker, v.addressOf("keys", maker)), nil
		}
		if !v.API.May("GET", membersPath) {
			return codeCell(maker), nil
		}
		team, err := readTeam()
		if err != nil {
			return Cell{}, err
		}
		for _, m := range team {
			if m.UserID == maker {
				return linkCell(m.Email, v.addressOf("team", "members", maker)), nil
			}
		}
		return codeCell(maker), nil
	}
}

// cascadeOf draws the keys that revoking a key revokes too.
func cascadeOf(v *visit, descendants []key) Block {
	const heading = "Revoked with it"
	if len(descendants) == 0 {
		return Block{Heading: heading, Text: "No other key: this key has made none that is active."}
	}
	caption := fmt.Sprintf("%s: %d keys that it made, directly or not", heading, len(descendants))
	if len(descendants) > maxShownDescendants {
		caption += fmt.Sprintf(" (the oldest %d)", maxShownDescendants)
		descendants = descendants[:maxShownDescendants]
	}
	return Block{Table: keyTable(v, descendants, caption)}
}

// scopeTable draws the scopes of a key and the routes that they open. An early key may hold *,
// which can no longer be issued.
func scopeTable(held []string) *Table {
	t := &Table{Caption: "Scopes", Empty: "None: the key can do nothing.", Columns: []Column{{Name: "Scope"},
		{Name: "Grants"}}}
	for _, name := range held {
		grants := ""
		for _, s := range scopes {
			if s.name == name {
				grants = s.grants
			}
		}
		if name == "*" {
			grants = "Everything but write:ramps"
		}
		t.Rows = append(t.Rows, []Cell{codeCell(name), plainCell(grants)})
	}
	return t
}
