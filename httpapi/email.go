package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/user"
	"purser/httpapi/dashboard"
	"purser/httpapi/mail"
	"purser/persistence/ident"
)

// Times of a change of email.
const (
	emailLinkLife   = time.Hour   // life of the link that confirms a new email
	emailChangeTime = time.Minute // in which a change is committed; longer than requestTimeout
)

// Limits of a user's changes of email, per minute. They apply even when the rate limits are off.
const (
	emailMailsPerUser    = 3 // mails with a link to a new email
	emailConfirmsPerUser = 10
)

// emailHandlers are the handlers by which a person changes the email.
type emailHandlers struct{ *sessionHandlers }

// emailRoutes returns the routes by which a person changes the email.
func (h *emailHandlers) emailRoutes() []route {
	const path = "/api/dashboard/email"
	return []route{
		{method: "POST", path: path, auth: authSession, signsIn: true, handle: h.changeEmail},
		{method: "POST", path: path + "/confirm", auth: authSession, signsIn: true, handle: h.confirmEmail},
	}
}

// emailDocument is the answer to a change of email: the user, and the email that a link has yet to
// confirm, or nil.
type emailDocument struct {
	User    userDocument  `json:"user"`
	Pending *pendingEmail `json:"pending"`
}

// pendingEmail is a new email to which a link was mailed.
type pendingEmail struct {
	Email     string         `json:"email"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

// emailChange is a change of email that the user may make: the credential that it replaces and the
// new email.
type emailChange struct {
	credential   user.Credential
	email        string
	folded, link string // link is the hash of the confirming link, or ""
}

// changeEmail handles POST /api/dashboard/email. With a mail server it mails a link to the new
// email, which confirms it. Without one the email changes at once: every session ends, and the
// answer starts a new one. It fails with invalid_credentials for a wrong current password, with
// invalid_body, email_taken, rate_limited, or unavailable when a queue is full or another change is
// under way.
func (h *emailHandlers) changeEmail(c *call) (answer, error) {
	var body struct {
		NewEmail        string `json:"newEmail"`
		CurrentPassword string `json:"currentPassword"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	folded, ok := user.FoldEmail(body.NewEmail)
	if !ok {
		return answer{}, fault.New(fault.InvalidBody, "newEmail must be an email address")
	}
	credential, err := h.matchPassword(c, "currentPassword", body.CurrentPassword)
	if err != nil {
		return answer{}, err
	}
	change := emailChange{credential: credential, email: strings.TrimSpace(body.NewEmail), folded: folded}
	if err := h.refuseSameOrTaken(c.ctx, change); err != nil {
		return answer{}, err
	}
	if h.mails == nil {
		return h.replaceEmail(c, change)
	}
	return h.mailEmailLink(c, change)
}

// refuseSameOrTaken fails with invalid_body for the present email, and with email_taken for the
// email of another account. The claim itself decides between two who ask at once.
func (h *emailHandlers) refuseSameOrTaken(ctx context.Context, change emailChange) error {
	if present, _ := user.FoldEmail(change.credential.Email); present == change.folded {
		return fault.New(fault.InvalidBody, "newEmail is the email of the account already")
	}
	id, _, err := h.accounts.credentialOf(ctx, change.folded)
	if err == nil && id != "" {
		return fault.New(fault.EmailTaken, "an account with this email exists")
	}
	return err
}

// mailEmailLink opens a link and queues its mail to the new email. It fails with rate_limited, and
// with unavailable when the queue of mails is full.
func (h *emailHandlers) mailEmailLink(c *call, change emailChange) (answer, error) {
	if err := h.limits.countRequest("email-mails/"+c.who.user, emailMailsPerUser); err != nil {
		return answer{}, err
	}
	if err := h.countMail(c, change.folded); err != nil {
		return answer{}, err
	}
	slot, err := ident.SlotOf(c.who.user)
	if err != nil {
		return answer{}, fmt.Errorf("slot of a user: %w", err)
	}
	token, err := ident.NewSecret(ident.EmailSecret, slot, h.actors.Entropy())
	if err != nil {
		return answer{}, err
	}
	_, hash, err := ident.ParseSecret(ident.EmailSecret, token)
	if err != nil {
		return answer{}, fmt.Errorf("a fresh token: %w", err)
	}
	expires := c.now.Add(emailLinkLife)
	view, err := ask[user.View](c.ctx, h.actors, toUser(c.who.user,
		user.IssueEmailLink{TokenHash: hash, Email: change.email, Expires: expires}))
	if err != nil {
		return answer{}, err
	}
	link := h.cfg.BaseURL + dashboard.Root + "/account/email?token=" + url.QueryEscape(token)
	err = h.queueMail(c.peer, mail.Message{To: change.email, Subject: "Confirm your new email", Text: fmt.Sprintf(
		"To make this the email of your account of Purser, open:\n\n%s\n\n"+
			"The link is valid for one hour and works once. If it was not you, do nothing: nothing changes.\n", link)})
	if err != nil {
		return answer{}, err
	}
	return reply(emailDocument{
		User:    userDocument{ID: view.ID, Email: change.credential.Email, CreatedAt: view.CreatedAt},
		Pending: &pendingEmail{Email: change.email, ExpiresAt: decision.StampOf(expires)}})
}

// queueMail queues a mail that is ready. Origin is the address that asked for it, "" for a notice.
// It fails with unavailable when the queue is full.
func (h *emailHandlers) queueMail(origin string, message mail.Message) error {
	err := h.mails.Put(origin, func(context.Context) (mail.Message, error) { return message, nil })
	if errors.Is(err, mail.ErrFull) {
		return &waitError{fault: fault.New(fault.Unavailable, "too many mails wait; nothing was sent"), wait: mailRetry}
	}
	return err
}

// confirmEmail handles POST /api/dashboard/email/confirm: it changes the email of the session's
// user by the right of a link. Every session ends, and the answer starts a new one. It fails with
// invalid_credentials for a token that is unknown, used, expired or another user's, and with
// email_taken, invalid_body, rate_limited or unavailable.
func (h *emailHandlers) confirmEmail(c *call) (answer, error) {
	var body struct {
		Token string `json:"token"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	counted := "email-confirm/" + c.who.user
	if err := h.delayOver(c, []rateCount{{counted, emailConfirmsPerUser}}, counted); err != nil {
		return answer{}, err
	}
	wrong := fault.New(fault.InvalidCredentials, "token is unknown, used, expired or of another account")
	slot, hash, err := ident.ParseSecret(ident.EmailSecret, body.Token)
	if err != nil {
		return answer{}, wrong
	}
	document, err := query.EmailLinks.Find(c.ctx, h.actors, slot, hash)
	if fault.Is(err, fault.NotFound) || err == nil && (document.UserID != c.who.user || !document.ExpiresAt.After(c.now)) {
		return answer{}, wrong
	}
	if err != nil {
		return answer{}, err
	}
	credential, err := h.accounts.readCredential(c.ctx, c.who.user)
	if err != nil {
		return answer{}, err
	}
	folded, ok := user.FoldEmail(document.Email)
	if !ok {
		return answer{}, fmt.Errorf("the new email of %s does not fold", c.who.user)
	}
	change := emailChange{credential: credential, email: document.Email, folded: folded, link: hash}
	if err := h.refuseSameOrTaken(c.ctx, change); err != nil {
		return answer{}, err
	}
	return h.replaceEmail(c, change)
}

// replaceEmail makes a new email the one of the session's user: it begins the change, claims the
// email and commits. A crash in between leaves the old email, and the claim ends with the change.
// It fails with email_taken, with the user's refusal, and with unavailable.
func (h *emailHandlers) replaceEmail(c *call, change emailChange) (answer, error) {
	hash := user.EmailHash(change.folded)
	address := user.AddressID(h.actors.TenantSlot(change.folded), hash)
	until := h.actors.Clock().Add(emailChangeTime)
	begun, err := ask[user.BegunChange](c.ctx, h.actors, toUser(c.who.user,
		user.BeginEmailChange{Address: address, EmailHash: hash, Until: until}))
	if err != nil {
		return answer{}, err
	}
	claimed, err := h.claimEmail(c, address, user.ClaimEmail{EmailHash: hash, UserID: c.who.user,
		Change: begun.Number, Until: until})
	if err != nil {
		return answer{}, err
	}
	start, secret, err := h.newSession(c, c.who.user, user.StartSession{Changes: change.credential.Changes})
	if err != nil {
		return answer{}, err
	}
	view, err := ask[user.View](c.ctx, h.actors, toUser(c.who.user, user.CommitEmailChange{Number: begun.Number,
		Generation: claimed.Generation, Email: change.email, PasswordHash: change.credential.PasswordHash,
		Link: change.link, Start: start}))
	if err != nil {
		return answer{}, err
	}
	h.noticeOldEmail(change)
	a, err := reply(emailDocument{User: userDocument{ID: view.ID, Email: change.email, CreatedAt: view.CreatedAt}})
	a.cookie = h.newCookie(secret)
	return a, err
}

// claimEmail claims an email for a change that has begun. When another account has it, the change
// ends at once, and else at its Until. It fails with email_taken, and with the actor's error.
func (h *emailHandlers) claimEmail(c *call, address string, claim user.ClaimEmail) (user.Claimed, error) {
	claimed, err := ask[user.Claimed](c.ctx, h.actors, actors.Envelope{Kind: actors.KindAddress, Stream: address,
		Workspace: address, Command: claim})
	if !fault.Is(err, fault.EmailTaken) {
		return claimed, err
	}
	_, ending := h.actors.Ask(c.ctx, toUser(c.who.user, user.AbandonEmailChange{Number: claim.Change}))
	if ending != nil {
		h.log.Warn("a change of email ends only with its time", "err", ending)
	}
	return claimed, err
}

// noticeOldEmail mails the old email that it is the account's no more. Without a mail server it
// does nothing; a full queue is logged, because the change is made.
func (h *emailHandlers) noticeOldEmail(change emailChange) {
	if h.mails == nil {
		return
	}
	err := h.queueMail("", mail.Message{To: change.credential.Email, Subject: "Your email was changed",
		Text: fmt.Sprintf("Your account of Purser has a new email: %s. All sessions but the one that changed it have "+
			"ended, and this email signs in no more.\n\nIf it was not you, tell the operator of %s at once.\n",
			change.email, h.cfg.BaseURL)})
	if err != nil {
		h.log.Warn("the old email is not told of the new one", "err", err)
	}
}
