package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/actors/reports"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/httpapi"
	"purser/persistence/ident"
)

// partners are the bank and the ramp of a server. The sandbox's are in this process and report
// to the REST server through the in-memory listener reports.
type partners struct {
	bank    *sandbox.Bank
	ramp    *sandbox.Ramp
	reports *fasthttputil.InmemoryListener
	log     *slog.Logger
}

// openPartners opens the bank and the ramp. They report once startPartners has run. It fails when a
// sandbox store cannot be opened. It is a step of the start.
func (m *daemon) openPartners(context.Context) error {
	if err := m.partners.openBank(&m.config, m.Clock, m.wallTime, &m.cleanup); err != nil {
		return err
	}
	return m.partners.openRamp(&m.config, m.Clock, m.wallTime, &m.cleanup)
}

// claimSandbox compares the sandbox's stores in the data directory with the journal's deployment,
// so that a directory of another deployment is not taken for this one's. It fails for a store of
// another deployment, with the directory and what to do, and with the store's error. It is a step
// of the start.
func (m *daemon) claimSandbox(context.Context) error {
	claims := map[string]func(ident.UUID) error{
		datadir.BankDir(m.config.DataDir): m.partners.bank.ClaimStore,
		datadir.RampDir(m.config.DataDir): m.partners.ramp.ClaimStore}
	if m.sandboxChains != nil {
		claims[datadir.ChainsDir(m.config.DataDir)] = m.sandboxChains.ClaimStore
	}
	for _, dir := range slices.Sorted(maps.Keys(claims)) {
		err := claims[dir](m.journal.Identity().Deployment)
		if errors.Is(err, sandbox.ErrForeign) {
			return fmt.Errorf("%s is of another deployment: put the directory of this deployment back, "+
				"or move it away, and the sandbox begins anew there (%w)", dir, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
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

// openBank opens the sandbox's bank. It fails only when its store cannot be opened.
func (p *partners) openBank(c *settings.Config, clock, wallTime func() time.Time, cleanup *cleanupStack) (err error) {
	report := sandbox.NewHTTPReporter(p.httpClient(), restInProcess, httpapi.PathBankReports,
		settings.ReportSigner(c.PartnerSecrets.SecretsOf(reports.Bank)[0], wallTime))
	p.bank, err = sandbox.NewBank(sandbox.Config{Dir: datadir.BankDir(c.DataDir), Delay: c.SandboxDelay,
		Clock: clock, Report: report,
		Log: func(order string, attempt int, err error) {
			p.log.Warn("the sandbox bank's report was not taken", "order", order, "attempt", attempt, "err", err)
		}})
	if err == nil {
		cleanup.push(p.bank.Close)
	}
	return datadir.WithRepair(err, datadir.BankDir(c.DataDir), datadir.RepairSandbox)
}

// openRamp opens the sandbox's ramp. It fails only when its store cannot be opened.
func (p *partners) openRamp(c *settings.Config, clock, wallTime func() time.Time, cleanup *cleanupStack) (err error) {
	post := func(path string) sandbox.Reporter {
		return sandbox.NewHTTPReporter(p.httpClient(), restInProcess, path,
			settings.ReportSigner(c.PartnerSecrets.SecretsOf(reports.Ramp)[0], wallTime))
	}
	p.ramp, err = sandbox.NewRamp(sandbox.Config{Dir: datadir.RampDir(c.DataDir), Delay: c.SandboxDelay,
		Clock: clock, Report: post(httpapi.PathOnrampReports),
		Log: func(order string, attempt int, err error) {
			p.log.Warn("the sandbox ramp's report was not taken", "order", order, "attempt", attempt, "err", err)
		}}, post(httpapi.PathOfframpReports))
	if err == nil {
		cleanup.push(p.ramp.Close)
	}
	return datadir.WithRepair(err, datadir.RampDir(c.DataDir), datadir.RepairSandbox)
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
