package dashboard

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

const (
	factorPath = "/api/dashboard/second-factor"
	codePath   = SignInPath + "/code"
)

// factorPages are the second step of a sign-in and the page of the second factor.
func factorPages() []page {
	password := Field{Name: "password", Label: "Password", Kind: fieldPassword, Required: true,
		Autocomplete: "current-password"}
	return []page{
		{path: "sign-in/code", access: public, show: showCode, actions: []action{{name: "verify", method: "POST",
			path: "/api/dashboard/login/code", submit: "Sign in", then: afterSignIn, fields: []Field{
				{Name: "code", Label: "Code", Kind: fieldText, Required: true, Autocomplete: "one-time-code",
					Hint: "Six digits of your authenticator, or one of your recovery codes."},
				{Name: "challenge", Label: "Sign-in", Kind: fieldHidden, Required: true}}}}},
		{path: "account/second-factor", access: personal, show: showFactor, actions: []action{
			{name: "begin", method: "POST", path: factorPath, title: "Turn it on", submit: "Show the secret",
				fields: []Field{password}},
			{name: "enable", method: "POST", path: factorPath + "/enable", title: "2. Enter the code that it shows",
				submit: "Turn it on", show: showRecoveryCodes, fields: []Field{{Name: "code", Label: "Code",
					Kind:     fieldText,
					Required: true, Autocomplete: "one-time-code"}}},
			{name: "disable", method: "POST", path: factorPath + "/disable", title: "Turn it off",
				submit: "Turn it off",
				done:   "The second factor is off. A sign-in asks for the password alone.",
				danger: "Turn the second factor off? A sign-in then asks for the password alone.",
				fields: []Field{password}},
		}},
	}
}

// showCode asks for the code of a sign-in whose password was right.
func showCode(v *visit) (*View, error) {
	v.prefillForm("verify", "challenge", cutText(v.Query.Get("challenge"), fieldText))
	forms, err := v.drawForms("verify")
	return &View{Title: "Enter the code", Lead: "The password is right. A code completes the sign-in.",
		Up: &Link{"Sign in", SignInPath}, Blocks: forms, Door: []Block{{Heading: "Where the code is", Steps: []Step{
			{Name: "In the authenticator on your phone", Text: "It shows another code every 30 seconds. Each works once."},
			{Name: "Without the phone, in your recovery codes", Text: "Each signs you in once, in place of a code."},
			{Name: "Without both", Text: "Ask the server's operator, who removes the second factor for you."}}}}}, err
}

// challengeAddress returns the address that asks for the code of a sign-in, or "" when the sign-in
// needs none.
func challengeAddress(v *visit, body []byte) (string, error) {
	var answered struct{ Challenge string }
	err := json.Unmarshal(body, &answered)
	if err != nil || answered.Challenge == "" {
		return "", err
	}
	query := url.Values{"challenge": {answered.Challenge}}
	if next := v.Query.Get("next"); next != "" {
		query.Set("next", next)
	}
	return codePath + "?" + query.Encode(), nil
}

// secondFactor is the second factor of the person in the interface.
type secondFactor struct {
	Enabled           bool
	EnabledAt         time.Time
	RecoveryCodesLeft int
	Pending           *struct{ Secret, URI string }
}

// readFactor reads the person's second factor. It fails with the operation's refusal.
func (v *visit) readFactor() (secondFactor, error) {
	var read struct{ SecondFactor secondFactor }
	err := v.readInto(&read, factorPath)
	return read.SecondFactor, err
}

// fewCodes is the number of recovery codes from which on more are needed.
const fewCodes = 2

// factorFacts are the state of the second factor.
func (f *secondFactor) factorFacts() []Fact {
	if !f.Enabled {
		return []Fact{{"State", plainCell("Off. A sign-in asks for the password alone.")}}
	}
	left := plainCell(fmt.Sprint(f.RecoveryCodesLeft))
	if f.RecoveryCodesLeft <= fewCodes {
		left = Cell{Text: left.Text, Tone: "warn", Icon: "alert"}
	}
	return []Fact{{"State", Cell{Text: "On", Tone: "good", Icon: "check"}}, {"Since (UTC)", timeCell(f.EnabledAt)},
		{"Recovery codes left", left}}
}

// stateBlock shows the second factor on the page of the account.
func (f *secondFactor) stateBlock() Block {
	way := &Link{"Turn it on", Root + "/account/second-factor"}
	if f.Enabled {
		way.Text = "Turn it off"
	}
	return Block{Heading: "Second factor", Panel: true, More: way, Facts: f.factorFacts()}
}

// showFactor shows the second factor: how to turn it on, the secret that a code confirms, or how to
// turn it off.
func showFactor(v *visit) (*View, error) {
	f, err := v.readFactor()
	if err != nil {
		return nil, err
	}
	form := "begin"
	view := &View{Title: "Second factor", Up: &Link{"Your account", Root + "/account"},
		Lead: "With a second factor, a sign-in asks for a code of an authenticator on your phone too."}
	switch {
	case f.Enabled:
		form = "disable"
		view.Blocks = []Block{{Panel: true, Facts: f.factorFacts()}}
	case f.Pending != nil:
		form = "enable"
		view.Blocks = []Block{
			{Heading: "1. Add the secret to your authenticator", Panel: true, QR: &QR{f.Pending.URI,
				"QR code of the secret"},
				Code: &Code{ID: "secret", Label: "Scan the QR code, or enter the secret", Text: f.Pending.Secret}},
			{Code: &Code{ID: "uri", Label: "The address in the QR code", Text: f.Pending.URI, Folded: true}}}
	}
	forms, err := v.drawForms(form)
	view.Blocks = append(view.Blocks, forms...)
	return view, err
}

// showRecoveryCodes shows the recovery codes of the answer that turned the factor on. No later
// answer has them. It fails when the answer does not decode.
func showRecoveryCodes(_ *visit, answered []byte) (*View, error) {
	var enabled struct{ RecoveryCodes []string }
	err := json.Unmarshal(answered, &enabled)
	return &View{Title: "The second factor is on", Up: &Link{"Second factor", Root + "/account/second-factor"},
		Ways:   []Way{{Link: Link{"Your account", Root + "/account"}}},
		Notice: &Notice{Text: "Keep these codes now. They are shown only this once."},
		Blocks: []Block{{Code: &Code{ID: "codes", Label: "Without your phone, each of these codes signs you in once",
			Text: strings.Join(enabled.RecoveryCodes, "\n")}},
			{Text: "Print this page, or save the codes where your phone is not. " +
				"A code and the password together sign in."}}}, err
}
