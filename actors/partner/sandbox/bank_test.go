package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/persistence/ident"
	"purser/persistence/money"
)

const delay = 2 * time.Second

// reportServer receives reports, or refuses them, and has the clock.
type reportServer struct {
	mu      sync.Mutex
	now     time.Time
	status  int
	err     error
	reports []report
}

type report struct {
	ID, Type string
	Data     struct {
		DepositID, PayoutID, OrderID, TxHash string
		FeeCents                             *money.Cents
	}
}

func newReportServer() *reportServer {
	return &reportServer{now: time.UnixMilli(1_700_000_000_000), status: http.StatusOK}
}

func (d *reportServer) clock() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.now }

func (d *reportServer) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func (d *reportServer) setAnswer(status int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status, d.err = status, err
}

func (d *reportServer) receiveReport(_ context.Context, body []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var r report
	if err := json.Unmarshal(body, &r); err != nil {
		return http.StatusBadRequest, nil
	}
	d.reports = append(d.reports, r)
	return d.status, d.err
}

func (d *reportServer) receivedReports() []report {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]report(nil), d.reports...)
}

// storeDir is the directory of the tests' stores.
const storeDir = "sandbox"

func openStore(t *testing.T, fs vfs.FS) *sandbox.Store {
	t.Helper()
	s, err := sandbox.OpenStore(fs, storeDir)
	require.NoError(t, err)
	return s
}

// storedBank is a bank with its store.
type storedBank struct {
	*sandbox.Bank
	*sandbox.Store
}

func (d *reportServer) openBank(t *testing.T, fs vfs.FS) storedBank {
	t.Helper()
	s := openStore(t, fs)
	return storedBank{d.bankOf(t, s), s}
}

func (d *reportServer) bankOf(t *testing.T, s *sandbox.Store) *sandbox.Bank {
	t.Helper()
	b, err := sandbox.NewBank(sandbox.Config{Store: s, Delay: delay, Report: d.receiveReport, Clock: d.clock})
	require.NoError(t, err)
	return b
}

func deposit(n int, cents money.Cents) partner.Deposit {
	id := ident.Derive(7, time.UnixMilli(1_700_000_000_000), strconv.Itoa(n)).Format(ident.Deposit)
	return partner.Deposit{ID: id, WorkspaceID: "ws", Rail: "ach", AmountUsdCents: cents}
}

// stepper is a bank or a ramp.
type stepper interface {
	Step(ctx context.Context) (time.Duration, error)
}

// runSteps calls Step until nothing is due.
func runSteps(t *testing.T, b stepper) {
	t.Helper()
	for {
		wait, err := b.Step(t.Context())
		require.NoError(t, err)
		if wait > 0 {
			return
		}
	}
}

func TestReportsAfterTheDelayAndOnce(t *testing.T) {
	d := newReportServer()
	b := d.openBank(t, vfs.NewMem())
	defer b.Close()
	require.NoError(t, b.Expect(t.Context(), deposit(1, 5000)))
	d.advance(delay - time.Millisecond)
	runSteps(t, b)
	require.Empty(t, d.receivedReports())
	d.advance(time.Millisecond)
	runSteps(t, b)
	require.Len(t, d.receivedReports(), 1)
	require.Equal(t, "deposit.settled", d.receivedReports()[0].Type)
	require.Equal(t, deposit(1, 0).ID, d.receivedReports()[0].Data.DepositID)

	require.NoError(t, b.Expect(t.Context(), deposit(1, 5000)), "an order already carried out changes nothing")
	d.advance(time.Hour)
	runSteps(t, b)
	require.Len(t, d.receivedReports(), 1)
}

func TestMagicAmounts(t *testing.T) {
	d := newReportServer()
	b := d.openBank(t, vfs.NewMem())
	defer b.Close()
	for i, ending := range []money.Cents{sandbox.EndingTwice, sandbox.EndingLate, sandbox.EndingNever} {
		require.NoError(t, b.Expect(t.Context(), deposit(i, 5000+ending)))
	}
	d.advance(delay)
	runSteps(t, b)
	require.Len(t, d.receivedReports(), 2, "twice")
	require.Equal(t, d.receivedReports()[0], d.receivedReports()[1], "with one event id")
	d.advance(9 * delay)
	runSteps(t, b)
	require.Len(t, d.receivedReports(), 3)
	require.Equal(t, deposit(1, 0).ID, d.receivedReports()[2].Data.DepositID, "late")
	d.advance(30 * 24 * time.Hour)
	runSteps(t, b)
	require.Len(t, d.receivedReports(), 3, "never")
}

func TestReportsAreRetriedUntilTaken(t *testing.T) {
	d := newReportServer()
	b := d.openBank(t, vfs.NewMem())
	defer b.Close()
	require.NoError(t, b.Expect(t.Context(), deposit(1, 5000)))
	d.advance(delay)
	d.setAnswer(http.StatusServiceUnavailable, nil)
	runSteps(t, b)
	runSteps(t, b)
	require.Len(t, d.receivedReports(), 1, "no retry before the backoff is over")
	d.advance(time.Minute)
	d.setAnswer(0, errors.New("connection refused"))
	runSteps(t, b)
	require.Len(t, d.receivedReports(), 2)
	d.advance(time.Minute)
	d.setAnswer(http.StatusOK, nil)
	runSteps(t, b)
	require.Len(t, d.receivedReports(), 3)
	d.advance(time.Hour)
	runSteps(t, b)
	require.Len(t, d.receivedReports(), 3, "taken is taken")
}

func TestRunPostsOverHTTP(t *testing.T) {
	got := make(chan string, 1)
	signed := func(method, path string, body []byte) string { return method + " " + path + " " + string(body) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/base/reports" && r.Header.Get("Partner-Signature") == signed(http.MethodPost, "/reports",
			body) {
			select {
			case got <- string(body):
			default: // a repeat, when the answer to the first report came too late
			}
		}
	}))
	defer server.Close()
	s := openStore(t, vfs.NewMem())
	b, err := sandbox.NewBank(sandbox.Config{Store: s, Clock: time.Now,
		Report: sandbox.NewHTTPReporter(server.Client(), server.URL+"/base", "/reports", signed)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	require.NoError(t, b.Expect(t.Context(), deposit(1, 5000)))
	require.Contains(t, <-got, deposit(1, 0).ID)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, s.Close())
}

func TestExpectRefusesAnInvalidID(t *testing.T) {
	d := newReportServer()
	b := d.openBank(t, vfs.NewMem())
	defer b.Close()
	require.Error(t, b.Expect(t.Context(), partner.Deposit{ID: "card_x"}))
	_, err := sandbox.NewBank(sandbox.Config{})
	require.Error(t, err)
}

// A report is sent to the Purser's address alone: a redirect is an answer that took no report.
func TestNoRedirectOfAReportIsFollowed(t *testing.T) {
	asked := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	report := sandbox.NewHTTPReporter(server.Client(), server.URL, "/reports", func(string, string, []byte) string { return "" })
	status, err := report(t.Context(), []byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusTemporaryRedirect, status)
	require.Zero(t, asked)
}
