package dashboard

import "encoding/json"

const (
	emailPath     = "/api/dashboard/email"
	emailPageName = "account/email"
	sentValue     = "sent" // of doneParameter: a mail with a link is on its way
)

// emailAction is the form of the account's page that changes the email.
func emailAction() action {
	return action{name: "email", method: "POST", path: emailPath, title: "Change the email", submit: "Change the email",
		done: "The email is changed. All other sessions have ended.", then: afterEmail,
		fields: []Field{
			{Name: "newEmail", Label: "New email", Kind: fieldEmail, Required: true, Autocomplete: "email"},
			{Name: "currentPassword", Label: "Current password", Kind: fieldPassword, Required: true,
				Autocomplete: "current-password"}}}
}

// emailPages are the page that the link to a new email opens.
func emailPages() []page {
	return []page{{path: emailPageName, access: personal, show: showEmail, actions: []action{
		{name: "confirm", method: "POST", path: emailPath + "/confirm", submit: "Confirm the new email",
			then: func(*visit, []byte) (string, error) { return Root + "/account?" + doneParameter + "=email", nil },
			fields: []Field{{Name: "token", Label: "Token", Kind: fieldText, Required: true,
				Hint: "From the link that was mailed to your new email."}}}}}}
}

// afterEmail returns the address of the page that asks for the mailed link, or the account's page
// when the email has changed at once.
func afterEmail(_ *visit, answered []byte) (string, error) {
	var changed struct{ Pending *struct{ Email string } }
	err := json.Unmarshal(answered, &changed)
	if changed.Pending != nil {
		return Root + "/" + emailPageName + "?" + doneParameter + "=" + sentValue, err
	}
	return Root + "/account?" + doneParameter + "=email", err
}

// showEmail asks for the confirmation of the new email. The token is filled from the link.
func showEmail(v *visit) (*View, error) {
	view := &View{Title: "New email", Up: &Link{"Your account", Root + "/account"},
		Lead: "You are signed in as " + v.Email + "."}
	if v.Query.Get(doneParameter) == sentValue {
		view.Blocks = []Block{{Text: "A mail with a link is on its way to the new email. The link is valid for one hour. " +
			"Until you open it, the email of your account stays."}}
		return view, nil
	}
	v.prefillForm("confirm", "token", cutText(v.Query.Get("token"), fieldText))
	forms, err := v.drawForms("confirm")
	view.Blocks = forms
	return view, err
}
