package dashboard

const workspacePath = "/api/dashboard/workspace"

// settingsPages are the page on which owners and admins rename their workspace.
func settingsPages() []page {
	return []page{{path: "settings", access: member, section: "Settings", show: showSettings, actions: []action{
		{name: "rename", method: "PATCH", path: workspacePath, title: "Name", submit: "Rename",
			done: "The workspace has its new name.",
			fields: []Field{{Name: "name", Label: "Name", Kind: fieldText, Required: true, Autocomplete: "organization",
				Hint: "2 to 80 characters. Customers read it on payment pages, and invited people in their invitation."}}}}}}
}

// showSettings shows the workspace with the form of its name.
func showSettings(v *visit) (*View, error) {
	var read struct {
		Workspace struct{ ID, Name, Mode, KYBStatus string }
	}
	if err := v.readInto(&read, workspacePath); err != nil {
		return nil, err
	}
	w := read.Workspace
	v.prefillForm("rename", "name", w.Name)
	forms, err := v.drawForms("rename")
	facts := []Fact{{"Mode", plainCell(inWords(w.Mode))}, {"Business verification", plainCell(inWords(w.KYBStatus))},
		{"Id", codeCell(w.ID)}}
	return &View{Title: "Settings", Blocks: append([]Block{{Facts: facts}}, forms...)}, err
}
