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
	view := &View{Title: "Forgotten password", Up: &Link{"Sign in", SignInPath},
		Door: afterReset("A link is on its way",
			"If the email has an account, it gets a mail. This page answers alike for every email.")}
	if v.Query.Get(doneParameter) == "send" {
		return view, nil
	}
	forms, err := v.drawForms("send")
	view.Blocks = forms
	if len(forms) == 0 {
		view.Blocks = []Block{{Text: "This server sends no mail. Its operator makes a link for you, " +
			"with purser reset-password and your email."}}
		view.Door = afterReset("The operator hands you a link", "The operator makes sure first that it is you.")
	}
	return view, err
}

// showReset asks for the new password. The token is filled from the link.
func showReset(v *visit) (*View, error) {
	view := &View{Title: "New password", Door: afterReset("You have a link", "It opens this page.")}
	if v.Query.Get(doneParameter) == "set" {
		view.Ways = []Way{{Link: Link{"Sign in", SignInPath}, Primary: true}}
		return view, nil
	}
	v.prefillForm("set", "token", cutText(v.Query.Get("token"), fieldText))
	forms, err := v.drawForms("set")
	view.Blocks = forms
	for _, b := range forms {
		if token := &b.Form.Fields[0]; token.Value != "" && token.Problem == "" {
			token.Kind = fieldHidden // the link brings it
		}
	}
	return view, err
}

// afterReset says beside the pages of a forgotten password what happens next, from the link on.
func afterReset(link, about string) []Block {
	return []Block{{Heading: "From here to a new password", Steps: []Step{
		{Name: link, Text: about},
		{Name: "It works once, for one hour", Text: "Choose a password of at least 12 characters."},
		{Name: "Every session ends", Text: "Sign in with the new password. A second factor stays on."}}}}
}
