package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"purser/bench"
	"purser/cmd/purser/adminport"
)

// BenchCompare measures two servers in turns.
type BenchCompare struct {
	benchOptions
	Other              string        `required:"" placeholder:"URL|COMMAND" help:"The other server."`
	OtherHTTPAddr      string        `name:"other-http-addr" help:"REST address of the server at the URL of --other."`
	OtherNetworkSecret string        `env:"PURSER_OTHER_NETWORK_SECRET" secret:"" help:"Secret at the URL."`
	OtherDir           string        `help:"Data directory of the command's server; a temporary one when unset."`
	Rounds             int           `default:"6" help:"Rounds, at most 100; an even number treats both alike."`
	Workload           string        `default:"authorize" enum:"authorize,lifecycle" help:"authorize or lifecycle."`
	Connections        int           `default:"64" help:"Open at once, each with one request under way."`
	Rate               int           `help:"Requests a second; 0 for a closed loop."`
	Duration           time.Duration `default:"10s" help:"How long each server is measured in a round."`
	Spread             string        `default:"zipf" enum:"zipf,card,workspace" help:"See purser bench authorize."`
}

// Help is the text of `purser bench compare --help` above the flags.
func (*BenchCompare) Help() string {
	return `Each round runs the same load against both servers, this one first in the odd rounds.

--other is one of three. The URL of the card network's port of a running server, such as
http://127.0.0.1:9081: with --other-http-addr the run makes cards there. The path of another purser,
or a command that starts one: the run gives it its addresses and its data directory in PURSER_*.
Or a command with {address}, which starts any other program that answers the card network's port
there: the run replaces {secret} and {data-dir} too. Words of a command are separated by spaces, and
no shell reads them.

A server without a REST address gets the swipes of this server's cards, and its dollars are not
compared. Without --other-network-secret the server at a URL gets the secret of this one.`
}

// errSharedStores refuses to start a second server on the database or the topic of the first.
var errSharedStores = errors.New("--other: a command would share DATABASE_URL or KAFKA_BROKERS with this server: " +
	"unset them, or start the other server yourself and give its URL")

// Run is `purser bench compare`: it runs one load against this server and another in turns and
// prints the ratios of their figures. It fails when a server cannot be reached or started, when it
// ends by itself, and when an answer is wrong or missing.
func (b *BenchCompare) Run(out io.Writer) error {
	if !b.isURL() && (os.Getenv("DATABASE_URL") != "" || os.Getenv("KAFKA_BROKERS") != "") {
		return errSharedStores
	}
	load := bench.Load{Workload: b.Workload, Connections: b.Connections, Rate: b.Rate, Duration: b.Duration,
		Spread: b.Spread}
	return b.runMeasurement(out, "compare", b.compareServers, nil, load)
}

func (b *BenchCompare) isURL() bool {
	return strings.HasPrefix(b.Other, "http://") || strings.HasPrefix(b.Other, "https://")
}

// compareServers is the measurement of a comparison: it finds or starts the other server and
// compares it with the server of c. It fails like bench.Compare, and when the other server does not
// start, or a server that was started ends by itself.
func (b *BenchCompare) compareServers(ctx context.Context, c bench.Config) (report bench.Report, err error) {
	other := b.otherTarget(c.Target)
	var started []*ownServer
	if own, ok := c.Server.(*ownServer); ok {
		started = append(started, own)
	}
	if !b.isURL() {
		var server *ownServer
		if server, err = b.startOther(ctx); err != nil {
			return report, err
		}
		defer func() { err = errors.Join(err, server.close()) }()
		other, started = server.target, append(started, server)
	}
	if err := runChecks(ctx, preflightWithin, targetChecks(other, otherFlags)...); err != nil {
		return report, err
	}
	watched, stop := watchServers(ctx, started)
	defer stop()
	report, err = bench.Compare(watched, c, other, b.Rounds)
	for _, s := range started {
		if died := s.died(); died != nil && ctx.Err() == nil {
			err = died // the cause of what else failed
		}
	}
	return report, err
}

// startOther checks the disk and starts the command of --other. It fails when the disk has no room,
// and when the server does not start.
func (b *BenchCompare) startOther(ctx context.Context) (*ownServer, error) {
	disk := checkDisk(cmp.Or(b.OtherDir, os.TempDir()), "--other-dir", ownNeed())
	if err := runChecks(ctx, preflightWithin, disk); err != nil {
		return nil, err
	}
	server, err := newOtherServer(ctx, b.OtherDir, b.Other)
	if err != nil {
		return nil, fmt.Errorf("--other: %w", err)
	}
	return server, nil
}

// otherTarget returns the target of a running other server. The run trusts the same authorities as
// for this server.
func (b *BenchCompare) otherTarget(this bench.Target) bench.Target {
	other := bench.Target{Network: strings.TrimRight(b.Other, "/"), Secret: cmp.Or(b.OtherNetworkSecret, this.Secret),
		Authorities: this.Authorities}
	if b.OtherHTTPAddr != "" {
		scheme, _, _ := strings.Cut(b.Other, "://")
		other.REST = scheme + strings.TrimPrefix(adminport.URL(b.OtherHTTPAddr), "http")
	}
	return other
}

// watchServers returns a context that ends when one of the servers ends. stop ends the watch.
func watchServers(ctx context.Context, servers []*ownServer) (watched context.Context, stop func()) {
	watched, stop = context.WithCancel(ctx)
	for _, s := range servers {
		go func() {
			select {
			case <-s.ended:
				stop()
			case <-watched.Done():
			}
		}()
	}
	return watched, stop
}
