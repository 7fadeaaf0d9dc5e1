package loadtest

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/authorizer/hold"
	"purser/bench"
	"purser/cmd/purser/tuning"
)

// Every goal of the short set is of one of its loads. Swipes beside card updates have one; with
// reads besides they have none.
func TestBenchGoalsAreOfTheShortSet(t *testing.T) {
	reads := map[string]int{}
	for _, l := range shortSet() {
		reads[l.Name] = l.ReadRate
	}
	require.Len(t, reads, len(shortSet()))
	var of []string
	for _, g := range shortGoals() {
		name, _, _ := strings.Cut(g.Stage, ":")
		require.Contains(t, reads, name)
		of = append(of, name)
	}
	require.Contains(t, of, "mixed with writes")
	require.Zero(t, reads["mixed with writes"])
	require.NotContains(t, of, "mixed with reads")
	require.Positive(t, reads["mixed with reads"])
}

// A load by itself has its goals of the short set, when it measures their figures.
func TestBenchGoalsOfALoadByItself(t *testing.T) {
	goals := func(change func(l *bench.Load), l bench.Load) (of []string) {
		change(&l)
		for _, g := range loadGoals(l) {
			of = append(of, g.Stage+", "+g.Quantity)
		}
		return of
	}
	same := func(*bench.Load) {}
	rest := bench.Load{Name: bench.REST, Workload: bench.REST, Connections: 64}
	mixed := bench.Load{Name: bench.Mixed, Workload: bench.Mixed, Connections: 64, Rate: 5000, RESTRate: 200}
	require.Equal(t, []string{"rest: PATCH card, /s", "rest: PATCH card, p99, µs"}, goals(same, rest))
	require.Equal(t, []string{"mixed: swipes, p99, µs"}, goals(same, mixed))
	for _, other := range []func(l *bench.Load){func(l *bench.Load) { l.Connections = 256 }, func(l *bench.Load) { l.Rate = 20_000 },
		func(l *bench.Load) { l.RESTRate = 900 }, func(l *bench.Load) { l.ReadRate = 200 }} {
		require.Empty(t, goals(other, mixed))
	}
	require.Empty(t, goals(func(l *bench.Load) { l.Connections = 8 }, rest))
	for _, l := range shortSet() {
		for _, g := range loadGoals(l) {
			require.Contains(t, shortGoals(), g)
		}
	}
}

// Medians are written beside the results they are of.
func TestBenchMediansOfResults(t *testing.T) {
	dir := t.TempDir()
	b := benchReport{Results: dir}
	r := bench.Report{Stages: []bench.Stage{{Name: "rest", Measures: []bench.Measure{{Name: "PATCH card", Count: 1, PerSecond: 77}}}}}
	for range 3 {
		require.NoError(t, b.deliver(&r, io.Discard, "rest"))
	}
	var out strings.Builder
	require.NoError(t, (&BenchMedians{Results: dir, Write: true, Names: []string{"rest-1", "rest-2", "rest-3"}}).Run(&out))
	text, err := os.ReadFile(filepath.Join(dir, "rest-medians.md"))
	require.NoError(t, err)
	for _, written := range []string{out.String(), string(text)} {
		require.Contains(t, written, "PATCH card")
		require.Contains(t, written, "77")
	}
	require.ErrorContains(t, (&BenchMedians{Results: dir, Names: []string{"rest-1", "rest-9"}}).Run(&out), "rest-9")
}

// The empty handler has the processors that the server has.
func TestTheEmptyHandlerHasTheServersProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before, stdin := runtime.GOMAXPROCS(0), os.Stdin
	in, end, err := os.Pipe()
	require.NoError(t, err)
	os.Stdin = in
	defer func() {
		os.Stdin = stdin
		runtime.GOMAXPROCS(before)
		require.NoError(t, in.Close())
	}()
	require.NoError(t, end.Close())
	require.NoError(t, new(BenchEmpty).Run(io.Discard))
	require.Equal(t, before+tuning.InCalls, runtime.GOMAXPROCS(0))
}

// The baseline's empty handler answers from a process of its own, and ends on a signal.
func TestBenchOfTheEmptyHandler(t *testing.T) {
	url, end, err := startEmpty(purser(t), "bench", "empty")
	require.NoError(t, err)
	status, _, err := fasthttp.Post(nil, url, nil)
	require.NoError(t, err)
	require.Equal(t, fasthttp.StatusOK, status)
	require.NoError(t, end())
	_, _, err = fasthttp.Post(nil, url, nil)
	require.Error(t, err)

	_, _, err = startEmpty(purser(t), "version")
	require.Error(t, err, "it says no URL")
}

// A server of the run's own is killed with -9 in a storm and comes back with the same answers; the
// report is left where it was asked for.
func TestBenchOfAServerOfItsOwn(t *testing.T) {
	own, err := newOwnServer(t.Context(), "", purser(t), "serve")
	require.NoError(t, err)
	c := bench.Config{Target: own.target, Server: own, Cards: 20, Workspaces: 4,
		YardstickFor: 20 * time.Millisecond, Loads: []bench.Load{{Workload: bench.Recovery, Connections: 8,
			Duration: 300 * time.Millisecond}}}
	r, err := bench.Run(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, own.close())
	require.NoDirExists(t, own.data)
	require.False(t, r.Failed, "%+v", r.Stages)
	require.Len(t, r.Stages, 3)
	for _, s := range r.Stages {
		require.Positive(t, s.Compared, "answers were asked again")
	}
	dir := t.TempDir()
	var out strings.Builder
	b := benchReport{JSON: true, Results: dir, HTML: filepath.Join(dir, "page.html")}
	require.NoError(t, b.deliver(&r, &out, "recovery"))
	require.NoError(t, b.deliver(&r, io.Discard, "recovery"))
	var again bench.Report
	require.NoError(t, json.Unmarshal([]byte(out.String()), &again))
	require.Equal(t, r.Stages[0].Measures, again.Stages[0].Measures)
	for _, name := range []string{"recovery-1.json", "recovery-1.html", "recovery-1.md", "recovery-2.json", "page.html"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NotContains(t, string(text), own.data, "results name no path")
	}
}

// Stores that are filled without the server are the server's own: it starts on them, approves
// swipes of their cards, takes those decisions into the balances, and keeps them over a kill. The
// test repeats all of it with loads that last twice as long when the traffic did not fill the
// cache, because a machine may be overloaded.
func TestBenchOfCardsThatAreThereAlready(t *testing.T) {
	t.Setenv("PURSER_AUTHORIZER_CACHE", "16MiB") // a share of it for each shard: less than the cards take
	for during := 200 * time.Millisecond; ; during *= 2 {
		r := benchCards(t, during)
		memory := map[string]float64{}
		for _, f := range r.Stages[2].Figures {
			memory[f.Name] = f.Value
		}
		if memory["evictions"] == 0 && during < 4*time.Second {
			continue
		}
		require.Len(t, r.Goals, 3)
		last := r.Stages[len(r.Stages)-1]
		require.Contains(t, strings.Join(last.Notes, "\n"), "what 10 workspaces have spent since before the run")
		require.Equal(t, "cards: memory full", r.Stages[2].Name)
		require.GreaterOrEqual(t, memory["highest resident memory"], memory["resident memory"])
		require.Positive(t, memory["evictions"])
		require.Positive(t, r.Stages[2].Outcomes["approved"])
		return
	}
}

// benchCards is a run over stores that were filled for it.
func benchCards(t *testing.T, during time.Duration) bench.Report {
	dir, s := t.TempDir(), stock{cards: 4000, workspaces: 10}
	require.NoError(t, fillStores(t.Context(), dir, s, 4500, func(bench.Progress) {}))
	require.ErrorContains(t, fillStores(t.Context(), dir, s, 0, nil), "has stores already")
	have, err := s.in(dir)
	require.NoError(t, err)
	own, err := newOwnServer(t.Context(), dir, purser(t), "serve")
	require.NoError(t, err)
	r, err := bench.Run(t.Context(), bench.Config{Target: own.target, Server: own, Cards: s.cards, Workspaces: s.workspaces,
		Stock: have, Goals: cardsGoals(), YardstickFor: 20 * time.Millisecond, Loads: []bench.Load{{Workload: bench.Cards,
			Connections: 8, Duration: during}}})
	require.NoError(t, err)
	require.False(t, r.Failed, "%+v", r.Stages)
	require.NoError(t, own.close()) // it drains: the relay had no refusal
	log, err := os.ReadFile(filepath.Join(dir, "bench.log"))
	require.NoError(t, err)
	require.NotContains(t, string(log), "refused")
	return r
}

// A server's profiles of waiting have samples: those of a few swipes over some connections.
func TestWaitingIsProfiled(t *testing.T) {
	own, err := newOwnServer(t.Context(), "", purser(t), "serve")
	require.NoError(t, err)
	defer func() { require.NoError(t, own.close()) }()
	profile := func(name string) string {
		resp, err := http.Get(own.target.Admin + "/debug/pprof/" + name + "?debug=1")
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(text)
	}
	require.Contains(t, profile("mutex"), fmt.Sprint("sampling period=", tuning.MutexProfileFraction))
	require.Eventually(t, func() bool { return strings.Contains(profile("block"), "purser/") }, time.Minute,
		10*time.Millisecond, "the block profile has samples of the server's loops")
}

func TestAFillRefusesItsNumbers(t *testing.T) {
	for text, s := range map[string]stock{"--cards": {workspaces: 1}, "--workspaces": {cards: 5, workspaces: 6}} {
		require.ErrorContains(t, fillStores(t.Context(), t.TempDir(), s, 1, nil), text)
	}
	require.ErrorContains(t, fillStores(t.Context(), t.TempDir(), stock{cards: 1, workspaces: 1}, -1, nil), "--decisions")
}

// Holds that expire outside of a run do not count as wrong sums of a server.
func TestAFillIsRefusedWhenItsHoldsEnd(t *testing.T) {
	dir, s := t.TempDir(), stock{cards: 4, workspaces: 2}
	began := time.Now()
	require.NoError(t, fillStores(t.Context(), dir, s, 4, func(bench.Progress) {}))
	_, err := s.funds(dir, began.Add(hold.DefaultHoldLife-time.Second))
	require.NoError(t, err)
	_, err = s.funds(dir, time.Now().Add(hold.DefaultHoldLife))
	require.ErrorContains(t, err, "the first holds of the fill are older than 168h")
}

// The error of a child that does not start has its last words.
func TestAServerOfItsOwnThatDoesNotStart(t *testing.T) {
	t.Setenv("PURSER_BACKLOG_MAX", "few")
	_, err := newOwnServer(t.Context(), "", purser(t), "serve")
	require.ErrorContains(t, err, "PURSER_BACKLOG_MAX")
}

// The error of a child that dies during a run has its last words and its exit status, before its
// log is removed with its directory: at the kill of a recovery, or at the end of the run.
func TestAServerOfItsOwnThatDies(t *testing.T) {
	for name, find := range map[string]func(*ownServer) error{"kill": (*ownServer).Kill, "end": (*ownServer).close} {
		t.Run(name, func(t *testing.T) {
			own, err := newOwnServer(t.Context(), "", purser(t), "serve")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(own.data)) })
			_, err = own.log.WriteString("nothing left to write to")
			require.NoError(t, err)
			require.NoError(t, own.cmd.Process.Kill())
			<-own.ended
			err = find(own)
			require.ErrorContains(t, err, "signal: killed")
			require.ErrorContains(t, err, "nothing left to write to")
			require.Nil(t, own.cmd)
		})
	}
}

// built is the program, compiled once for all tests of the package.
var built = sync.OnceValues(func() (path string, err error) {
	if path, err = os.MkdirTemp("", "purser-loadtest-"); err != nil {
		return "", err
	}
	directory = path
	path = filepath.Join(path, "purser")
	out, err := exec.Command("go", "build", "-o", path, "..").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

// directory has the compiled program, "" before it is compiled.
var directory string

// purser returns the path of the program.
func purser(t *testing.T) string {
	t.Helper()
	path, err := built()
	require.NoError(t, err)
	return path
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == stubCommand {
		if len(os.Args) != 6 {
			fmt.Println("usage:", stubCommand, "ADDRESS SECRET DATA-DIR DECISIONS")
			os.Exit(2)
		}
		if err := runStub(os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		fmt.Println("this program has no command", os.Args[1]) // else a test that starts itself would run all tests
		os.Exit(2)
	}
	status := m.Run()
	if err := os.RemoveAll(directory); err != nil {
		fmt.Println("FAIL:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// --ca names the authorities of the server. A file without a certificate and a server of the run's
// own are refused.
func TestBenchTakesAuthorities(t *testing.T) {
	authority := httptest.NewTLSServer(http.NotFoundHandler())
	defer authority.Close()
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "empty.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	options := benchOptions{benchTarget: benchTarget{HTTPAddr: "127.0.0.1:1", AuthorizerAddr: "127.0.0.1:2",
		AdminAddr: "127.0.0.1:3", NetworkSecret: "s", CA: file}}
	var c bench.Config
	require.NoError(t, options.given(&c))
	require.Equal(t, []string{"https://127.0.0.1:1", "https://127.0.0.1:2", "http://127.0.0.1:3"},
		[]string{c.Target.REST, c.Target.Network, c.Target.Admin})
	authorities := x509.NewCertPool()
	authorities.AddCert(authority.Certificate())
	require.True(t, authorities.Equal(c.Target.Authorities))
	options.CA = empty
	require.ErrorContains(t, options.given(&c), "--ca: "+empty+" has no certificate in PEM")
	options.Own = true
	require.ErrorIs(t, options.run(io.Discard, bench.Authorize, nil), errOwnIsPlain)
}
