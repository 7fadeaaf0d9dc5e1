package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purser/authorizer/front"
	"purser/cmd/purser/adminport"
)

// The names of the ports, in logs and as a label of metrics.
const (
	portREST    = "REST"
	portNetwork = "card network"
	portAdmin   = "admin"
)

// listenAgainEvery is the pause between two attempts to open a listener that has failed.
const listenAgainEvery = time.Second

// shareEdge shares out descriptors and the memory for bodies. It is the first step of a start. It
// fails when the limit of open files is too low.
func (m *daemon) shareEdge(context.Context) error {
	limit, err := descriptorLimit()
	if err == nil {
		m.shares, err = shareDescriptors(limit, m.config.Connections)
	}
	m.bodies = front.NewBudget(m.config.BodyBudget)
	return err
}

// portServer serves one listener of a port until stopping is closed.
type portServer struct {
	name     string // the port's
	server   server
	edge     *edge
	log      *slog.Logger
	fail     func(error) // ends the process
	stopping <-chan struct{}
}

// keepServing serves from a listener until the stop. A failed listener of the card network ends the
// process, because without swipes the process is useless and a restart repairs it fastest. A
// listener of another port is opened again until that succeeds. daemon.serve runs it for each
// listener.
func (p *portServer) keepServing(ln net.Listener) {
	for {
		err := p.server.Serve(ln)
		select {
		case <-p.stopping:
			return
		default:
		}
		switch {
		case err == nil:
			return
		case p.name == portNetwork:
			p.fail(fmt.Errorf("%s server: %w", p.name, err))
			return
		}
		p.log.Error("a listener has failed and is opened again", "port", p.name, "err", err)
		p.edge.countReopened(p.name)
		if ln = p.listenAgain(ln); ln == nil {
			return
		}
	}
}

// listenAgain opens the listener of a port anew, on the address that it had. It returns nil when
// the server stops first. It tries every listenAgainEvery and logs each failure.
func (p *portServer) listenAgain(failed net.Listener) net.Listener {
	address := failed.Addr().String()
	if failed.Addr().Network() == "unix" {
		address = adminport.UnixScheme + address
	}
	if err := failed.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		p.log.Warn("a failed listener does not close", "port", p.name, "err", err)
	}
	pause := time.NewTicker(listenAgainEvery)
	defer pause.Stop()
	for {
		ln, err := adminport.Listen(address)
		if err == nil {
			return ln
		}
		p.log.Error("a port cannot be opened again yet", "port", p.name, "err", err)
		select {
		case <-p.stopping:
			return nil
		case <-pause.C:
		}
	}
}

// edge is the prometheus.Collector of the ports.
type edge struct {
	mu    sync.Mutex
	ports []*port

	open, limit, accepted, waits, refused, cut, again, unread *prometheus.Desc
}

// port is one of the ports.
type port struct {
	name   string
	limit  int
	counts func() front.Counts
	again  atomic.Int64
}

// newEdge returns the connection metrics of the server's ports, without ports yet.
func newEdge() *edge {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"port"}, labels...), nil)
	}
	return &edge{
		open:     of("purser_connections", "Connections that are open."),
		limit:    of("purser_connections_limit", "Connections that may be open."),
		accepted: of("purser_connections_accepted_total", "Connections let in."),
		waits: of("purser_accept_waits_total",
			"Accepts that failed for want of descriptors or memory, and were tried again."),
		refused: of("purser_connections_refused_total",
			"Connections refused: the port is full, their address has too many, "+
				"or too many requests of it were refused.", "reason"),
		cut: of("purser_connections_cut_total", "Connections that waited too long for a port that was filling."),
		unread: of("purser_connections_unread_total",
			"Connections that ended before HTTP: of a trusted proxy without a PROXY head, or without a TLS handshake.", "reason"),
		again: of("purser_listeners_reopened_total", "Listeners that failed and were opened again."),
	}
}

// addPort adds a port. The collector may be registered before.
func (e *edge) addPort(name string, limit int, counts func() front.Counts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ports = append(e.ports, &port{name: name, limit: limit, counts: counts})
}

// countReopened counts that the listener of a port has failed and was opened again.
func (e *edge) countReopened(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.ports {
		if p.name == name {
			p.again.Add(1)
		}
	}
}

// Describe implements prometheus.Collector.
func (e *edge) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{e.open, e.limit, e.accepted, e.waits, e.refused, e.cut, e.again, e.unread} {
		to <- d
	}
}

// Collect implements prometheus.Collector: it reads the connection counters of every port.
func (e *edge) Collect(to chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.ports {
		n := p.counts()
		send := func(d *prometheus.Desc, kind prometheus.ValueType, value int64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, kind, float64(value), append([]string{p.name}, labels...)...)
		}
		send(e.open, now, int64(n.Open))
		send(e.limit, now, int64(p.limit))
		send(e.accepted, since, n.Accepted)
		send(e.waits, since, n.Waits)
		send(e.refused, since, n.OverFull, "full")
		send(e.refused, since, n.OverPeer, "address")
		send(e.refused, since, n.OverRefused, "refusals")
		send(e.cut, since, n.Cut)
		send(e.again, since, p.again.Load())
		send(e.unread, since, n.NoHead, "proxy head")
		send(e.unread, since, n.NoHandshake, "handshake")
	}
}

// registerEdge registers the metrics of the ports and of the memory for bodies. It fails when a
// name is registered twice.
func registerEdge(registry *prometheus.Registry, e *edge, bodies *front.Budget) error {
	return registerAll(registry, e,
		gaugeOf("purser_body_budget_bytes", "Memory that request bodies may take.",
			func() float64 { return float64(bodies.Max()) }),
		gaugeOf("purser_body_bytes", "Memory that request bodies take.",
			func() float64 { return float64(bodies.Used()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "purser_bodies_refused_total",
			Help: "Request bodies refused because others took all the memory for bodies."},
			func() float64 { return float64(bodies.Refused()) }))
}
