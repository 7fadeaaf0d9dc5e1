package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/actors/reports"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/httpapi"
)

// partners are the bank and the ramp of a server, and the sandbox's store. The sandbox's partners
// are in this process and report to the REST server through the in-memory listener reports.
type partners struct {
	store   *sandbox.Store
	bank    *sandbox.Bank
	ramp    *sandbox.Ramp
	reports *fasthttputil.InmemoryListener
	log     *slog.Logger
}

// openPartners opens the bank and the ramp, which report once startPartners has run. It compares
// the sandbox's store in the data directory with the journal's deployment, so that a directory of
// another deployment is not taken for this one's. It fails when the store cannot be opened or read,
// and for a store of another deployment, with the directory and what to do. It is a step of the
// start.
func (m *daemon) openPartners(context.Context) error {
	if err := m.partners.open(&m.config, m.Clock, m.wallTime, &m.cleanup); err != nil {
		return err
	}
	err := m.partners.store.Claim(m.journal.Identity().Deployment)
	if errors.Is(err, sandbox.ErrForeign) {
		return fmt.Errorf("%s is of another deployment: put the directory of this deployment back, "+
			"or move it away, and the sandbox begins anew there (%w)", datadir.SandboxDir(m.config.DataDir), err)
	}
	return err
}

// startPartners lets the partners report: the REST server can take their reports now. A partner
// that ends later with an error ends the process. It is a step of the start.
func (m *daemon) startPartners(context.Context) error {
	run := func(partner func(context.Context) error) {
		m.cleanup.goUntilClosed(func(ctx context.Context) {
			if err := partner(ctx); err != nil {
				m.fail(err)
			}
		})
	}
	run(m.partners.bank.Run)
	run(m.partners.ramp.Run)
	return nil
}

// open opens the sandbox's store, and its bank and ramp. It fails when the store cannot be opened
// or read.
func (p *partners) open(c *settings.Config, clock, wallTime func() time.Time, cleanup *cleanupStack) (err error) {
	dir := datadir.SandboxDir(c.DataDir)
	if p.store, err = sandbox.OpenStore(nil, dir); err != nil {
		return datadir.WithRepair(err, dir, datadir.RepairSandbox)
	}
	cleanup.push(p.store.Close)
	post := func(partner, path string) sandbox.Reporter {
		return sandbox.NewHTTPReporter(p.httpClient(), restInProcess, path,
			settings.ReportSigner(c.PartnerSecrets.SecretsOf(partner)[0], wallTime))
	}
	config := sandbox.Config{Store: p.store, Delay: c.SandboxDelay, Clock: clock,
		Log: func(order string, attempt int, err error) {
			p.log.Warn("the sandbox's report was not taken", "order", order, "attempt", attempt, "err", err)
		}}
	config.Report = post(reports.Bank, httpapi.PathBankReports)
	if p.bank, err = sandbox.NewBank(config); err != nil {
		return datadir.WithRepair(err, dir, datadir.RepairSandbox)
	}
	config.Report = post(reports.Ramp, httpapi.PathOnrampReports)
	p.ramp, err = sandbox.NewRamp(config, post(reports.Ramp, httpapi.PathOfframpReports))
	return datadir.WithRepair(err, dir, datadir.RepairSandbox)
}

// issuerOf returns the card issuing partner, nil where cards are fixtures.
func issuerOf(c *settings.Config) partner.Issuer {
	if c.Issuer == httpapi.IssuerConnected {
		return sandbox.Issuer{}
	}
	return nil
}

// restInProcess is the base URL of the REST server for partners in this process. They reach it
// without a socket, so without TLS and without the PROXY protocol.
const restInProcess = "http://purser"

// httpClient returns a client that reaches the REST server over reports.
func (p *partners) httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return p.reports.Dial() }}}
}
