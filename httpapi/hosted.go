package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/checkout"
	"purser/actors/fault"
	"purser/actors/partner/chain"
	"purser/actors/query"
	"purser/authorizer/front"
	"purser/httpapi/dashboard"
	"purser/httpapi/web"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// maxForm bounds the form of a hosted page, in bytes.
const maxForm = 4 << 10

// hostedFiles is the path of the page's style sheets and scripts.
const hostedFiles = "/checkout/files/"

// mountHosted mounts the hosted pages of a checkout link. They are HTML, outside the described
// interface, and show the data of a session's public routes.
func (h *checkoutHandlers) mountHosted(r *router.Router) {
	h.mountPage(r, fasthttp.MethodGet, "/checkout/{id}", h.showHosted)
	h.mountPage(r, fasthttp.MethodPost, "/checkout/{id}/select", h.selectHosted)
	h.mountPage(r, fasthttp.MethodGet, "/checkout/{id}/events", h.streamHosted)
	h.mountPage(r, fasthttp.MethodGet, "/checkout/{id}/receipt", h.showReceipt)
	h.mountGuides(r)
	h.mountPage(r, fasthttp.MethodGet, "/login", redirectToSignIn)
	h.mountPage(r, fasthttp.MethodGet, web.FaviconPath, h.showFavicon)
	h.mountPage(r, fasthttp.MethodGet, hostedFiles+"{name}", h.hostedFile)
}

// pageHandler handles a request for a page outside the described interface.
type pageHandler func(*fasthttp.RequestCtx, *call) error

// mountPage mounts a page's handler with the checks of hostedHandler.
func (h *checkoutHandlers) mountPage(r *router.Router, method, path string, handle pageHandler) {
	mountRoute(r, method, path, h.hostedHandler(method, path, handle))
}

// hostedHandler returns a handler that runs the checks of every request before a page's handler. An
// error becomes a refusal, which showRefusal renders as a page. The log and the metrics name the
// refusal by method and path.
func (h *checkoutHandlers) hostedHandler(method, path string, handle pageHandler) fasthttp.RequestHandler {
	row := &route{method: method, path: path, auth: authNone, maxBody: maxForm}
	return func(ctx *fasthttp.RequestCtx) {
		c := newCall(ctx, row, h.actors.Clock())
		err := checkFraming(ctx)
		if err == nil {
			err = h.admitHead(c)
		}
		if err == nil {
			err = h.readBody(ctx, c)
		}
		front.EndTurn(ctx)
		defer h.startTimer(c)()
		if err == nil {
			protectPage(&ctx.Response.Header)
			err = handle(ctx, c)
		}
		if err != nil {
			h.writeRefusal(ctx, row, err)
			h.showRefusal(ctx, web.Missing)
		}
	}
}

// protectPage sets the headers that keep a page from loading foreign resources and from being
// framed.
func protectPage(h *fasthttp.ResponseHeader) {
	h.Set("Content-Security-Policy", web.Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// redirectToSignIn leads a person to the sign-in of the dashboard.
func redirectToSignIn(ctx *fasthttp.RequestCtx, _ *call) error {
	ctx.SetStatusCode(fasthttp.StatusSeeOther)
	ctx.Response.Header.Set("Location", dashboard.SignInPath)
	return nil
}

// showRefusal replaces the JSON of a 404, a 405, a 429 or a server error by a page. missing is the
// step of the page of a 404 and a 405. The status and the headers stay. Browsers cause no other
// refusals.
func (h *checkoutHandlers) showRefusal(ctx *fasthttp.RequestCtx, missing web.Step) {
	page := web.Page{Step: web.Broken, RequestID: h.assignRequestID(ctx)}
	switch status := ctx.Response.StatusCode(); {
	case status == fasthttp.StatusTooManyRequests:
		page.Step = web.Busy
		// 0 when the header is absent.
		page.RetryAfter, _ = strconv.Atoi(string(ctx.Response.Header.Peek("Retry-After")))
	case status == fasthttp.StatusNotFound, status == fasthttp.StatusMethodNotAllowed:
		page.Step = missing
	case status < fasthttp.StatusInternalServerError:
		return
	}
	if err := writeSitePage(ctx, h.site, page); err != nil {
		h.log.Error("a refusal is shown as JSON", "request", page.RequestID, "err", err)
	}
}

// writeSitePage replaces the body of an answer by a page. It fails only when the template does.
func writeSitePage(ctx *fasthttp.RequestCtx, site *web.Site, page web.Page) error {
	var body bytes.Buffer
	if err := site.Write(&body, page); err != nil {
		return err
	}
	protectPage(&ctx.Response.Header)
	ctx.Response.Header.SetContentType("text/html; charset=utf-8")
	ctx.Response.SetBody(body.Bytes())
	return nil
}

// hostedFile handles the scripts and styles of the hosted pages by their versioned names, which
// browsers cache for a year. An unknown name is not_found.
func (h *checkoutHandlers) hostedFile(ctx *fasthttp.RequestCtx, c *call) error {
	return writeFile(ctx, h.site.Files, c.params["name"])
}

// writeFile writes a file that pages load. An unknown name is not_found.
func writeFile(ctx *fasthttp.RequestCtx, files *web.Files, name string) error {
	file, ok := files.File(name)
	if !ok {
		return fault.New(fault.NotFound, "")
	}
	ctx.Response.Header.SetContentType(file.ContentType)
	ctx.Response.Header.Set("Cache-Control", "public, max-age=31536000, immutable")
	ctx.Response.SetBody(file.Content)
	return nil
}

// showHosted handles GET /checkout/{id}: the whole page of a payment link, or with the parameter
// part only the part that the script replaces. An unknown link shows a page with status 404; other
// errors are the store's.
func (h *checkoutHandlers) showHosted(ctx *fasthttp.RequestCtx, c *call) error {
	page, err := h.hostedPage(c)
	if fault.Is(err, fault.NotFound) {
		page, err = web.Page{Step: web.Missing}, nil
		ctx.SetStatusCode(fasthttp.StatusNotFound)
	}
	if err != nil {
		return err
	}
	var body bytes.Buffer
	write := h.site.Write
	if ctx.QueryArgs().Has("part") {
		write = h.site.WritePart
	}
	if err := write(&body, page); err != nil {
		return err
	}
	ctx.Response.Header.SetContentType("text/html; charset=utf-8")
	ctx.Response.SetBody(body.Bytes())
	return nil
}

// selectHosted handles the form that selects a coin and a network. It redirects to the page, which
// shows the result or the refusal. It fails with unavailable on a nearly full disk, and with the
// store's error.
func (h *checkoutHandlers) selectHosted(ctx *fasthttp.RequestCtx, c *call) error {
	if err := h.cfg.Full(DownToReserve); err != nil {
		return err
	}
	asset, network, _ := strings.Cut(string(ctx.PostArgs().Peek("pair")), "/")
	state, err := h.publicCheckout(c)
	if err == nil {
		_, err = h.actors.Ask(c.ctx, actors.Envelope{Kind: actors.KindCheckout, Stream: state.ID,
			Workspace: state.Workspace,
			Command:   checkout.Select{Asset: asset, Chain: network}})
	}
	for _, shown := range []fault.Code{fault.NotFound, fault.PairNotSupported, fault.PaymentSeen, fault.LinkEnded,
		fault.InvalidBody} {
		if fault.Is(err, shown) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	ctx.Response.Header.Set("Location", "/checkout/"+pathID(c))
	ctx.SetStatusCode(fasthttp.StatusSeeOther)
	return nil
}

// pathID returns the id of the path, or "unknown": no other text may reach a header.
func pathID(c *call) string {
	if u, err := ident.Parse(ident.Checkout, c.params["id"]); err == nil {
		return u.Format(ident.Checkout)
	}
	return "unknown"
}

// streamHosted sends the status route's answer at every change, as server-sent events. It handles
// GET /checkout/{id}/events. It fails with not_found for an unknown link, and like
// eventStreams.send.
func (h *checkoutHandlers) streamHosted(ctx *fasthttp.RequestCtx, c *call) error {
	if _, err := h.publicCheckout(c); err != nil {
		return err
	}
	last := ""
	return h.streams.send(ctx, c, "", func(c *call) (string, error) {
		state, err := h.publicCheckout(c)
		if err != nil {
			return "", err
		}
		status, err := json.Marshal(state.CustomerView(h.actors.Clock()))
		if err != nil || string(status) == last {
			return "", err
		}
		last = string(status)
		return "data: " + last + "\n\n", nil
	})
}

// hostedPage builds the page of a session from the committed state. It fails with not_found for an
// unknown link, and with the store's error. The page and its receipt show it.
func (h *checkoutHandlers) hostedPage(c *call) (page web.Page, err error) {
	state, err := h.publicCheckout(c)
	if err != nil {
		return page, err
	}
	text, err := query.CheckoutTexts.ReadPart(c.ctx, h.actors, state.Workspace, state.ID)
	if err != nil {
		return page, err
	}
	merchant, err := query.Workspaces.ReadPart(c.ctx, h.actors, state.Workspace, state.Workspace)
	if err != nil {
		return page, err
	}
	status, err := json.Marshal(state.CustomerView(c.now))
	if err != nil {
		return page, err
	}
	page = web.Page{ID: state.ID, State: string(status), Step: stepOf(&state, c.now), Merchant: merchant.Name,
		Description: text.Description, Reference: text.MerchantReference, Amount: web.Dollars(state.AmountUsdCents),
		Sandbox: state.Sandbox, Expires: state.End(), Now: c.now, Coins: coinsOf(&state), Seen: state.Confirmations(),
		Of: checkout.ShownConfirmations, SuccessURL: text.SuccessURL, CancelURL: text.CancelURL,
		Watched: state.Watching}
	describeMoney(&page, &state)
	describePayments(&page, &state)
	if page.Step == web.Pay || page.Step == web.Underpaid && !state.Ended(c.now) {
		page.To = payTo(&state)
	}
	return page, nil
}

// describeMoney adds to a page the amounts that arrived in time and late, and the amount that is
// due or too much.
func describeMoney(page *web.Page, state *checkout.State) {
	sums := state.Money()
	page.Received = dollarsAboveZero(sums.ReceivedCents - sums.LateCents)
	page.Late, page.Over = dollarsAboveZero(sums.LateCents), dollarsAboveZero(-sums.DueCents)
	if sums.DueCents > state.ToleranceCents {
		page.Due = web.Dollars(sums.DueCents)
	}
}

// dollarsAboveZero formats cents, and returns "" for an amount that is not above zero.
func dollarsAboveZero(cents money.Cents) string {
	if cents <= 0 {
		return ""
	}
	return web.Dollars(cents)
}

// stepOf returns the step of the checkout that the page shows.
func stepOf(state *checkout.State, now time.Time) web.Step {
	switch state.StatusAt(now) {
	case checkout.Awaiting:
		if state.Chosen != nil {
			return web.Pay
		}
		return web.Choose
	case checkout.Pending:
		return web.Choose
	case checkout.Confirming:
		return web.Confirming
	case checkout.Underpaid:
		return web.Underpaid
	case checkout.Completed:
		return web.Completed
	case checkout.Expired:
		if state.CancelledAt != nil {
			return web.Cancelled
		}
		return web.Expired
	}
	return web.Failed
}

// coinsOf returns the accepted coins and networks, in the order of the session's pairs.
func coinsOf(state *checkout.State) (coins []web.Coin) {
	for _, p := range state.Pairs {
		if len(coins) == 0 || coins[len(coins)-1].Asset != p.Asset {
			coins = append(coins, web.Coin{Asset: p.Asset, Amount: amountDue(state, p.Asset)})
		}
		picked := state.Chosen != nil && state.Chosen.Asset == p.Asset && state.Chosen.Chain == p.Chain
		last := &coins[len(coins)-1]
		last.Networks = append(last.Networks, web.Choice{Value: p.Asset + "/" + p.Chain,
			Network: networkName(p.Chain),
			Picked:  picked})
	}
	return coins
}

// amountDue returns the amount of a link that is due, in whole coins of an asset.
func amountDue(state *checkout.State, asset string) string {
	return checkout.CoinsOf(asset, state.UnitsOf(asset, max(0, state.Money().DueCents)))
}

// networkName returns a network's name with a capital letter.
func networkName(chain string) string {
	if chain == "" {
		return ""
	}
	return strings.ToUpper(chain[:1]) + chain[1:]
}

// payTo returns the amount that is still due and its address: the rest of a payment is asked in the
// coin that was paid.
func payTo(state *checkout.State) *web.To {
	pair := state.Pair()
	if pair == nil {
		return nil
	}
	units := state.UnitsOf(pair.Asset, state.Money().DueCents)
	coins := checkout.CoinsOf(pair.Asset, units)
	return &web.To{Asset: pair.Asset, Network: networkName(pair.Chain), Address: pair.Address,
		Coins: coins, Link: paymentLink(*pair, units.String(), coins)}
}

// paymentLink returns the URI that a wallet opens: EIP-681 on EVM chains, BIP-21 on bitcoin, Solana
// Pay on solana.
func paymentLink(p checkout.Pair, units, coins string) string {
	network := chain.Networks()[p.Chain]
	token := network.Tokens[p.Asset]
	switch {
	case p.Chain == "bitcoin":
		return fmt.Sprintf("bitcoin:%s?amount=%s", p.Address, coins)
	case p.Chain == "solana":
		return fmt.Sprintf("solana:%s?amount=%s&spl-token=%s", p.Address, coins, token)
	case token == "":
		return fmt.Sprintf("ethereum:%s@%d?value=%s", p.Address, network.ID, units)
	}
	return fmt.Sprintf("ethereum:%s@%d/transfer?address=%s&uint256=%s", token, network.ID, p.Address, units)
}
