// Package web renders the page on which a customer pays: HTML from a template that escapes whatever
// a merchant wrote, a style sheet and a script of our own, and a QR code drawn here. Everything
// works without the script; with it the page follows the payment by itself.
//
// It decides nothing and asks nobody: a Page says what is shown. What a browser may load is in
// Policy: nothing from elsewhere, nothing inline.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strings"
	"time"

	"rsc.io/qr"
)

//go:embed page.html guide.html reference.html guide.css page.css page.js receipt.js icon.svg favicon.ico
var files embed.FS

// Policy is the Content-Security-Policy of every page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// FaviconPath is where browsers look for a favicon by themselves.
const FaviconPath = "/favicon.ico"

// Step is which part of the way to show.
type Step string

// Steps. The last eight are ends, of which Underpaid may be left again. The last three are of no
// link.
const (
	Choose     Step = "choose"
	Pay        Step = "pay"
	Confirming Step = "confirming"
	Underpaid  Step = "underpaid"
	Completed  Step = "completed"
	Expired    Step = "expired"
	Cancelled  Step = "cancelled"
	Failed     Step = "failed"
	Missing    Step = "missing" // there is no such link
	Busy       Step = "busy"    // the address has asked too often
	Broken     Step = "broken"  // the server could not make the page
)

// Page is what is shown. Texts are as the merchant wrote them; addresses to go to are shown only if they are http or https.
type Page struct {
	ID          string
	State       string // what the status route says of the link: the script shows the page anew when that changes
	Step        Step
	Merchant    string
	Description string
	Reference   string
	Amount      string // with its currency
	Received    string // "" when nothing was
	Due         string // "" when nothing is; what is missing of a payment that fell short
	Over        string // "" when nothing is; what came beyond the amount
	Shortfall   string // the accepted shortfall; "" without one
	Sandbox     bool
	Simulated   bool      // completed without a payment
	Payments    []Payment // that count
	Prices      []Price   // of coins that are no dollars
	Completed   time.Time
	Late        bool // a payment came after the end and does not count
	Expires     time.Time
	Now         time.Time
	Coins       []Coin
	To          *To // nil when nothing was picked
	Seen, Of    int // confirmations
	SuccessURL  string
	CancelURL   string
	RetryAfter  int    // seconds until the page may be asked for again; 0 when the server does not say
	RequestID   string // names the request to people who look into it; "" for nothing
	Notice      string // what became of the last thing the customer did; "" for nothing
}

// Coin is one that can be paid with, and where.
type Coin struct {
	Asset    string
	Networks []Choice
}

// Choice is a coin on a network.
type Choice struct {
	Value   string // of the form
	Network string
	Picked  bool
}

// To says whom to pay and how much.
type To struct {
	Asset, Network, Address string
	Coins                   string // whole coins
	Link                    string // payment link, for a wallet
}

// Site renders pages. It is safe for concurrent use.
type Site struct {
	page  *template.Template
	files map[string]File
	icon  File
}

// File is what a page loads from us.
type File struct {
	ContentType string
	Content     []byte
}

// New reads the template. base is the path under which the pages' own files are served; it ends
// with a slash.
func New(base string) (*Site, error) {
	s := &Site{files: make(map[string]File)}
	paths := make(map[string]string)
	for name, contentType := range map[string]string{"page.css": "text/css; charset=utf-8",
		"guide.css": "text/css; charset=utf-8",
		"page.js":   "text/javascript; charset=utf-8", "receipt.js": "text/javascript; charset=utf-8",
		"icon.svg": "image/svg+xml"} {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		stem, extension, _ := strings.Cut(name, ".")
		versioned := stem + "-" + hex.EncodeToString(sum[:6]) + "." + extension
		s.files[versioned] = File{contentType, content}
		paths[name] = base + versioned
	}
	icon, err := files.ReadFile("favicon.ico")
	if err != nil {
		return nil, err
	}
	s.icon = File{"image/x-icon", icon}
	s.page, err = template.New("page.html").Funcs(template.FuncMap{
		"file": func(name string) string { return paths[name] },
		"qr":   QR,
		// A wallet's link has a scheme that the template does not know; it is made of an address
		// and numbers, by us.
		"wallet":  func(link string) template.URL { return template.URL(link) },
		"steps":   func(n int) []int { return make([]int, n) },
		"favicon": func() string { return FaviconPath },
	}).ParseFS(files, "page.html", "guide.html", "reference.html")
	if err != nil {
		return nil, err
	}
	return s, nil
}

// File returns a file by its versioned name. It never changes.
func (s *Site) File(name string) (File, bool) {
	f, ok := s.files[name]
	return f, ok
}

// Favicon is the file that browsers look for at FaviconPath. It may change.
func (s *Site) Favicon() File { return s.icon }

// Write renders a whole page.
func (s *Site) Write(w io.Writer, p Page) error { return s.renderTemplate(w, "page", p) }

// Entry is what the page at the server's root shows.
type Entry struct {
	Sandbox bool
	Links   []Link
}

// Link is a place of the interface.
type Link struct{ Name, Method, URL string }

// WriteEntry renders the page at the server's root.
func (s *Site) WriteEntry(w io.Writer, e Entry) error {
	if err := s.page.ExecuteTemplate(w, "entry", e); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// Guide is what a page of the guides shows: a guide when Body is set, else results, a missing page
// or the index.
type Guide struct {
	Name, Title, Query        string
	Guides, Contents, Results any // lists that the template reads
	Body                      template.HTML
	Searched, Missing         bool
}

// WriteGuide renders a page of the guides.
func (s *Site) WriteGuide(w io.Writer, g Guide) error {
	if err := s.page.ExecuteTemplate(w, "guide", g); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// Reference is what a page of the API reference shows: a group when Group is set, else the index or
// a missing page.
type Reference struct {
	Title, Name   string
	Groups, Group any // the list of groups, and the group that is shown
	Missing       bool
}

// WriteReference renders a page of the API reference.
func (s *Site) WriteReference(w io.Writer, r Reference) error {
	if err := s.page.ExecuteTemplate(w, "reference", r); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// WriteReceipt renders the receipt of a completed link.
func (s *Site) WriteReceipt(w io.Writer, p Page) error { return s.renderTemplate(w, "receipt", p) }

// WritePart renders the part of a page that changes.
func (s *Site) WritePart(w io.Writer, p Page) error { return s.renderTemplate(w, "part", p) }

func (s *Site) renderTemplate(w io.Writer, name string, p Page) error {
	p.SuccessURL, p.CancelURL = webAddress(p.SuccessURL), webAddress(p.CancelURL)
	if err := s.page.ExecuteTemplate(w, name, p); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// webAddress is an address to go to, "" if it is not http or https.
func webAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return ""
	}
	return text
}

// Left is the time left, as minutes and seconds.
func (p Page) Left() string {
	left := max(p.Expires.Sub(p.Now), 0).Truncate(time.Second)
	if left >= time.Hour {
		return fmt.Sprintf("%d:%02d:%02d", int(left.Hours()), int(left.Minutes())%60, int(left.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d", int(left.Minutes()), int(left.Seconds())%60)
}

// Ends is the end as a machine reads it.
func (p Page) Ends() string { return p.Expires.UTC().Format(time.RFC3339) }

// Open says that something may still happen to the link.
func (p Page) Open() bool { return p.Step != Completed && p.Step != Failed && !p.Linkless() }

// Linkless says that the page is about no link: it shows no bill.
func (p Page) Linkless() bool { return p.Step == Missing || p.Step == Busy || p.Step == Broken }

// Counts says that the time left is worth showing: the link can be paid.
func (p Page) Counts() bool { return p.Step == Choose || p.To != nil }

// Title is of the browser's tab.
func (p Page) Title() string {
	titles := map[Step]string{Choose: "Pay", Pay: "Pay", Confirming: "Payment seen", Underpaid: "Payment incomplete",
		Completed: "Paid", Expired: "Link expired", Cancelled: "Link cancelled", Failed: "Payment failed",
		Missing: "Link not found", Busy: "Too many requests", Broken: "Something went wrong"}
	if p.Merchant == "" {
		return titles[p.Step]
	}
	return titles[p.Step] + " · " + p.Merchant
}

// quiet is the margin of a QR code that its readers need, in modules.
const quiet = 4

// QR draws a text as SVG, with a label for those who do not see it. The text is not in it. The SVG
// is "" when the text is too long for a code.
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
