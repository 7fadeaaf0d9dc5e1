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
)

const delay = 2 * time.Second

// desk is the other side: it takes reports, or does not, and holds the clock.
type desk struct {
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
		FeeCents                             *int64
	}
}

func newDesk() *desk { return &desk{now: time.UnixMilli(1_700_000_000_000), status: http.StatusOK} }

func (d *desk) clock() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.now }

func (d *desk) turn(by time.Duration) { d.mu.Lock(); defer d.mu.Unlock(); d.now = d.now.Add(by) }

func (d *desk) answer(status int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status, d.err = status, err
}

func (d *desk) take(_ context.Context, body []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var r report
	if err := json.Unmarshal(body, &r); err != nil {
		return http.StatusBadRequest, nil
	}
	d.reports = append(d.reports, r)
	return d.status, d.err
}

func (d *desk) taken() []report {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]report(nil), d.reports...)
}

func (d *desk) open(t *testing.T, fs vfs.FS) *sandbox.Bank {
	t.Helper()
	b, err := sandbox.NewBank(sandbox.Config{Dir: "bank", FS: fs, Delay: delay, Report: d.take, Clock: d.clock})
	require.NoError(t, err)
	return b
}

func deposit(n int, cents int64) partner.Deposit {
	id := ident.Derive(7, time.UnixMilli(1_700_000_000_000), strconv.Itoa(n)).Format(ident.Deposit)
	return partner.Deposit{ID: id, WorkspaceID: "ws", Rail: "ach", AmountUsdCents: cents}
}

// steps is a bank or a ramp.
type steps interface {
	Step(ctx context.Context) (time.Duration, error)
}

// settle runs steps until there is nothing due.
func settle(t *testing.T, b steps) {
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
	d := newDesk()
	b := d.open(t, vfs.NewMem())
	defer b.Close()
	require.NoError(t, b.Expect(t.Context(), deposit(1, 5000)))
	d.turn(delay - time.Millisecond)
	settle(t, b)
	require.Empty(t, d.taken())
	d.turn(time.Millisecond)
	settle(t, b)
	require.Len(t, d.taken(), 1)
	require.Equal(t, "deposit.settled", d.taken()[0].Type)
	require.Equal(t, deposit(1, 0).ID, d.taken()[0].Data.DepositID)

	require.NoError(t, b.Expect(t.Context(), deposit(1, 5000)), "an order already carried out changes nothing")
	d.turn(time.Hour)
	settle(t, b)
	require.Len(t, d.taken(), 1)
}

func TestMagicAmounts(t *testing.T) {
	d := newDesk()
	b := d.open(t, vfs.NewMem())
	defer b.Close()
	for i, ending := range []int64{sandbox.EndingTwice, sandbox.EndingLate, sandbox.EndingNever} {
		require.NoError(t, b.Expect(t.Context(), deposit(i, 5000+ending)))
	}
	d.turn(delay)
	settle(t, b)
	require.Len(t, d.taken(), 2, "twice")
	require.Equal(t, d.taken()[0], d.taken()[1], "with one event id")
	d.turn(9 * delay)
	settle(t, b)
	require.Len(t, d.taken(), 3)
	require.Equal(t, deposit(1, 0).ID, d.taken()[2].Data.DepositID, "late")
	d.turn(30 * 24 * time.Hour)
	settle(t, b)
	require.Len(t, d.taken(), 3, "never")
}

func TestAsksUntilTaken(t *testing.T) {
	d := newDesk()
	b := d.open(t, vfs.NewMem())
	defer b.Close()
	require.NoError(t, b.Expect(t.Context(), deposit(1, 5000)))
	d.turn(delay)
	d.answer(http.StatusServiceUnavailable, nil)
	settle(t, b)
	settle(t, b)
	require.Len(t, d.taken(), 1, "no retry before the backoff is over")
	d.turn(time.Minute)
	d.answer(0, errors.New("connection refused"))
	settle(t, b)
	require.Len(t, d.taken(), 2)
	d.turn(time.Minute)
	d.answer(http.StatusOK, nil)
	settle(t, b)
	require.Len(t, d.taken(), 3)
	d.turn(time.Hour)
	settle(t, b)
	require.Len(t, d.taken(), 3, "taken is taken")
}

// TestPowerLoss crashes the machine after the order was acknowledged, and again after a report that was sent but whose taking
// was not kept: the report is sent again with the same event id.
func TestPowerLoss(t *testing.T) {
	d, fs := newDesk(), vfs.NewCrashableMem()
	b := d.open(t, fs)
	require.NoError(t, b.Expect(t.Context(), deposit(1, 5000)))
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, b.Close())

	b = d.open(t, crashed)
	d.turn(delay)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Step(ctx)
	require.NoError(t, err)
	again := crashed.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, b.Close())

	b = d.open(t, again)
	defer b.Close()
	settle(t, b)
	require.Len(t, d.taken(), 2)
	require.Equal(t, d.taken()[0], d.taken()[1])
}

func TestRunPostsOverHTTP(t *testing.T) {
	got := make(chan string, 1)
	signed := func(method, path string, body []byte) string { return method + " " + path + " " + string(body) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/base/reports" && r.Header.Get("Partner-Signature") == signed(http.MethodPost, "/reports", body) {
			select {
			case got <- string(body):
			default: // a repeat: the answer to the first report came too late
			}
		}
	}))
	defer server.Close()
	b, err := sandbox.NewBank(sandbox.Config{Dir: t.TempDir(), Clock: time.Now,
		Report: sandbox.Post(server.Client(), server.URL+"/base", "/reports", signed)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	require.NoError(t, b.Expect(t.Context(), deposit(1, 5000)))
	require.Contains(t, <-got, deposit(1, 0).ID)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, b.Close())
}

func TestRefusesWhatIsNoDeposit(t *testing.T) {
	d := newDesk()
	b := d.open(t, vfs.NewMem())
	defer b.Close()
	require.Error(t, b.Expect(t.Context(), partner.Deposit{ID: "card_x"}))
	_, err := sandbox.NewBank(sandbox.Config{})
	require.Error(t, err)
}
