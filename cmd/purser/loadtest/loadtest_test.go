package loadtest

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/bench"
	"purser/cmd/purser/tuning"
)

// TestMain runs this test program as a server of a run: another program that answers the card
// network's port, the empty handler, or a program that fails.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case "approve":
		err = fasthttp.ListenAndServe(os.Args[2], func(ctx *fasthttp.RequestCtx) {
			var swipe struct {
				ID          string
				AmountCents int64
			}
			if err := json.Unmarshal(ctx.PostBody(), &swipe); err != nil {
				ctx.SetStatusCode(fasthttp.StatusNotFound) // as /readyz tells them
			}
			fmt.Fprintf(ctx, `{"id":%q,"decision":"approved","reason":"approved","approvedAmountCents":%d}`, swipe.ID,
				swipe.AmountCents)
		})
	case "bench":
		err = (&Empty{Address: os.Args[3]}).Run()
	default:
		err = fmt.Errorf("this program has no command %s", os.Args[1])
	}
	fmt.Println(err)
	os.Exit(2)
}

func startProgram(t *testing.T, arguments ...string) *ownServer {
	t.Helper()
	s, err := newOwnServer(t.Context(), t.TempDir(), selfCommand(arguments...))
	require.NoError(t, err)
	return s
}

// The empty handler answers from a process of its own, until it is stopped.
func TestTheEmptyHandler(t *testing.T) {
	s := startProgram(t, "bench", "empty", addressPlaceholder)
	status, body, err := fasthttp.Post(nil, s.target.Network+"/v1/authorizations", nil)
	require.NoError(t, err)
	require.Equal(t, fasthttp.StatusOK, status)
	require.Empty(t, body)
	require.Equal(t, s.cmd.Process.Pid, s.target.Process())
	require.NoError(t, s.close())
	_, _, err = fasthttp.Post(nil, s.target.Network, nil)
	require.Error(t, err)
}

// A server is killed and started again on the same address.
func TestAServerIsKilledAndStartedAgain(t *testing.T) {
	s := startProgram(t, "approve", addressPlaceholder)
	before := s.target.Process()
	require.NoError(t, s.Kill())
	require.Zero(t, s.target.Process())
	require.NoError(t, s.Start())
	require.NoError(t, s.ready(t.Context()))
	require.NotEqual(t, before, s.target.Process())
	require.NoError(t, s.close())
}

// The error of a server that dies during a run has its last words and its exit status.
func TestAServerThatDies(t *testing.T) {
	for name, find := range map[string]func(*ownServer) error{"kill": (*ownServer).Kill, "end": (*ownServer).close} {
		t.Run(name, func(t *testing.T) {
			s := startProgram(t, "approve", addressPlaceholder)
			_, err := s.log.WriteString("nothing left to write to")
			require.NoError(t, err)
			require.NoError(t, s.cmd.Process.Kill())
			<-s.ended
			err = find(s)
			require.ErrorContains(t, err, "signal: killed")
			require.ErrorContains(t, err, "nothing left to write to")
		})
	}
}

// The error of a server that does not start has its last words. A temporary directory is removed.
func TestAServerThatDoesNotStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for says, command := range map[string][]string{
		"ended with exit status 2:\nthis program has no command serve": selfCommand("serve"),
		"no such file or directory":                                    {filepath.Join(t.TempDir(), "gone")},
		"the command is empty":                                         nil,
	} {
		_, err := newOwnServer(t.Context(), "", command)
		require.ErrorContains(t, err, says)
	}
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// --ca names the authorities of the server.
func TestBenchTakesAuthorities(t *testing.T) {
	authority := httptest.NewTLSServer(http.NotFoundHandler())
	defer authority.Close()
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "empty.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	o := options{target: target{HTTPAddr: "127.0.0.1:1", AuthorizerAddr: "127.0.0.1:2", AdminAddr: "127.0.0.1:3",
		NetworkSecret: "s", CA: file, PID: 7, DataDir: dir}}
	var c bench.Config
	require.NoError(t, o.find(&c))
	require.Equal(t, []string{"https://127.0.0.1:1", "https://127.0.0.1:2", "http://127.0.0.1:3", dir},
		[]string{c.Target.REST, c.Target.Network, c.Target.Admin, c.DiskDir})
	require.Equal(t, 7, c.Target.Process())
	authorities := x509.NewCertPool()
	authorities.AddCert(authority.Certificate())
	require.True(t, authorities.Equal(c.Target.Authorities))
	o.CA = empty
	require.ErrorContains(t, o.find(&c), "--ca: "+empty+" has no certificate in PEM")
}

// Two servers on one database would disturb each other.
func TestACommandIsRefusedOnASharedDatabase(t *testing.T) {
	for _, name := range []string{"DATABASE_URL", "KAFKA_BROKERS"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "shared")
			require.ErrorIs(t, (&Compare{Other: "purser"}).Run(nil), errSharedStores)
		})
	}
}

// The streams are the arguments of the command that is not named.
func TestTheCommandLine(t *testing.T) {
	var c Command
	parser, err := kong.New(&c)
	require.NoError(t, err)
	chosen, err := parser.Parse([]string{"authorize@5000", "card-updates:8@200", "--duration=1m", "--kills=3"})
	require.NoError(t, err)
	require.Equal(t, "load <stream>", chosen.Command())
	require.Equal(t, []bench.Stream{{Kind: bench.Authorize, Connections: 64, Rate: 5000},
		{Kind: bench.CardUpdates, Connections: 8, Rate: 200}}, c.Load.Streams)
	require.Equal(t, time.Minute, c.Load.Duration)
	_, err = parser.Parse([]string{"swipes"})
	require.ErrorContains(t, err, "no kind")
}

// The generator has the processors that the server has.
func TestTheGeneratorHasTheServersProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	at := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(at)
	before := tuning.SpareProcessors()
	require.Error(t, (&Empty{Address: "no address"}).Run())
	require.Equal(t, before+2*tuning.InCalls, tuning.SpareProcessors())
}
