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
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors"
	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/actors/seal"
	"purser/authorizer"
	"purser/httpapi"
	"purser/persistence/pebblejournal"
)

// ServeCmd runs the servers.
type ServeCmd struct {
	Settings
}

// Limits of a start and a stop.
const (
	startWithin = 10 * time.Minute
	drainWithin = 20 * time.Second
	// readyPercent of the backlog's limit is where a server says that it is not ready: approvals stop there.
	readyPercent = 80
)

// Run serves until SIGTERM or SIGINT, then drains.
func (s *ServeCmd) Run() error {
	config, err := s.Config()
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := newLogger(os.Stderr, config)
	m := NewMain(config, log)
	if err := m.Start(ctx); err != nil {
		return err
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
	Clock   func() time.Time
	Entropy io.Reader
	// Fatal ends the process when a commit has failed: from then on nothing may be answered.
	Fatal func(error)

	config   Config
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *metrics
	stores   *stores
	failed   chan error
	closers  []func() error

	listeners  listeners
	memory     *fasthttputil.InmemoryListener // the simulation routes' way to the card network's server
	journal    *pebblejournal.Journal
	authorizer *authorizer.Engine
	bank       *sandbox.Bank
	system     *actors.System
	network    *authorizer.Server
	rest       *httpapi.Server
}

// NewMain makes a Main that has not started.
func NewMain(c Config, log *slog.Logger) *Main {
	m := &Main{Clock: time.Now, Entropy: rand.Reader, config: c, log: log, registry: prometheus.NewRegistry(), stores: newStores(),
		failed: make(chan error, 1), memory: fasthttputil.NewInmemoryListener()}
	m.Fatal = func(err error) {
		log.Error("a store has failed; the process ends and nothing more is answered", "err", err)
		os.Exit(1)
	}
	return m
}

// Failed hears of a server or partner that ended by itself.
func (m *Main) Failed() <-chan error { return m.failed }

// Start brings everything up, in this order. After an error nothing is left running.
func (m *Main) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for _, step := range []func(context.Context) error{
		m.takeDirectory,
		m.findSecrets,
		m.listen,
		m.startAdmin,
		m.openJournal,
		m.openAuthorizer,
		m.openBank,
		m.startActors,
		m.startNetwork,
		m.startREST,
		m.startBank,
		m.publishAddresses,
		m.openStores,
	} {
		if err := step(ctx); err != nil {
			return errors.Join(err, m.Close())
		}
	}
	m.log.Info("ready", "http", m.listeners.http.Addr().String(), "authorizer", m.listeners.authorizer.Addr().String(),
		"admin", m.listeners.admin.Addr().String(), "data", m.config.DataDir, "version", Version)
	return nil
}

// Close stops what Start has started, last first. It may be called once.
func (m *Main) Close() error {
	var faults []error
	for len(m.closers) > 0 {
		last := len(m.closers) - 1
		faults = append(faults, m.closers[last]())
		m.closers = m.closers[:last]
	}
	return errors.Join(faults...)
}

func (m *Main) onClose(do func() error) { m.closers = append(m.closers, do) }

func (m *Main) takeDirectory(context.Context) error {
	unlock, err := lockDirectory(m.config.DataDir)
	if err == nil {
		m.onClose(unlock)
	}
	return err
}

func (m *Main) findSecrets(context.Context) error { return m.config.secrets() }

// listeners are the three ports. They are bound before the stores are opened, so that a taken port is told at once.
type listeners struct{ http, authorizer, admin net.Listener }

func (m *Main) listen(context.Context) error {
	var taken []error
	for _, l := range []struct {
		to            *net.Listener
		name, address string
	}{
		{&m.listeners.http, "REST", m.config.HTTPAddr},
		{&m.listeners.authorizer, "card network", m.config.AuthorizerAddr},
		{&m.listeners.admin, "admin", m.config.AdminAddr},
	} {
		listener, err := net.Listen("tcp", l.address)
		if err != nil {
			taken = append(taken, fmt.Errorf("%s address: %w", l.name, err))
			continue
		}
		*l.to = listener
		m.onClose(func() error {
			if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil // its server has closed it
		})
	}
	if len(taken) > 0 {
		return errors.Join(taken...)
	}
	if m.config.BaseURL == "" {
		m.config.BaseURL = "http://" + m.listeners.http.Addr().String()
	}
	return nil
}

func (m *Main) openJournal(context.Context) (err error) {
	if m.journal, err = openJournal(m.config.DataDir, m.Fatal, m.note); err == nil {
		m.onClose(m.journal.Close)
	}
	return err
}

func (m *Main) note(err error) { m.log.Warn("the journal's store will try again", "err", err) }

func (m *Main) openAuthorizer(context.Context) (err error) {
	if err = authorizerBelongs(m.config.DataDir, m.journal); err != nil {
		return err
	}
	m.authorizer, err = authorizer.Open(authorizer.Options{Dir: authorizerDir(m.config.DataDir),
		Deployment: m.journal.Identity().Deployment, CacheBytes: m.config.AuthorizerCacheBytes, BacklogMax: m.config.BacklogMax,
		NoSync: !m.config.AuthorizerSync, Clock: m.Clock, Entropy: m.Entropy, Listener: m.metrics, Fatal: m.Fatal})
	if err == nil {
		m.onClose(m.authorizer.Close)
	}
	return err
}

func (m *Main) openBank(context.Context) (err error) {
	report := sandbox.Post(&http.Client{}, "http://"+reachable(m.listeners.http.Addr())+"/api/webhooks/bank-transfer")
	m.bank, err = sandbox.NewBank(sandbox.Config{Dir: filepath.Join(m.config.DataDir, "sandbox-bank"), Delay: m.config.SandboxDelay,
		Secret: m.config.PartnerSecret, Report: report, Clock: m.Clock, Log: func(deposit string, attempt int, err error) {
			m.log.Warn("the sandbox bank's report was not taken", "deposit", deposit, "attempt", attempt, "err", err)
		}})
	if err == nil {
		m.onClose(m.bank.Close)
	}
	return err
}

func (m *Main) startActors(ctx context.Context) (err error) {
	sealer, err := seal.New(m.config.DataKey, m.Entropy)
	if err != nil {
		return err
	}
	m.system, err = actors.Start(ctx, actors.Config{Journal: m.journal, Authorizer: m.authorizer, Bank: m.bank, Issuer: m.issuer(),
		Sealer: sealer, Clock: m.Clock, Entropy: m.Entropy, Logger: m.log, Listener: m.metrics, Fatal: m.Fatal})
	if err == nil {
		m.onClose(func() error { m.system.Stop(); return nil })
	}
	return err
}

// issuer is the card issuing partner; nil where cards are stand-ins.
func (m *Main) issuer() partner.Issuer {
	if m.config.Issuer == httpapi.IssuerConnected {
		return sandbox.Issuer{}
	}
	return nil
}

func (m *Main) startNetwork(context.Context) (err error) {
	m.network, err = authorizer.NewServer(authorizer.ServerOptions{Decider: m.authorizer, Secrets: m.config.NetworkSecrets, Clock: m.Clock,
		Answered: m.metrics.networkAnswered})
	if err == nil {
		m.serve("card network", m.network, m.listeners.authorizer, m.memory)
	}
	return err
}

func (m *Main) startREST(context.Context) (err error) {
	m.rest, err = httpapi.New(httpapi.Config{Actors: m.system, BaseURL: m.config.BaseURL,
		Network:        newSimulator(m.authorizer, m.config.NetworkSecrets[0], m.memory),
		PartnerSecrets: []string{m.config.PartnerSecret}, SignupClosed: !m.config.SignupOpen,
		Issuer: m.config.Issuer, DepositDelay: m.config.SandboxDelay,
		RateLimits: m.config.RateLimits, Registry: m.registry, Logger: m.log})
	if err == nil {
		m.serve("REST", m.rest, m.listeners.http)
	}
	return err
}

// startAdmin comes before the stores: a start can take minutes, and says meanwhile that it lives and is not ready.
func (m *Main) startAdmin(context.Context) (err error) {
	if m.metrics, err = newMetrics(m.registry); err != nil {
		return err
	}
	if err := m.registry.Register(newGauges(m.stores, m.look, m.log)); err != nil {
		return err
	}
	admin, err := httpapi.NewAdmin(httpapi.AdminConfig{Ready: m.ready, Registry: m.registry, Logger: m.log,
		Commands: map[string]httpapi.Command{
			"audit": m.command(func(ctx context.Context, _ []byte) (any, error) {
				return runAudit(ctx, m.journal, m.authorizer, auditPause)
			}),
			"unmatched": m.command(func(ctx context.Context, body []byte) (any, error) { return unmatchedPage(ctx, m.journal, body) }),
		}})
	if err == nil {
		m.serve("admin", admin, m.listeners.admin)
	}
	return err
}

// command runs while the stores are open; its context ends before they are closed.
func (m *Main) command(do httpapi.Command) httpapi.Command {
	return func(ctx context.Context, body []byte) (any, error) {
		open, leave, err := m.stores.enter()
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(open, cancel)()
		return do(ctx, body)
	}
}

// openStores is the last step of a start, and closing them to others the first of a stop.
func (m *Main) openStores(context.Context) error {
	m.stores.opened()
	m.onClose(m.stores.close)
	return nil
}

// ready says why the server should get no traffic: it is not up, a shard is not held, rules are not followed, or the backlog is
// near its limit. The error joins all that is so.
func (m *Main) ready() error {
	_, leave, err := m.stores.enter()
	if err != nil {
		return err
	}
	defer leave()
	return m.serving()
}

func (m *Main) serving() error {
	return errors.Join(m.system.Ready(), backlogFault(m.authorizer.Backlog(), m.authorizer.BacklogMax()))
}

func backlogFault(entries, limit int64) error {
	if entries >= limit*readyPercent/100 {
		return fmt.Errorf("%d decisions are not relayed yet", entries)
	}
	return nil
}

// server is one of the three.
type server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// serve runs a server until Close, which drains it.
func (m *Main) serve(name string, s server, on ...net.Listener) {
	var running sync.WaitGroup
	var closing atomic.Bool
	for _, listener := range on {
		running.Go(func() {
			if err := s.Serve(listener); err != nil && !closing.Load() {
				m.fail(fmt.Errorf("%s server: %w", name, err))
			}
		})
	}
	m.onClose(func() error {
		closing.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
		defer cancel()
		err := s.Shutdown(ctx)
		if err == nil {
			running.Wait()
		}
		return err
	})
}

func (m *Main) fail(err error) {
	select {
	case m.failed <- err:
	default: // one reason to stop is enough
	}
}

// startBank lets the bank report, now that its reports can be taken.
func (m *Main) startBank(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.bank.Run(ctx); err != nil {
			m.fail(err)
		}
	})
	m.onClose(func() error {
		cancel()
		running.Wait()
		return nil
	})
	return nil
}

func (m *Main) publishAddresses(context.Context) error {
	if err := publish(m.config.DataDir, m.listeners); err != nil {
		return err
	}
	m.onClose(func() error { return os.Remove(addressesFile(m.config.DataDir)) })
	return nil
}
