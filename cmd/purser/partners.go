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
	"purser/actors/partner/bankhttp"
	"purser/actors/partner/sandbox"
	"purser/actors/reports"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/httpapi"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
)

// partners are the bank and the ramp of a server. The sandbox's are in this process and report
// to the REST server through the in-memory listener reports.
type partners struct {
	bank        partner.Bank
	sandboxBank *sandbox.Bank // the bank, when it is in this process
	ramp        *sandbox.Ramp
	reports     *fasthttputil.InmemoryListener
	log         *slog.Logger
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
		datadir.RampDir(m.config.DataDir): m.partners.ramp.ClaimStore}
	if m.partners.sandboxBank != nil {
		claims[datadir.BankDir(m.config.DataDir)] = m.partners.sandboxBank.ClaimStore
	}
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

// startPartners lets the partners in this process report: the REST server can take their reports
// now. A partner that ends later with an error ends the process. It is a step of the start.
func (m *daemon) startPartners(context.Context) error {
	run := func(partner func(context.Context) error) {
		m.cleanup.goUntilClosed(func(ctx context.Context) {
			if err := partner(ctx); err != nil {
				m.fail(err)
			}
		})
	}
	if m.partners.sandboxBank != nil {
		run(m.partners.sandboxBank.Run)
	}
	run(m.partners.ramp.Run)
	return nil
}

// openBank connects the bank that the settings name, or opens the sandbox's in this process. It
// fails only when the sandbox's store cannot be opened.
func (p *partners) openBank(c *settings.Config, clock, wallTime func() time.Time, cleanup *cleanupStack) (err error) {
	secret := c.PartnerSecrets.SecretsOf(reports.Bank)[0]
	if c.BankURL != "" {
		client := bankhttp.NewClient(c.BankURL, func(message []byte) string {
			return webhook.Sign(secret, wallTime(), message)
		})
		p.bank = client
		cleanup.push(func() error { client.Close(); return nil })
		return nil
	}
	report := sandbox.NewHTTPReporter(p.httpClient(), restInProcess, httpapi.PathBankReports, settings.ReportSigner(secret, wallTime))
	p.sandboxBank, err = openSandboxBank(c.DataDir, c.SandboxDelay, report, clock, p.log)
	if err == nil {
		p.bank = p.sandboxBank
		cleanup.push(p.sandboxBank.Close)
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
