package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"purser/actors/partner/sandbox"
	"purser/actors/partner/sandbox/bankserver"
	"purser/actors/reports"
	"purser/cmd/purser/buildinfo"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/httpapi"
	"purser/httpapi/webhook"
)

// sandboxBankCommand runs the sandbox bank as a process of its own. Its orders are in its own
// directory, and it reports to a Purser elsewhere.
type sandboxBankCommand struct {
	Addr          string `name:"addr" env:"PURSER_BANK_ADDR" default:"127.0.0.1:8083" help:"Address at which it is asked."`
	DataDir       string `name:"data-dir" env:"PURSER_BANK_DIR" default:"./bank" help:"Directory of its orders."`
	ReportTo      string `name:"report-to" env:"PURSER_BANK_REPORT_TO" default:"http://127.0.0.1:8080" help:"Base URL of the Purser that it reports to."`
	PartnerSecret string `name:"partner-secret" env:"PURSER_PARTNER_SECRET" secret:"" help:"Signs its reports and the requests to it when PURSER_PARTNER_SECRET_BANK is unset; the same as that Purser's, two with a comma while rotating."`
	OwnSecret     string `name:"partner-secret-bank" env:"PURSER_PARTNER_SECRET_BANK" secret:"" help:"The bank's own secret, in the place of PURSER_PARTNER_SECRET, as at that Purser. One of the two is required."`
	SandboxDelay  string `name:"sandbox-delay" env:"PURSER_SANDBOX_DELAY" default:"2s" help:"How long it takes."`
	LogLevel      string `name:"log-level" env:"PURSER_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat     string `name:"log-format" env:"PURSER_LOG_FORMAT" default:"text" help:"text or json."`
}

// Limits of the bank's port.
const (
	bankHeaderWithin  = 5 * time.Second
	bankRequestWithin = 15 * time.Second
	bankIdle          = 2 * time.Minute
	bankHeaderBytes   = 16 << 10
)

// bankConfig is what the settings mean.
type bankConfig struct {
	addr, dataDir, reportTo string
	secrets                 []string // the first signs reports
	delay                   time.Duration
	log                     settings.Config
}

// config checks the settings of the sandbox bank. The error names every fault.
func (s *sandboxBankCommand) config() (bankConfig, error) {
	var f settings.Faults
	f.Address("PURSER_BANK_ADDR", s.Addr)
	c := bankConfig{addr: s.Addr, dataDir: s.DataDir, reportTo: f.BaseURL("PURSER_BANK_REPORT_TO", s.ReportTo),
		secrets: f.Secrets("PURSER_PARTNER_SECRET", s.PartnerSecret), delay: f.Delay(s.SandboxDelay),
		log: settings.Config{LogLevel: f.Level(s.LogLevel),
			LogFormat: f.OneOf("PURSER_LOG_FORMAT", s.LogFormat, settings.LogText, settings.LogJSON)}}
	own := settings.PartnerSecretSetting(reports.Bank)
	if secrets := f.Secrets(own, s.OwnSecret); secrets != nil {
		f.RefuseShared([]settings.HeldSecret{{File: settings.PartnerSecretFile, Values: c.secrets},
			{File: settings.PartnerSecretFileOf(reports.Bank), Values: secrets}})
		c.secrets = secrets
	}
	if len(c.secrets) == 0 {
		f.Add(own+" or PURSER_PARTNER_SECRET", "is required, with at least %d characters: "+
			"the one that signs the bank's reports at the Purser it reports to", settings.MinSecretChars)
	}
	return c, errors.Join(f...)
}

// Run is `purser sandbox-bank`: it serves until SIGTERM or SIGINT. It fails for faulty settings,
// and like runSandboxBank.
func (s *sandboxBankCommand) Run() error {
	c, err := s.config()
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return runSandboxBank(ctx, c, settings.NewLogger(os.Stderr, c.log))
}

// runSandboxBank locks the directory, opens the bank and serves until the context ends. It fails
// when the directory is in use, the address is taken, the store cannot be opened, or the server
// ends by itself.
func runSandboxBank(ctx context.Context, c bankConfig, log *slog.Logger) (err error) {
	unlock, err := datadir.Lock(c.dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	listener, err := net.Listen("tcp", c.addr)
	if err != nil {
		return err
	}
	report := sandbox.NewHTTPReporter(&http.Client{}, c.reportTo, httpapi.PathBankReports, settings.ReportSigner(c.secrets[0], time.Now))
	bank, err := openSandboxBank(c.dataDir, c.delay, report, time.Now, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, bank.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: bankserver.NewHandler(bank, func(signature string, message []byte) error {
			return webhook.Verify(c.secrets, signature, message, time.Now())
		}),
		// an order that is never answered ends with the server
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: bankHeaderWithin, ReadTimeout: bankRequestWithin, IdleTimeout: bankIdle,
		MaxHeaderBytes: bankHeaderBytes,
	}
	log.Info("ready", "bank", listener.Addr().String(), "data", c.dataDir, "reports", c.reportTo, "version", buildinfo.Version)
	return serveBank(ctx, cancel, server, listener, bank)
}

// serveBank answers and reports until the context ends or one of the two fails. It returns their
// errors, joined with that of a shutdown that takes longer than drainWithin.
func serveBank(ctx context.Context, cancel func(), server *http.Server, listener net.Listener, bank *sandbox.Bank) error {
	var running sync.WaitGroup
	var served, reported error
	running.Go(func() {
		defer cancel()
		if served = server.Serve(listener); errors.Is(served, http.ErrServerClosed) {
			served = nil
		}
	})
	running.Go(func() {
		defer cancel()
		reported = bank.Run(ctx)
	})
	<-ctx.Done()
	within, stop := context.WithTimeout(context.Background(), drainWithin)
	defer stop()
	err := server.Shutdown(within)
	running.Wait()
	return errors.Join(err, served, reported)
}

// openSandboxBank opens the bank of a directory, which reports to a Purser. It fails when the store
// cannot be opened. `purser serve` in a sandbox and `purser sandbox-bank` call it.
func openSandboxBank(data string, delay time.Duration, report sandbox.Reporter, clock func() time.Time,
	log *slog.Logger) (*sandbox.Bank, error) {
	return sandbox.NewBank(sandbox.Config{Dir: datadir.BankDir(data), Delay: delay, Clock: clock, Report: report,
		Log: func(order string, attempt int, err error) {
			log.Warn("the sandbox bank's report was not taken", "order", order, "attempt", attempt, "err", err)
		}})
}
