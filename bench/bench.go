// Package bench is the load harness: it sends requests over the wire, measures until the answer, and compares every answer with
// the expected one. It is a black box that imports no other package of this project. It knows the
// addresses of a server, the card network's secret and the interface, and creates its own users,
// workspaces, dollars and cards.
//
// A load is a closed loop or an open loop. In a closed loop each connection sends its next request
// when the last one is answered. In an open loop requests are due at a rate, and a latency counts
// from the due time, not from the time of sending. A stall of the server is thus charged to every
// request that it delays. Requests that are unsent at the end are counted apart.
//
// Every run measures the machine before and after its loads: a synced write, and an empty HTTP
// handler with the same client. The report gives each figure as a ratio to the faster of both,
// because ratios compare between machines and figures do not. The client shares the machine with
// the server.
//
// A run fails on a wrong answer, a missing one, or money that does not add up. The first wrong
// answer ends the run, and its difference has the request, the answer and advice. A run fails on no
// figure: the report lists missed goals, among them rates that were not held.
//
// A comparison (compare.go) runs one load against two servers in turns and sets their figures side
// by side, with the processor time of each server (processor.go).
package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// Workloads.
const (
	Authorize = "authorize" // swipes: approvals, and a share of declines for every reason
	Lifecycle = "lifecycle" // authorize, increment, clear, refund
	REST      = "rest"      // card updates, card reads, treasury reads, each by itself
	Mixed     = "mixed"     // swipes, and card updates beside them; reads too where they are asked for
	Sustain   = "sustain"   // swipes at a rate, while the backlog is watched
	Recovery  = "recovery"  // kill -9 in a storm, and the time to the first correct swipe
	Soak      = "soak"      // random lives of cards, every answer compared with books kept here
	Cards     = "cards"     // cards that the server has already, more than its memory holds: hot and cold swipes, memory, kill -9
)

var workloads = []string{Authorize, Lifecycle, REST, Mixed, Sustain, Recovery, Soak, Cards}

// Spreads: which cards are swiped.
const (
	SpreadZipf      = "zipf"      // all, the first far more often than the last
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
	MaxMerchants   = 1_000_000
	MaxLoads       = 32
	maxDeclines    = 90 // percent
	minSkew        = 1.0
	maxSkew        = 5.0
)

// Target is where a server listens: base URLs, such as http://127.0.0.1:8080, and the card network's secret. REST and Network may
// be https. With an empty Admin the run reads no metrics of the server.
type Target struct {
	REST, Network, Admin, Secret string
	// Authorities sign the server's certificate under https; nil: those of this machine.
	Authorities *x509.CertPool
}

// OverTLS returns the target with https URLs of REST and the card network, and the authorities that
// sign the server's certificate. The command `purser bench` calls it when the server has a
// certificate of its own authority.
func (t Target) OverTLS(authorities *x509.CertPool) Target {
	t.REST = "https://" + strings.TrimPrefix(t.REST, "http://")
	t.Network = "https://" + strings.TrimPrefix(t.Network, "http://")
	t.Authorities = authorities
	return t
}

// Server is a server that a Recovery may kill and start again.
type Server interface {
	// Kill ends the process as kill -9 does and returns when it is gone. It returns an error when
	// the process had ended before.
	Kill() error
	// Start launches it again on the same addresses and returns without waiting for it.
	Start() error
	// Stop ends the process in good order and returns when it is gone.
	Stop() error
	// PeakMemory is the highest resident memory that the process has had, in bytes; false where the system does not tell.
	PeakMemory() (int64, bool)
}

// Load is one load of a run. Zero values but for the workload have defaults.
type Load struct {
	Name        string // the workload's when empty
	Workload    string
	Connections int           // 64
	Rate        int           // a second; 0: a closed loop. Needed by Mixed and Sustain
	RESTRate    int           // card updates a second of Mixed; 200
	ReadRate    int           // card reads a second of Mixed, and as many of the treasury; none when zero
	Duration    time.Duration // 10 s; of each load of a search and of each kill of a Recovery
	Spread      string        // SpreadZipf
	Search      bool          // Sustain: find the highest rate that is held, beginning with Rate
}

// Config is a run: the server, the loads and their data.
type Config struct {
	Target Target
	Server Server // needed by Recovery
	Loads  []Load
	Goals  []Goal // judged in the report
	Cards  int    // 2,000
	// Stock are cards that the server has before the run; nil: the run creates its own. Only the
	// workload Cards uses it, and needs it.
	Stock      *Stock
	Workspaces int     // 64
	Merchants  int     // 1,000
	Skew       float64 // of the Zipf distributions; 1.1
	Declines   int     // percent of the swipes; 10; -1: none
	Seed       uint64  // of cards, merchants and amounts
	// Run makes the ids of this run its own; drawn when empty.
	Run string
	// DiskDir is a directory on the disk that the server's stores are on; the temporary one when empty.
	DiskDir string
	// Empty starts an HTTP handler that does nothing (ServeEmpty) in another process, and returns
	// its URL and a function that ends it. nil: the handler is in this process, where an exchange
	// wakes no other process.
	Empty func() (url string, end func() error, err error)
	// YardstickFor is how long each measurement of the machine takes; 2 s.
	YardstickFor time.Duration
	// Progress is called several times a second, from one goroutine at a time. It may be nil.
	Progress func(Progress)
}

// Progress is the state of a run. Done is from 0 to 1.
type Progress struct {
	Stage     string
	Done      float64
	PerSecond float64
	P99       time.Duration // in the last interval
}

// withDefaults returns the configuration with its defaults.
func (c Config) withDefaults() Config {
	c.Cards = cmp.Or(c.Cards, 2000)
	c.Workspaces = cmp.Or(c.Workspaces, 64)
	c.Merchants = cmp.Or(c.Merchants, 1000)
	c.Skew = cmp.Or(c.Skew, 1.1)
	c.Declines = cmp.Or(c.Declines, 10)
	c.Run = cmp.Or(c.Run, newRunID())
	c.DiskDir = cmp.Or(c.DiskDir, os.TempDir())
	if c.Empty == nil {
		c.Empty = emptyHere
	}
	c.YardstickFor = cmp.Or(c.YardstickFor, 2*time.Second)
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	c.Loads = slices.Clone(c.Loads)
	for i := range c.Loads {
		c.Loads[i].setDefaults()
	}
	return c
}

// newRunID draws the part of ids that makes them a run's own.
func newRunID() string { return strings.ToLower(rand.Text()[:8]) }

func (l *Load) setDefaults() {
	l.Name = cmp.Or(l.Name, l.Workload)
	l.Connections = cmp.Or(l.Connections, 64)
	l.RESTRate = cmp.Or(l.RESTRate, 200)
	l.Duration = cmp.Or(l.Duration, 10*time.Second)
	l.Spread = cmp.Or(l.Spread, SpreadZipf)
}

// faults collects the errors of a Config.
type faults []error

func (f *faults) addIf(bad bool, format string, args ...any) {
	if bad {
		*f = append(*f, fmt.Errorf("bench: "+format, args...))
	}
}

// Validate returns an error that names every fault, or nil. Run calls it first.
func (c Config) Validate() error {
	c = c.withDefaults()
	var f faults
	for _, u := range []struct{ name, value, schemes string }{{"REST", c.Target.REST, "http or https"},
		{"Network", c.Target.Network, "http or https"}, {"Admin", c.Target.Admin, "http"}} {
		parsed, err := url.Parse(u.value)
		bad := err != nil || !slices.Contains(strings.Split(u.schemes, " or "), parsed.Scheme) || parsed.Host == "" ||
			strings.Trim(parsed.Path, "/") != ""
		f.addIf(bad && (u.value != "" || u.name != "Admin"), "%s URL %q is not %s with ://host:port", u.name, u.value, u.schemes)
	}
	f.addIf(c.Target.Secret == "", "no secret of the card network")
	f.addIf(c.Cards < 1 || c.Cards > MaxCards, "cards must be from 1 to %d", MaxCards)
	f.addIf(c.Workspaces < 1 || c.Workspaces > MaxWorkspaces, "workspaces must be from 1 to %d", MaxWorkspaces)
	f.addIf(c.Merchants < 1 || c.Merchants > MaxMerchants, "merchants must be from 1 to %d", MaxMerchants)
	f.addIf(!(c.Skew > minSkew && c.Skew <= maxSkew), "skew must be over %g and at most %g", minSkew, maxSkew)
	f.addIf(c.Declines < -1 || c.Declines > maxDeclines, "declines must be from 0 to %d percent", maxDeclines)
	f.addIf(c.YardstickFor < 0 || c.YardstickFor > time.Minute, "a yardstick takes at most a minute")
	f.addIf(len(c.Loads) < 1 || len(c.Loads) > MaxLoads, "loads must be from 1 to %d", MaxLoads)
	for _, l := range c.Loads {
		f.addIf(l.Workload == Cards && c.Stock == nil, "%s: needs cards that are there already", l.Name)
		f.addIf(l.Workload == Cards && len(c.Loads) > 1, "%s: leaves no server for other loads", l.Name)
		f.addIf(l.Workload != Cards && c.Stock != nil, "%s: makes cards of its own", l.Name)
		f.addIf((l.Workload == REST || l.Workload == Mixed) && l.Connections > c.Cards,
			"%s: needs a card for each of %d connections", l.Name, l.Connections)
		l.validateLoad(&f, c.Server != nil)
	}
	return errors.Join(f...)
}

// validateLoad adds the faults of one load to f. server says whether the run can kill its server.
func (l *Load) validateLoad(f *faults, server bool) {
	check := func(bad bool, format string, args ...any) { f.addIf(bad, l.Name+": "+format, args...) }
	check(!slices.Contains(workloads, l.Workload), "no workload %q", l.Workload)
	check(l.Connections < 1 || l.Connections > MaxConnections, "connections must be from 1 to %d", MaxConnections)
	check(l.Rate < 0 || l.Rate > MaxRate, "rate must be from 0 to %d a second", MaxRate)
	check(l.RESTRate < 1 || l.RESTRate > MaxRate/3, "REST rate must be from 1 to %d a second", MaxRate/3)
	check(l.ReadRate < 0 || l.ReadRate > MaxRate/3, "read rate must be from 0 to %d a second", MaxRate/3)
	check(l.ReadRate != 0 && l.Workload != Mixed, "only %s takes a rate of reads", Mixed)
	check(l.Duration < 0 || l.Duration > MaxDuration, "duration must be at most %s", MaxDuration)
	check(!slices.Contains([]string{SpreadZipf, SpreadCard, SpreadWorkspace}, l.Spread), "no spread %q", l.Spread)
	check(l.Rate == 0 && (l.Workload == Mixed || l.Workload == Sustain), "needs a rate")
	check(l.Rate != 0 && slices.Contains([]string{REST, Recovery, Soak, Cards}, l.Workload),
		"is a closed loop and takes no rate")
	check(l.Search && l.Workload != Sustain, "only %s searches", Sustain)
	check(l.Workload == Soak && l.Connections > maxSoakConnections, "at most %d connections", maxSoakConnections)
	check(l.Workload == Cards && l.Spread == SpreadWorkspace, "does not know which cards are of one workspace")
	check((l.Workload == Recovery || l.Workload == Cards) && !server, "needs a server that it may kill")
}

// Run measures the machine, creates cards, and runs the loads one after another. It fails for a
// faulty configuration, for a server that does not answer, and when ctx ends; it then returns a
// report of the finished part. A wrong or missing answer is no error: it sets Report.Failed. The
// first wrong answer or sum ends the run. The command `purser bench` calls it.
func Run(ctx context.Context, c Config) (Report, error) {
	if err := c.Validate(); err != nil {
		return Report{}, err
	}
	began, r := time.Now(), &run{Config: c.withDefaults()}
	report, err := r.prepareReport(ctx)
	for i := 0; i < len(r.Loads) && err == nil && !foundWrong(report.Stages); i++ {
		var stages []Stage
		stages, err = r.runLoad(ctx, &r.Loads[i])
		report.Stages = append(report.Stages, stages...)
	}
	if err == nil && !foundWrong(report.Stages) {
		err = r.measureAgain(ctx, &report)
	}
	report.concludeRun(began, r.Goals)
	return report, err
}

// concludeRun judges the answers and goals of a run that began at a time, and sets the ratios. Run
// and Compare call it last.
func (r *Report) concludeRun(began time.Time, goals []Goal) {
	r.Seconds = time.Since(began).Seconds()
	r.judgeAnswers()
	r.judgeGoals(goals)
	r.setRatios()
	r.decimateSeries()
}

// run is the state of one run.
type run struct {
	Config
	desk      *desk
	cards     *portfolio
	flows     int  // so far; part of the ids of their messages
	uncounted bool // a load could not be compared: the books do not know what the workspaces have
}

// prepareReport measures the machine and creates the workspaces and cards of the run. It fails when
// the server refuses them.
func (r *run) prepareReport(ctx context.Context) (Report, error) {
	report := Report{Machine: describeMachine(), Facts: r.collectFacts(ctx)}
	err := r.measureAgain(ctx, &report)
	if err != nil {
		return report, err
	}
	if r.Stock != nil {
		r.cards = &portfolio{given: newGiven(r.Config)}
		return report, nil
	}
	return report, r.prepareCards(ctx)
}

// prepareCards creates the user, the workspaces and the cards of the run. It fails when the server
// refuses one.
func (r *run) prepareCards(ctx context.Context) (err error) {
	r.Progress(Progress{Stage: "making cards"})
	if r.desk, err = signUp(ctx, r.Target, r.Run); err == nil {
		r.cards, err = issuePortfolio(ctx, r.desk, r.Config)
	}
	return err
}

// runLoad runs one load by its workload and returns its stages. It fails with the workload's error.
func (r *run) runLoad(ctx context.Context, l *Load) ([]Stage, error) {
	if err := r.acceptBalances(ctx); err != nil {
		return nil, err
	}
	switch l.Workload {
	case Authorize:
		return r.runAndSettle(ctx, l, r.newSwipes(l))
	case Lifecycle:
		return r.runAndSettle(ctx, l, &lifecycle{run: r, pick: r.cards.picker(l.Spread)})
	case REST:
		return r.runREST(ctx, l)
	case Mixed:
		return r.runMixed(ctx, l)
	case Sustain:
		return r.runSustained(ctx, l)
	case Recovery:
		return r.runRecovery(ctx, l)
	case Soak:
		return r.runSoak(ctx, l)
	case Cards:
		return r.runExistingCards(ctx, l)
	}
	panic("BUG: a workload that was validated is not known: " + l.Workload)
}

// runAndSettle runs one flow and then compares the dollars of every workspace. A difference is in
// the stage, not in the error.
func (r *run) runAndSettle(ctx context.Context, l *Load, t traffic) ([]Stage, error) {
	stages, err := r.runFlows(ctx, l, nil, flow{traffic: t, connections: l.Connections, rate: l.Rate})
	if err == nil {
		err = r.settleWorkspaces(ctx, &stages[0])
	}
	return stages, err
}
