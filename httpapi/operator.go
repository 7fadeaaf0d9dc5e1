package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"purser/actors/fault"
	"purser/httpapi/dashboard"
	"purser/httpapi/web"
)

// Limits of an operator's sign-in.
const (
	maxOperatorGuesses  = 10 // wrong secrets in a guess window that are answered 401 and logged
	operatorGuessWindow = time.Minute
	operatorGuessPause  = 200 * time.Millisecond // before the answer to a wrong secret
	maxOperatorSessions = 16                     // the session that ends first ends for a new one
	operatorSessionLife = 12 * time.Hour
	operatorReadWithin  = 10 * time.Second // for a page that reads the stores
)

const (
	operatorCookie      = "purser_operator"
	operatorSignInPath  = dashboard.OperatorRoot + "/" + dashboard.OperatorSignIn
	operatorSignOutPath = dashboard.OperatorRoot + "/sign-out"
)

// OperatorConfig holds the dependencies of the operator's pages. All are required.
type OperatorConfig struct {
	Secret  string // opens a session
	State   dashboard.Operator
	Clock   func() time.Time
	Entropy io.Reader
}

// operatorPages serve the state of the server to an operator's browser, on the admin port alone. A
// session begins with the operator's secret and is held in memory, so that it ends with the server.
type operatorPages struct {
	cfg  OperatorConfig
	base context.Context
	log  *slog.Logger
	site *dashboard.Site
	icon web.File

	mu       sync.Mutex
	sessions map[[sha256.Size]byte]time.Time // the end of each, by the hash of its token
	guesses  int                             // wrong secrets in the window that began at since
	since    time.Time
}

// newOperatorPages makes the pages. It fails without a part of the configuration and for a defect
// of the templates.
func newOperatorPages(base context.Context, c OperatorConfig, log *slog.Logger) (*operatorPages, error) {
	if c.Secret == "" || c.State == nil || c.Clock == nil || c.Entropy == nil {
		return nil, errors.New("httpapi.OperatorConfig: every field is required")
	}
	site, err := dashboard.New()
	if err != nil {
		return nil, err
	}
	icon, err := web.LoadFavicon()
	return &operatorPages{cfg: c, base: base, log: log, site: site, icon: icon,
		sessions: map[[sha256.Size]byte]time.Time{}}, err
}

// mount mounts the pages, their forms and their files. A browser finds the pages from /; a program
// that asks for / gets not_found.
func (p *operatorPages) mount(r *router.Router) {
	notFound := func(ctx *fasthttp.RequestCtx) { respondFault(ctx, fault.New(fault.NotFound, "")) }
	mountRoute(r, fasthttp.MethodGet, "/", func(ctx *fasthttp.RequestCtx) {
		if !strings.Contains(string(ctx.Request.Header.Peek("Accept")), "text/html") {
			notFound(ctx)
			return
		}
		redirect(ctx, dashboard.OperatorRoot)
	})
	mountRoute(r, fasthttp.MethodGet, dashboard.OperatorRoot, p.showPage)
	mountRoute(r, fasthttp.MethodGet, dashboard.OperatorRoot+"/{path:*}", p.showPage)
	r.POST(operatorSignInPath, p.signIn)
	r.POST(operatorSignOutPath, p.signOut)
	mountRoute(r, fasthttp.MethodGet, web.FaviconPath,
		func(ctx *fasthttp.RequestCtx) { writeFavicon(ctx, p.icon) })
	mountRoute(r, fasthttp.MethodGet, dashboard.FilesPath+"{name}", func(ctx *fasthttp.RequestCtx) {
		name, _ := ctx.UserValue("name").(string)
		if writeFile(ctx, p.site.Files, name) != nil {
			notFound(ctx)
		}
	})
}

// redirect answers 303 with a path of this port, whatever the request's Host.
func redirect(ctx *fasthttp.RequestCtx, path string) {
	ctx.SetStatusCode(fasthttp.StatusSeeOther)
	ctx.Response.Header.Set("Location", path)
}

// isOperatorForm reports whether a request is a form of the operator's pages that a page of the
// same origin sends. The admin port compares the Host before, so that a rebound name is no origin
// of this port.
func isOperatorForm(ctx *fasthttp.RequestCtx) bool {
	h, path := &ctx.Request.Header, string(ctx.Path())
	if !ctx.IsPost() || path != operatorSignInPath && path != operatorSignOutPath {
		return false
	}
	site := string(h.Peek("Sec-Fetch-Site"))
	return (site == "" || site == "same-origin") && hasOwnOrigin(ctx)
}

// hasOwnOrigin reports whether a request has no Origin, or once that of its Host.
func hasOwnOrigin(ctx *fasthttp.RequestCtx) bool {
	origins := ctx.Request.Header.PeekAll("Origin")
	return len(origins) == 0 || len(origins) == 1 && string(origins[0]) == "http://"+string(ctx.Host())
}

// showPage answers a page. Without a session it leads to the sign-in.
func (p *operatorPages) showPage(ctx *fasthttp.RequestCtx) {
	query, err := url.ParseQuery(string(ctx.URI().QueryString()))
	if err != nil {
		query = url.Values{"cursor": {"malformed"}}
	}
	p.write(ctx, &dashboard.OperatorVisit{Query: query,
		Path: strings.Trim(strings.TrimPrefix(string(ctx.Path()), dashboard.OperatorRoot), "/")})
}

// write renders a page, or answers 500 when it cannot.
func (p *operatorPages) write(ctx *fasthttp.RequestCtx, v *dashboard.OperatorVisit) {
	v.State, v.SignedIn = p.cfg.State, p.hasSession(ctx)
	within, cancel := context.WithTimeout(p.base, operatorReadWithin)
	defer cancel()
	response, err := p.site.ServeOperator(within, v)
	if err != nil {
		p.log.Error("an operator's page failed", "err", err)
		respondJSON(ctx, fasthttp.StatusInternalServerError, errorBody{Error: fault.Internal})
		return
	}
	h := &ctx.Response.Header
	protectPage(h)
	h.Set("Content-Security-Policy", dashboard.Policy)
	h.Set("Referrer-Policy", "same-origin") // else browsers send the Origin null with a form
	h.SetContentType("text/html; charset=utf-8")
	ctx.SetStatusCode(response.Status)
	if response.Location != "" {
		redirect(ctx, response.Location)
	}
	if response.Wait > 0 {
		h.Set("Retry-After", fmt.Sprint(int(response.Wait.Seconds())+1))
	}
	ctx.SetBody(response.Body)
}

// signIn handles the form of the sign-in: the right secret starts a session at any time, so that a
// process on this machine that guesses cannot lock the operator out. The answer to a wrong one
// waits for operatorGuessPause. Beyond maxOperatorGuesses in a window it is rate_limited.
func (p *operatorPages) signIn(ctx *fasthttp.RequestCtx) {
	refused := dashboard.Answer{Status: fasthttp.StatusUnauthorized, Code: string(fault.Unauthorized),
		Message: "This is not the operator secret."}
	media, _, err := mime.ParseMediaType(string(ctx.Request.Header.ContentType()))
	secret := ctx.PostArgs().Peek(dashboard.OperatorSecretField)
	if err != nil || media != "application/x-www-form-urlencoded" {
		secret = nil
	}
	right, wait := p.judgeSecret(secret)
	if !right {
		p.pauseGuess()
	}
	switch {
	case wait > 0:
		refused = dashboard.Answer{Status: fasthttp.StatusTooManyRequests, Code: string(fault.RateLimited), Wait: wait,
			Message: "This is not the operator secret. Too many wrong secrets were sent."}
	case right:
		token, err := p.startSession()
		if err == nil {
			setOperatorCookie(ctx, token, operatorSessionLife)
			redirect(ctx, dashboard.OperatorRoot)
			return
		}
		p.log.Error("no entropy for an operator's session", "err", err)
		refused = dashboard.Answer{Status: fasthttp.StatusInternalServerError, Code: string(fault.Internal),
			Message: "The session could not be made. Try again."}
	default:
		p.log.Warn("an operator's sign-in was refused")
	}
	p.write(ctx, &dashboard.OperatorVisit{Path: dashboard.OperatorSignIn, Refused: refused})
}

// pauseGuess waits for operatorGuessPause or for the end of the server.
func (p *operatorPages) pauseGuess() {
	timer := time.NewTimer(operatorGuessPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.base.Done():
	}
}

// judgeSecret compares a secret in constant time and counts a wrong one. The secret has at least 16
// characters, or 256 random bits where Purser has made it, so guesses at this rate do not find it.
// A wait above 0 is the rest of a window in which too many secrets were wrong.
func (p *operatorPages) judgeSecret(given []byte) (right bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want, got := sha256.Sum256([]byte(p.cfg.Secret)), sha256.Sum256(given)
	if subtle.ConstantTimeCompare(want[:], got[:]) == 1 {
		return true, 0
	}
	now := p.cfg.Clock()
	if passed := now.Sub(p.since); passed < 0 || passed >= operatorGuessWindow {
		p.guesses, p.since = 0, now
	}
	if p.guesses >= maxOperatorGuesses {
		return false, p.since.Add(operatorGuessWindow).Sub(now)
	}
	p.guesses++
	return false, 0
}

// startSession makes a session and returns its token. With maxOperatorSessions the one that ends
// first ends. It fails only without entropy.
func (p *operatorPages) startSession() (string, error) {
	var random [32]byte
	if _, err := io.ReadFull(p.cfg.Entropy, random[:]); err != nil {
		return "", err
	}
	token := hex.EncodeToString(random[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sessions) >= maxOperatorSessions {
		var first [sha256.Size]byte
		for hash, end := range p.sessions {
			if was, ok := p.sessions[first]; !ok || end.Before(was) {
				first = hash
			}
		}
		delete(p.sessions, first)
	}
	p.sessions[sha256.Sum256([]byte(token))] = p.cfg.Clock().Add(operatorSessionLife)
	return token, nil
}

// hasSession reports whether the request's cookie is of a session that has not ended.
func (p *operatorPages) hasSession(ctx *fasthttp.RequestCtx) bool {
	hash := sha256.Sum256(ctx.Request.Header.Cookie(operatorCookie))
	p.mu.Lock()
	defer p.mu.Unlock()
	end, known := p.sessions[hash]
	return known && p.cfg.Clock().Before(end)
}

// signOut ends the session of the cookie and leads to the sign-in.
func (p *operatorPages) signOut(ctx *fasthttp.RequestCtx) {
	hash := sha256.Sum256(ctx.Request.Header.Cookie(operatorCookie))
	p.mu.Lock()
	delete(p.sessions, hash)
	p.mu.Unlock()
	setOperatorCookie(ctx, "", -time.Hour)
	redirect(ctx, operatorSignInPath)
}

// setOperatorCookie sets the cookie of a session, which browsers send to the operator's pages
// alone. The admin port is plain HTTP, so the cookie cannot be Secure.
func setOperatorCookie(ctx *fasthttp.RequestCtx, token string, life time.Duration) {
	var cookie fasthttp.Cookie
	cookie.SetKey(operatorCookie)
	cookie.SetValue(token)
	cookie.SetPath(dashboard.OperatorRoot)
	cookie.SetHTTPOnly(true)
	cookie.SetSameSite(fasthttp.CookieSameSiteStrictMode)
	cookie.SetMaxAge(int(life.Seconds()))
	if token == "" {
		cookie.SetExpire(fasthttp.CookieExpireDelete)
	}
	ctx.Response.Header.SetCookie(&cookie)
}
