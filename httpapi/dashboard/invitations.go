package dashboard

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

const invitationsPath = "/api/dashboard/invitations"

// noInvitation is the reason of a token without an open invitation.
const noInvitation = "The token is unknown, used, withdrawn, expired or for another email."

// invitation is a pending invitation in the interface.
type invitation struct {
	ID, Email, Role      string
	InvitedBy            string // the id of a user
	CreatedAt, ExpiresAt time.Time
}

// invitationPages are the page that a link of an invitation opens, and the page on which an owner
// withdraws one.
func invitationPages() []page {
	asked := []Field{{Name: "token", Label: "Token", Kind: fieldText, Required: true,
		Hint: "From the person who invited you."}}
	shown := []Field{{Name: "token", Label: "Token", Kind: fieldHidden, Required: true}}
	return []page{
		{path: "invitation", access: personal, show: showInvitation, actions: []action{
			{name: "find", method: "POST", path: invitationsPath + "/show", submit: "Show the invitation",
				missing: noInvitation, then: afterFind, fields: asked},
			{name: "accept", method: "POST", path: invitationsPath + "/accept", submit: "Join the workspace",
				missing: noInvitation, then: afterAccept, fields: shown},
			{name: "decline", method: "POST", path: invitationsPath + "/decline", submit: "Decline the invitation",
				danger: "Decline the invitation? Its link ends.",
				then: func(*visit, []byte) (string, error) {
					return Root + "/invitation?" + doneParameter +
						"=decline", nil
				},
				done: "The invitation is declined.", missing: noInvitation, fields: shown}}},
		{path: "team/invitations/{id}", access: member, section: "Members", show: showPending, actions: []action{
			{name: "withdraw", method: "DELETE", path: invitationsPath + "/{id}", submit: "Withdraw the invitation",
				danger: "Withdraw the invitation? Its link ends.",
				then:   func(v *visit, _ []byte) (string, error) { return v.addressOf("team"), nil }}}},
	}
}

// received is an invitation as the invited person sees it.
type received struct {
	WorkspaceName, Role, InviterEmail string
	ExpiresAt                         time.Time
}

// showInvitation shows the invitation of a link, with the buttons that accept and decline it. A
// token without an open invitation is answered alike, whatever the reason, and another may be
// entered.
func showInvitation(v *visit) (*View, error) {
	view := &View{Title: "Invitation", Up: &Link{"Workspaces", Root}, Door: afterJoining(nil)}
	if v.Query.Get(doneParameter) == "decline" {
		return view, nil
	}
	view.Lead = "You are signed in as " + v.Email + ". An invitation is for one email."
	token := v.Query.Get("token")
	if token == "" {
		forms, err := v.drawForms("find")
		view.Blocks = forms
		return view, err
	}
	i, err := readReceived(v, token)
	if err != nil {
		return nil, err
	}
	if i == nil {
		forms, err := v.drawForms("find")
		view.Blocks = append([]Block{{Text: noInvitation}}, forms...)
		return view, err
	}
	for _, name := range []string{"accept", "decline"} {
		v.prefillForm(name, "token", token)
	}
	view.Title, view.Lead = "Join "+i.WorkspaceName, i.InviterEmail+" invites you. You are signed in as "+v.Email+"."
	view.Door = afterJoining(i)
	forms, err := v.drawForms("accept", "decline")
	view.Blocks = append([]Block{{Facts: []Fact{{"Workspace", plainCell(i.WorkspaceName)}, {"Your role",
		plainCell(roleText(i.Role))}, {"Invited by", plainCell(i.InviterEmail)},
		{"Expires (UTC)", timeCell(i.ExpiresAt)}}}}, forms...)
	if len(forms) > 1 {
		forms[1].Form.Confirm = "Decline the invitation to " + i.WorkspaceName + "? Its link ends."
	}
	return view, err
}

// afterJoining says beside an invitation what happens next. It is nil before the invitation is
// shown.
func afterJoining(i *received) []Block {
	if i == nil {
		return []Block{{Heading: "From a link to a workspace", Steps: []Step{
			{Name: "Sign in with the invited email", Text: "An invitation is for one email, and its link works once."},
			{Name: "See who invites you", Text: "The page names the person, the workspace and your role."},
			{Name: "Join or decline", Text: "Nothing happens until you choose."}}}}
	}
	return []Block{{Heading: "What happens next", Steps: []Step{
		{Name: "You join as " + i.Role, Text: roleText(i.Role) + "."},
		{Name: i.WorkspaceName + " is among your workspaces", Text: "The menu in the header switches between them. " +
			i.InviterEmail + " sees your email."},
		{Name: "You leave when you like", Text: "What you make in it, such as API keys, ends then. Your account stays."}}}}
}

// readReceived reads the invitation of a token, or nil for a token without an open one. It fails
// with any other refusal of the operation.
func readReceived(v *visit, token string) (*received, error) {
	a := v.API.Do(Operation{Method: "POST", Path: invitationsPath + "/show", Body: map[string]any{"token": token}})
	switch {
	case a.Status == statusNotFound, a.Code == "invalid_body":
		return nil, nil
	case a.Code != "":
		return nil, &refusal{a.Status, a.Code, a.Message, a.Wait}
	}
	var answered struct{ Invitation received }
	err := json.Unmarshal(a.Body, &answered)
	return &answered.Invitation, err
}

// roleText names a role with its rights.
func roleText(role string) string {
	for _, option := range roles {
		if option.Value == role {
			return option.Label + ": " + option.Hint
		}
	}
	return inWords(role)
}

// afterFind returns the address of the page of the invitation whose token was entered.
func afterFind(v *visit, _ []byte) (string, error) {
	token := cutText(strings.TrimSpace(v.Form.Get("token")), fieldText)
	return Root + "/invitation?token=" + url.QueryEscape(token), nil
}

// afterAccept returns the address of the home page of the workspace that a person has joined.
func afterAccept(_ *visit, answered []byte) (string, error) {
	var accepted struct{ Invitation struct{ WorkspaceID string } }
	err := json.Unmarshal(answered, &accepted)
	return Root + "/" + accepted.Invitation.WorkspaceID, err
}

// readInvitations reads the pending invitations, newest first. A workspace has at most 100.
func (v *visit) readInvitations() ([]invitation, error) {
	var list struct{ Data []invitation }
	err := v.readInto(&list, invitationsPath, "limit", "100")
	return list.Data, err
}

// invitationTable draws pending invitations.
func invitationTable(v *visit, pending []invitation) *Table {
	t := &Table{Caption: "Pending invitations", Empty: "No invitation waits for an answer.",
		Columns: []Column{{Name: "Person", Role: rolePrimary}, {Name: "Invited"}, {Name: "Expires (UTC)",
			Role: roleSecond}, {Name: "Role", Role: roleStatus}}}
	for _, i := range pending {
		t.Rows = append(t.Rows, []Cell{linkCell(i.Email, v.addressOf("team", "invitations", i.ID)),
			v.dateCell(i.CreatedAt), timeCell(i.ExpiresAt), plainCell(inWords(i.Role))})
	}
	return t
}

// showPending shows one pending invitation with the button that withdraws it.
func showPending(v *visit) (*View, error) {
	pending, err := v.readInvitations()
	if err != nil {
		return nil, err
	}
	for _, i := range pending {
		if i.ID != v.recordID() {
			continue
		}
		buttons, err := v.drawButtons("withdraw")
		for _, b := range buttons {
			b.Buttons[0].Confirm = "Withdraw the invitation of " + i.Email + "? Its link ends."
		}
		facts := []Fact{{"Role", plainCell(roleText(i.Role))},
			{"Invited (UTC)", timeCell(i.CreatedAt)}, {"Expires (UTC)", timeCell(i.ExpiresAt)}}
		return &View{Title: i.Email, Lead: "This person is invited, and has not answered.",
			Up:     &Link{"Members", v.addressOf("team")},
			Blocks: append([]Block{{Facts: facts}}, buttons...)}, err
	}
	return nil, notHere()
}
