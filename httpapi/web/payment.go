package web

import (
	"net/url"
	"time"

	"golang.org/x/net/idna"
)

// shownPayments is the number of payments on the page of a link; the receipt shows all.
const shownPayments = 3

// Payment is a transfer to a link, which counts toward it unless it came late.
type Payment struct {
	Coins, Asset, Network string // whole coins
	Address, From, TxHash string // From may be ""
	Explorer              string // page of the transaction on a public explorer, or ""
	Sent                  time.Time
	Late                  bool // after the link's end
}

// ExplorerHost returns the explorer's site.
func (p Payment) ExplorerHost() string { return siteOf(p.Explorer) }

// SentAt returns the time of the payment, for people.
func (p Payment) SentAt() string { return writeTime(p.Sent) }

// SentStamp returns the time of the payment, for programs.
func (p Payment) SentStamp() string { return p.Sent.UTC().Format(time.RFC3339) }

// Price is the price of one coin of an asset while the link was open.
type Price struct{ Asset, Dollars string }

// Shown returns the payments that the page of a link shows, the newest last.
func (p Page) Shown() []Payment { return p.Payments[:min(len(p.Payments), shownPayments)] }

// More returns the number of payments that the page of a link leaves out.
func (p Page) More() int { return len(p.Payments) - len(p.Shown()) }

// PaidAt returns the time of the link's completion, for people.
func (p Page) PaidAt() string { return writeTime(p.Completed) }

// PaidStamp returns the time of the link's completion, for programs.
func (p Page) PaidStamp() string { return p.Completed.UTC().Format(time.RFC3339) }

func writeTime(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04:05 UTC") }

// SuccessSite returns the site to which the customer returns after paying.
func (p Page) SuccessSite() string { return siteOf(p.SuccessURL) }

// siteOf returns the host of an address in ASCII, as in a browser's address bar, so that a letter
// of another script cannot pass for a Latin one. It is "" when the host is not a domain name.
func siteOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil {
		return ""
	}
	if port := u.Port(); port != "" {
		host += ":" + port
	}
	return host
}
