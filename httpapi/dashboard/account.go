package dashboard

import (
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"
)

// SignInPath is the path of the sign-in.
const SignInPath = Root + "/sign-in"

const signUpPath = Root + "/sign-up"

// accountPages are the pages of a person: sign-in, sign-up, workspaces and the password.
func accountPages() []page {
	email := Field{Name: "email", Label: "Email", Kind: fieldEmail, Required: true, Autocomplete: "username"}
	password := Field{Name: "password", Label: "Password", Kind: fieldPassword, Required: true,
		Autocomplete: "current-password"}
	chosen := Field{Name: "password", Label: "Password", Kind: fieldPassword, Required: true,
		Autocomplete: "new-password", Hint: "At least 12 characters."}
	return append([]page{
		{path: "sign-in", access: public, show: showSignIn, actions: []action{{name: "enter", method: "POST",
			path: "/api/dashboard/login", submit: "Sign in", fields: []Field{email, password}, then: afterSignIn}}},
		{path: "sign-up", access: public, show: showSignUp, actions: []action{{name: "join", method: "POST",
			path: "/api/dashboard/signup", submit: "Create the account", fields: []Field{email, chosen},
			then: afterSignIn}}},
		{path: "", access: personal, show: showWorkspaces, actions: []action{
			{name: "create", method: "POST", path: "/api/workspaces", title: "New workspace",
				submit: "Create the workspace",
				fields: []Field{{Name: "name", Label: "Name", Kind: fieldText, Required: true,
					Autocomplete: "organization"}},
				then: afterCreate},
			{name: "sign-out", method: "POST", path: "/api/dashboard/logout", submit: "Sign out",
				then: func(*visit, []byte) (string, error) { return SignInPath, nil }},
		}},
		{path: "account", access: personal, show: showAccount, actions: []action{{name: "password", method: "POST",
			path: "/api/dashboard/password", title: "Change the password", submit: "Change the password",
			done: "The password is changed. All other sessions have ended.",
			fields: []Field{
				{Name: "currentPassword", Label: "Current password", Kind: fieldPassword, Required: true,
					Autocomplete: "current-password"},
				{Name: "newPassword", Label: "New password", Kind: fieldPassword, Required: true,
					Autocomplete: "new-password", Hint: "At least 12 characters."},
			}},
			emailAction(),
			{name: "others", method: "POST", path: sessionsPath + "/end-others", submit: "End all other sessions",
				done: "The sessions have ended.", danger: "End all other sessions? Their browsers have to sign in again."}}},
	}, slices.Concat(resetPages(), emailPages(), sessionPages(), factorPages())...)
}

func showSignIn(v *visit) (*View, error) {
	blocks, err := v.drawForms("enter")
	if err != nil {
		return nil, err
	}
	blocks = append(blocks, Block{Facts: []Fact{{"No account yet?", linkCell("Create an account", withNext(v,
		signUpPath))},
		{"Password forgotten?", linkCell("Reset it", Root+"/forgot")}}})
	return &View{Title: "Sign in", Blocks: blocks, Door: doorOf(v)}, nil
}

func showSignUp(v *visit) (*View, error) {
	blocks, err := v.drawForms("join")
	if err != nil {
		return nil, err
	}
	blocks = append(blocks, Block{Facts: []Fact{{"Have an account?", linkCell("Sign in", withNext(v, SignInPath))}}})
	return &View{Title: "Create your account", Blocks: blocks, Door: doorOf(v),
		Lead: "You start in the sandbox. No real money moves."}, nil
}

// doorOf says beside the door what happens behind it: the invitation that it interrupted, or the
// first swipe.
func doorOf(v *visit) []Block {
	if address, _, _ := strings.Cut(v.Query.Get("next"), "?"); address == Root+"/invitation" {
		return afterJoining(nil)
	}
	return firstSwipe()
}

// firstSwipe says beside the door what happens behind it.
func firstSwipe() []Block {
	return []Block{{Heading: "From here to an approved swipe in three steps", Steps: []Step{
		{Name: "Name your workspace", Text: "It has its own ledger, cards and keys."},
		{Name: "Add test dollars", Text: "A simulated bank deposit arrives in about two seconds."},
		{Name: "Create a card and swipe it",
			Text: "The authorizer answers with a decision, its reason and the amounts that it compared."}}},
		{Table: &Table{Caption: "Decisions, for example", Columns: []Column{{Name: "Merchant", Role: rolePrimary},
			{Name: "Decision", Role: roleStatus}, {Name: "Amount", Number: true, Role: roleAmount}}, Rows: [][]Cell{
			{plainCell("Harbor Cloud Hosting"), stateCell("approved"), plainCell("$42.00")},
			{plainCell("Meridian Air Tickets"), stateCell("declined"), plainCell("$1,260.00")}}}}}
}

// afterSignIn returns the address of the page that asks for the code of a second factor, when the
// sign-in needs one. Otherwise it returns the address of the page of the dashboard that the sign-in
// interrupted, or entryPath. Another address is never returned.
func afterSignIn(v *visit, answered []byte) (string, error) {
	if address, err := challengeAddress(v, answered); err != nil || address != "" {
		return address, err
	}
	next := v.Query.Get("next")
	address, query, _ := strings.Cut(next, "?")
	isControl := func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }
	if path.Clean(address) != address || strings.ContainsFunc(address+query, isControl) {
		return entryPath, nil
	}
	if address == Root || strings.HasPrefix(address, Root+"/") {
		return next, nil
	}
	return entryPath, nil
}

// withNext adds the page that a sign-in interrupted to an address.
func withNext(v *visit, address string) string {
	if next := v.Query.Get("next"); next != "" {
		return address + "?next=" + url.QueryEscape(next)
	}
	return address
}

// afterCreate returns the address of the home page of a new workspace.
func afterCreate(_ *visit, answered []byte) (string, error) {
	var made struct {
		Workspace struct {
			ID string `json:"id"`
		} `json:"workspace"`
	}
	err := json.Unmarshal(answered, &made)
	return Root + "/" + made.Workspace.ID, err
}

// showWorkspaces lists the person's workspaces, with the role in each.
func showWorkspaces(v *visit) (*View, error) {
	var me struct {
		Workspaces []struct{ ID, Name, Role string }
	}
	if err := v.readInto(&me, "/api/dashboard/me"); err != nil {
		return nil, err
	}
	table := &Table{Caption: "Your workspaces", Columns: []Column{{Name: "Name", Role: rolePrimary}, {Name: "Role",
		Role: roleSecond}, {Name: "Membership", Role: roleStatus}},
		Empty: "You have no workspace yet. A workspace is a business: its dollars, cards and keys."}
	for _, w := range me.Workspaces {
		table.Rows = append(table.Rows, []Cell{linkCell(w.Name, Root+"/"+w.ID), plainCell(inWords(w.Role)),
			linkCell("Leave", Root+"/"+w.ID+"/leave")})
	}
	blocks := []Block{{Table: table}, {Facts: []Fact{{"Invited to another?", linkCell("Answer an invitation",
		Root+"/invitation")}}}}
	forms, err := v.drawForms("create")
	return &View{Title: "Workspaces", Blocks: append(blocks, forms...)}, err
}

// showAccount shows the second factor, the sessions, and the forms of the password and the email.
func showAccount(v *visit) (*View, error) {
	sessions, err := v.readSessions()
	if err != nil {
		return nil, err
	}
	f, err := v.readFactor()
	if err != nil {
		return nil, err
	}
	blocks := []Block{f.stateBlock(), {Table: sessionTable(sessions)}}
	if len(sessions) > 1 {
		buttons, err := v.drawButtons("others")
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, buttons...)
	}
	forms, err := v.drawForms("password", "email")
	blocks = append(blocks, forms...)
	return &View{Title: "Your account", Lead: v.Email, Up: &Link{"Workspaces", Root}, Blocks: blocks}, err
}
