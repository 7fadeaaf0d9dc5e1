package dashboard

import "encoding/json"

// teamPages are the members of a workspace and its invitations.
func teamPages() []page {
	return append(append([]page{
		{path: "team", access: member, section: "Members", show: showTeam, actions: []action{
			{name: "invite", method: "POST", path: membersPath, title: "Invite a person", submit: "Invite the person",
				show: showInvited, fields: []Field{
					{Name: "email", Label: "Email", Kind: fieldEmail, Required: true,
						Hint: "The link works with an account of this email alone."},
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
	t := &Table{Caption: "Members, newest first", Columns: []Column{{Name: "Person", Role: rolePrimary},
		{Name: "Since", Role: roleSecond}, {Name: "Role", Role: roleStatus}}}
	for _, m := range team {
		name := m.Email
		if m.Email == v.Email {
			name += " (you)"
		}
		t.Rows = append(t.Rows, []Cell{linkCell(name, v.addressOf("team", "members", m.UserID)), v.dateCell(m.Since),
			plainCell(inWords(m.Role))})
	}
	pending, err := v.readInvitations()
	if err != nil {
		return nil, err
	}
	forms, err := v.drawForms("invite")
	return &View{Title: "Members", Lead: "A person joins by a link and has one role in this workspace.",
		Blocks: []Block{{Columns: &Columns{MainSide, []Block{{Table: t}, {Table: invitationTable(v, pending)}},
			append(forms, roleBlock())}}}}, err
}

// roleBlock says what each role may do.
func roleBlock() Block {
	drawn := Block{Heading: "Roles", Panel: true}
	for _, r := range roles {
		drawn.Facts = append(drawn.Facts, Fact{r.Label, plainCell(inWords(r.Hint))})
	}
	return drawn
}

// showInvited shows the link of an invitation, which no later answer shows.
func showInvited(v *visit, body []byte) (*View, error) {
	var invited struct{ URL string }
	if err := json.Unmarshal(body, &invited); err != nil {
		return nil, err
	}
	return &View{Title: "The person is invited", Up: &Link{"Members", v.addressOf("team")},
		Ways:   []Way{{Link: Link{"All members", v.addressOf("team")}}},
		Notice: &Notice{Text: "Pass the link on now. It is shown only this once, and ends after 7 days."},
		Blocks: []Block{{Code: &Code{ID: "link", Label: "The person opens it, with an account of the invited email",
			Text: invited.URL}}}}, nil
}
