package dashboard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	membersPath = "/api/dashboard/members"
	keptPages   = 5 // pages of 100 keys, the newest, among which those to keep are offered
)

// teammate is a member of a workspace in the interface.
type teammate struct {
	UserID, Email, Role string
	Since               time.Time
	EmailChangedAt      *time.Time
}

// roles are the roles of members, with their rights.
var roles = []Option{{Value: "member", Label: "Member", Hint: "sees dollars, payouts and recipients"},
	{Value: "admin", Label: "Admin", Hint: "does all but manage people"},
	{Value: "owner", Label: "Owner", Hint: "does all, and manages people"}}

// memberPages are the page on which an owner changes or removes a member, and the page on which any
// member leaves.
func memberPages() []page {
	return []page{
		{path: "team/members/{userId}", access: member, section: "Members", show: showMember, actions: []action{
			{name: "role", method: "PATCH", path: membersPath + "/{userId}", title: "Role", submit: "Change the role",
				show:    showRole,
				confirm: "Change the role?",
				fields:  []Field{{Name: "role", Label: "Role", Kind: fieldChoice, Options: roles, Required: true}}},
			{name: "remove", method: "DELETE", path: membersPath + "/{userId}", submit: "Remove from the workspace",
				danger: "Remove the person?",
				then:   func(v *visit, _ []byte) (string, error) { return v.addressOf("team"), nil },
				fields: []Field{
					{Name: "keepKeys", Label: "Keys that live on and become yours", Kind: fieldChecks},
					{Name: "keepEndpoints", Label: "Webhook endpoints that become yours", Kind: fieldChecks}}}}},
		{path: "leave", access: member, show: showLeave, actions: []action{
			{name: "leave", method: "POST", path: membersPath + "/leave", submit: "Leave the workspace",
				danger: "Leave the workspace?",
				then:   func(*visit, []byte) (string, error) { return Root, nil }}}},
	}
}

// readTeam reads the members, newest first. A workspace has at most 100.
func (v *visit) readTeam() ([]teammate, error) {
	var list struct{ Data []teammate }
	err := v.readInto(&list, membersPath, "limit", "100")
	return list.Data, err
}

// readMember reads the member of the page. It fails with not_found when the team has none.
func readMember(v *visit) (*teammate, error) {
	team, err := v.readTeam()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(team, func(m teammate) bool { return m.UserID == v.params["userId"] })
	if i < 0 {
		return nil, notHere()
	}
	return &team[i], nil
}

// showMember shows a member, with the form of a new role, what the member's departure ends, and the
// form that removes the member. Owners leave on a page of their own.
func showMember(v *visit) (*View, error) {
	m, err := readMember(v)
	if err != nil {
		return nil, err
	}
	details := Block{Heading: "Details", Panel: true, Facts: []Fact{{"Role", plainCell(roleText(m.Role))},
		{"Since (UTC)", timeCell(m.Since)}, {"Id", idCell(m.UserID)}}}
	view := &View{Title: m.Email, Up: &Link{"Members", v.addressOf("team")}}
	var main []Block
	if m.EmailChangedAt != nil {
		details.Facts = append(details.Facts, Fact{"Email changed (UTC)", timeCell(*m.EmailChangedAt)})
		main = []Block{{Text: "This person has changed the email of the account. " +
			"Make sure who it is before you change the role."}}
	}
	if m.Email == v.Email {
		details.Facts = append(details.Facts, Fact{"This is you", linkCell("Leave", v.addressOf("leave"))})
		view.Blocks = append(main, details)
		return view, nil
	}
	blocks, err := drawMember(v, m)
	view.Blocks = []Block{{Columns: &Columns{MainSide, append(main, blocks...), []Block{details, roleBlock()}}}}
	return view, err
}

// drawMember draws the forms that change another member, each with the person in its question.
func drawMember(v *visit, m *teammate) ([]Block, error) {
	ending, err := v.offerKept(m.UserID)
	if err != nil {
		return nil, err
	}
	v.prefillForm("role", "role", m.Role)
	forms, err := v.drawForms("role", "remove")
	for _, b := range forms {
		switch b.Form.Name {
		case "role":
			b.Form.Confirm, b.Form.AskOnPage = m.roleQuestion(v.Form.Get("role")), true
		case "remove":
			b.Form.Confirm, b.Form.AskOnPage = "Remove "+m.Email+"? "+ending, true
		}
	}
	if last := len(forms) - 1; last >= 0 {
		forms[last].Heading, forms[last].Text = "Remove "+m.Email, ending
	}
	return forms, err
}

// roleQuestion asks about a new role of a member, with what the role grants and what ends.
func (m *teammate) roleQuestion(role string) string {
	question := "Change the role of " + m.Email + "?"
	i := slices.IndexFunc(roles, func(o Option) bool { return o.Value == role })
	if i < 0 {
		return question
	}
	question = fmt.Sprintf("Change the role of %s to %s? The person then %s.", m.Email, role, roles[i].Hint)
	switch {
	case role == "owner":
		question += " An owner can also change your role and remove you."
	case role == "member" && m.Role != "member":
		question += " The person's webhook endpoints end at once, and so do the keys beyond the role."
	}
	if m.Role == "owner" && role != "owner" {
		question += " The invitations that the person has sent end too."
	}
	return question
}

// endingText says what ends when a member leaves, with the counts of what the member has made.
func endingText(keys, endpoints, invitations int) string {
	return fmt.Sprintf("At once the person's sessions lose this workspace, and %s, %s and %s end. Keys that those keys "+
		"made end with them. What you choose to keep becomes yours. The person's account stays.",
		countOf(keys, "API key"), countOf(endpoints, "webhook endpoint"), countOf(invitations, "pending invitation"))
}

// offerKept offers the keys and the webhook endpoints that a member made to the owner who removes
// the member. It returns what ends with the member, in words, without those that the form keeps.
// Keys of keys are not offered one by one: they live on with the key that made them. It fails when
// a list cannot be read.
func (v *visit) offerKept(user string) (ending string, err error) {
	var keys []Option
	cursor, all := "", false
	for read := 0; read < keptPages && !all; read++ {
		var list keyList
		if err := v.readInto(&list, keysPath, "limit", "100", "cursor", cursor); err != nil {
			return "", err
		}
		for _, k := range list.Data {
			if k.CreatedBy == user && k.RevokedAt.IsZero() {
				keys = append(keys, Option{Value: k.ID, Label: k.Label, Hint: strings.Join(k.Scopes, ", ")})
			}
		}
		if all = list.NextCursor == nil; !all {
			cursor = *list.NextCursor
		}
	}
	var list endpointList
	if err := v.readInto(&list, endpointsPath, "limit", "100"); err != nil {
		return "", err
	}
	var endpoints []Option
	for _, e := range list.Data {
		if e.CreatedBy == user {
			endpoints = append(endpoints, Option{Value: e.ID, Label: e.URL, Hint: strings.Join(e.Events, ", ")})
		}
	}
	v.offerOptions("remove", "keepKeys", keys)
	v.offerOptions("remove", "keepEndpoints", endpoints)
	pending, err := v.readInvitations()
	sent := 0
	for _, i := range pending {
		if i.InvitedBy == user {
			sent++
		}
	}
	ending = endingText(countEnding(v, "keepKeys", keys), countEnding(v, "keepEndpoints", endpoints), sent)
	if !all {
		ending += " The workspace has made more than 500 keys. Those of the person are counted and offered among the " +
			"newest 500; the API keeps any."
	}
	return ending, err
}

// countEnding counts the options that a field of the sent form does not keep.
func countEnding(v *visit, field string, made []Option) (ending int) {
	for _, o := range made {
		if !slices.Contains(v.Form[field], o.Value) {
			ending++
		}
	}
	return ending
}

// showLeave offers any member to leave.
func showLeave(v *visit) (*View, error) {
	const ending = "Your sessions lose this workspace at once. Your API keys, your webhook endpoints and the " +
		"invitations that you have sent end with it. Your account stays."
	buttons, err := v.drawButtons("leave")
	if len(buttons) > 0 {
		buttons[0].Text, buttons[0].Panel = ending, true
		buttons[0].Buttons[0].Confirm = "Leave " + v.Name + "? " + ending
	}
	return &View{Title: "Leave " + v.Name, Up: &Link{"Workspaces", Root},
		Lead:   "The last owner of a workspace stays.",
		Blocks: buttons}, err
}

// showRole shows the new role of a member and the keys that it has revoked.
func showRole(v *visit, body []byte) (*View, error) {
	var changed struct {
		Member      teammate
		RevokedKeys []string
	}
	if err := json.Unmarshal(body, &changed); err != nil {
		return nil, err
	}
	return &View{Title: "The role is changed", Up: &Link{"Members", v.addressOf("team")},
		Blocks: []Block{{Facts: []Fact{
			{"Email", plainCell(changed.Member.Email)}, {"Role", plainCell(inWords(changed.Member.Role))},
			{"Revoked keys", plainCell(strings.Join(changed.RevokedKeys, ", "))}}}}}, nil
}
