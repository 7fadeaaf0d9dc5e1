package web_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/httpapi/web"
)

const base = "/checkout/files/"

// pages holds one page of each state, for .ci/pages to open in a browser.
func pages() map[string]web.Page {
	now := time.Date(2026, 3, 14, 9, 30, 0, 0, time.UTC)
	plain := web.Page{ID: "cs_01kkv0000000000000000000aa", State: `{"status":"pending"}`, Merchant: "Blue Bottle Books",
		Description: "Two paperbacks and a reading lamp", Reference: "order 10482", Amount: "$125.00", Sandbox: true,
		Now:     now,
		Expires: now.Add(29*time.Minute + 41*time.Second), Of: 3, SuccessURL: "https://shop.example.com/thanks",
		CancelURL: "https://shop.example.com/cart", Coins: []web.Coin{
			{Asset: "USDC", Amount: "125", Networks: []web.Choice{{Value: "USDC/ethereum", Network: "Ethereum",
				Picked: true},
				{Value: "USDC/polygon", Network: "Polygon"}, {Value: "USDC/arbitrum", Network: "Arbitrum"},
				{Value: "USDC/base", Network: "Base"}, {Value: "USDC/solana", Network: "Solana"}}},
			{Asset: "BTC", Amount: "0.00193182", Networks: []web.Choice{{Value: "BTC/bitcoin", Network: "Bitcoin"}}}}}
	to := &web.To{Asset: "USDC", Network: "Ethereum", Address: "0x52908400098527886E0F7030069857D2E4169EE7",
		Coins: "125",
		Link:  "ethereum:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48@1/transfer?address=0x52908400098527886E0F7030069857D2E4169EE7&uint256=125000000"}
	rest := &web.To{Asset: to.Asset, Network: to.Network, Address: to.Address, Coins: "25",
		Link: strings.Replace(to.Link, "=125", "=25", 1)}
	paid := web.Payment{Coins: "125", Asset: "USDC", Network: "Ethereum", Address: to.Address,
		From: "0x8617E340B3D01FA5F11F306F4090FD50E238070D", Sent: now,
		TxHash: "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"}
	shown := paid
	shown.Explorer = "https://etherscan.io/tx/" + paid.TxHash
	late := paid
	late.Late = true
	plain.Completed = now.Add(3 * time.Minute)
	all := map[string]web.Page{"missing": {Step: web.Missing}, "nowhere": {Step: web.Nowhere},
		"busy": {Step: web.Busy, RetryAfter: 41}, "broken": {Step: web.Broken,
			RequestID: "req_01kkv0000000000000000000aa"}}
	for name, change := range map[string]func(*web.Page){
		"choose": func(p *web.Page) { p.Step = web.Choose },
		"pay":    func(p *web.Page) { p.Step, p.To = web.Pay, to },
		"confirming": func(p *web.Page) {
			p.Step, p.Seen, p.Received, p.Payments = web.Confirming, 1, "$125.00", []web.Payment{paid}
		},
		"underpaid": func(p *web.Page) { p.Step, p.To, p.Received, p.Due = web.Underpaid, rest, "$100.00", "$25.00" },
		"confirming-part": func(p *web.Page) {
			p.Step, p.Received, p.Due, p.Payments = web.Confirming, "$100.00", "$25.00", []web.Payment{paid}
		},
		"short": func(p *web.Page) {
			p.Step, p.Received, p.Due, p.Payments = web.Underpaid, "$100.00", "$25.00", []web.Payment{paid}
		},
		"completed": func(p *web.Page) { p.Step, p.Seen, p.Payments = web.Completed, 3, []web.Payment{paid} },
		"simulated": func(p *web.Page) { p.Step, p.Seen, p.Simulated = web.Completed, 3, true },
		"live": func(p *web.Page) {
			p.Step, p.Seen, p.Sandbox, p.Payments = web.Completed, 3, false, []web.Payment{shown, shown, shown, shown}
			p.Received, p.Shortfall = "$124.38", "$0.62"
		},
		"expired":   func(p *web.Page) { p.Step, p.Watched = web.Expired, true },
		"unwatched": func(p *web.Page) { p.Step = web.Expired },
		"unconfirmed": func(p *web.Page) {
			p.Step, p.Received, p.Payments = web.Expired, "$125.00", []web.Payment{paid}
		},
		"late": func(p *web.Page) {
			p.Step, p.Late, p.Due, p.Payments = web.Expired, "$125.00", "$125.00", []web.Payment{late}
		},
		"half-late": func(p *web.Page) {
			p.Step, p.Received, p.Due, p.Late = web.Underpaid, "$100.00", "$25.00", "$26.00"
			p.Payments = []web.Payment{paid, late}
		},
		"cancelled": func(p *web.Page) { p.Step = web.Cancelled },
		"over":      func(p *web.Page) { p.Step, p.Seen, p.Received, p.Over = web.Completed, 3, "$130.00", "$5.00" },
		"withdrawn": func(p *web.Page) { p.Step, p.Late, p.Due = web.Cancelled, "$125.00", "$125.00" },
		"failed":    func(p *web.Page) { p.Step = web.Failed },
	} {
		p := plain
		change(&p)
		all[name] = p
	}
	return all
}

func render(t *testing.T, p web.Page) string { return renderWith(t, p, (*web.Site).Write) }

func renderReceipt(t *testing.T, p web.Page) string {
	return renderWith(t, p, (*web.Site).WriteReceipt)
}

func renderWith(t *testing.T, p web.Page, write func(*web.Site, io.Writer, web.Page) error) string {
	t.Helper()
	site, err := web.New(base)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, write(site, &b, p))
	return b.String()
}

func TestEachStateSaysWhatToDo(t *testing.T) {
	for name, wants := range map[string][]string{
		"missing": {"There is no such link"},
		"busy":    {"Too many requests", "in 41 seconds", "does not depend on this page"},
		"broken": {"can not be shown now", "req_01kkv0000000000000000000aa",
			"does not depend on this page"},
		"choose": {"$125.00", "Blue Bottle Books", "29:41", `value="USDC/ethereum" required checked`,
			`aria-label="BTC on Bitcoin"`, "0.00193182 BTC", "Continue", "Paid through"},
		"pay": {"Pay with USDC on Ethereum", "0x52908400098527886E0F7030069857D2E4169EE7", "Copy address",
			`aria-label="QR code of the payment request"`, `aria-label="QR code of the address alone"`,
			"For an exchange",
			`href="ethereum:0xA0b8`, "Waiting"},
		"confirming":      {"<strong>1 of 3</strong>", `aria-valuenow="1"`, "You may close this page"},
		"underpaid":       {"$100.00 of $125.00", "<strong>$25.00</strong> is still due", "Send the rest"},
		"confirming-part": {"$25.00 is missing: leave this page open"},
		"short":           {"can not be sent any more", `href="https://shop.example.com/cart"`},
		"completed": {"Payment complete", `href="https://shop.example.com/thanks"`, "125 USDC on Ethereum",
			"leads to <strong>shop.example.com</strong>", "You go to <strong>shop.example.com</strong>",
			"Stay on this page",
			`href="/checkout/cs_01kkv0000000000000000000aa/receipt"`, "no link to an explorer"},
		"simulated": {"Payment complete", "Blue Bottle Books sees the payment."},
		"live": {`href="https://etherscan.io/tx/0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060" ` +
			`target="_blank" rel="noopener noreferrer">See the transaction at etherscan.io`, "And 1 more",
			"$124.38 of $125.00 has arrived, which completes the payment"},
		"expired": {"This link has expired", "is looked for until an hour after the end",
			`href="https://shop.example.com/cart"`},
		"unwatched":   {"If you have paid, ask Blue Bottle Books to look for the payment"},
		"unconfirmed": {"the network did not confirm it in time"},
		"late":        {"A payment came after the link had ended: $125.00.", "USDC on Ethereum, too late"},
		"half-late": {"$100.00 of $125.00 has arrived in time. <strong>$25.00</strong>",
			"A payment came after the link had ended: $26.00."},
		"cancelled": {"This link was cancelled", `href="https://shop.example.com/cart"`},
		"over":      {"Payment complete", "$5.00 more than was asked", "give it back"},
		"withdrawn": {"This link was cancelled", "A payment came after the link had ended"},
		"failed":    {"The payment failed"},
	} {
		html := render(t, pages()[name])
		for _, want := range wants {
			require.Contains(t, html, want, name)
		}
		for _, payment := range pages()[name].Payments {
			require.Contains(t, html, payment.TxHash, name)
		}
		require.NotRegexp(t, `data-copy="[a-z]*">`, html, "a button that needs the script, which shows it")
		linkless := name == "missing" || name == "busy" || name == "broken"
		require.Equal(t, !linkless && name != "live", strings.Contains(html, "Do not send real money"), name)
		require.Equal(t, !linkless, strings.Contains(html, `class="bill"`), name)
		live := !linkless && pages()[name].Step != web.Completed && name != "failed"
		require.Equal(t, live, strings.Contains(html, " data-open"), name)
	}
	require.NotContains(t, render(t, pages()["expired"]), "0x52908400098527886E0F7030069857D2E4169EE7",
		"an ended link shows no address")
}

var (
	inline   = regexp.MustCompile(`(?i)\s(style|on[a-z]+)\s*=`)
	elements = regexp.MustCompile(`(?is)<(script|style)[^>]*>[^<]+`)
	links    = regexp.MustCompile(`(?i)<a\b[^>]*?\shref="([^"]*)"`)
	loads    = regexp.MustCompile(`(?i)<(?:script|link|img|iframe)[^>]*?\s(?:src|href)="([^"]*)"`)
)

// The page has a code of the payment request, and a code of the address for wallets that do not
// read requests.
func TestBothCodesAreDrawn(t *testing.T) {
	for _, name := range []string{"pay", "underpaid"} {
		p := pages()[name]
		html := render(t, p)
		require.Contains(t, html, string(web.QR(p.To.Link, "QR code of the payment request")), name)
		require.Contains(t, html, string(web.QR(p.To.Address, "QR code of the address alone")), name)
	}
}

// No page contains a thing that the policy forbids: an inline script, another inline style than the
// one that the policy names, or a foreign resource. A page without a link loads nothing.
func TestPagesKeepTheirPolicy(t *testing.T) {
	for name, p := range pages() {
		html, files := render(t, p), 4
		if p.Linkless() {
			before, rest, _ := strings.Cut(html, "<style>")
			style, after, _ := strings.Cut(rest, "</style>")
			sum := sha256.Sum256([]byte(style))
			require.Contains(t, web.Policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", name)
			html, files = before+after, 0
		}
		require.Empty(t, inline.FindAllString(html, -1), name)
		require.Empty(t, elements.FindAllString(html, -1), name)
		found := loads.FindAllStringSubmatch(html, -1)
		require.Len(t, found, files, name)
		for _, load := range found {
			require.True(t, strings.HasPrefix(load[1], base) || load[1] == web.FaviconPath, load[1])
		}
	}
	for _, allowed := range []string{"unsafe-inline", "unsafe-eval", "http", "*", "data:"} {
		require.NotContains(t, web.Policy, allowed)
	}
	require.Contains(t, web.Policy, "default-src 'none'")
	require.Contains(t, web.Policy, "frame-ancestors 'none'")
}

// Text of a merchant or a customer is escaped.
func TestTextsAreEscaped(t *testing.T) {
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>{{.ID}}`
	for name, p := range pages() {
		p.Merchant, p.Description, p.Reference, p.Notice, p.State = evil, evil, evil, evil, evil
		p.Coins = []web.Coin{{Asset: evil, Networks: []web.Choice{{Value: evil, Network: evil}}}}
		if p.To != nil {
			to := *p.To
			to.Asset, to.Network, to.Address, to.Coins = evil, evil, evil, evil
			p.To = &to
		}
		html := render(t, p)
		require.NotContains(t, html, "<script>alert", name)
		require.NotContains(t, html, "<img", name)
		require.Equal(t, !p.Linkless(), strings.Count(html, "<script") == 1, name)
	}
}

// A page links to http and https addresses only.
func TestOnlyTheWebIsLinkedTo(t *testing.T) {
	for _, bad := range []string{"javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x",
		"//evil.example.com",
		"/checkout", "ftp://a.b", " ", ":", "https://", "http:/a"} {
		for _, name := range []string{"completed", "expired", "cancelled", "failed", "short"} {
			p := pages()[name]
			p.SuccessURL, p.CancelURL = bad, bad
			for _, link := range links.FindAllStringSubmatch(render(t, p), -1) {
				require.Equal(t, "/checkout/"+p.ID+"/receipt", link[1], bad)
			}
		}
	}
	p := pages()["completed"]
	p.SuccessURL = `https://shop.example.com/a?b=1&c="><script>`
	html := render(t, p)
	require.Contains(t, html, `href="https://shop.example.com/a?b=1&amp;c=%22%3e%3cscript%3e"`)
}

func TestTheCountdown(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]string{-time.Second: "0:00", 0: "0:00", 59 * time.Second: "0:59",
		61*time.Second + 1: "1:01", 24 * time.Hour: "24:00:00", time.Hour + 2*time.Minute +
			3*time.Second: "1:02:03"} {
		require.Equal(t, want, web.Page{Now: now, Expires: now.Add(left)}.Left())
	}
}

func TestFilesAreNamedByWhatIsInThem(t *testing.T) {
	site, err := web.New(base)
	require.NoError(t, err)
	for _, load := range loads.FindAllStringSubmatch(render(t, pages()["pay"]), -1) {
		if load[1] == web.FaviconPath {
			continue
		}
		file, ok := site.File(strings.TrimPrefix(load[1], base))
		require.True(t, ok)
		require.NotEmpty(t, file.Content)
		require.Regexp(t, `^(text/(css|javascript); charset=utf-8|image/svg\+xml)$`, file.ContentType)
	}
	_, ok := site.File("page.js")
	require.False(t, ok)
	_, ok = site.File("page.html")
	require.False(t, ok)
}

func TestAQRCodeOfTooMuchIsNone(t *testing.T) {
	require.Empty(t, web.QR(strings.Repeat("x", 4000), "too long"))
	require.Contains(t, string(web.QR("bitcoin:bc1q?amount=1", `a "code"`)),
		`viewBox="0 0 33 33" role="img" aria-label="a &#34;code&#34;"`)
}

// The site that a customer is sent to is named as in the address bar: a letter of another script
// does not pass for a Latin one.
func TestTheSiteIsNamedInASCII(t *testing.T) {
	for address, want := range map[string]string{"https://shop.example.com/a?b#c": "shop.example.com",
		"https://SHOP.example.com:8443/": "shop.example.com:8443", "https://раураl.example/": "xn--l-7sba6dbr.example",
		"http://127.0.0.1:8080/x": "127.0.0.1:8080", "https://a_b.example/": "", "https://[::1]/": ""} {
		p := pages()["completed"]
		p.SuccessURL = address
		require.Equal(t, want, p.SuccessSite(), address)
		page := render(t, p)
		if want == "" { // without a name the page has the button alone, and never the merchant's own name
			require.NotContains(t, page, "You go to")
			continue
		}
		require.Contains(t, page, "You go to <strong>"+want+"</strong>", address)
	}
}

// receipts holds one receipt of each kind, for .ci/pages to open in a browser.
func receipts() map[string]web.Page {
	sandbox, live, simulated := pages()["completed"], pages()["live"], pages()["simulated"]
	live.Prices = []web.Price{{Asset: "ETH", Dollars: "3150.42"}}
	return map[string]web.Page{"receipt": sandbox, "receipt-live": live, "receipt-simulated": simulated}
}

// A receipt states the payment, the payee, the time, the network and the transaction, and is a page
// like the others: nothing inline, nothing from elsewhere, all texts escaped.
func TestReceiptsSayWhatWasPaid(t *testing.T) {
	for name, wants := range map[string][]string{
		"receipt": {"Blue Bottle Books", "order 10482", "Two paperbacks", "$125.00", "125 USDC on Ethereum",
			"No real money",
			"14 March 2026, 09:33:00 UTC", `datetime="2026-03-14T09:33:00Z"`, "cs_01kkv0000000000000000000aa",
			"0x52908400098527886E0F7030069857D2E4169EE7", "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
			"0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"},
		"receipt-live": {"$124.38", "Short by, accepted", "$0.62", "Price of 1 ETH", "$3150.42",
			`href="https://etherscan.io/tx/0x5c504`},
		"receipt-simulated": {"was simulated"},
	} {
		html := renderReceipt(t, receipts()[name])
		for _, want := range wants {
			require.Contains(t, html, want, name)
		}
		require.Empty(t, inline.FindAllString(html, -1), name)
		require.Empty(t, elements.FindAllString(html, -1), name)
		require.Len(t, loads.FindAllString(html, -1), 4, name)
		require.Equal(t, 4*strings.Count(name, "-live"), strings.Count(html, "etherscan.io/tx"), name)
	}
	evil := `"><script>alert(1)</script>`
	p := receipts()["receipt"]
	p.Merchant, p.Description, p.Reference = evil, evil, evil
	p.Payments = []web.Payment{{Coins: evil, Asset: evil, Network: evil, Address: evil, From: evil, TxHash: evil,
		Explorer: "javascript:alert(1)"}}
	html := renderReceipt(t, p)
	require.NotContains(t, html, "<script>alert")
	require.NotContains(t, html, "javascript:")
}

func TestTheIconsAreImages(t *testing.T) {
	site, err := web.New(base)
	require.NoError(t, err)
	icon := site.Favicon()
	require.Equal(t, "image/x-icon", icon.ContentType)
	require.Equal(t, []byte{0, 0, 1, 0, 3, 0}, icon.Content[:6], "an icon of three sizes")
	for i, side := range []int{16, 32, 48} {
		entry := icon.Content[6+16*i:]
		at, size := binary.LittleEndian.Uint32(entry[12:]), binary.LittleEndian.Uint32(entry[8:])
		image, err := png.Decode(bytes.NewReader(icon.Content[at : at+size]))
		require.NoError(t, err)
		require.Equal(t, side, image.Bounds().Dx())
		require.Equal(t, side, image.Bounds().Dy())
	}
}

// PURSER_PAGES is the directory in which .ci/pages expects one page of each state with its files.
func TestPagesForABrowser(t *testing.T) {
	dir := os.Getenv("PURSER_PAGES")
	if dir == "" {
		dir = t.TempDir()
	}
	site, err := web.New(base)
	require.NoError(t, err)
	write := func(name string, content []byte) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	export := func(name, html string) {
		write(name+".html", []byte(html))
		for _, load := range loads.FindAllStringSubmatch(html, -1) {
			file, versioned := site.File(strings.TrimPrefix(load[1], base))
			if !versioned {
				file = site.Favicon()
			}
			write(load[1], file.Content)
		}
	}
	for name, p := range pages() {
		left := p.Expires.Sub(p.Now)
		p.Now = time.Now() // the script counts down by the browser's clock
		p.Expires = p.Now.Add(left)
		export(name, render(t, p))
	}
	for name, p := range receipts() {
		export(name, renderReceipt(t, p))
	}
	write("policy", []byte(web.Policy))
}
