// Package loadtest is `purser bench`: it runs the loads of package bench against a running server
// or one of its own. Files: loadtest.go (flags, goals, reports), ownserver.go (a server that the
// run starts and kills), compare.go (two servers in turns), preflight.go (the checks before a run),
// fill.go (stores with millions of cards), empty.go (the empty handler that measures the machine).
package loadtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"purser/bench"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/cmd/purser/tuning"
)

// Command measures a running server over the wire, or one of its own.
type Command struct {
	Authorize BenchLoad    `cmd:"" help:"Swipes: approvals, and a share of declines for every reason."`
	Lifecycle BenchLoad    `cmd:"" help:"Authorize, increment, clear, refund."`
	Rest      BenchLoad    `cmd:"" help:"Card updates, card reads and treasury reads, each by itself."`
	Mixed     BenchLoad    `cmd:"" help:"Swipes at a rate, beside card updates at a rate, and reads with --read-rate."`
	Sustain   BenchLoad    `cmd:"" help:"Swipes at a rate while the backlog is watched; --search finds the highest rate that is held."`
	Recovery  BenchLoad    `cmd:"" help:"Kill a server of its own with -9 in a storm, three times; time to the first correct swipe."`
	Soak      BenchLoad    `cmd:"" help:"Random lives of cards; every answer is compared with books kept here."`
	Cards     BenchCards   `cmd:"" help:"Fill the stores of a server of its own with ten million cards and decisions; hot and cold swipes, memory, kill -9."`
	Compare   BenchCompare `cmd:"" help:"The same swipes to two servers in turns, and the ratios of their figures."`
	Empty     BenchEmpty   `cmd:"" hidden:""`
	Short     BenchShort   `cmd:"" help:"All but cards in about three minutes, against a server of its own."`
	Medians   BenchMedians `cmd:"" help:"Medians of several reports of the same loads, and what they say of the goals."`
}

// benchTarget are the flags that name the measured server.
type benchTarget struct {
	Own               bool   `name:"own" help:"Start a server for the run, on free ports, without rate limits. It takes PURSER_*, DATABASE_URL and KAFKA_BROKERS of the environment; the database must be an empty one."`
	OwnDir            string `name:"own-dir" help:"Data directory of the server that is started; a temporary one, removed afterwards, when unset."`
	HTTPAddr          string `name:"http-addr" env:"PURSER_HTTP_ADDR" default:"127.0.0.1:8080" help:"REST address of the server."`
	AuthorizerAddr    string `name:"authorizer-addr" env:"PURSER_AUTHORIZER_ADDR" default:"127.0.0.1:8081" help:"Card network address of the server."`
	AdminAddr         string `name:"admin-addr" env:"PURSER_ADMIN_ADDR" default:"127.0.0.1:8082" help:"Admin address of the server."`
	CA                string `name:"ca" help:"PEM file of the authorities that sign the server's certificate, or of that certificate: REST and the card network's port are asked by https. Plain HTTP when unset."`
	DataDir           string `name:"data-dir" env:"PURSER_DATA_DIR" default:"./data" help:"Data directory of the server, for the card network's secret."`
	NetworkSecretFile string `name:"network-secret-file" help:"Where the server keeps the card network's secret."`
	NetworkSecret     string `name:"network-secret" env:"PURSER_NETWORK_SECRET" secret:"" help:"The card network's secret, when the server was given one."`
}

// benchOptions are the flags of the run's data.
type benchOptions struct {
	benchTarget
	benchReport
	Cards      int `default:"2000" help:"Cards to make."`
	Workspaces int `default:"64" help:"Workspaces to make."`
	Declines   int `default:"10" help:"Percent of the swipes that must be declined; -1 for none."`
}

// benchReport are the flags of random data, measurements and the report.
type benchReport struct {
	Skew      float64       `default:"1.1" help:"Of the Zipf distributions of cards and merchants."`
	Seed      uint64        `default:"1" help:"Of cards, merchants and amounts."`
	DiskDir   string        `help:"A directory on the disk of the server's stores, where synced writes are measured; that of the own server, or the data directory, when unset."`
	Yardstick time.Duration `default:"2s" help:"How long each measurement of the machine takes."`
	JSON      bool          `name:"json" help:"Print the report as JSON."`
	HTML      string        `name:"html" help:"Write the report with its plots to this file."`
	Results   string        `help:"Write NAME.json, NAME.html and NAME.md into this directory."`
	Name      string        `help:"Name of the results. When unset, the workload's with the first number that no results have yet, so that runs lie side by side."`
}

// BenchLoad is one workload.
type BenchLoad struct {
	benchOptions
	Connections int           `default:"64" help:"Open at once, each with one request under way."`
	Rate        int           `help:"Requests a second; 0 for a closed loop. mixed and sustain take 5000 when unset."`
	RESTRate    int           `name:"rest-rate" default:"200" help:"Card updates a second of mixed."`
	ReadRate    int           `name:"read-rate" default:"0" help:"Card reads a second of mixed; as many of the treasury."`
	Duration    time.Duration `default:"30s" help:"How long."`
	Spread      string        `default:"zipf" enum:"zipf,card,workspace" help:"Which cards are swiped: all, one, or one workspace's."`
	Search      bool          `help:"sustain: begin with --rate and find the highest rate that is held."`
}

// Run is `purser bench authorize` and the other commands of one workload: it runs the workload that
// the command is named after. It fails when an answer is wrong or missing, and when the server
// cannot be reached.
func (b *BenchLoad) Run(chosen *kong.Context, out io.Writer) error {
	workload := chosen.Selected().Name
	if b.Rate == 0 && (workload == bench.Mixed || workload == bench.Sustain) {
		b.Rate = defaultRate
	}
	if workload == bench.Recovery {
		b.Own = true // no other server may be killed
	}
	load := bench.Load{Name: workload, Workload: workload, Connections: b.Connections, Rate: b.Rate, RESTRate: b.RESTRate,
		ReadRate: b.ReadRate, Duration: b.Duration, Spread: b.Spread, Search: b.Search}
	return b.run(out, workload, loadGoals(load), load)
}

// Defaults of loads. Goals apply to loads with these values.
const (
	defaultRate        = 5000 // per second, in an open loop
	defaultConnections = 64
	defaultRESTRate    = 200 // card updates of mixed, a second
)

// BenchShort is a set of short loads.
type BenchShort struct{ benchOptions }

// Run is `purser bench short`: it runs the short set against a server of its own and keeps the
// results. It fails when an answer is wrong or missing, and when the server does not start.
func (b *BenchShort) Run(out io.Writer) error {
	b.Own = true
	if b.Results == "" {
		b.Results = benchResults
	}
	return b.run(out, "short", shortGoals(), shortSet()...)
}

// benchResults is where the results of the short set go.
const benchResults = "bench/results"

// shortSet takes about three minutes with all that is around it.
func shortSet() []bench.Load {
	return []bench.Load{
		{Name: "authorize, 1 connection", Workload: bench.Authorize, Connections: 1, Duration: 10 * time.Second},
		{Name: "authorize, 64 connections", Workload: bench.Authorize, Duration: 15 * time.Second},
		{Name: "authorize, one card", Workload: bench.Authorize, Duration: 8 * time.Second, Spread: bench.SpreadCard},
		{Name: "authorize, one workspace", Workload: bench.Authorize, Duration: 8 * time.Second, Spread: bench.SpreadWorkspace},
		{Name: "authorize, open loop", Workload: bench.Authorize, Rate: defaultRate, Duration: 15 * time.Second},
		{Name: "mixed with writes", Workload: bench.Mixed, Rate: defaultRate, Duration: 15 * time.Second},
		{Name: "mixed with reads", Workload: bench.Mixed, Rate: defaultRate, ReadRate: 200, Duration: 15 * time.Second},
		{Name: "lifecycle", Workload: bench.Lifecycle, Duration: 8 * time.Second},
		{Name: "rest", Workload: bench.REST, Duration: 15 * time.Second},
		{Name: "sustain", Workload: bench.Sustain, Rate: defaultRate, Duration: 20 * time.Second},
		{Name: "soak", Workload: bench.Soak, Connections: 16, Duration: 10 * time.Second},
		{Name: "recovery", Workload: bench.Recovery, Duration: 2 * time.Second},
	}
}

func most(stage, quantity string, limit float64) bench.Goal {
	return bench.Goal{Stage: stage, Quantity: quantity, Limit: limit}
}

func least(stage, quantity string, limit float64) bench.Goal {
	return bench.Goal{Stage: stage, Quantity: quantity, Limit: limit, AtLeast: true}
}

// loadGoals are what a load is meant to reach, in the short set or by itself, on two cores with the
// load generator on them. One that does not do what goals are for has none; a rate that is to be
// held is judged without.
func loadGoals(l bench.Load) []bench.Goal {
	usual := cmp.Or(l.Connections, defaultConnections) == defaultConnections
	switch {
	case usual && l.Workload == bench.REST:
		updates := l.Name + ": PATCH card"
		return []bench.Goal{least(updates, bench.RatePerSec, 5_000), most(updates, bench.P99Micros, 40_000)}
	case usual && l.Workload == bench.Mixed && l.Rate == defaultRate && cmp.Or(l.RESTRate, defaultRESTRate) == defaultRESTRate &&
		l.ReadRate == 0:
		return []bench.Goal{most(l.Name+": swipes", bench.P99Micros, 5_000)}
	}
	return nil
}

// shortGoals returns the goals of the short set.
func shortGoals() []bench.Goal {
	goals := []bench.Goal{
		most("authorize, 1 connection", bench.P50OfFloor, 1.5),
		least("authorize, 64 connections", bench.RateOfEmpty, 0.55),
		least("authorize, one card", bench.RateOfSpread, 0.6),
		least("authorize, one workspace", bench.RateOfSpread, 0.6),
		most("authorize, open loop", bench.P99Micros, 2_000),
		most("authorize, open loop", bench.P999Micros, 8_000),
		most("recovery: kill 3", bench.KillMedian, 1),
	}
	for _, l := range shortSet() {
		goals = append(goals, loadGoals(l)...)
	}
	return goals
}

// cardsGoals returns the goals of a server with ten million cards and decisions, in seconds, MiB
// and shares of a limit.
func cardsGoals() []bench.Goal {
	return []bench.Goal{
		{Stage: "cards: memory full", Quantity: bench.ResidentMemory, Limit: 1536},
		{Stage: "cards: memory full", Quantity: bench.CacheOfLimit, Limit: 1.3},
		{Stage: "cards: kill 3", Quantity: bench.KillMedian, Limit: 1},
	}
}

var (
	errBench      = errors.New("requests had no answer: the report has their number; read the log of the server")
	errOwnIsPlain = errors.New("--ca: a server of the run's own speaks plain HTTP; start a server with PURSER_TLS_CERT " +
		"and name its addresses")
)

// measurement is a run against the server of a configuration: bench.Run or a comparison.
type measurement func(ctx context.Context, c bench.Config) (bench.Report, error)

// run measures one server. It fails like runMeasurement.
func (b *benchOptions) run(out io.Writer, name string, goals []bench.Goal, loads ...bench.Load) error {
	return b.runMeasurement(out, name, bench.Run, goals, loads...)
}

// runMeasurement does a measurement, until the loads are done or a signal ends it. It fails when
// the server's secret cannot be read, like runChecks, and like runOn.
func (b *benchOptions) runMeasurement(out io.Writer, name string, m measurement, goals []bench.Goal,
	loads ...bench.Load) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	c := b.config(loads...)
	c.Cards, c.Workspaces, c.Declines, c.Goals = b.Cards, b.Workspaces, b.Declines, goals
	if b.Own {
		if b.CA != "" {
			return errOwnIsPlain
		}
		return b.runOwn(ctx, out, name, b.OwnDir, m, c)
	}
	if err := b.given(&c); err != nil {
		return err
	}
	checks := targetChecks(c.Target, thisFlags)
	if c.DiskDir != "" {
		checks = append([]check{checkDisk(c.DiskDir, "--disk-dir", bench.YardstickBytes)}, checks...)
	}
	if err := runChecks(ctx, preflightWithin, checks...); err != nil {
		return err
	}
	return b.runOn(ctx, out, name, m, c)
}

func (b *benchReport) config(loads ...bench.Load) bench.Config {
	return bench.Config{Loads: loads, Skew: b.Skew, Seed: b.Seed, DiskDir: b.DiskDir, YardstickFor: b.Yardstick,
		Empty: emptyHandler}
}

// runOwn starts a server on a directory, or on a temporary one, measures it and stops it. It fails
// when the disk has no room, when the server does not start, and like runOn.
func (b *benchReport) runOwn(ctx context.Context, out io.Writer, name, dir string, m measurement,
	c bench.Config) (err error) {
	if err := runChecks(ctx, preflightWithin, ownDisk(dir)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	own, err := newOwnServer(ctx, dir, self, "serve")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.close()) }()
	c.Target, c.Server = own.target, own
	if c.DiskDir == "" {
		c.DiskDir = own.data
	}
	return b.runOn(ctx, out, name, m, c)
}

// runOn measures a server and writes the report to the places that the flags name, unless the run
// failed before it had one. Wrong and missing answers are an error, with the first wrong one.
// Missed goals are in the report.
func (b *benchReport) runOn(ctx context.Context, out io.Writer, name string, m measurement, c bench.Config) error {
	tuning.SpareProcessors()
	bar := newBar(out)
	c.Progress = bar.show
	report, err := m(ctx, c)
	bar.clear()
	if report.Seconds == 0 {
		return err
	}
	if err = errors.Join(err, b.deliver(&report, out, name)); err == nil && report.Failed {
		err = errBench
		if first := report.FirstDifference(); first != "" {
			err = fmt.Errorf("the run stopped at the first wrong answer: %s", first)
		}
	}
	return err
}

// given sets the target to the server that the flags name. It fails when the network's secret or
// the authority's certificate cannot be read.
func (b *benchOptions) given(c *bench.Config) error {
	secret, _, err := datadir.NetworkSecret(b.DataDir, b.NetworkSecret, b.NetworkSecretFile)
	c.Target = bench.Target{REST: adminport.URL(b.HTTPAddr), Network: adminport.URL(b.AuthorizerAddr), Secret: secret}
	if b.CA != "" {
		authorities, errCA := settings.ReadAuthorities(b.CA)
		if errCA != nil {
			err = errors.Join(err, fmt.Errorf("--ca: %w", errCA))
		}
		c.Target = c.Target.OverTLS(authorities)
	}
	if _, isUnix := adminport.SocketPath(b.AdminAddr); !isUnix { // the harness reads the server's metrics over TCP only
		c.Target.Admin = adminport.URL(b.AdminAddr)
	}
	if c.DiskDir == "" {
		if _, err := os.Stat(b.DataDir); err == nil {
			c.DiskDir = b.DataDir
		}
	}
	return err
}

// BenchMedians sets reports side by side.
type BenchMedians struct {
	Names   []string `arg:"" help:"Names of the results: short-1 short-2 short-3."`
	Results string   `default:"bench/results" help:"The directory that has them."`
	Write   bool     `help:"Write them beside the results too, as NAME-medians.md with what the names begin with in common."`
}

// Run is `purser bench medians`: it reads the reports and prints their medians. It fails like
// bench.ReadMedians, and with the disk's error.
func (b *BenchMedians) Run(out io.Writer) error {
	medians, err := bench.ReadMedians(b.Results, b.Names)
	if err != nil {
		return err
	}
	if b.Write {
		name := medians.Name() + "-medians"
		if err := writeFile(filepath.Join(b.Results, name+".md"), func(to io.Writer) error {
			return medians.WriteMarkdown(to, "purser bench "+name)
		}); err != nil {
			return err
		}
	}
	return medians.WriteTable(out)
}

// deliver prints a report, and writes the files that the flags name (HTML, results). It returns the
// errors of all files, joined. runOn calls it.
func (b *benchReport) deliver(r *bench.Report, out io.Writer, name string) error {
	if b.Name == "" {
		name = b.nameOf(name)
	} else {
		name = b.Name
	}
	title := "purser bench " + name
	html := func(to io.Writer) error { return r.WriteHTML(to, title) }
	text := func(to io.Writer) error { return json.NewEncoder(to).Encode(r) }
	var faults []error
	if b.HTML != "" {
		faults = append(faults, writeFile(b.HTML, html))
	}
	if b.Results != "" {
		faults = append(faults, os.MkdirAll(b.Results, 0o755),
			writeFile(filepath.Join(b.Results, name+".json"), text), writeFile(filepath.Join(b.Results, name+".html"), html),
			writeFile(filepath.Join(b.Results, name+".md"), func(to io.Writer) error { return r.WriteMarkdown(to, title) }))
	}
	if b.JSON {
		return errors.Join(append(faults, text(out))...)
	}
	return errors.Join(append(faults, r.WriteTable(out))...)
}

// nameOf is a workload's name with the first number that no results have.
func (b *benchReport) nameOf(workload string) string {
	for i := 1; b.Results != ""; i++ {
		name := fmt.Sprintf("%s-%d", workload, i)
		if _, err := os.Stat(filepath.Join(b.Results, name+".json")); err != nil {
			return name
		}
	}
	return workload
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// BenchCards fills a server with cards and decisions and measures it.
type BenchCards struct {
	benchReport
	OwnDir      string        `name:"own-dir" help:"Data directory of the server that is filled, without stores; a temporary one, removed afterwards, when unset."`
	Cards       int           `default:"10000000" help:"Cards to fill in."`
	Decisions   int           `default:"10000000" help:"Decisions to fill in."`
	Workspaces  int           `default:"1000" help:"Workspaces that have the cards."`
	Connections int           `default:"64" help:"Open at once, each with one request under way."`
	Duration    time.Duration `default:"20s" help:"How long each of the loads takes."`
	Again       bool          `help:"Measure what an earlier run has filled into --own-dir, with the same numbers of cards and workspaces, within a week: then the holds of the fill end."`
}

// Run is `purser bench cards`: it fills a directory, starts a server on it and measures it. It
// fails like fillStores and runOwn.
func (b *BenchCards) Run(out io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	dir := b.OwnDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "purser-bench-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if err := runChecks(ctx, preflightWithin, ownDisk(dir)); err != nil {
		return err
	}
	s := stock{cards: b.Cards, workspaces: b.Workspaces}
	if !b.Again {
		bar := newBar(out)
		err = fillStores(ctx, dir, s, b.Decisions, bar.show)
		bar.clear()
	}
	if err != nil {
		return err
	}
	c := b.config(bench.Load{Workload: bench.Cards, Connections: b.Connections, Duration: b.Duration})
	c.Cards, c.Workspaces, c.Goals = b.Cards, b.Workspaces, cardsGoals()
	if c.Stock, err = s.in(dir); err != nil {
		return err
	}
	return b.runOwn(ctx, out, bench.Cards, dir, bench.Run, c)
}

// bar shows the progress of a run on a terminal.
type bar struct{ out io.Writer }

const barWidth = 30

// newBar returns a progress bar on out, or one that shows nothing when out is no terminal.
func newBar(out io.Writer) *bar {
	file, ok := out.(*os.File)
	if !ok {
		return &bar{}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return &bar{}
	}
	return &bar{out: out}
}

// show draws the progress over the bar's line. A bar without a terminal draws nothing.
func (b *bar) show(p bench.Progress) {
	if b.out == nil {
		return
	}
	full := int(p.Done * barWidth)
	fmt.Fprintf(b.out, "\r\033[K[%s%s] %3.0f %% %s", strings.Repeat("█", full), strings.Repeat("·", barWidth-full), 100*p.Done,
		p.Stage)
	if p.PerSecond > 0 {
		fmt.Fprintf(b.out, "  %.0f/s", p.PerSecond)
	}
	if p.P99 > 0 {
		fmt.Fprintf(b.out, "  p99 %s", p.P99.Round(10*time.Microsecond))
	}
}

func (b *bar) clear() {
	if b.out != nil {
		fmt.Fprint(b.out, "\r\033[K")
	}
}
