// Package bench is the load harness: it sends requests over the wire, measures until the answer,
// and compares every answer with the expected one. It imports no other package of this project. It
// knows the addresses of a server, the card network's secret and the interface, and makes its own
// users, workspaces, dollars and cards.
//
// A load is one or more streams of requests at the same time. In a closed loop each connection
// sends its next request when the last one is answered. In an open loop requests are due at a rate,
// and a latency counts from the due time, not from the time of sending. A stall of the server is
// thus charged to every request that it delays. Requests that are unsent at the end are counted
// apart.
//
// Every run measures the machine before and after its loads: a synced write, and an empty HTTP
// handler with the same client. The report has each figure as a ratio to the faster of both too,
// because ratios compare between machines. The client shares the machine with the server.
//
// A run fails on a wrong answer, a missing one, or dollars that do not add up, and on no figure.
// The first wrong answer ends it.
//
// Files: bench.go (runs), stream.go (connections, loops and recording), traffic.go (requests and
// their judgement), portfolio.go (workspaces, cards and dollars), kill.go, compare.go, wire.go (the
// HTTP client), process.go (the machine, the server's process and metrics), yardstick.go,
// report.go, page.go.
package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Spreads: which cards are swiped, updated and read.
const (
	SpreadZipf      = "zipf"      // all, the first far more often than the last
	SpreadUniform   = "uniform"   // all alike
	SpreadCard      = "card"      // one
	SpreadWorkspace = "workspace" // those of one workspace
)

// Limits of a run.
const (
	MaxConnections = 4096
	MaxRate        = 1_000_000 // a second
	MaxDuration    = 48 * time.Hour
	MaxCards       = 10_000_000
	MaxWorkspaces  = 1000 // per user
	maxDeclines    = 90   // percent
)

// Target is where a server listens: base URLs, such as http://127.0.0.1:8080, and the card
// network's secret. Without REST the server has no cards of its own; without Admin no metrics are
// read.
type Target struct {
	REST, Network, Admin, Secret string
	// Authorities sign the server's certificate under https; nil: those of this machine.
	Authorities *x509.CertPool
	// Process returns the id of the server's process on this machine; nil: unknown.
	Process func() int
}

// OverTLS returns the target with https URLs of REST and the card network, and the authorities that
// sign the server's certificate.
func (t Target) OverTLS(authorities *x509.CertPool) Target {
	t.REST = strings.Replace(t.REST, "http:", "https:", 1)
	t.Network = strings.Replace(t.Network, "http:", "https:", 1)
	t.Authorities = authorities
	return t
}

// Server is a server that a load may kill and start again.
type Server interface {
	// Kill ends the process as kill -9 does and returns when it is gone. It returns an error when
	// the process had ended before.
	Kill() error
	// Start launches it again on the same addresses and returns without waiting for it.
	Start() error
}

// Stream is one kind of requests over a number of connections, each with one request under way.
type Stream struct {
	Kind        string
	Connections int
	Rate        int // requests due a second; 0: a closed loop
}

const defaultConnections = 64

// UnmarshalText reads KIND[:CONNECTIONS][@RATE]; a stream has 64 connections unless it says
// otherwise. It fails for an unknown kind and for numbers out of bounds.
func (s *Stream) UnmarshalText(text []byte) (err error) {
	rest, rate, hasRate := strings.Cut(string(text), "@")
	kind, connections, hasConnections := strings.Cut(rest, ":")
	*s = Stream{Kind: kind, Connections: defaultConnections}
	if hasConnections {
		s.Connections, err = strconv.Atoi(connections)
	}
	if hasRate && err == nil {
		s.Rate, err = strconv.Atoi(rate)
	}
	if err == nil && hasRate && s.Rate == 0 {
		err = errors.New("a rate is from 1")
	}
	if err = cmp.Or(err, s.validate()); err != nil {
		return fmt.Errorf("stream %q is not KIND[:CONNECTIONS][@RATE]: %w", text, err)
	}
	return nil
}

func (s *Stream) validate() error {
	switch {
	case kinds[s.Kind] == nil:
		return fmt.Errorf("no kind %q, want %s", s.Kind, strings.Join(Kinds(), ", "))
	case s.Connections < 1 || s.Connections > MaxConnections:
		return fmt.Errorf("connections must be from 1 to %d", MaxConnections)
	case s.Rate < 0 || s.Rate > MaxRate:
		return fmt.Errorf("a rate must be at most %d a second", MaxRate)
	}
	return nil
}

// String is the text that UnmarshalText reads.
func (s Stream) String() string {
	text := fmt.Sprintf("%s:%d", s.Kind, s.Connections)
	if s.Rate > 0 {
		text += fmt.Sprintf("@%d", s.Rate)
	}
	return text
}

// MarshalText returns String.
func (s Stream) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Load is a set of streams at the same time.
type Load struct {
	Name     string // before the stream, in each name of a stage; none when empty
	Streams  []Stream
	Duration time.Duration
	Spread   string // SpreadZipf when empty
	// Kill kills the server at the end of the duration and starts it again, while the streams go on
	// until it has answered a swipe rightly.
	Kill bool
}

// Config is a run: the server, the loads and their data.
type Config struct {
	Target     Target
	Server     Server // needed by a load that kills
	Loads      []Load
	Cards      int
	Workspaces int
	Declines   int    // percent of the swipes
	Seed       uint64 // of cards, merchants and amounts
	// Yardstick is how long each measurement of the machine takes: synced writes in DiskDir, and
	// Empty, the base URL of a handler that does nothing. At 0 nothing is measured.
	Yardstick time.Duration
	DiskDir   string
	Empty     string
	// Progress is called for each of the 120 samples of a load, at most ten times a second, from
	// one goroutine at a time. It may be nil.
	Progress func(Progress)
}

// Progress is the state of a run. Done is from 0 to 1.
type Progress struct {
	Stage     string
	Done      float64
	PerSecond float64
	P99       time.Duration // in the last interval
}

// Validate returns an error that names every fault, or nil.
func (c *Config) Validate() error {
	var faults []error
	check := func(good bool, format string, args ...any) {
		if !good {
			faults = append(faults, fmt.Errorf("bench: "+format, args...))
		}
	}
	check(c.Target.Network != "" && c.Target.Secret != "", "the card network's address and secret are needed")
	check(c.Cards >= 1 && c.Cards <= MaxCards, "cards must be from 1 to %d", MaxCards)
	check(c.Workspaces >= 1 && c.Workspaces <= min(MaxWorkspaces, c.Cards),
		"workspaces must be from 1 to %d, and no more than the cards", MaxWorkspaces)
	check(c.Declines >= 0 && c.Declines <= maxDeclines, "declines must be from 0 to %d percent", maxDeclines)
	check(c.Yardstick >= 0 && c.Yardstick <= time.Minute, "a yardstick takes at most a minute")
	check(len(c.Loads) > 0, "a run has at least one load")
	for _, l := range c.Loads {
		check(len(l.Streams) > 0, "a load has at least one stream")
		check(l.Duration > 0 && l.Duration <= MaxDuration, "duration must be at most %s", MaxDuration)
		check(slices.Contains([]string{"", SpreadZipf, SpreadUniform, SpreadCard, SpreadWorkspace}, l.Spread),
			"no spread %q", l.Spread)
		check(!l.Kill || c.Server != nil, "a load that kills needs a server of the run's own")
		updating := 0
		for _, s := range l.Streams {
			if err := s.validate(); err != nil {
				check(false, "%w", err)
			}
			if s.Kind == CardUpdates {
				updating++
				check(s.Connections <= c.Cards, "%s needs a card for each of %d connections", s.Kind, s.Connections)
			}
		}
		check(updating <= 1, "a card has one writer: at most one stream of %s", CardUpdates)
	}
	return errors.Join(faults...)
}

// Run measures the machine, makes cards, and runs the loads one after another. It fails for a
// faulty configuration, for a server that does not answer, and when ctx ends; the report then has
// the finished part. A wrong or missing answer is no error: Report.Failed tells, and no load
// follows.
func Run(ctx context.Context, c Config) (Report, error) {
	r, report, err := beginRun(ctx, c)
	for i := 0; err == nil && i < len(r.Loads) && !report.Failed(); i++ {
		var stages []Stage
		stages, err = r.runLoad(ctx, &r.Loads[i])
		report.addStages(stages)
	}
	if err == nil && !report.Failed() {
		err = r.measureMachine(ctx, &report)
	}
	return report, err
}

// run is the state of a run against one server.
type run struct {
	Config
	id       string // makes the ids of its messages its own
	cards    *portfolio
	admin    *wire // nil without metrics
	workers  int   // so far; part of the ids of their messages
	killing  bool  // the load kills the server
	killed   atomic.Bool
	measured time.Time // when metrics were read
	// settleWithin bounds the time without a change of a workspace's dollars.
	settleWithin time.Duration
}

// beginRun validates a configuration, measures the machine and makes the cards of a run. It fails
// like Run.
func beginRun(ctx context.Context, c Config) (*run, Report, error) {
	report := Report{Machine: describeMachine()}
	if err := c.Validate(); err != nil {
		return nil, report, err
	}
	r := newRun(c)
	err := r.probePorts()
	if err == nil {
		err = r.measureMachine(ctx, &report)
	}
	if err == nil {
		r.cards, err = r.makePortfolio(ctx)
	}
	return r, report, err
}

func newRun(c Config) *run {
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	r := &run{Config: c, id: strings.ToLower(rand.Text()[:8]), settleWithin: settleWithin}
	if c.Target.Admin != "" {
		r.admin = newWire(c.Target.Admin, nil)
	}
	return r
}

// probePorts sends the card network's port an authorization for a card that no server has. It fails
// unless the answer is a decision on it, so that a wrong address or secret is told at once.
func (r *run) probePorts() error {
	c := newWire(r.Target.Network, r.Target.Authorities)
	defer c.close()
	c.bearer = r.Target.Secret
	s := swipe{id: []byte("bench-probe-" + r.id), token: unissuedToken, cents: leastCents, currency: "USD"}
	status, answer, err := c.sendRequest("POST", authorizations, s.appendBody(nil))
	if err != nil {
		return fmt.Errorf("bench: the card network's port at %s does not answer: %w", r.Target.Network, err)
	}
	if status != 200 || string(textField(answer, "id")) != string(s.id) || textField(answer, "decision") == nil {
		return fmt.Errorf("bench: the card network's port at %s answered %d %s, want a decision: "+
			"look at the address and the secret", r.Target.Network, status, quoteBody(answer))
	}
	return nil
}

// runLoad runs one load and compares the dollars of every workspace. A difference is in the stages.
// It fails when the server does not answer any more, and when ctx ends.
func (r *run) runLoad(ctx context.Context, l *Load) ([]Stage, error) {
	r.killing = l.Kill
	r.killed.Store(false)
	r.cards.openBounds()
	before := r.measureUsage()
	streams, took, err := r.runStreams(ctx, l)
	stages := r.collectStages(l, streams)
	first := &stages[0]
	if took > 0 {
		first.addFigure("kill -9 to first correct swipe", took.Seconds(), "s")
	}
	if err == nil && !slices.ContainsFunc(stages, Stage.hasFailed) {
		began := time.Now()
		err = r.awaitSettled(ctx, stages)
		first.addFigure("until the dollars add up", time.Since(began).Seconds(), "s")
	}
	first.addUsage(before, r.measureUsage(), stages)
	first.addBacklog()
	return stages, err
}
