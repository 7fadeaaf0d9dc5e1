package web

import (
	"net/url"
	"time"

	"golang.org/x/net/idna"
)

// shownPayments is how many payments the page of a link shows; the receipt shows all.
const shownPayments = 3

// Payment is a transfer that counts toward a link.
type Payment struct {
	Coins, Asset, Network string // whole coins
	Address, From, TxHash string // From may be ""
	Explorer              string // where a public explorer shows the transaction; "" when none does
	Sent                  time.Time
}

// ExplorerHost is the explorer's site.
func (p Payment) ExplorerHost() string { return siteOf(p.Explorer) }

// SentAt is when the payment was sent, for people.
func (p Payment) SentAt() string { return writeTime(p.Sent) }

// SentStamp is when the payment was sent, for programs.
func (p Payment) SentStamp() string { return p.Sent.UTC().Format(time.RFC3339) }

// Price is what one coin of an asset cost while the link was open.
type Price struct{ Asset, Dollars string }

// Shown are the payments that the page of a link shows, the newest last.
func (p Page) Shown() []Payment { return p.Payments[:min(len(p.Payments), shownPayments)] }

// More is how many payments the page of a link leaves out.
func (p Page) More() int { return len(p.Payments) - len(p.Shown()) }

// PaidAt is when the link was completed, for people.
func (p Page) PaidAt() string { return writeTime(p.Completed) }

// PaidStamp is when the link was completed, for programs.
func (p Page) PaidStamp() string { return p.Completed.UTC().Format(time.RFC3339) }

func writeTime(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04:05 UTC") }

// SuccessSite is the site to which the customer is sent after paying.
func (p Page) SuccessSite() string { return siteOf(p.SuccessURL) }

// siteOf returns the host of an address as a browser's address bar may write it: in ASCII, so that
// no letter of another script passes for a Latin one. It is "" when the host is not a domain name.
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
