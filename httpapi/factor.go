package httpapi

import (
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/user"
	"purser/httpapi/password"
)

// The codes of a second factor are those of RFC 6238 with SHA-1 and six digits.
const (
	codePeriod    = 30 // seconds of a time step
	codeTolerance = 1  // steps that a phone's clock may differ
	codeDigits    = otp.DigitsSix
	factorIssuer  = "Purser"
	secretBytes   = 20 // length of a shared secret, as SHA-1's
	recoveryBytes = 10 // random bytes of a recovery code
)

// factorRoutes returns the routes of the second factor.
func (h *sessionHandlers) factorRoutes() []route {
	const path = "/api/dashboard/second-factor"
	return []route{
		{method: "POST", path: "/api/dashboard/login/code", onFullDisk: true, auth: authNone, signsIn: true,
			handle: h.logInWithCode},
		{method: "GET", path: path, auth: authSession, handle: h.showFactor},
		{method: "POST", path: path, auth: authSession, handle: h.beginFactor},
		{method: "POST", path: path + "/enable", auth: authSession, handle: h.enableFactor},
		{method: "POST", path: path + "/disable", auth: authSession, handle: h.disableFactor},
	}
}

// factorDocument is the second factor of a user in the interface.
type factorDocument struct {
	Enabled           bool            `json:"enabled"`
	EnabledAt         *decision.Stamp `json:"enabledAt"`
	RecoveryCodesLeft int             `json:"recoveryCodesLeft"`
	Pending           *pendingFactor  `json:"pending"`
}

// pendingFactor is a secret that a code has still to confirm.
type pendingFactor struct {
	Secret string `json:"secret"`
	URI    string `json:"uri"`
}

// readFactor reads the second factor of the request's user. A pending secret is shown to the
// session that asked for it alone, and an enabled one never. It fails only with an error of the
// store.
func (h *sessionHandlers) readFactor(c *call) (factorDocument, error) {
	view, err := h.readUser(c.ctx, c.who.user)
	if err != nil {
		return factorDocument{}, err
	}
	if f := view.Factor; f != nil {
		return factorDocument{Enabled: true, EnabledAt: &f.EnabledAt, RecoveryCodesLeft: len(f.Recovery)}, nil
	}
	pending, err := h.readPending(c)
	if err != nil || pending == nil {
		return factorDocument{}, err
	}
	credential, err := h.accounts.readCredential(c.ctx, c.who.user)
	if err != nil {
		return factorDocument{}, err
	}
	key, err := newFactorKey(credential.Email, pending.Secret)
	if err != nil {
		return factorDocument{}, err
	}
	return factorDocument{Pending: &pendingFactor{Secret: pending.Secret, URI: key.URL()}}, nil
}

// readPending returns the pending secret of the request's session, or nil. It fails only with an
// error of the store.
func (h *sessionHandlers) readPending(c *call) (*user.PendingFactor, error) {
	pending, err := query.PendingFactors.Read(c.ctx, h.actors, c.who.user, c.who.user)
	if fault.Is(err, fault.NotFound) || err == nil && pending.Session != c.who.session {
		return nil, nil
	}
	return &pending, err
}

// newFactorKey describes a shared secret for an authenticator.
func newFactorKey(email, secret string) (*otp.Key, error) {
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		return nil, fmt.Errorf("secret of a second factor: %w", err)
	}
	return totp.Generate(totp.GenerateOpts{Issuer: factorIssuer, AccountName: email, Secret: raw, Period: codePeriod,
		Digits: codeDigits, Algorithm: otp.AlgorithmSHA1})
}

func (h *sessionHandlers) showFactor(c *call) (answer, error) {
	document, err := h.readFactor(c)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"secondFactor": document})
}

// beginFactor handles POST /api/dashboard/second-factor: it draws a secret, which a code has to
// confirm. It fails with invalid_credentials for a wrong password, and with second_factor_enabled.
func (h *sessionHandlers) beginFactor(c *call) (answer, error) {
	if err := h.checkPassword(c); err != nil {
		return answer{}, err
	}
	secret, err := h.drawBase32(secretBytes)
	if err != nil {
		return answer{}, err
	}
	_, err = h.actors.Ask(c.ctx, toUser(c.who.user, user.BeginFactor{Secret: secret, Session: c.who.session}))
	if err != nil {
		return answer{}, err
	}
	return h.showFactor(c)
}

// checkPassword reads a body with the password of the request's user alone. It fails with
// invalid_body, with invalid_credentials for a wrong password, and like guardChange.
func (h *sessionHandlers) checkPassword(c *call) error {
	var body struct {
		Password string `json:"password"`
	}
	if err := h.decode(c, &body); err != nil {
		return err
	}
	_, err := h.matchPassword(c, "password", body.Password)
	return err
}

// matchPassword compares a member of the body with the password of the request's user, whose
// credential it returns. It fails with invalid_credentials, which names the member, for another
// password, like guardChange, with unavailable when the queue of passwords is full, and with an
// error of the store.
func (h *sessionHandlers) matchPassword(c *call, member, given string) (user.Credential, error) {
	if err := h.guardChange(c); err != nil {
		return user.Credential{}, err
	}
	credential, err := h.accounts.readCredential(c.ctx, c.who.user)
	if err != nil {
		return user.Credential{}, err
	}
	from := password.Caller{Address: c.peer, Known: true}
	matches, err := h.passwords.Matches(c.ctx, from, credential.PasswordHash, given)
	if err != nil {
		return user.Credential{}, passwordFault(err)
	}
	if !matches {
		return user.Credential{}, fault.New(fault.InvalidCredentials, member+" is wrong")
	}
	return credential, nil
}

// drawBase32 draws random bytes as base32 text. It fails only without entropy.
func (h *sessionHandlers) drawBase32(bytes int) (string, error) {
	random := make([]byte, bytes)
	if _, err := io.ReadFull(h.actors.Entropy(), random); err != nil {
		return "", fmt.Errorf("entropy of a second factor: %w", err)
	}
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random), nil
}

// enableFactor handles POST /api/dashboard/second-factor/enable: a code confirms the pending
// secret. The answer is the only one with the recovery codes. It fails with invalid_credentials for
// a wrong code and without a pending secret, with second_factor_enabled, and with rate_limited.
func (h *sessionHandlers) enableFactor(c *call) (answer, error) {
	var body struct {
		Code string `json:"code"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	if err := h.guardCode(c, c.who.user); err != nil {
		return answer{}, err
	}
	pending, err := h.readPending(c)
	if err != nil {
		return answer{}, err
	}
	if pending == nil {
		return answer{}, fault.New(fault.InvalidCredentials, "code fits no secret: begin again")
	}
	step := timeStepOf(pending.Secret, plainCode(body.Code), h.actors.WallTime())
	if step == 0 {
		return answer{}, fault.New(fault.InvalidCredentials, "code is wrong")
	}
	enable := user.EnableFactor{Secret: pending.Secret, Step: step}
	codes := []string{}
	for range user.RecoveryCodes {
		code, err := h.drawBase32(recoveryBytes)
		if err != nil {
			return answer{}, err
		}
		codes = append(codes, strings.ToLower(code[:4]+"-"+code[4:8]+"-"+code[8:12]+"-"+code[12:]))
		enable.Recovery = append(enable.Recovery, user.RecoveryHash(c.who.user, code))
	}
	if _, err := h.actors.Ask(c.ctx, toUser(c.who.user, enable)); err != nil {
		return answer{}, err
	}
	document, err := h.readFactor(c)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"secondFactor": document, "recoveryCodes": codes})
}

// disableFactor handles POST /api/dashboard/second-factor/disable. It fails with
// invalid_credentials for a wrong password.
func (h *sessionHandlers) disableFactor(c *call) (answer, error) {
	if err := h.checkPassword(c); err != nil {
		return answer{}, err
	}
	if _, err := h.actors.Ask(c.ctx, toUser(c.who.user, user.DisableFactor{})); err != nil {
		return answer{}, err
	}
	return h.showFactor(c)
}

// signInChallenge is the answer to a sign-in whose password is right, when the account has a second
// factor.
type signInChallenge struct {
	Challenge string         `json:"challenge"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

// logInWithCode handles POST /api/dashboard/login/code: it ends a challenge with a code of the
// second factor or a recovery code, and starts a session. It fails with invalid_credentials for a
// wrong or used code and for a challenge that is unknown, used or expired, and with rate_limited.
func (h *sessionHandlers) logInWithCode(c *call) (answer, error) {
	var body struct {
		Challenge string `json:"challenge"`
		Code      string `json:"code"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	if err := h.limits.countRequest("code-address/"+c.peer, codesPerAddress); err != nil {
		return answer{}, err
	}
	hash, found := h.challenges.find(body.Challenge, c.now)
	if found == nil {
		return answer{}, fault.New(fault.InvalidCredentials, "challenge is unknown, used or expired: sign in again")
	}
	if err := h.guardCode(c, found.who.ID); err != nil {
		return answer{}, err
	}
	proof, err := h.factorProof(c.ctx, found.who.ID, plainCode(body.Code), h.actors.WallTime())
	if err != nil {
		return answer{}, err
	}
	start := found.start
	start.Proof = proof
	a, err := h.startSession(c, found.who, start)
	if err == nil {
		h.challenges.end(hash, found.who.ID)
	}
	return a, err
}

// guardCode bounds the guesses of an account's codes. Over the limit it refuses with rate_limited:
// a caller has shown the password before, so no stranger locks the owner out.
func (h *sessionHandlers) guardCode(c *call, id string) error {
	wait := h.challenges.countTry(id, c.now)
	if wait > 0 {
		return h.limits.refuseOver("code-account/"+id, "too many codes were tried", wait)
	}
	return nil
}

// factorProof returns what the user's actor checks of a code: the time step of an authenticator's
// code, or the hash of a recovery code. It is nil for a user without a second factor. It fails with
// invalid_credentials for an authenticator's code that is wrong at the time now, and with an error
// of the store. The user's actor refuses a wrong recovery code, and a code that was used.
func (h *sessionHandlers) factorProof(ctx context.Context, userID, code string, now time.Time) (*user.FactorProof,
	error) {
	factor, err := query.SecondFactors.Read(ctx, h.actors, userID, userID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil // disabled meanwhile: the password is enough
	}
	if err != nil {
		return nil, err
	}
	if len(code) != codeDigits.Length() {
		return &user.FactorProof{Serial: factor.Serial, Recovery: user.RecoveryHash(userID, code)}, nil
	}
	step := timeStepOf(factor.Secret, code, now)
	if step == 0 {
		return nil, fault.New(fault.InvalidCredentials, "code is wrong, or was used before")
	}
	return &user.FactorProof{Serial: factor.Serial, Step: step}, nil
}

// timeStepOf returns the newest time step around a time whose code is the given one, or 0.
func timeStepOf(secret, code string, now time.Time) int64 {
	step := now.Unix() / codePeriod
	for candidate := step + codeTolerance; candidate >= step-codeTolerance; candidate-- {
		matches, err := hotp.ValidateCustom(code, uint64(candidate), secret,
			hotp.ValidateOpts{Digits: codeDigits, Algorithm: otp.AlgorithmSHA1})
		if matches && err == nil {
			return candidate
		}
	}
	return 0
}

// plainCode removes the spaces and dashes of a code, and writes it in upper case.
func plainCode(code string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
}

// challengeSignIn answers a sign-in whose password is right with a challenge. It fails with
// unavailable when too many challenges are open.
func (h *sessionHandlers) challengeSignIn(c *call, who userDocument, start user.StartSession) (answer, error) {
	token, err := h.challenges.open(openChallenge{who: who, start: start}, c.now, h.actors.Entropy())
	if errors.Is(err, errChallengesFull) {
		f := fault.New(fault.Unavailable, "too many people are signing in; nothing changed")
		return answer{}, &waitError{fault: f, wait: passwordRetry}
	}
	if err != nil {
		return answer{}, err
	}
	a, err := reply(signInChallenge{Challenge: token, ExpiresAt: decision.StampOf(c.now.Add(challengeLife))})
	a.status = 202
	return a, err
}
