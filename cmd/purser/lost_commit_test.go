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

	"purser/persistence/pgjournal/pgtest"
	"purser/persistence/retry"
)

// The number of failed commits that each subtest needs, and the size and timing of its cuts.
const (
	fullCuts  = 200
	shortCuts = 10

	cutsPerStorm      = 10 // cuts in a storm, before all answers are compared
	cutOneIn          = 3  // commitCutter cuts one commit in cutOneIn
	maxCommitDelay    = 1500 * time.Millisecond
	cutInterval       = 50 * time.Millisecond // the minimum between two cuts of byteCutter
	cutDuration       = 50 * time.Millisecond
	maxBytesBeforeCut = 4 << 10
	swiperPause       = 50 * time.Millisecond // between two swipes of a client
)

// TestCommitsWithoutAnAnswer cuts the connections to Postgres during commits, under a load of
// swipes and requests. The server finds out whether each commit took effect, and applies nothing
// twice.
func TestCommitsWithoutAnAnswer(t *testing.T) {
	onlyInFullLength(t)
	t.Parallel()
	purser, most := onPostgresAndKafka(t, buildProgram(t)), shortCuts
	if purser.database == nil {
		return
	}
	if os.Getenv(fullLengthVariable) != "" {
		most = fullCuts
	}
	proxy, url := pgtest.StartProxy(t, purser.database.URL("postgres"))
	shears, url := newByteCutter(t, url)
	purser.env = serverSettings(url, purser.broker.addresses)
	seed, data := chooseSeed(t), filepath.Join(t.TempDir(), "data")
	p := launch(t, purser, data)
	c := &cutSuite{witness: newWitness(t, p), p: p, seed: seed}
	for _, way := range []struct {
		name string
		cuts connectionCutter
	}{
		{"COMMIT is forwarded and its answer lost", &commitCutter{proxy: proxy, lose: (*pgtest.Commit).LoseAnswer}},
		{"COMMIT runs after its client is gone", &commitCutter{proxy: proxy, lose: commitLate}},
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
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent",
		"audit of the stopped server's stores")
}

// connectionCutter cuts connections to Postgres in one way, from start until stop.
type connectionCutter interface {
	start()
	stop()
	count() int64 // cuts since the first start
}

// cutSuite is a server under load whose connections to Postgres are cut.
type cutSuite struct {
	*witness
	p     *process
	seed  uint64
	round int
}

// cut runs storms until that many commits of the actors and the relay have failed, and compares all
// answers after each storm. Commits of the book and of epoch fences are cut too, and not counted.
func (c *cutSuite) cut(t *testing.T, way connectionCutter, most int) {
	failures := func() float64 {
		return sumLabelled(c.p.adminPage("/metrics"), "purser_commits_total", `outcome="failed"`)
	}
	began, before := c.round, failures()
	for failures()-before < float64(most) {
		c.round++
		require.LessOrEqual(t, c.round-began, most, "too many storms without a cut commit")
		until := way.count() + cutsPerStorm
		s := &storm{witness: c.witness, p: c.p, round: c.round, pauseBetweenSwipes: swiperPause, signal: func() {},
			finished: func() bool { return way.count() >= until }}
		way.start()
		s.run(c.seed)
		way.stop()
		c.requireNoDifferences(t, c.p, c.round)
		c.p.awaitReady(t)
		c.verify(t, c.p, c.round)
		c.requireNoDifferences(t, c.p, c.round)
	}
	t.Logf("%d cuts in %d storms; %.0f commits of actors and relay had no answer or failed", way.count(), c.round-began,
		failures()-before)
}

// commitCutter cuts the connection of one COMMIT in cutOneIn that passes its proxy.
type commitCutter struct {
	proxy   *pgtest.Proxy
	lose    func(*pgtest.Commit)
	commits atomic.Int64
	cuts    atomic.Int64
}

func (f *commitCutter) start() { f.proxy.OnCommit(f.onCommit) }
func (f *commitCutter) stop()  { f.proxy.OnCommit(nil) }

func (f *commitCutter) onCommit(c *pgtest.Commit) {
	if f.commits.Add(1)%cutOneIn == 0 {
		f.cuts.Add(1)
		f.lose(c)
	}
}

func (f *commitCutter) count() int64 { return f.cuts.Load() }

// commitLate forwards the COMMIT up to maxCommitDelay after its client is gone: before or after the
// server has fenced the shard.
func commitLate(c *pgtest.Commit) {
	release := make(chan struct{})
	time.AfterFunc(rand.N(maxCommitDelay), func() { close(release) })
	c.CutThen(release)
}

// byteCutter cuts all connections repeatedly, each after a random number of bytes in one direction.
type byteCutter struct {
	t      *testing.T
	proxy  *toxiproxy.Proxy
	cuts   atomic.Int64
	cancel context.CancelFunc
	work   sync.WaitGroup
}

func newByteCutter(t *testing.T, url string) (*byteCutter, string) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	_, rest, _ := strings.Cut(url, "@")
	address, _, _ := strings.Cut(rest, "/")
	proxy := toxiproxy.NewProxy(server, "postgres", "127.0.0.1:0", address)
	require.NoError(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	return &byteCutter{t: t, proxy: proxy}, strings.Replace(url, address, proxy.Listen, 1)
}

func (s *byteCutter) start() {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.cancel = cancel
	s.work.Go(func() {
		for retry.Pause(ctx, cutInterval+rand.N(cutInterval)) {
			s.cut()
		}
	})
}

func (s *byteCutter) cut() {
	const name = "cut"
	stream := "upstream"
	if rand.N(2) == 0 {
		stream = "downstream"
	}
	toxic := fmt.Sprintf(`{"name": %q, "type": "limit_data", "stream": %q, "attributes": {"bytes": %d}}`, name, stream,
		rand.N(maxBytesBeforeCut))
	if _, err := s.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		s.t.Error(err)
		return
	}
	s.cuts.Add(1)
	retry.Pause(s.t.Context(), cutDuration)
	if err := s.proxy.Toxics.RemoveToxic(context.Background(), name); err != nil {
		s.t.Error(err)
	}
}

func (s *byteCutter) stop() {
	s.cancel()
	s.work.Wait()
}

func (s *byteCutter) count() int64 { return s.cuts.Load() }
