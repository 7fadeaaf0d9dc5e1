package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors"
	"purser/actors/partner"
	"purser/actors/partner/bankhttp"
	"purser/actors/partner/sandbox"
	"purser/actors/processes"
	"purser/actors/seal"
	"purser/authorizer"
	"purser/authorizer/drain"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/cmd/purser/tuning"
	"purser/httpapi"
	"purser/httpapi/webhook"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/kafka"
	"purser/persistence/postgres"
)

// ServeCmd runs the servers.
type ServeCmd struct {
	settings.Settings
}

// Limits of a start and a stop.
const (
	startWithin = 10 * time.Minute
	drainWithin = 20 * time.Second
	// lastRelayWithin is how long a stop waits for the journal to have all that was decided. What it has not, the next start relays.
	lastRelayWithin = 2 * time.Second
	// readyPercent of the backlog's limit is where a server says that it is not ready: approvals stop there.
	readyPercent = 80
)

// Run serves until SIGTERM or SIGINT, then drains.
func (s *ServeCmd) Run(out io.Writer) error {
	config, err := s.Config()
	log := settings.NewLogger(os.Stderr, config)
	if warned := warnUnknown(log, os.Environ()); warned != nil {
		return warned
	}
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	config.Processors = tuning.SpareProcessors()
	tuning.ProfileWaiting()
	go tuning.BoundGarbage(ctx)
	m := NewMain(config, log)
	if config.Certificate != nil {
		signal.Notify(m.hangups, syscall.SIGHUP)
		defer signal.Stop(m.hangups)
	}
	if err := m.Start(ctx); err != nil {
		return err
	}
	if err := m.announceStart(out); err != nil {
		return errors.Join(err, m.Close())
	}
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case err = <-m.Failed():
		log.Error("a server ended", "err", err)
	}
	return errors.Join(err, m.Close())
}

// Main is one running Purser. Start builds it from the stores up to the servers; Close takes it down in reverse.
type Main struct {
	// Clock is trusted time; nil: the start makes it of the machine's clocks.
	Clock   func() time.Time
	Entropy io.Reader
	// DiskFree returns the free bytes of a directory's disk.
	DiskFree func(dir string) (int64, error)
	// Fatal ends the process when a commit has failed: from then on nothing may be answered.
	Fatal func(error)

	config    settings.Config
	clocks    machineClocks
	trusted   *trustedClock // nil: Clock is a test's
	log       *slog.Logger
	registry  *prometheus.Registry
	metrics   *metrics
	outbox    *outbox
	inbox     *inbox
	consumers []consumer
	failed    chan error
	closers   []func() error
	waiting   waiting
	swipes    *gate // open as long as the authorizer is
	stores    *gate // open as long as all stores and the actors are

	development []string // settings that are for development only
	disk        *diskGuard
	shares      descriptorShares
	bodies      *drain.Budget // memory for request bodies
	edge        *edge
	listeners   listeners
	memory      *fasthttputil.InmemoryListener // the simulation routes' way to the card network's server
	reports     *fasthttputil.InmemoryListener // the partners' way to the REST server, for those in this process
	hangups     chan os.Signal                 // SIGHUP: the certificate's files are looked at
	network     *networkDesk
	rest        *httpapi.Front
	journal     persistence.Journal
	authorizer  *authorizer.Engine
	bank        partner.Bank
	sandbox     *sandbox.Bank // the bank, when it is in this process
	ramp        *sandbox.Ramp
	system      *processes.Product
	sealer      *seal.Sealer
	chains      []partner.Chain
	// sandboxChains are those of chains that nobody mines; nil when there are none.
	sandboxChains *sandbox.Chains
	topic         *kafka.Topic // nil: no Kafka
	// stopNetwork and stopREST drain the servers, the first time.
	stopNetwork, stopREST func() error
}

// NewMain makes a Main that has not started.
func NewMain(c settings.Config, log *slog.Logger) *Main {
	m := &Main{DiskFree: datadir.FreeBytes, clocks: systemClocks(), Entropy: rand.Reader, config: c, log: log,
		registry:  prometheus.NewRegistry(),
		consumers: consumers(), swipes: newGate(), stores: newGate(), failed: make(chan error, 1),
		memory: fasthttputil.NewInmemoryListener(), reports: fasthttputil.NewInmemoryListener(),
		hangups: make(chan os.Signal, 1), edge: newEdge()}
	m.disk = newDiskGuard(c, func(dir string) (int64, error) { return m.DiskFree(dir) }, log)
	m.Fatal = func(err error) {
		log.Error("a store has failed; the process ends and nothing more is answered", "err", err)
		os.Exit(1)
	}
	return m
}

// Failed hears of a server or partner that ended by itself.
func (m *Main) Failed() <-chan error { return m.failed }

// step is a part of the start. What it has started it hands to onClose.
type step = func(context.Context) error

// ground is the part of a start that needs nothing but this machine.
func (m *Main) ground() []step {
	return []step{
		m.shareEdge,
		m.takeDirectory,
		m.startDisk,
		m.startClock,
		m.findSecrets,
		m.listen,
		m.startAdmin,
		m.followCertificate,
		m.openBank,
		m.openRamp,
		m.startNetwork,
		m.startREST,
		m.publishAddresses,
		m.serveSwipesAlone,
	}
}

// upper is the part that stands on the journal.
func (m *Main) upper() []step {
	return []step{
		m.openJournal,
		m.trustJournal,
		m.openAuthorizer,
		m.openChains,
		m.startActors,
		m.startPublisher,
		m.startConsumers,
		m.admitSwipes,
		m.admitRequests,
		m.startBank,
		m.startRamp,
		m.admitOperators,
	}
}

// Start brings everything up. With the journal in the data directory all of it is up when it returns. A journal in Postgres is
// waited for in the background, for as long as it takes: swipes are answered meanwhile, if this deployment's authorizer is here,
// and requests are told that nothing changed. After an error nothing is left running.
func (m *Main) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	err := climb(ctx, m.ground())
	switch {
	case err == nil && m.config.DatabaseURL == "":
		err = climb(ctx, m.upper())
	case err == nil:
		m.waiting.begin(m.awaitJournal)
	}
	if err != nil {
		return errors.Join(err, m.Close())
	}
	return nil
}

func climb(ctx context.Context, steps []step) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close stops what Start has started, last first. It may be called once.
func (m *Main) Close() error {
	m.waiting.end()
	return m.closeTo(0)
}

// closeTo stops what was started after so many other things.
func (m *Main) closeTo(kept int) error {
	var faults []error
	for len(m.closers) > kept {
		last := len(m.closers) - 1
		faults = append(faults, m.closers[last]())
		m.closers = m.closers[:last]
	}
	return errors.Join(faults...)
}

func (m *Main) onClose(do func() error) { m.closers = append(m.closers, do) }

func (m *Main) takeDirectory(context.Context) error {
	unlock, err := datadir.Lock(m.config.DataDir)
	if err == nil {
		m.onClose(unlock)
	}
	return err
}

func (m *Main) findSecrets(context.Context) error {
	m.development = m.config.DevelopmentOnly()
	return m.config.FindSecrets()
}

func (m *Main) openJournal(ctx context.Context) (err error) {
	use := datadir.JournalOptions{Migrate: true, Processors: m.config.Processors, Clock: m.Clock, Entropy: m.Entropy,
		OpenTables: m.shares.openTables, Fatal: m.Fatal, Note: m.note}
	if m.authorizer != nil {
		use.Deployment = m.authorizer.Deployment()
	}
	m.journal, err = m.config.Stores().OpenJournal(ctx, use)
	if err != nil {
		return mayPass(err)
	}
	m.onClose(m.journal.Close)
	return m.config.SecretsBelong(m.journal)
}

// note logs an operation that the journal's store tries again by itself. There can be many a second,
// and the loops that need the store log them too; only a server that lacks a resource is a warning.
func (m *Main) note(err error) {
	level := slog.LevelDebug
	if errors.Is(err, postgres.ErrExhausted) {
		level = slog.LevelWarn
	}
	m.log.Log(context.Background(), level, "the journal's store will try again", "err", err)
}

// serveSwipesAlone opens the authorizer before the journal is there, when the journal is not in this directory: the authorizer
// knows by itself whose it is. The first start of a deployment has none.
func (m *Main) serveSwipesAlone(ctx context.Context) error {
	if m.config.DatabaseURL == "" || !authorizer.Exists(nil, datadir.AuthorizerDir(m.config.DataDir)) {
		return nil
	}
	switch err := m.openEngine(ident.UUID{}); {
	case errors.Is(err, authorizer.ErrNoStore): // a first start has ended before it was stamped
		return nil
	case err != nil:
		return err
	}
	return m.admitSwipes(ctx)
}

// openAuthorizer opens it, unless it is open.
func (m *Main) openAuthorizer(context.Context) error {
	if m.authorizer != nil {
		return nil
	}
	if err := datadir.RequireAuthorizer(m.config.DataDir, m.journal); err != nil {
		return err
	}
	return m.openEngine(m.journal.Identity().Deployment)
}

func (m *Main) openEngine(deployment ident.UUID) error {
	engine, err := authorizer.Open(authorizer.Options{Dir: datadir.AuthorizerDir(m.config.DataDir), Deployment: deployment,
		CacheBytes: m.config.AuthorizerCacheBytes, OpenTables: m.shares.openTables,
		BacklogMax: m.config.BacklogMax, NoSync: !m.config.AuthorizerSync,
		Clock: m.Clock, ClockSuspect: m.clockSuspect, Entropy: m.Entropy, Fatal: m.Fatal})
	if err != nil {
		return datadir.WithRepair(err, datadir.AuthorizerDir(m.config.DataDir), datadir.RepairEngine)
	}
	if err := m.trustAuthorizer(engine); err != nil {
		return errors.Join(err, engine.Close())
	}
	m.authorizer = engine
	m.disk.attachEngine(engine)
	m.onClose(func() error {
		m.disk.detachEngine()
		m.authorizer = nil
		return engine.Close()
	})
	return nil
}

// openBank finds the bank: elsewhere, or in this process.
func (m *Main) openBank(context.Context) (err error) {
	secret := m.config.PartnerSecrets.SecretsOf(httpapi.PartnerBank)[0]
	if m.config.BankURL != "" {
		client := bankhttp.NewClient(m.config.BankURL, func(message []byte) string {
			return webhook.Sign(secret, m.Clock(), message)
		})
		m.bank = client
		m.onClose(func() error { client.Close(); return nil })
		return nil
	}
	report := sandbox.NewHTTPReporter(m.partnerClient(), restInProcess, httpapi.PathBankReports, settings.ReportSigner(secret, m.Clock))
	m.sandbox, err = openSandboxBank(m.config.DataDir, m.config.SandboxDelay, report, m.Clock, m.log)
	if err == nil {
		m.bank = m.sandbox
		m.onClose(m.sandbox.Close)
	}
	return datadir.WithRepair(err, datadir.BankDir(m.config.DataDir), datadir.RepairSandbox)
}

func (m *Main) startActors(ctx context.Context) (err error) {
	if m.sealer, err = seal.New(m.config.DataKeys[0], m.Entropy, m.config.DataKeys[1:]...); err != nil {
		return err
	}
	poster, err := webhook.NewSender(webhook.SenderOptions{Guard: m.webhookGuard()})
	if err != nil {
		return err
	}
	m.system, err = processes.Start(ctx, processes.Config{Bank: m.bank, Desk: sandbox.Desk{}, Issuer: m.issuer(), Poster: poster, Listener: m.metrics,
		Chains: m.chains, Accounts: m.config.CheckoutAccounts, Prices: sandbox.Prices{}, Ramp: m.ramp,
		OutboundCalls: m.shares.calls,
		Config: actors.Config{Journal: m.journal, Authorizer: m.authorizer, Sealer: m.sealer,
			Secrets: m.config.Fingerprints(m.journal.Identity().Deployment), Clock: m.Clock, ClockSuspect: m.clockSuspect,
			Entropy: m.Entropy, Logger: m.log, Fatal: m.Fatal}})
	if missing, ok := errors.AsType[actors.MissingSecret](err); ok {
		return settings.MissingSecret(m.config.DataDir, missing.Name)
	}
	if errors.Is(err, actors.ErrStores) {
		return err
	}
	if err != nil {
		return mayPass(err)
	}
	m.onClose(m.stopSystem)
	return nil
}

func (m *Main) stopSystem() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastRelayWithin)
	defer cancel()
	if err := m.system.RelayAll(ctx); err != nil {
		m.log.Info("the next start relays what is left", "err", err)
	}
	m.system.Stop()
	return nil
}

// webhookGuard decides where webhook endpoints may lead.
func (m *Main) webhookGuard() *webhook.Guard { return webhook.NewGuard(m.config.PrivateWebhooks, nil) }

// issuer is the card issuing partner; nil where cards are stand-ins.
func (m *Main) issuer() partner.Issuer {
	if m.config.Issuer == httpapi.IssuerConnected {
		return sandbox.Issuer{}
	}
	return nil
}

// openRamp opens the ramp of the sandbox.
func (m *Main) openRamp(context.Context) (err error) {
	post := func(path string) sandbox.Reporter {
		return sandbox.NewHTTPReporter(m.partnerClient(), restInProcess, path,
			settings.ReportSigner(m.config.PartnerSecrets.SecretsOf(httpapi.PartnerRamp)[0], m.Clock))
	}
	m.ramp, err = sandbox.NewRamp(sandbox.Config{Dir: datadir.RampDir(m.config.DataDir), Delay: m.config.SandboxDelay,
		Clock: m.Clock, Report: post(httpapi.PathOnrampReports),
		Log: func(order string, attempt int, err error) {
			m.log.Warn("the sandbox ramp's report was not taken", "order", order, "attempt", attempt, "err", err)
		}}, post(httpapi.PathOfframpReports))
	if err == nil {
		m.onClose(m.ramp.Close)
	}
	return datadir.WithRepair(err, datadir.RampDir(m.config.DataDir), datadir.RepairSandbox)
}

// startBank lets the bank in this process report, now that its reports can be taken.
func (m *Main) startBank(context.Context) error {
	if m.sandbox != nil {
		m.runPartner(m.sandbox.Run)
	}
	return nil
}

// startRamp lets the ramp report.
func (m *Main) startRamp(context.Context) error {
	m.runPartner(m.ramp.Run)
	return nil
}

// restInProcess is the base URL of the REST server for partners in this process. They reach it
// without a socket, so without TLS and without the PROXY protocol.
const restInProcess = "http://purser"

// partnerClient returns the HTTP client of a partner in this process.
func (m *Main) partnerClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return m.reports.Dial() }}}
}

// runPartner runs a partner in this process until the close.
func (m *Main) runPartner(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			m.fail(err)
		}
	})
	m.onClose(func() error {
		cancel()
		running.Wait()
		return nil
	})
}
