package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"purser/actors"
	"purser/authorizer"
	"purser/authorizer/front"
	"purser/authorizer/hold"
	"purser/authorizer/network"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/buildinfo"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/storecare"
	"purser/cmd/purser/tuning"
	"purser/httpapi"
	"purser/httpapi/mail"
	"purser/httpapi/password"
	"purser/httpapi/webhook"
	"purser/persistence"
)

// listeners are the three ports. They are bound before the stores are opened, so that a start with
// a taken port fails at once.
type listeners struct{ http, authorizer, admin net.Listener }

// listen opens the three ports of the settings. It fails with an error for each address that is
// taken or not usable. It is a step of the start.
func (m *daemon) listen(context.Context) error {
	var taken []error
	for _, l := range []struct {
		to            *net.Listener
		name, address string
	}{
		{&m.listeners.http, portREST, m.config.HTTPAddr},
		{&m.listeners.authorizer, portNetwork, m.config.AuthorizerAddr},
		{&m.listeners.admin, portAdmin, m.config.AdminAddr},
	} {
		listener, err := adminport.Listen(l.address)
		if err != nil {
			taken = append(taken, fmt.Errorf("%s address: %w", l.name, err))
			continue
		}
		*l.to = listener
		m.cleanup.push(func() error {
			if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil // the server has closed it
		})
	}
	if len(taken) > 0 {
		return errors.Join(taken...)
	}
	if m.config.BaseURL == "" {
		m.config.BaseURL = m.config.URLOf(m.listeners.http.Addr().String())
	}
	return nil
}

// networkDesk passes the card network's messages to the authorizer. Without one it answers that
// nothing was decided.
type networkDesk struct {
	engine atomic.Pointer[authorizer.Engine]
}

// Submit implements hold.Decider for the card network's server. Until the authorizer is open it
// answers StatusFull, for which the network repeats a message.
func (d *networkDesk) Submit(message *hold.Message) hold.Answer {
	if engine := d.engine.Load(); engine != nil {
		return engine.Submit(message)
	}
	return hold.Answer{Status: hold.StatusFull, ID: message.ID, Message: "the server is starting; nothing was decided"}
}

// startNetwork starts the card network's server, which answers 503 until admitSwipes. It fails for
// an unusable setting. It is a step of the start.
func (m *daemon) startNetwork(context.Context) error {
	m.network = &networkDesk{}
	server, err := network.New(network.Options{Decider: m.network, Secrets: m.config.NetworkSecrets, Clock: m.Clock,
		Answered: m.metrics.networkAnswered, MaxConnections: m.shares.network,
		MaxPerPeer: m.config.Connections.PerAddress, AtOnce: tuning.UnauthenticatedAtOnce(m.config.Processors),
		Refusals: m.config.Refusals, Proxies: m.config.Proxies.Trusted, ProxyProtocol: m.config.Proxies.Network,
		TLS: m.config.Certificate.ServerConfig(), AnswerWithin: m.config.AnswerWithin})
	if err == nil {
		m.edge.addPort(portNetwork, m.shares.network, server.Counts)
		m.stopNetwork = m.serve(portNetwork, server, m.listeners.authorizer, m.memory)
	}
	return err
}

// admitSwipes connects the card network's server with the authorizer, until either is closed. A
// second call does nothing. It is a step of the start.
func (m *daemon) admitSwipes(context.Context) error {
	if m.network.engine.Swap(m.authorizer) != nil {
		return nil
	}
	m.swipes.opened()
	m.cleanup.push(m.swipes.close)
	m.cleanup.push(m.stopNetwork)
	return nil
}

// startREST starts the REST port, which answers 503 until admitRequests. It is a step of the start.
func (m *daemon) startREST(context.Context) error {
	m.rest = httpapi.NewFront(m.config.BaseURL, front.Options{Connections: m.shares.rest,
		PerPeer: m.config.Connections.PerAddress, AtOnce: tuning.UnauthenticatedAtOnce(m.config.Processors),
		Refusals: m.config.Refusals, Bodies: m.bodies, Proxies: m.config.Proxies.Trusted,
		ProxyProtocol: m.config.Proxies.REST, TLS: m.config.Certificate.ServerConfig()}, m.log)
	m.edge.addPort(portREST, m.shares.rest, m.rest.Counts)
	m.stopREST = m.serve(portREST, m.rest, m.listeners.http, m.partners.reports)
	return nil
}

// admitRequests connects the REST server with the actors, until either is closed. It fails with the
// errors of httpapi.New. It is a step of the start.
func (m *daemon) admitRequests(context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	worker := password.NewWorker(self, passwordWorker, "--nice", strconv.Itoa(m.config.PasswordNice))
	m.cleanup.push(worker.Close)
	var mailer mail.Sender // stays nil without a mail server
	if m.config.Mailer != nil {
		mailer = m.config.Mailer
	}
	server, err := httpapi.New(httpapi.Config{Actors: m.system,
		RequestTimeout: time.Duration(m.config.Slack) * httpapi.RequestTimeout,
		DerivePassword: worker.Derive, BaseURL: m.config.BaseURL,
		Network:        newSimulator(m.authorizer, m.config.NetworkSecrets[0], m.memory),
		PartnerSecrets: m.config.PartnerSecrets.ByPartner(), PartnerSignatures: m.config.PartnerSignatures,
		Mail:         mailer,
		SignupClosed: !m.config.SignupOpen, Issuer: m.config.Issuer, NoPhysical: !m.config.PhysicalCards,
		NoCurrencies: !m.config.MultiCurrency, NoRamp: !m.config.Ramp, Convert: m.config.Convert,
		DepositDelay:      m.config.SandboxDelay,
		Full:              m.disk.refusal,
		Streams:           m.shares.rest / streamsShare,
		Processors:        m.config.Processors,
		CheckoutTolerance: m.config.CheckoutTolerance,
		PayoutLimits:      m.config.PayoutLimits, RateLimits: m.config.RateLimits, Elapsed: m.clocks.elapsed,
		WebhookGuard: webhook.NewGuard(m.config.PrivateWebhooks, nil), Registry: m.registry, Logger: m.log})
	if err != nil {
		return err
	}
	m.api = server
	m.rest.Open(server)
	m.cleanup.push(m.stopREST)
	return nil
}

// startAdmin starts the admin port before the stores are opened. A start can take minutes, in which
// the port reports a live process that is not ready. It fails when a metric cannot be registered.
// It is a step of the start.
func (m *daemon) startAdmin(context.Context) (err error) {
	if m.metrics, err = newMetrics(m.registry, m.Clock); err != nil {
		return err
	}
	if err := errors.Join(m.registerGauges(), registerEdge(m.registry, m.edge, m.bodies)); err != nil {
		return err
	}
	admin, err := httpapi.NewAdmin(httpapi.AdminConfig{Ready: m.ready, Build: buildinfo.Build(),
		Registry: m.registry, Logger: m.log, Edge: front.Options{Connections: adminConnections},
		Names:    m.config.AdminHosts,
		Operator: m.operatorPages(), Commands: m.operatorCommands()})
	if err == nil {
		m.edge.addPort(portAdmin, adminConnections, admin.Counts)
		m.serve(portAdmin, admin, m.listeners.admin)
	}
	return err
}

// operatorCommands are the commands of the admin port. An audit reads every store
// and a backup copies them, so one of each runs at a time.
func (m *daemon) operatorCommands() map[string]httpapi.Command {
	return map[string]httpapi.Command{
		"audit": {AtOnce: 1, Do: m.stores.whileOpen(func(ctx context.Context, _ []byte) (any, error) {
			report, err := storecare.Audit(ctx, m.config.Stores(), m.journal, m.authorizer, storecare.AuditPause)
			m.desk.noteAudit(report, err)
			return report, err
		})},
		"backup": {AtOnce: 1, Do: m.stores.whileOpen(func(ctx context.Context, body []byte) (any, error) {
			return storecare.AnswerBackup(ctx, m.backedUp(), m.config.BackupsIn(), body, m.Clock())
		})},
		"unmatched": {Do: m.stores.whileOpen(func(ctx context.Context, body []byte) (any, error) {
			return storecare.AnswerUnmatched(ctx, m.journal, m.sealer, body)
		})},
		"relay": {AtOnce: 1, Do: m.stores.whileOpen(func(ctx context.Context, body []byte) (any, error) {
			return storecare.AnswerRelay(ctx, m.system, body)
		})},
		"payouts": {AtOnce: 1, Do: m.stores.whileOpen(func(ctx context.Context, body []byte) (any, error) {
			return storecare.AnswerPayouts(ctx, m.system, body)
		})},
		"reset-password": {Do: m.stores.whileOpen(func(ctx context.Context, body []byte) (any, error) {
			return answerReset(ctx, m.api, body)
		})},
		"data-keys": {Do: m.stores.whileOpen(func(ctx context.Context, _ []byte) (any, error) {
			return actors.DataKeysInUse(ctx, m.journal)
		})},
		"secret": {Do: m.stores.whileOpen(func(_ context.Context, body []byte) (any, error) {
			return storecare.AnswerSecret(&m.config, body)
		})},
		"nacha": {Do: m.stores.whileOpen(func(ctx context.Context, body []byte) (any, error) {
			return storecare.AnswerNacha(ctx, m.partners.bank, body)
		})},
		"clock": {Do: m.trusted.answerCommand},
		"sandbox-pay": {Do: m.stores.whileOpen(func(ctx context.Context, body []byte) (any, error) {
			return payOnSandbox(ctx, m.sandboxChains, body)
		})},
		"sandbox-reorganise": {Do: m.stores.whileOpen(func(ctx context.Context, body []byte) (any, error) {
			return reorganiseSandbox(ctx, m.sandboxChains, body)
		})},
	}
}

// backedUp returns the open stores for a backup.
func (m *daemon) backedUp() storecare.OpenStores {
	return storecare.OpenStores{Data: m.config.DataDir, Room: storecare.BackupRoom{Free: m.DiskFree, Reserve: m.config.DiskReserve},
		Note:    func(dir string) { m.log.Warn(storecare.ForeignBackup, "directory", dir) },
		Journal: m.journal, Authorizer: m.authorizer, Sandbox: m.partners.store.Checkpoint}
}

// admitOperators admits commands to the stores. It is the last step of a start, and its cleanup the
// first of a stop.
func (m *daemon) admitOperators(context.Context) error {
	m.stores.opened()
	m.cleanup.push(m.stores.close)
	m.log.Info("ready", "http", m.listeners.http.Addr().String(), "authorizer", m.listeners.authorizer.Addr().String(),
		"admin", m.listeners.admin.Addr().String(), "data", m.config.DataDir)
	return nil
}

// ready returns the reasons why the server should get no traffic: it is not up, a shard is not
// held, rules are not followed, the backlog is near its limit, the clock is suspect, Postgres
// refuses writes for want of a resource, or a disk has no room for approvals. The error joins all
// reasons.
func (m *daemon) ready() error {
	_, leave, err := m.stores.enter()
	if err != nil {
		return errors.Join(err, m.waiting.reason(), m.trusted.suspectReason(), m.disk.roomFault())
	}
	defer leave()
	return errors.Join(m.system.Ready(), backlogFault(m.authorizer.Backlog(), m.authorizer.BacklogMax()),
		exhaustion(m.journal), m.trusted.suspectReason(), m.disk.roomFault())
}

// exhaustion returns the error of a Postgres that refuses commits for want of a resource, or nil.
// The disk of a journal in the data directory is measured by diskGuard.
func exhaustion(journal persistence.Journal) error {
	if server, ok := journal.(interface{ Exhausted() error }); ok {
		return server.Exhausted()
	}
	return nil
}

// backlogFault returns an error when the entries are at least readyPercent of the limit.
func backlogFault(entries, limit int64) error {
	if entries >= limit*readyPercent/100 {
		return fmt.Errorf("%d decisions are not relayed yet", entries)
	}
	return nil
}

// server is one of the three servers.
type server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// serve runs a server on listeners until stop, which drains it. Close calls stop too. stop fails
// with the context's error when requests still run after drainWithin times PURSER_SLACK.
func (m *daemon) serve(name string, s server, on ...net.Listener) (stop func() error) {
	var running sync.WaitGroup
	stopping := make(chan struct{})
	for _, listener := range on {
		p := &portServer{name: name, server: s, edge: m.edge, log: m.log, fail: m.fail, stopping: stopping}
		running.Go(func() { p.keepServing(listener) })
	}
	stop = sync.OnceValue(func() error {
		close(stopping)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(m.config.Slack)*drainWithin)
		defer cancel()
		err := s.Shutdown(ctx)
		if err == nil {
			running.Wait()
		}
		return err
	})
	m.cleanup.push(stop)
	return stop
}

func (m *daemon) fail(err error) {
	select {
	case m.failed <- err:
	default: // the first reason to stop counts
	}
}

// publishAddresses writes the addresses of the ports into the data directory, where the other
// commands find them; the stop removes them. It fails with the disk's error.
func (m *daemon) publishAddresses(context.Context) error {
	if err := datadir.Publish(m.config.DataDir, datadir.Addresses{REST: adminport.Reachable(m.listeners.http.Addr()),
		Network: adminport.Reachable(m.listeners.authorizer.Addr()), Admin: adminport.Reachable(m.listeners.admin.Addr())}); err != nil {
		return err
	}
	m.cleanup.push(func() error { return os.Remove(datadir.AddressesFile(m.config.DataDir)) })
	return nil
}
