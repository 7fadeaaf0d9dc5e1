package httpapi

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/user"
	"purser/httpapi/dashboard"
	"purser/httpapi/mail"
	"purser/httpapi/password"
	"purser/persistence/ident"
)

// resetLife is how long the token of a password reset is valid.
const resetLife = time.Hour

// Limits of password resets, per minute. They apply even when the rate limits are off.
const (
	resetsPerAccount = 10
	resetsPerAddress = 30
)

// Limits of mails with a link, per minute. They apply even when the rate limits are off.
const (
	mailsPerMailbox = 3
	mailsPerAddress = 30
)

// mailRetry is the advised wait after the queue of mails was full.
const mailRetry = 30 * time.Second

// resetRoutes returns the routes of forgotten passwords.
func (h *sessionHandlers) resetRoutes() []route {
	const path = "/api/dashboard/password"
	return []route{
		{method: "POST", path: path + "/forgot", auth: authNone, mail: true, handle: h.forgotPassword},
		{method: "POST", path: path + "/reset", onFullDisk: true, auth: authNone, handle: h.resetPassword},
	}
}

// ResetLink is a password reset that an operator hands over. URL opens the page that takes it.
type ResetLink struct {
	Token     string         `json:"token"`
	URL       string         `json:"url"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

// IssueReset makes a password reset for the user of an email, without a mail. It also removes the
// user's second factor when removeFactor is set. It fails with invalid_body for a text that is no
// email, with not_found for an unknown one, and with an error of the store.
func (s *Server) IssueReset(ctx context.Context, email string, removeFactor bool) (ResetLink, error) {
	folded, ok := user.FoldEmail(email)
	if !ok {
		return ResetLink{}, fault.New(fault.InvalidBody, "email must be an email address")
	}
	id, _, err := s.sessions.accounts.credentialOf(ctx, folded)
	if err != nil {
		return ResetLink{}, err
	}
	if id == "" {
		return ResetLink{}, fault.New(fault.NotFound, "no account has this email")
	}
	if removeFactor {
		if _, err := s.actors.Ask(ctx, toUser(id, user.DisableFactor{})); err != nil {
			return ResetLink{}, err
		}
	}
	return s.sessions.issueReset(ctx, id, true)
}

// issueReset draws a token and opens its reset. Only the token's hash is stored. It fails with the
// user's refusal, without entropy, and with an error of the store.
func (h *sessionHandlers) issueReset(ctx context.Context, id string, operator bool) (ResetLink, error) {
	slot, err := ident.SlotOf(id)
	if err != nil {
		return ResetLink{}, fmt.Errorf("slot of a user: %w", err)
	}
	token, err := ident.NewSecret(ident.ResetSecret, slot, h.actors.Entropy())
	if err != nil {
		return ResetLink{}, err
	}
	_, hash, err := ident.ParseSecret(ident.ResetSecret, token)
	if err != nil {
		return ResetLink{}, fmt.Errorf("a fresh token: %w", err)
	}
	expires := h.actors.Clock().Add(resetLife)
	_, err = h.actors.Ask(ctx, toUser(id, user.IssueReset{TokenHash: hash, Expires: expires, Operator: operator}))
	return ResetLink{Token: token, ExpiresAt: decision.StampOf(expires),
		URL: h.cfg.BaseURL + dashboard.Root + "/reset?token=" + url.QueryEscape(token)}, err
}

// forgotPassword handles POST /api/dashboard/password/forgot: it queues a mail with a reset's link.
// The account is looked up after the answer, so neither the answer nor its time discloses whether
// one exists. It fails with invalid_body, rate_limited, and unavailable when the queue is full.
func (h *sessionHandlers) forgotPassword(c *call) (answer, error) {
	var body struct {
		Email string `json:"email"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	folded, ok := user.FoldEmail(body.Email)
	if !ok {
		return answer{}, fault.New(fault.InvalidBody, "email must be an email address")
	}
	if err := h.countMail(c, folded); err != nil {
		return answer{}, err
	}
	err := h.mails.Put(c.peer, func(ctx context.Context) (mail.Message, error) { return h.prepareReset(ctx, folded) })
	if err != nil { // the queue is full or closed
		f := fault.New(fault.Unavailable, "too many mails wait; nothing was sent")
		return answer{}, &waitError{fault: f, wait: mailRetry}
	}
	return reply(map[string]bool{"accepted": true})
}

// countMail counts a mail to a mailbox that the caller's address asks for. It fails with
// rate_limited.
func (h *sessionHandlers) countMail(c *call, folded string) error {
	if err := h.limits.countRequest("mails-of/"+c.peer, mailsPerAddress); err != nil {
		return err
	}
	return h.limits.countRequest("mails-to/"+user.EmailHash(folded), mailsPerMailbox)
}

// prepareReset makes the mail with the link of a new reset. It fails with mail.ErrNoMail for an
// unknown email and for a user whose mailbox has enough links already.
func (h *sessionHandlers) prepareReset(ctx context.Context, folded string) (mail.Message, error) {
	id, credential, err := h.accounts.credentialOf(ctx, folded)
	if err != nil {
		return mail.Message{}, err
	}
	if id == "" {
		return mail.Message{}, mail.ErrNoMail
	}
	link, err := h.issueReset(ctx, id, false)
	if fault.Is(err, fault.LimitExceeded) {
		return mail.Message{}, mail.ErrNoMail
	}
	return mail.Message{To: credential.Email, Subject: "Reset your password", Text: fmt.Sprintf(
		"Someone asked to reset the password of this account of Purser. To choose a new one, open:\n\n%s\n\n"+
			"The link is valid for one hour and works once. If it was not you, do nothing: the password stays.\n",
		link.URL)}, err
}

// resetPassword handles POST /api/dashboard/password/reset: it replaces the password by the right
// of a token, and ends every session. It fails with invalid_credentials for a token that is
// unknown, used or expired, with invalid_body, rate_limited or unavailable.
func (h *sessionHandlers) resetPassword(c *call) (answer, error) {
	var body struct {
		Token       string `json:"token"`
		NewPassword string `json:"newPassword"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	id, hash, err := h.userOfReset(c, body.Token)
	if err != nil {
		return answer{}, err
	}
	counted := "reset-account/" + id
	counts := []rateCount{{"reset-address/" + c.peer, resetsPerAddress}}
	if id != "" {
		counts = append(counts, rateCount{counted, resetsPerAccount})
	}
	if err := h.delayOver(c, counts, counted); err != nil {
		return answer{}, err
	}
	if id == "" {
		return answer{}, fault.New(fault.InvalidCredentials, "token is unknown, used or expired")
	}
	credential, err := h.accounts.readCredential(c.ctx, id)
	if err != nil {
		return answer{}, err
	}
	hashed, err := h.passwords.Hash(c.ctx, password.Caller{Address: c.peer}, body.NewPassword)
	if err != nil {
		return answer{}, passwordFault(err)
	}
	_, err = h.actors.Ask(c.ctx, toUser(id, user.ResetPassword{TokenHash: hash, Email: credential.Email,
		PasswordHash: hashed, Changes: credential.Changes}))
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]bool{"reset": true})
}

// userOfReset finds the user of an open reset's token, and the token's hash. The user is "" for a
// token that is malformed, unknown or expired. It fails only with an error of the store.
func (h *sessionHandlers) userOfReset(c *call, token string) (id, hash string, err error) {
	slot, hash, err := ident.ParseSecret(ident.ResetSecret, token)
	if err != nil {
		return "", "", nil
	}
	document, err := query.PasswordResets.Find(c.ctx, h.actors, slot, hash)
	if fault.Is(err, fault.NotFound) {
		return "", hash, nil
	}
	if err != nil || !document.ExpiresAt.After(c.now) {
		return "", hash, err
	}
	return document.UserID, hash, nil
}
