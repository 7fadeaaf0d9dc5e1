package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/pgjournal/pgtest"
)

// How many commits each test cuts.
const (
	cutsInFull = 200
	cutsInFew  = 20

	cutsEach      = 20 // storm, then everything is compared
	cutOneIn      = 3  // commits
	latestCommit  = 1500 * time.Millisecond
	cutEvery      = 50 * time.Millisecond // at least
	cutFor        = 50 * time.Millisecond
	cutAfterBytes = 4 << 10               // at most
	cutRest       = 50 * time.Millisecond // of a swiper
)

// TestCommitsWithoutAnAnswer has the connections to Postgres cut in the middle of commits, under swipes and requests.
// Whatever became of a commit, it is resolved and nothing is done twice.
func TestCommitsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	purser, most := onPostgresAndKafka(t, buildProgram(t)), cutsInFew
	if purser.database == nil {
		return
	}
	if os.Getenv(fullLengthVariable) != "" {
		most = cutsInFull
	}
	proxy, url := pgtest.StartProxy(t, purser.database.URL("postgres"))
	shears, url := newShears(t, url)
	purser.env = serverSettings(url, purser.broker.addresses)
	seed, data := chooseSeed(t), filepath.Join(t.TempDir(), "data")
	p := launch(t, purser, data)
	c := &cutting{witness: newWitness(t, p), p: p, seed: seed}
	for _, way := range []struct {
		name string
		cuts cuts
	}{
		{"COMMIT is forwarded and its answer lost", &thief{proxy: proxy, lose: (*pgtest.Commit).LoseAnswer}},
		{"COMMIT comes when its client is gone", &thief{proxy: proxy, lose: commitLate}},
		{"connections are cut anywhere", shears},
	} {
		if !t.Run(way.name, func(t *testing.T) { c.cut(t, way.cuts, most) }) {
			return
		}
	}
	c.verifyAll(t, p)
	c.requireNoDifferences(t, p, c.round)
	t.Log(c.counts.report(len(c.differences)))
	purser.requireStreams(t, p, data)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent", "of the stores at rest")
}

// cuts are one way to cut connections.
type cuts interface {
	begin()
	end()
	done() int64
}

// cutting is a server under load whose connections are cut.
type cutting struct {
	*witness
	p     *process
	seed  uint64
	round int
}

// cut storms until so many commits of the actors' have met a cut (the book's and the fences' do too), and compares everything
// after every few.
func (c *cutting) cut(t *testing.T, way cuts, most int) {
	failures := func() float64 { return labelled(c.p.adminPage("/metrics"), "purser_commits_total", `outcome="failed"`) }
	began, before := c.round, failures()
	for failures()-before < float64(most) {
		c.round++
		require.LessOrEqual(t, c.round-began, most, "commits do not meet the cuts")
		until := way.done() + cutsEach
		s := &storm{witness: c.witness, p: c.p, round: c.round, pauseBetweenSwipes: cutRest, signal: func() {},
			finished: func() bool { return way.done() >= until }}
		way.begin()
		s.run(c.seed)
		way.end()
		c.requireNoDifferences(t, c.p, c.round)
		c.p.awaitReady(t)
		c.verify(t, c.p, c.round)
		c.requireNoDifferences(t, c.p, c.round)
	}
	t.Logf("%d cuts in %d storms; %.0f commits of actors and relay had no answer or failed", way.done(), c.round-began,
		failures()-before)
}

// thief loses some of the commits that pass it.
type thief struct {
	proxy *pgtest.Proxy
	lose  func(*pgtest.Commit)
	seen  atomic.Int64
	lost  atomic.Int64
}

func (f *thief) begin() { f.proxy.OnCommit(f.take) }
func (f *thief) end()   { f.proxy.OnCommit(nil) }

func (f *thief) take(c *pgtest.Commit) {
	if f.seen.Add(1)%cutOneIn == 0 {
		f.lost.Add(1)
		f.lose(c)
	}
}

func (f *thief) done() int64 { return f.lost.Load() }

// commitLate has the old transaction commit up to latestCommit after its client is gone: while its shard is fenced, or too late.
func commitLate(c *pgtest.Commit) {
	release := make(chan struct{})
	time.AfterFunc(rand.N(latestCommit), func() { close(release) })
	c.CutThen(release)
}

// shears cut all connections again and again, each after some bytes to the server or from it.
type shears struct {
	t      *testing.T
	proxy  *toxiproxy.Proxy
	cuts   atomic.Int64
	cancel context.CancelFunc
	work   sync.WaitGroup
}

func newShears(t *testing.T, url string) (*shears, string) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	_, rest, _ := strings.Cut(url, "@")
	address, _, _ := strings.Cut(rest, "/")
	proxy := toxiproxy.NewProxy(server, "postgres", "127.0.0.1:0", address)
	require.NoError(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	return &shears{t: t, proxy: proxy}, strings.Replace(url, address, proxy.Listen, 1)
}

func (s *shears) begin() {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.cancel = cancel
	s.work.Go(func() {
		for persistence.Pause(ctx, cutEvery+rand.N(cutEvery)) {
			s.cut()
		}
	})
}

func (s *shears) cut() {
	const name = "cut"
	stream := "upstream"
	if rand.N(2) == 0 {
		stream = "downstream"
	}
	toxic := fmt.Sprintf(`{"name": %q, "type": "limit_data", "stream": %q, "attributes": {"bytes": %d}}`, name, stream,
		rand.N(cutAfterBytes))
	if _, err := s.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		s.t.Error(err)
		return
	}
	s.cuts.Add(1)
	persistence.Pause(s.t.Context(), cutFor)
	if err := s.proxy.Toxics.RemoveToxic(context.Background(), name); err != nil {
		s.t.Error(err)
	}
}

func (s *shears) end() {
	s.cancel()
	s.work.Wait()
}

func (s *shears) done() int64 { return s.cuts.Load() }
