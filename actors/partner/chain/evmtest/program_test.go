package evmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

const (
	within   = 60 * time.Second
	askAgain = 20 * time.Millisecond
)

// binary is the path of the shipped program, which TestMain builds.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "purser-evm")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "purser")
	build := exec.Command("go", "build", "-o", binary, "./cmd/purser")
	build.Dir = filepath.Join("..", "..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	status := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, within, askAgain, what)
}

// program is the product as a process with one workspace, and the receiver of its webhooks.
type program struct {
	t                *testing.T
	cmd              *exec.Cmd
	data             string
	log              bytes.Buffer
	http             *http.Client
	rest, admin, key string
	receiver         *httptest.Server

	mu       sync.Mutex
	webhooks map[string]map[string]string // session → webhook-id → body
}

// startProgram starts the program with the node for the given chains, and sandbox chains for the
// others.
func startProgram(t *testing.T, n *node, chains ...string) *program {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	p := &program{t: t, data: filepath.Join(t.TempDir(), "data"), http: &http.Client{Jar: jar, Timeout: within},
		webhooks: map[string]map[string]string{}}
	p.receiver = httptest.NewServer(http.HandlerFunc(p.receiveWebhook))
	p.cmd = exec.Command(binary, "serve", "--data-dir", p.data)
	p.cmd.Env = []string{"PURSER_HTTP_ADDR=127.0.0.1:0", "PURSER_AUTHORIZER_ADDR=127.0.0.1:0",
		"PURSER_ADMIN_ADDR=127.0.0.1:0",
		"PURSER_RATE_LIMITS=off", "PURSER_AUTHORIZER_CACHE=64MiB", "PURSER_ALLOW_PRIVATE_WEBHOOKS=true"}
	for _, chain := range chains {
		p.cmd.Env = append(p.cmd.Env, fmt.Sprintf("PURSER_CHAIN_%s_URL=%s/%s", strings.ToUpper(chain), n.gate.URL, chain))
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.stop)
	await(t, "the addresses", p.findAddresses)
	await(t, "readiness", func() bool {
		answer, err := p.http.Get(p.admin + "/readyz")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	p.signUp()
	return p
}

// stop ends the program with SIGTERM, and logs its output after a failed test.
func (p *program) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	err := p.cmd.Wait()
	p.receiver.Close()
	if p.t.Failed() {
		p.t.Log(p.log.String())
	}
	require.NoError(p.t, err)
}

func (p *program) findAddresses() bool {
	text, err := os.ReadFile(filepath.Join(p.data, "addresses"))
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "HTTP_ADDR":
			p.rest = "http://" + value
		case "ADMIN_ADDR":
			p.admin = "http://" + value
		}
	}
	return err == nil && p.rest != "" && p.admin != ""
}

func (p *program) signUp() {
	p.t.Helper()
	p.mustRequest("POST", "/api/dashboard/signup", map[string]any{"email": "evm@example.com",
		"password": "a long password"}, nil)
	p.mustRequest("POST", "/api/workspaces", map[string]any{"name": "Corner Books"}, nil)
	p.mustRequest("POST", "/api/webhooks/endpoints", map[string]any{"url": p.receiver.URL,
		"events": []string{"checkout.session.completed"}}, nil)
	var made struct{ Secret string }
	p.mustRequest("POST", "/api/auth/keys",
		map[string]any{"label": "evm", "scopes": []string{"read:checkout", "write:checkout", "read:treasury"}}, &made)
	p.key = made.Secret
}

// mustRequest sends a request that must succeed.
func (p *program) mustRequest(method, path string, body, into any) {
	p.t.Helper()
	require.NoError(p.t, p.request(method, path, body, into))
}

// request sends a request with the API key, or with the dashboard's cookie before there is a key.
func (p *program) request(method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, p.rest+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if p.key != "" {
		r.Header.Set("Authorization", "Bearer "+p.key)
	}
	answer, err := p.http.Do(r)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(answer.Body)
	switch err = errors.Join(err, answer.Body.Close()); {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, raw)
	case into == nil:
		return nil
	}
	return json.Unmarshal(raw, into)
}

// receiveWebhook is the merchant's server.
func (p *program) receiveWebhook(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var told struct{ ID string }
	if err != nil || json.Unmarshal(body, &told) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.webhooks[told.ID] == nil {
		p.webhooks[told.ID] = map[string]string{}
	}
	p.webhooks[told.ID][r.Header.Get("webhook-id")] = string(body)
}

func (p *program) webhookBodies(session string) (bodies []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, body := range p.webhooks[session] {
		bodies = append(bodies, body)
	}
	return bodies
}

// checkoutSession is a checkout session as the merchant sees it.
type checkoutSession struct {
	ID, Status                    string
	ReceivedUsdCents, DueUsdCents int64
	TxHash, PayerAddress          *string
	Confirmations                 struct{ Seen, Of int }
	ReceivingAddresses            []struct{ Asset, Chain, Address string }
	Payments                      []payment
}

type payment struct {
	Asset, Chain, TxHash, Units, Status string
	Index                               int
	Reason                              *string
}

// address is the receiving address, one for all EVM chains.
func (s *checkoutSession) address() common.Address {
	return common.HexToAddress(s.ReceivingAddresses[0].Address)
}

// createSession creates a session that accepts an asset on chains, and selects the first chain.
// units is the amount due in smallest units.
func (p *program) createSession(asset string, chains ...string) (s *checkoutSession, units string) {
	p.t.Helper()
	var made struct{ Session *checkoutSession }
	p.mustRequest("POST", "/api/v1/checkout/sessions", map[string]any{"amountUsdCents": askedCents,
		"successUrl": "https://shop.example.com/thanks", "acceptedAssets": []string{asset}, "acceptedChains": chains},
		&made)
	var picked struct{ AmountUnits string }
	p.mustRequest("POST", "/api/v1/checkout/sessions/"+made.Session.ID+"/select", map[string]any{"asset": asset,
		"chain": chains[0]},
		&picked)
	return made.Session, picked.AmountUnits
}

func (p *program) readSession(s *checkoutSession) *checkoutSession {
	p.t.Helper()
	now, err := p.tryReadSession(s)
	require.NoError(p.t, err)
	return now
}

func (p *program) tryReadSession(s *checkoutSession) (*checkoutSession, error) {
	var answer struct{ Session *checkoutSession }
	err := p.request("GET", "/api/v1/checkout/sessions/"+s.ID, nil, &answer)
	return answer.Session, err
}

// awaitSession waits until a session satisfies is. A read that a busy machine refuses is retried.
func (p *program) awaitSession(s *checkoutSession, what string, is func(now *checkoutSession) bool) *checkoutSession {
	p.t.Helper()
	var now *checkoutSession
	await(p.t, what, func() bool {
		read, err := p.tryReadSession(s)
		now = read
		return err == nil && is(now)
	})
	return now
}

// stablecoinBalance is the workspace's stablecoins, and the number of ledger lines that credit a
// session.
func (p *program) stablecoinBalance(s *checkoutSession) (cents int64, credits int) {
	p.t.Helper()
	var treasury struct {
		Snapshot struct{ StablecoinUsdCents int64 }
		Ledger   []struct{ Reference string }
	}
	p.mustRequest("GET", "/api/treasury", nil, &treasury)
	for _, line := range treasury.Ledger {
		if line.Reference == s.ID {
			credits++
		}
	}
	return treasury.Snapshot.StablecoinUsdCents, credits
}

// requireCompleted waits until the only session of the workspace is completed, credited and
// announced, and requires one credit and one event.
func (p *program) requireCompleted(s *checkoutSession, tx common.Hash) {
	p.t.Helper()
	now := p.awaitSession(s, "completed", func(now *checkoutSession) bool { return now.Status == "completed" })
	require.Equal(p.t, tx.Hex(), *now.TxHash)
	await(p.t, "the event", func() bool { return len(p.webhookBodies(s.ID)) > 0 })
	p.requireCreditedOnce(s, tx)
}

// requireCreditedOnce requires one credit and one event.
func (p *program) requireCreditedOnce(s *checkoutSession, tx common.Hash) {
	p.t.Helper()
	balance, credits := p.stablecoinBalance(s)
	require.EqualValues(p.t, askedCents, balance)
	require.Equal(p.t, 1, credits)
	events := p.webhookBodies(s.ID)
	require.Len(p.t, events, 1)
	require.JSONEq(p.t, fmt.Sprintf(`{"id": %q, "amountUsdCents": %d, "txHash": %q, "payerAddress": %q}`, s.ID,
		askedCents,
		tx.Hex(), *p.readSession(s).PayerAddress), events[0])
}
