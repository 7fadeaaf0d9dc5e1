// Package loadtest is `purser bench`: it runs the loads of package bench against a running server
// or one of its own. Files: loadtest.go (commands, flags, reports), ownserver.go (a server that the
// run starts and kills).
package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"purser/bench"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/cmd/purser/tuning"
)

// Command measures a running server over the wire, or one of its own.
type Command struct {
	Load    Load    `cmd:"" default:"withargs" help:"Streams of requests at the same time; the command when no other is named."`
	Short   Short   `cmd:"" help:"Every kind of stream and a kill in about two minutes, against a server of its own."`
	Compare Compare `cmd:"" help:"The same streams against two servers in turns, and the ratios of their figures."`
	Empty   Empty   `cmd:"" hidden:""`
}

// target are the flags that name the measured server.
type target struct {
	Own               bool   `help:"Start a server for the run, on free ports, without rate limits. It takes PURSER_*, DATABASE_URL and KAFKA_BROKERS of the environment; the database must be an empty one."`
	OwnDir            string `help:"Data directory of that server; a temporary one, removed afterwards, when unset."`
	HTTPAddr          string `name:"http-addr" env:"PURSER_HTTP_ADDR" default:"127.0.0.1:8080" help:"REST address of the server."`
	AuthorizerAddr    string `env:"PURSER_AUTHORIZER_ADDR" default:"127.0.0.1:8081" help:"Card network address."`
	AdminAddr         string `env:"PURSER_ADMIN_ADDR" default:"127.0.0.1:8082" help:"Admin address."`
	CA                string `name:"ca" help:"PEM file of the authorities that sign the server's certificate: REST and the card network's port are asked by https."`
	DataDir           string `env:"PURSER_DATA_DIR" default:"./data" help:"Data directory of the server, for the card network's secret."`
	NetworkSecretFile string `help:"Where the server keeps the card network's secret."`
	NetworkSecret     string `env:"PURSER_NETWORK_SECRET" secret:"" help:"The card network's secret."`
	PID               int    `name:"pid" help:"Process of the server, for its processor time and writes; known of an own one."`
}

// options are the flags of a run.
type options struct {
	target
	Cards      int           `default:"2000" help:"Cards to make."`
	Workspaces int           `default:"64" help:"Workspaces to make."`
	Declines   int           `default:"10" help:"Percent of the swipes that must be declined."`
	Spread     string        `default:"zipf" enum:"zipf,uniform,card,workspace" help:"Which cards are used: all (zipf, uniform), one, or one workspace's."`
	Seed       uint64        `default:"1" help:"Of cards, merchants and amounts."`
	DiskDir    string        `help:"Where synced writes are measured; the server's data directory when unset."`
	Yardstick  time.Duration `default:"2s" help:"How long each measurement of the machine takes; 0s for none."`
	Out        string        `placeholder:"NAME" help:"Write NAME.json and NAME.html."`
}

// streams are the loads of one command.
type streams struct {
	Streams  []bench.Stream `arg:"" name:"stream" help:"KIND[:CONNECTIONS][@RATE]: authorize, lifecycle, card-updates, card-reads or treasury-reads, over 64 connections and in a closed loop unless told; RATE is requests a second."`
	Duration time.Duration  `default:"30s" help:"How long."`
}

// Load is one load, and kills.
type Load struct {
	options
	streams
	Kills int `help:"Kill a server of its own with -9 under the streams so many times afterwards, each after --kill-after; time to the first correct swipe."`
	// KillAfter is short, because the length of the storm matters little.
	KillAfter time.Duration `default:"5s" help:"See --kills."`
}

// Help is the text of `purser bench load --help` above the flags.
func (*Load) Help() string {
	return `Examples:
  purser bench authorize --own
  purser bench authorize@5000 card-updates@200 card-reads:64 --duration 1m
  purser bench authorize --own --cards 1000000 --spread uniform --kills 3`
}

// Run runs the load and the kills. It fails when an answer is wrong or missing, and when the server
// cannot be reached.
func (b *Load) Run(out io.Writer) error {
	loads := []bench.Load{{Streams: b.Streams, Duration: b.Duration, Spread: b.Spread}}
	for i := range b.Kills {
		b.Own = true // no other server may be killed
		loads = append(loads, bench.Load{Name: fmt.Sprint("kill ", i+1), Streams: b.Streams, Duration: b.KillAfter, Spread: b.Spread,
			Kill: true})
	}
	return b.run(out, "purser bench load", bench.Run, loads...)
}

// Short is a set of short loads.
type Short struct {
	options
	Each time.Duration `default:"8s" help:"How long each load takes."`
}

// Run runs the set against a server of its own. It fails like Load.Run.
func (b *Short) Run(out io.Writer) error {
	b.Own = true
	var loads []bench.Load
	for _, text := range []string{"authorize:1", "authorize", "authorize@5000", "lifecycle", "card-updates", "card-reads",
		"treasury-reads", "authorize@5000 card-updates@200 card-reads@200 treasury-reads@200"} {
		l := bench.Load{Duration: b.Each, Spread: b.Spread}
		for _, word := range strings.Fields(text) {
			var s bench.Stream
			if err := s.UnmarshalText([]byte(word)); err != nil {
				return err
			}
			l.Streams = append(l.Streams, s)
		}
		if len(l.Streams) > 1 {
			l.Name = "together"
		}
		loads = append(loads, l)
	}
	kill := bench.Load{Name: "kill", Streams: loads[1].Streams, Duration: b.Each / 4, Spread: b.Spread, Kill: true}
	return b.run(out, "purser bench short", bench.Run, append(loads, kill)...)
}

// measurement is a run against the server of a configuration.
type measurement func(ctx context.Context, c bench.Config) (bench.Report, error)

// run finds or starts the server, measures it, until the loads are done or a signal ends it, and
// writes the report. It fails when the server cannot be reached or started, and for a wrong or
// missing answer.
func (b *options) run(out io.Writer, title string, measure measurement, loads ...bench.Load) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	tuning.SpareProcessors()
	c := bench.Config{Loads: loads, Cards: b.Cards, Workspaces: min(b.Workspaces, b.Cards), Declines: b.Declines, Seed: b.Seed,
		DiskDir: b.DiskDir, Yardstick: b.Yardstick, Progress: progressLine(out)}
	defer c.Progress(bench.Progress{})
	if b.Own {
		own, err := newOwnServer(ctx, b.OwnDir, selfCommand("serve"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, own.close()) }()
		c.Target, c.Server = own.target, own
		if c.DiskDir == "" {
			c.DiskDir = own.data
		}
	} else if err := b.find(&c); err != nil {
		return err
	}
	if b.Yardstick > 0 {
		empty, err := newOwnServer(ctx, "", selfCommand("bench", "empty", addressPlaceholder))
		if err != nil {
			return fmt.Errorf("empty handler: %w", err)
		}
		defer func() { err = errors.Join(err, empty.close()) }()
		c.Empty = empty.target.Network
	}
	report, err := measure(ctx, c)
	report.Title = fmt.Sprintf("%s, %s", title, time.Now().UTC().Format("2006-01-02 15:04"))
	if len(report.Stages) == 0 {
		return err
	}
	c.Progress(bench.Progress{})
	err = errors.Join(err, b.write(&report, out))
	if failure := report.Failure(); failure != "" {
		err = errors.Join(err, fmt.Errorf("the run stopped at the first wrong or missing answer: %s", failure))
	}
	return err
}

// find sets the target to the server that the flags name. It fails when the network's secret or the
// authority's certificate cannot be read.
func (b *options) find(c *bench.Config) error {
	secret, _, err := datadir.NetworkSecret(b.DataDir, b.NetworkSecret, b.NetworkSecretFile)
	c.Target = bench.Target{REST: adminport.URL(b.HTTPAddr), Network: adminport.URL(b.AuthorizerAddr), Secret: secret}
	if b.CA != "" {
		authorities, errCA := settings.ReadAuthorities(b.CA)
		if errCA != nil {
			err = errors.Join(err, fmt.Errorf("--ca: %w", errCA))
		}
		c.Target = c.Target.OverTLS(authorities)
	}
	if _, isUnix := adminport.SocketPath(b.AdminAddr); !isUnix { // metrics are read over TCP only
		c.Target.Admin = adminport.URL(b.AdminAddr)
	}
	if b.PID > 0 {
		c.Target.Process = func() int { return b.PID }
	}
	if _, errStat := os.Stat(b.DataDir); c.DiskDir == "" && errStat == nil {
		c.DiskDir = b.DataDir
	}
	return err
}

// write prints a report, and writes its files when --out names them. It fails with the disk's
// error.
func (b *options) write(r *bench.Report, out io.Writer) error {
	err := r.WriteText(out)
	if b.Out == "" {
		return err
	}
	return errors.Join(err, os.MkdirAll(filepath.Dir(b.Out), 0o755),
		writeFile(b.Out+".json", func(to io.Writer) error { return json.NewEncoder(to).Encode(r) }),
		writeFile(b.Out+".html", r.WriteHTML))
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// progressLine returns a function that shows the progress on a terminal, and nothing elsewhere. An
// empty progress clears the line.
func progressLine(out io.Writer) func(bench.Progress) {
	file, ok := out.(*os.File)
	if !ok {
		return func(bench.Progress) {}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func(bench.Progress) {}
	}
	return func(p bench.Progress) {
		fmt.Fprint(file, "\r\033[K")
		if p.Stage != "" {
			fmt.Fprintf(file, "%3.0f %% %s  %.0f/s  p99 %s", 100*p.Done, p.Stage, p.PerSecond, p.P99.Round(10*time.Microsecond))
		}
	}
}

// Compare measures two servers in turns.
type Compare struct {
	options
	streams
	Other    string `required:"" placeholder:"COMMAND" help:"The other server."`
	OtherDir string `help:"Data directory of the other server; a temporary one when unset."`
	Rounds   int    `default:"6" help:"Rounds, at most 100; an even number treats both alike."`
}

// Help is the text of `purser bench compare --help` above the flags.
func (*Compare) Help() string {
	return `Each round runs the same streams against both servers, this one first in the odd rounds.

--other is the path of another purser, or a command that starts one: the run gives it its addresses
and its data directory in PURSER_*. A command with {address} is any other program that answers the
card network's port there: the run replaces {secret} and {data-dir} too, and sends it the swipes of
this server's cards. Words are separated by spaces, and no shell reads them; "env NAME=VALUE ..."
sets a variable.`
}

// errSharedStores refuses to start a second server on the database or the topic of the first.
var errSharedStores = errors.New("--other would share DATABASE_URL or KAFKA_BROKERS with this server: " +
	"begin the command with env and values of its own")

// Run compares the two servers. It fails when one cannot be reached or started or ends by itself,
// and when an answer is wrong or missing.
func (b *Compare) Run(out io.Writer) error {
	for _, name := range []string{"DATABASE_URL", "KAFKA_BROKERS"} {
		if isSet(name) && !strings.Contains(b.Other, name+"=") {
			return errSharedStores
		}
	}
	words := strings.Fields(b.Other)
	if len(words) == 1 {
		words = append(words, "serve")
	}
	compare := func(ctx context.Context, c bench.Config) (report bench.Report, err error) {
		other, err := newOwnServer(ctx, b.OtherDir, words)
		if err != nil {
			return report, fmt.Errorf("--other: %w", err)
		}
		defer func() { err = errors.Join(err, other.close()) }()
		return bench.Compare(ctx, c, other.target, b.Rounds)
	}
	return b.run(out, "purser bench compare with "+filepath.Base(words[0]), compare,
		bench.Load{Streams: b.Streams, Duration: b.Duration, Spread: b.Spread})
}

// Empty is the process of the empty handler.
type Empty struct {
	Address string `arg:""`
}

// Run serves empty answers until a signal ends it, with as many processors as the server uses, so
// that only the work of the two differs. It fails when it cannot listen.
func (b *Empty) Run() error {
	tuning.SpareProcessors()
	listener, err := net.Listen("tcp", b.Address)
	if err != nil {
		return err
	}
	return bench.ServeEmpty(listener)
}
