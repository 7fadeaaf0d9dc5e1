package dashboard

// resetPages are the pages of a forgotten password: one asks for a mail with a link, and the link
// leads to the other.
func resetPages() []page {
	return []page{
		{path: "forgot", access: public, show: showForgot, actions: []action{{name: "send", method: "POST",
			path: "/api/dashboard/password/forgot", submit: "Send the link",
			done: "If the email has an account, a mail with a link is on its way. The link is valid for one hour.",
			fields: []Field{{Name: "email", Label: "Email", Kind: fieldEmail, Required: true,
				Autocomplete: "username"}}}}},
		{path: "reset", access: public, show: showReset, actions: []action{{name: "set", method: "POST",
			path: "/api/dashboard/password/reset", submit: "Set the password",
			done: "The password is set, and all sessions have ended.",
			then: func(*visit, []byte) (string, error) { return Root + "/reset?" + doneParameter + "=set", nil },
			fields: []Field{
				{Name: "token", Label: "Token", Kind: fieldText, Required: true,
					Hint: "From the link that you were mailed or that the operator passed on."},
				{Name: "newPassword", Label: "New password", Kind: fieldPassword, Required: true,
					Autocomplete: "new-password", Hint: "At least 12 characters."}}}}},
	}
}

// showForgot offers the mail, or says who makes the link of a server that sends no mail.
func showForgot(v *visit) (*View, error) {
	view := &View{Title: "Forgotten password", Up: &Link{"Sign in", SignInPath}}
	if v.Query.Get(doneParameter) == "send" {
		return view, nil
	}
	forms, err := v.drawForms("send")
	view.Blocks = forms
	if len(forms) == 0 {
		view.Blocks = []Block{{Text: "This server sends no mail. Its operator makes a link for you, with purser reset-password and your email."}}
	}
	return view, err
}

// showReset asks for the new password. The token is filled from the link.
func showReset(v *visit) (*View, error) {
	view := &View{Title: "New password"}
	if v.Query.Get(doneParameter) == "set" {
		view.Blocks = []Block{{Facts: []Fact{{"Next", linkCell("Sign in", SignInPath)}}}}
		return view, nil
	}
	v.prefillForm("set", "token", cutText(v.Query.Get("token"), fieldText))
	forms, err := v.drawForms("set")
	view.Blocks = forms
	return view, err
}
