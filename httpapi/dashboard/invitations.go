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
	CreatedAt, ExpiresAt time.Time
}

// invitationPages are the page that a link of an invitation opens, and the page on which an owner
// withdraws one.
func invitationPages() []page {
	asked := []Field{{Name: "token", Label: "Token", Kind: fieldText, Required: true, Hint: "From the person who invited you."}}
	shown := []Field{{Name: "token", Label: "Token", Kind: fieldHidden, Required: true}}
	return []page{
		{path: "invitation", access: personal, show: showInvitation, actions: []action{
			{name: "find", method: "POST", path: invitationsPath + "/show", submit: "Show the invitation",
				missing: noInvitation, then: afterFind, fields: asked},
			{name: "accept", method: "POST", path: invitationsPath + "/accept", submit: "Accept", missing: noInvitation,
				then: afterAccept, fields: shown},
			{name: "decline", method: "POST", path: invitationsPath + "/decline", submit: "Decline",
				danger: "Decline the invitation? Its link ends.",
				then:   func(*visit, []byte) (string, error) { return Root + "/invitation?" + doneParameter + "=decline", nil },
				done:   "The invitation is declined.", missing: noInvitation, fields: shown}}},
		{path: "team/invitations/{id}", access: member, section: "Members", show: showPending, actions: []action{
			{name: "withdraw", method: "DELETE", path: invitationsPath + "/{id}", submit: "Withdraw",
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
	view := &View{Title: "Invitation", Up: &Link{"Workspaces", Root}}
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
	i, err := v.readReceived(token)
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
	buttons, err := v.drawButtons("accept", "decline")
	view.Blocks = append([]Block{{Facts: []Fact{{"Workspace", plainCell(i.WorkspaceName)}, {"Your role", plainCell(roleText(i.Role))},
		{"Invited by", plainCell(i.InviterEmail)}, {"Expires (UTC)", timeCell(i.ExpiresAt)}}}}, buttons...)
	return view, err
}

// readReceived reads the invitation of a token, or nil for a token without an open one. It fails
// with any other refusal of the operation.
func (v *visit) readReceived(token string) (*received, error) {
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
			return option.Label
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
		Columns: []Column{{Name: "Email"}, {Name: "Role"}, {Name: "Invited (UTC)"}, {Name: "Expires (UTC)"}}}
	for _, i := range pending {
		t.Rows = append(t.Rows, []Cell{linkCell(i.Email, v.addressOf("team", "invitations", i.ID)),
			plainCell(inWords(i.Role)), timeCell(i.CreatedAt), timeCell(i.ExpiresAt)})
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
		facts := []Fact{{"Email", plainCell(i.Email)}, {"Role", plainCell(inWords(i.Role))},
			{"Invited (UTC)", timeCell(i.CreatedAt)}, {"Expires (UTC)", timeCell(i.ExpiresAt)}}
		return &View{Title: "Invitation", Up: &Link{"Members", v.addressOf("team")},
			Blocks: append([]Block{{Facts: facts}}, buttons...)}, err
	}
	return nil, notHere()
}
