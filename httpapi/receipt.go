package httpapi

import (
	"bytes"
	"math/big"
	"net/url"
	"slices"

	"github.com/valyala/fasthttp"

	"purser/actors/checkout"
	"purser/actors/partner/chain"
	"purser/httpapi/web"
)

// showReceipt shows the receipt of a completed link to every caller with the link. A link that is
// not completed redirects to its page. It handles GET /checkout/{id}/receipt. It fails like
// hostedPage.
func (h *checkoutHandlers) showReceipt(ctx *fasthttp.RequestCtx, c *call) error {
	page, err := h.hostedPage(c)
	if err != nil {
		return err
	}
	if page.Step != web.Completed {
		ctx.Response.Header.Set("Location", "/checkout/"+pathID(c))
		ctx.SetStatusCode(fasthttp.StatusSeeOther)
		return nil
	}
	var body bytes.Buffer
	if err := h.site.WriteReceipt(&body, page); err != nil {
		return err
	}
	ctx.Response.Header.SetContentType("text/html; charset=utf-8")
	ctx.Response.SetBody(body.Bytes())
	return nil
}

// showFavicon serves the icon under a fixed path; browsers cache it for a day.
func (h *checkoutHandlers) showFavicon(ctx *fasthttp.RequestCtx, _ *call) error {
	writeFavicon(ctx, h.site.Favicon())
	return nil
}

func writeFavicon(ctx *fasthttp.RequestCtx, icon web.File) {
	ctx.Response.Header.SetContentType(icon.ContentType)
	ctx.Response.Header.Set("Cache-Control", "public, max-age=86400")
	ctx.Response.SetBody(icon.Content)
}

// describePayments adds to a page the payments, and how the link was completed.
func describePayments(page *web.Page, state *checkout.State) {
	if state.CompletedAt != nil {
		page.Completed = state.CompletedAt.Time
	}
	page.Simulated = state.Simulated
	page.Shortfall = dollarsAboveZero(state.ShortfallCents)
	for i := range state.Payments {
		if p := &state.Payments[i]; p.Received() {
			page.Payments = append(page.Payments, shownPayment(state, p))
			if price := state.Prices[p.Asset]; price != "" && !slices.ContainsFunc(page.Prices,
				func(known web.Price) bool { return known.Asset == p.Asset }) {
				page.Prices = append(page.Prices, web.Price{Asset: p.Asset, Dollars: price})
			}
		}
	}
}

func shownPayment(state *checkout.State, p *checkout.Payment) web.Payment {
	units, _ := new(big.Int).SetString(p.Units, 10)
	return web.Payment{Coins: checkout.CoinsOf(p.Asset, units), Asset: p.Asset, Network: networkName(p.Chain),
		Address: p.Address, From: p.From, TxHash: p.TxHash, Sent: p.SentAt.Time, Late: p.IsLate(),
		Explorer: explorerLink(state.Sandbox, p.Chain, p.TxHash)}
}

// explorerLink returns the public page of a payment's transaction. It is "" for a sandbox link,
// whose transactions are usually on no public chain.
func explorerLink(sandbox bool, network, txHash string) string {
	explorer := chain.Networks()[network].Explorer
	if sandbox || explorer == "" {
		return ""
	}
	return explorer + url.PathEscape(txHash)
}
