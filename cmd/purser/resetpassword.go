package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
	"purser/httpapi"
)

// resetPasswordCommand asks the running server for a password reset.
type resetPasswordCommand struct {
	datadir.Stores
	Email        string `arg:"" help:"The email of the account."`
	RemoveFactor bool   `name:"remove-second-factor" help:"Remove the second factor at once, for a person who has lost it."`
}

const (
	resetCommandWithin = time.Minute
	maxResetAnswer     = 64 << 10 // bytes
)

// resetQuestion is the body of the command at the admin port.
type resetQuestion struct {
	Email        string `json:"email"`
	RemoveFactor bool   `json:"removeSecondFactor"`
}

// answerReset handles the admin port's command "reset-password". It fails with invalid_body, with
// not_found for an email without an account, and with an error of the store.
func answerReset(ctx context.Context, api *httpapi.Server, body []byte) (any, error) {
	var question resetQuestion
	if err := adminport.DecodeBody(body, &question); err != nil {
		return nil, err
	}
	return api.IssueReset(ctx, question.Email, question.RemoveFactor)
}

// Run is `purser reset-password EMAIL`: it prints the link and the end of its validity. It fails
// when no server answers, and for an email without an account.
func (c *resetPasswordCommand) Run(out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), resetCommandWithin)
	defer cancel()
	link, err := adminport.Ask[httpapi.ResetLink](ctx, c.DataDir, "reset-password",
		resetQuestion{Email: c.Email, RemoveFactor: c.RemoveFactor}, maxResetAnswer)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\nvalid once, until %s\n", link.URL, link.ExpiresAt.Format(time.RFC3339))
	return err
}
