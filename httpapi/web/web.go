// Package web renders the page on which a customer pays: HTML from a template that escapes the
// merchant's text, a style sheet and a script of our own, and a QR code. All of it works without
// the script; with it the page follows the payment.
//
// The package makes no decisions: a Page holds the shown data. Policy lists the resources that a
// browser may load: none of other origins, and inline only the style of the pages without a link.
package web

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"rsc.io/qr"

	"purser/httpapi/highlight"
)

//go:embed page.html guide.html reference.html guide.css guide.js page.css page.js receipt.js icon.svg favicon.ico
var files embed.FS

// Policy is the Content-Security-Policy of every page.
var Policy = "default-src 'none'; script-src 'self'; style-src 'self' " + StyleSource(files, "page.css") +
	"; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// FaviconPath is the path at which browsers request a favicon.
const FaviconPath = "/favicon.ico"

// Step is the step of the checkout that a page shows.
type Step string

// Steps. The last nine are final, except that Underpaid may be left again. The last four belong to
// no link.
const (
	Choose     Step = "choose"
	Pay        Step = "pay"
	Confirming Step = "confirming"
	Underpaid  Step = "underpaid"
	Completed  Step = "completed"
	Expired    Step = "expired"
	Cancelled  Step = "cancelled"
	Failed     Step = "failed"
	Missing    Step = "missing" // the link does not exist
	Nowhere    Step = "nowhere" // the address is that of no page
	Busy       Step = "busy"    // the address has sent too many requests
	Broken     Step = "broken"  // the server could not make the page
)

// Page holds the shown data. Texts are the merchant's own; addresses are linked only if they are
// http or https.
type Page struct {
	ID          string
	State       string // answer of the status route; the script replaces the page when it changes
	Step        Step
	Merchant    string
	Description string
	Reference   string
	Amount      string // with its currency
	Received    string // amount that arrived in time, or ""
	Late        string // amount that arrived after the end and does not count, or ""
	Due         string // missing part of the amount beyond the tolerance, or ""
	Over        string // part beyond the amount that arrived in time, or ""
	Shortfall   string // the accepted shortfall, or ""
	Sandbox     bool
	Simulated   bool      // completed without a payment
	Payments    []Payment // all that the chains hold
	Prices      []Price   // prices of coins other than dollar coins
	Completed   time.Time
	Watched     bool // payments are looked for, at the latest until an hour after the end
	Expires     time.Time
	Now         time.Time
	Coins       []Coin
	To          *To // nil while no coin is selected
	Seen, Of    int // confirmations
	SuccessURL  string
	CancelURL   string
	RetryAfter  int    // seconds until the page may be requested again; 0 when unknown
	RequestID   string // id of the request for support, or ""
	Notice      string // result of the customer's last action, or ""
}

// Coin is an accepted coin with its networks.
type Coin struct {
	Asset    string
	Amount   string // the due amount in whole coins
	Networks []Choice
}

// Choice is a coin on a network.
type Choice struct {
	Value   string // value of the form field
	Network string
	Picked  bool
}

// To is the payee and the amount.
type To struct {
	Asset, Network, Address string
	Coins                   string // amount in whole coins
	Link                    string // payment link, for a wallet
}

// Site renders pages. It is safe for concurrent use.
type Site struct {
	*Files
	page *template.Template
	icon File
}

// New reads the templates and files of the hosted pages. base is the path under which the pages'
// own files are served; it ends with a slash. It fails only for a defect of the embedded files.
func New(base string) (*Site, error) {
	s := &Site{}
	var err error
	s.Files, err = LoadFiles(files, base, "page.css", "guide.css", "guide.js", "page.js", "receipt.js", "icon.svg")
	if err != nil {
		return nil, err
	}
	if s.icon, err = LoadFavicon(); err != nil {
		return nil, err
	}
	s.page, err = template.New("page.html").Funcs(template.FuncMap{
		"file": s.PathOf, "inline": s.Inline,
		"qr": QR, "highlight": highlight.Code,
		// The operations of a list, and what keeps the language in their addresses.
		"listed": func(operations any, kept template.URL) map[string]any {
			return map[string]any{"Operations": operations, "Kept": kept}
		},
		// The template does not know the scheme of a wallet's link, which consists of an address
		// and numbers of our own.
		"wallet":  func(link string) template.URL { return template.URL(link) },
		"steps":   func(n int) []int { return make([]int, n) },
		"favicon": func() string { return FaviconPath },
	}).ParseFS(files, "page.html", "guide.html", "reference.html")
	if err != nil {
		return nil, err
	}
	return s, nil
}

// LoadFavicon returns the file at FaviconPath. It fails only for a defect of the embedded files.
func LoadFavicon() (File, error) {
	icon, err := files.ReadFile("favicon.ico")
	return File{"image/x-icon", icon}, err
}

// Favicon returns the file at FaviconPath. Its content may change.
func (s *Site) Favicon() File { return s.icon }

// Write renders the whole page of a payment link. It fails when the template or w does.
func (s *Site) Write(w io.Writer, p Page) error { return s.renderTemplate(w, "page", p) }

// Entry is the data of the page at the server's root.
type Entry struct {
	Sandbox bool
	Links   []Link
}

// Link is an entry point of the interface.
type Link struct{ Name, Method, URL string }

// WriteEntry renders the page at the server's root. It fails when the template or w does.
func (s *Site) WriteEntry(w io.Writer, e Entry) error {
	if err := s.page.ExecuteTemplate(w, "entry", e); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// Docs is the data of every page of the guides and of the API reference.
type Docs struct {
	Title, Name, Query string
	Nav                any // the lists beside the page
	Missing            bool
}

// Guide is the data of a page of the guides: a guide when Body is set, or else results, a missing
// page or the index.
type Guide struct {
	Docs
	Contents, Results, Previous, Next any // the headings, passages and guides that the template reads
	Body                              template.HTML
	Searched                          bool
}

// WriteGuide renders a page of the guides. It fails when the template or w does.
func (s *Site) WriteGuide(w io.Writer, g Guide) error { return s.writeDocs(w, "guide", g) }

// Reference is the data of a page of the API reference: an operation when Operation is set, a group
// when Group is, or else the index or a missing page.
type Reference struct {
	Docs
	Group, Operation any           // a group, and one of its operations
	Faults           any           // the errors of the operation
	Previous, Next   any           // operations
	Body, After      template.HTML // the texts of the index, around its list
	Language         string        // of the samples, as a sample's class
	Kept             template.URL  // keeps the language in an address; "" for the first language
}

// WriteReference renders a page of the API reference. It fails when the template or w does.
func (s *Site) WriteReference(w io.Writer, r Reference) error { return s.writeDocs(w, "reference", r) }

// writeDocs executes a template of the guides or the reference. It fails when the template or w does.
func (s *Site) writeDocs(w io.Writer, name string, page any) error {
	if err := s.page.ExecuteTemplate(w, name, page); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// WriteReceipt renders the receipt of a completed link. It fails when the template or w does.
func (s *Site) WriteReceipt(w io.Writer, p Page) error { return s.renderTemplate(w, "receipt", p) }

// WritePart renders the part of a link's page that the script replaces. It fails when the template
// or w does.
func (s *Site) WritePart(w io.Writer, p Page) error { return s.renderTemplate(w, "part", p) }

// renderTemplate executes a template of a link's page. It fails when the template or w does.
func (s *Site) renderTemplate(w io.Writer, name string, p Page) error {
	p.SuccessURL, p.CancelURL = webAddress(p.SuccessURL), webAddress(p.CancelURL)
	if err := s.page.ExecuteTemplate(w, name, p); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// webAddress returns an http or https address, and "" for any other.
func webAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return ""
	}
	return text
}

// Left returns the time left, in minutes and seconds.
func (p Page) Left() string {
	left := max(p.Expires.Sub(p.Now), 0).Truncate(time.Second)
	if left >= time.Hour {
		return fmt.Sprintf("%d:%02d:%02d", int(left.Hours()), int(left.Minutes())%60, int(left.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d", int(left.Minutes()), int(left.Seconds())%60)
}

// Ends returns the time of the end, for programs.
func (p Page) Ends() string { return p.Expires.UTC().Format(time.RFC3339) }

// Open reports whether the link's state may still change.
func (p Page) Open() bool { return p.Step != Completed && p.Step != Failed && !p.Linkless() }

// Linkless reports whether the page belongs to no link, and so shows no bill. Such a page brings
// its style and loads no file, which a limit could refuse.
func (p Page) Linkless() bool {
	return slices.Contains([]Step{Missing, Nowhere, Busy, Broken}, p.Step)
}

// Counts reports whether the page shows the time left, because the link can be paid.
func (p Page) Counts() bool { return p.Step == Choose || p.To != nil }

// Title returns the title of the browser's tab: the state of the link in words, then the
// merchant's name if the page has one.
func (p Page) Title() string {
	titles := map[Step]string{Choose: "Pay", Pay: "Pay", Confirming: "Payment seen", Underpaid: "Payment incomplete",
		Completed: "Paid", Expired: "Link expired", Cancelled: "Link cancelled", Failed: "Payment failed",
		Missing: "Link not found", Nowhere: "Page not found", Busy: "Too many requests",
		Broken: "Something went wrong"}
	if p.Merchant == "" {
		return titles[p.Step]
	}
	return titles[p.Step] + " · " + p.Merchant
}

// quiet is the margin of a QR code, in modules.
const quiet = 4

// QR draws a text as SVG, with a label for screen readers. The SVG does not contain the text. It is
// "" when the text is too long for a code.
func QR(text, label string) template.HTML {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return ""
	}
	var path strings.Builder
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			run := 0
			for x+run < code.Size && code.Black(x+run, y) {
				run++
			}
			if run > 0 {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", x+quiet, y+quiet, run, run)
				x += run
			}
		}
	}
	side := code.Size + 2*quiet
	return template.HTML(fmt.Sprintf(`<svg class="qr" viewBox="0 0 %d %d" role="img" aria-label="%s" `+
		`shape-rendering="crispEdges"><rect width="%d" height="%d" fill="#fff"/><path fill="#000" d="%s"/></svg>`,
		side, side, template.HTMLEscapeString(label), side, side, path.String()))
}
