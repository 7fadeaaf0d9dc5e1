package dashboard

import "encoding/json"

// teamPages are the members of a workspace and its invitations.
func teamPages() []page {
	return append(append([]page{
		{path: "team", access: member, section: "Members", show: showTeam, actions: []action{
			{name: "invite", method: "POST", path: membersPath, title: "Invite a person", submit: "Invite",
				show: showInvited, fields: []Field{
					{Name: "email", Label: "Email", Kind: fieldEmail, Required: true},
					{Name: "role", Label: "Role", Kind: fieldChoice, Default: "member", Options: roles}}},
		}},
	}, memberPages()...), invitationPages()...)
}

// showTeam lists the members and the pending invitations.
func showTeam(v *visit) (*View, error) {
	team, err := v.readTeam()
	if err != nil {
		return nil, err
	}
	t := &Table{Caption: "Members", Columns: []Column{{Name: "Email"}, {Name: "Role"}, {Name: "Since (UTC)"}}}
	for _, m := range team {
		t.Rows = append(t.Rows, []Cell{linkCell(m.Email, v.addressOf("team", "members", m.UserID)),
			plainCell(inWords(m.Role)), timeCell(m.Since)})
	}
	pending, err := v.readInvitations()
	if err != nil {
		return nil, err
	}
	forms, err := v.drawForms("invite")
	return &View{Title: "Members", Blocks: append([]Block{{Table: t}, {Table: invitationTable(v, pending)}}, forms...)}, err
}

// showInvited shows the link of an invitation, which no later answer shows.
func showInvited(v *visit, body []byte) (*View, error) {
	var invited struct{ URL string }
	if err := json.Unmarshal(body, &invited); err != nil {
		return nil, err
	}
	return &View{Title: "The person is invited", Up: &Link{"Members", v.addressOf("team")},
		Notice: &Notice{Text: "Pass the link on now. It is shown only this once."},
		Blocks: []Block{{Code: &Code{ID: "link", Label: "The person opens it, with an account of the invited email",
			Text: invited.URL}}}}, nil
}
