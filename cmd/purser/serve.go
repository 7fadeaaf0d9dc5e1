package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors"
	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/actors/processes"
	"purser/actors/seal"
	"purser/authorizer"
	"purser/authorizer/front"
	"purser/cmd/purser/buildinfo"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/cmd/purser/tuning"
	"purser/httpapi"
	"purser/httpapi/webhook"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/kafka"
	"purser/persistence/pebblejournal"
	"purser/persistence/postgres"
)

// serveCommand runs the servers.
type serveCommand struct {
	settings.Settings
}

// Limits of a start and a stop.
const (
	startWithin = 10 * time.Minute
	drainWithin = 20 * time.Second
	// lastRelayWithin bounds the time in which a stop relays decisions. The next start relays the
	// rest.
	lastRelayWithin = 2 * time.Second
	// readyPercent of the backlog's limit makes the server unready. Approvals stop there too.
	readyPercent = 80
)

// Run is `purser serve`: it serves until SIGTERM or SIGINT, then drains. It fails for an unknown or
// faulty setting, for a step of the start that fails, and for a server that ends by itself.
func (s *serveCommand) Run(out io.Writer) error {
	config, err := s.Config()
	log := settings.NewLogger(os.Stderr, config)
	slog.SetDefault(log) // the stores'
	log.Info("starting", "version", buildinfo.Version, "revision", buildinfo.Revision())
	if warned := warnUnknownSettings(log, os.Environ()); warned != nil {
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
	m := newDaemon(config, log)
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

// daemon is a running server process with its stores. Start runs its steps in order, Close undoes
// them in reverse.
type daemon struct {
	// Clock returns trusted time; nil: Start derives it from the machine's clocks.
	Clock   func() time.Time
	Entropy io.Reader
	// DiskFree returns the free bytes of a directory's disk.
	DiskFree func(dir string) (int64, error)
	// Fatal ends the process after a failed commit, because no later answer would be reliable.
	Fatal func(error)

	config    settings.Config
	clocks    machineClocks
	trusted   *trustedClock    // nil: Clock is not guarded, as in tests
	wallTime  func() time.Time // the time on other machines; Clock where a test has given one
	log       *slog.Logger
	registry  *prometheus.Registry
	metrics   *metrics
	outbox    *outbox
	inbox     *inbox
	consumers []namedConsumer
	failed    chan error
	cleanup   cleanupStack
	waiting   waiting
	swipes    *gate // open as long as the authorizer is
	stores    *gate // open as long as all stores and the actors are

	development []string // settings that are for development only
	disk        *diskGuard
	shares      descriptorShares
	bodies      *front.Budget // memory for request bodies
	edge        *edge
	listeners   listeners
	memory      *fasthttputil.InmemoryListener // the simulation routes' way to the card network's server
	hangups     chan os.Signal                 // SIGHUP: the certificate's files are looked at
	network     *networkDesk
	desk        *operatorDesk
	api         *httpapi.Server // set before operators are admitted
	rest        *httpapi.Front
	journal     persistence.Journal
	authorizer  *authorizer.Engine
	partners    partners
	system      *processes.Product
	sealer      *seal.Sealer
	chains      []partner.Chain
	// sandboxChains are the simulated chains; nil when there are none.
	sandboxChains *sandbox.Chains
	topic         *kafka.Topic // nil: no Kafka
	// stopNetwork and stopREST drain the servers, the first time.
	stopNetwork, stopREST func() error
}

// newDaemon returns a daemon that has not started. It opens nothing.
func newDaemon(c settings.Config, log *slog.Logger) *daemon {
	m := &daemon{DiskFree: datadir.FreeBytes, clocks: systemClocks(), Entropy: rand.Reader, config: c, log: log,
		registry:  prometheus.NewRegistry(),
		consumers: consumers(), swipes: newGate(), stores: newGate(), failed: make(chan error, 1),
		memory: fasthttputil.NewInmemoryListener(), partners: partners{reports: fasthttputil.NewInmemoryListener(), log: log},
		hangups: make(chan os.Signal, 1), edge: newEdge()}
	m.disk = newDiskGuard(c, func(dir string) (int64, error) { return m.DiskFree(dir) }, log)
	m.Fatal = func(err error) {
		log.Error("a store has failed; the process ends and nothing more is answered", "err", err)
		os.Exit(1)
	}
	return m
}

// Failed receives the error of a server or partner that ended by itself.
func (m *daemon) Failed() <-chan error { return m.failed }

// step is a part of the start. It pushes the cleanup of the parts that it has started.
type step = func(context.Context) error

// localSteps are the steps of a start that need nothing but this machine.
func (m *daemon) localSteps() []step {
	return []step{
		m.shareEdge,
		m.takeDirectory,
		m.startDisk,
		m.startClock,
		m.findSecrets,
		m.listen,
		m.startAdmin,
		m.followCertificate,
		m.startNetwork,
		m.startREST,
		m.publishAddresses,
		m.serveSwipesAlone,
	}
}

// journalSteps are the steps of a start that need the journal.
func (m *daemon) journalSteps() []step {
	return []step{
		m.openStores,
		m.openPartners,
		func(ctx context.Context) error { return m.trusted.trustJournal(ctx, m.journal) },
		m.openAuthorizer,
		m.openChains,
		m.startActors,
		m.startPublisher,
		m.startConsumers,
		m.admitSwipes,
		m.admitRequests,
		m.startPartners,
		m.admitOperators,
	}
}

// Start starts every part. With the journal in the data directory all parts run when it returns. It
// waits for a journal in Postgres in the background, without a limit. Meanwhile swipes are answered
// if the data directory has the authorizer's store, and requests get an error that nothing changed.
// After an error no part is left running. It fails with the error of the first step that fails, or
// when local steps take longer than startWithin. An error of the background wait reaches Failed.
func (m *daemon) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	err := runSteps(ctx, m.localSteps())
	switch {
	case err == nil && m.config.DatabaseURL == "":
		err = runSteps(ctx, m.journalSteps())
	case err == nil:
		m.waiting.begin(m.awaitJournal)
	}
	if err != nil {
		return errors.Join(err, m.Close())
	}
	return nil
}

// runSteps runs steps in order and returns the error of the first that fails.
func runSteps(ctx context.Context, steps []step) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close undoes the steps of Start, newest first. It may be called once. It returns the joined
// errors of the steps' cleanups.
func (m *daemon) Close() error {
	m.waiting.end()
	return m.cleanup.closeTo(0)
}

func (m *daemon) takeDirectory(context.Context) error {
	unlock, err := datadir.Lock(m.config.DataDir)
	if err == nil {
		m.cleanup.push(unlock)
	}
	return err
}

func (m *daemon) findSecrets(context.Context) error {
	m.development = m.config.DevelopmentOnly()
	return m.config.FindSecrets()
}

// openStores opens the journal, and beside it the authorizer's store that goes with a journal in
// the data directory: what a killed process has left is read from both at once. It fails as
// openJournal and openEngine do.
func (m *daemon) openStores(ctx context.Context) error {
	if m.config.DatabaseURL != "" || !authorizer.Exists(nil, datadir.AuthorizerDir(m.config.DataDir)) ||
		!pebblejournal.Exists(nil, datadir.JournalDir(m.config.DataDir)) {
		return m.openJournal(ctx)
	}
	var engine *authorizer.Engine
	var failed error
	var opening sync.WaitGroup
	opening.Go(func() { engine, failed = authorizer.Open(m.engineOptions(ident.UUID{})) })
	err := m.openJournal(ctx)
	opening.Wait()
	dir := datadir.AuthorizerDir(m.config.DataDir)
	switch {
	case err != nil && failed == nil:
		return errors.Join(err, engine.Close())
	case err != nil:
		return err
	case errors.Is(failed, authorizer.ErrNoStore): // a first start ended before the store had an id
		return nil
	case failed != nil:
		return datadir.WithRepair(failed, dir, datadir.RepairEngine)
	}
	if its, journals := engine.Deployment(), m.journal.Identity().Deployment; its != journals {
		foreign := fmt.Errorf("%s: %w: deployment %x, not %x", dir, authorizer.ErrForeign, its[:], journals[:])
		return errors.Join(foreign, engine.Close())
	}
	return m.useEngine(engine)
}

// openJournal opens the journal that the settings name, in the data directory or in Postgres. An
// error is transient unless a repeat cannot help. It also fails when the secrets are not those that
// the journal has used.
func (m *daemon) openJournal(ctx context.Context) (err error) {
	use := datadir.JournalOptions{Migrate: true, Processors: m.config.Processors, Clock: m.Clock, Entropy: m.Entropy,
		OpenTables: m.shares.openTables, Fatal: m.Fatal, Note: noteRetry(m.log)}
	if m.authorizer != nil {
		use.Deployment = m.authorizer.Deployment()
	}
	m.journal, err = m.config.Stores().OpenJournal(ctx, use)
	if err != nil {
		return asTransient(err)
	}
	m.cleanup.push(m.journal.Close)
	return m.config.SecretsBelong(m.journal)
}

// noteRetry returns a function that logs an operation which the journal's store tries again by
// itself. There can be many a second, and the loops that need the store log them too. So only a
// server that lacks a resource is a warning.
func noteRetry(log *slog.Logger) func(error) {
	return func(err error) {
		level := slog.LevelDebug
		if errors.Is(err, postgres.ErrExhausted) {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, "the journal's store will try again", "err", err)
	}
}

// serveSwipesAlone opens the authorizer before the journal when the journal is in a database. The
// store has the id of its deployment. The first start of a deployment has no such store. It fails
// only when the store cannot be opened. It is the last local step of a start.
func (m *daemon) serveSwipesAlone(ctx context.Context) error {
	if m.config.DatabaseURL == "" || !authorizer.Exists(nil, datadir.AuthorizerDir(m.config.DataDir)) {
		return nil
	}
	switch err := m.openEngine(ident.UUID{}); {
	case errors.Is(err, authorizer.ErrNoStore): // a first start ended before the store had an id
		return nil
	case err != nil:
		return err
	}
	return m.admitSwipes(ctx)
}

// openAuthorizer opens the authorizer unless it is open. It fails when the journal has events and
// the authorizer's store is missing, and like openEngine.
func (m *daemon) openAuthorizer(context.Context) error {
	if m.authorizer != nil {
		return nil
	}
	if err := datadir.RequireAuthorizer(m.config.DataDir, m.journal); err != nil {
		return err
	}
	return m.openEngine(m.journal.Identity().Deployment)
}

// openEngine opens the authorizer's store of a deployment, or of its own deployment for a zero id.
// It fails with the errors of authorizer.Open, to which it adds the repair of a damaged store.
func (m *daemon) openEngine(deployment ident.UUID) error {
	engine, err := authorizer.Open(m.engineOptions(deployment))
	if err != nil {
		return datadir.WithRepair(err, datadir.AuthorizerDir(m.config.DataDir), datadir.RepairEngine)
	}
	return m.useEngine(engine)
}

func (m *daemon) engineOptions(deployment ident.UUID) authorizer.Options {
	return authorizer.Options{Dir: datadir.AuthorizerDir(m.config.DataDir), Deployment: deployment,
		CacheBytes: m.config.AuthorizerCacheBytes, OpenTables: m.shares.openTables,
		BacklogMax: m.config.BacklogMax, NoSync: !m.config.AuthorizerSync,
		Clock: m.Clock, ClockSuspect: m.trusted.isSuspect, Entropy: m.Entropy, Listener: m.metrics, Fatal: m.Fatal,
		AnswerWithin: m.config.AnswerWithin}
}

// useEngine attaches an open store to the clock and the disk guard. It closes the store when it
// fails.
func (m *daemon) useEngine(engine *authorizer.Engine) error {
	if err := m.trusted.trustAuthorizer(engine); err != nil {
		return errors.Join(err, engine.Close())
	}
	m.authorizer = engine
	m.disk.attachEngine(engine)
	m.cleanup.push(func() error {
		m.disk.detachEngine()
		m.authorizer = nil
		return engine.Close()
	})
	return nil
}

// startActors starts the actors on the open stores. It fails for an unusable data key, for a secret
// that the stores have used and the settings lack, and with actors.ErrStores for stores that do not
// belong together. Other errors are transient.
func (m *daemon) startActors(ctx context.Context) (err error) {
	if m.sealer, err = seal.New(m.config.DataKeys[0], m.Entropy, m.config.DataKeys[1:]...); err != nil {
		return err
	}
	poster, err := webhook.NewSender(webhook.SenderOptions{Guard: webhook.NewGuard(m.config.PrivateWebhooks, nil)})
	if err != nil {
		return err
	}
	m.system, err = processes.Start(ctx, processes.Config{Bank: m.partners.bank, Desk: sandbox.Desk{}, Issuer: issuerOf(&m.config), Poster: poster, Listener: m.metrics,
		Chains: m.chains, Accounts: m.config.CheckoutAccounts, Prices: sandbox.Prices{}, Ramp: m.partners.ramp,
		OutboundCalls: m.shares.calls,
		Config: actors.Config{Slack: m.config.Slack, Journal: m.journal, Authorizer: m.authorizer, Sealer: m.sealer,
			Secrets: m.config.Fingerprints(m.journal.Identity().Deployment), Clock: m.Clock, ClockSuspect: m.trusted.isSuspect,
			WallTime: m.wallTime, Entropy: m.Entropy, Logger: m.log, Fatal: m.Fatal}})
	if missing, ok := errors.AsType[actors.MissingSecret](err); ok {
		return settings.MissingSecret(m.config.DataDir, missing.Name)
	}
	if errors.Is(err, actors.ErrStores) {
		return err
	}
	if err != nil {
		return asTransient(err)
	}
	m.cleanup.push(m.stopSystem)
	return nil
}

// stopSystem relays the last decisions to the journal, for lastRelayWithin times PURSER_SLACK at
// most, and stops the actors. Decisions that are left are relayed by the next start.
func (m *daemon) stopSystem() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(m.config.Slack)*lastRelayWithin)
	defer cancel()
	if err := m.system.RelayAll(ctx); err != nil {
		m.log.Info("the next start relays what is left", "err", err)
	}
	m.system.Stop()
	return nil
}
