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

// binary is the program as it is shipped; TestMain builds it.
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

// program is the product as a process, one workspace in it, and the endpoint that the workspace has its webhooks sent to.
type program struct {
	t                *testing.T
	cmd              *exec.Cmd
	data             string
	log              bytes.Buffer
	http             *http.Client
	rest, admin, key string
	receiver         *httptest.Server

	mu   sync.Mutex
	told map[string]map[string]string // session → webhook-id → body
}

// startProgram starts it with the node for the chains; the others are the sandbox's.
func startProgram(t *testing.T, n *node, chains ...string) *program {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	p := &program{t: t, data: filepath.Join(t.TempDir(), "data"), http: &http.Client{Jar: jar, Timeout: within},
		told: map[string]map[string]string{}}
	p.receiver = httptest.NewServer(http.HandlerFunc(p.receive))
	p.cmd = exec.Command(binary, "serve", "--data-dir", p.data)
	p.cmd.Env = []string{"PURSER_HTTP_ADDR=127.0.0.1:0", "PURSER_AUTHORIZER_ADDR=127.0.0.1:0", "PURSER_ADMIN_ADDR=127.0.0.1:0",
		"PURSER_RATE_LIMITS=off", "PURSER_AUTHORIZER_CACHE=64MiB", "PURSER_ALLOW_PRIVATE_WEBHOOKS=true"}
	for _, chain := range chains {
		p.cmd.Env = append(p.cmd.Env, fmt.Sprintf("PURSER_CHAIN_%s_URL=%s", strings.ToUpper(chain), n.gate.URL))
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

// stop ends the program in good order, and tells what it wrote when the test has failed.
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
	p.ask("POST", "/api/dashboard/signup", map[string]any{"email": "evm@example.com", "password": "a long password"}, nil)
	p.ask("POST", "/api/workspaces", map[string]any{"name": "Corner Books"}, nil)
	p.ask("POST", "/api/webhooks/endpoints", map[string]any{"url": p.receiver.URL,
		"events": []string{"checkout.session.completed"}}, nil)
	var made struct{ Secret string }
	p.ask("POST", "/api/auth/keys",
		map[string]any{"label": "evm", "scopes": []string{"read:checkout", "write:checkout", "read:treasury"}}, &made)
	p.key = made.Secret
}

// ask sends a request that must succeed.
func (p *program) ask(method, path string, body, into any) {
	p.t.Helper()
	require.NoError(p.t, p.try(method, path, body, into))
}

// try sends a request: with the key, once there is one, else with the dashboard's cookie.
func (p *program) try(method, path string, body, into any) error {
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

// receive is the merchant's server.
func (p *program) receive(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var told struct{ ID string }
	if err != nil || json.Unmarshal(body, &told) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told[told.ID] == nil {
		p.told[told.ID] = map[string]string{}
	}
	p.told[told.ID][r.Header.Get("webhook-id")] = string(body)
}

func (p *program) events(session string) (bodies []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, body := range p.told[session] {
		bodies = append(bodies, body)
	}
	return bodies
}

// session is a link as the merchant sees it.
type session struct {
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

// address is where a link is paid: one for all EVM chains.
func (s *session) address() common.Address {
	return common.HexToAddress(s.ReceivingAddresses[0].Address)
}

// link makes a link that takes an asset on chains, and picks the first of them. The answer says in units what that is to be paid
// with.
func (p *program) link(asset string, chains ...string) (s *session, units string) {
	p.t.Helper()
	var made struct{ Session *session }
	p.ask("POST", "/api/v1/checkout/sessions", map[string]any{"amountUsdCents": askedCents,
		"successUrl": "https://shop.example.com/thanks", "acceptedAssets": []string{asset}, "acceptedChains": chains}, &made)
	var picked struct{ AmountUnits string }
	p.ask("POST", "/api/v1/checkout/sessions/"+made.Session.ID+"/select", map[string]any{"asset": asset, "chain": chains[0]},
		&picked)
	return made.Session, picked.AmountUnits
}

func (p *program) read(s *session) *session {
	p.t.Helper()
	now, err := p.tryRead(s)
	require.NoError(p.t, err)
	return now
}

func (p *program) tryRead(s *session) (*session, error) {
	var answer struct{ Session *session }
	err := p.try("GET", "/api/v1/checkout/sessions/"+s.ID, nil, &answer)
	return answer.Session, err
}

// becomes waits until a link is as it should be. A reading that a busy machine refuses is made again.
func (p *program) becomes(s *session, what string, is func(now *session) bool) *session {
	p.t.Helper()
	var now *session
	await(p.t, what, func() bool {
		read, err := p.tryRead(s)
		now = read
		return err == nil && is(now)
	})
	return now
}

// stablecoin is the workspace's balance of it, and how many lines of the ledger credit a link.
func (p *program) stablecoin(s *session) (cents int64, credits int) {
	p.t.Helper()
	var treasury struct {
		Snapshot struct{ StablecoinUsdCents int64 }
		Ledger   []struct{ Reference string }
	}
	p.ask("GET", "/api/treasury", nil, &treasury)
	for _, line := range treasury.Ledger {
		if line.Reference == s.ID {
			credits++
		}
	}
	return treasury.Snapshot.StablecoinUsdCents, credits
}

// completes waits until a link that is the workspace's only one is completed, credited and announced, and holds it to one of
// each.
func (p *program) completes(s *session, tx common.Hash) {
	p.t.Helper()
	now := p.becomes(s, "completed", func(now *session) bool { return now.Status == "completed" })
	require.Equal(p.t, tx.Hex(), *now.TxHash)
	await(p.t, "the event", func() bool { return len(p.events(s.ID)) > 0 })
	p.creditedOnce(s, tx)
}

// creditedOnce holds it to one credit and one event.
func (p *program) creditedOnce(s *session, tx common.Hash) {
	p.t.Helper()
	balance, credits := p.stablecoin(s)
	require.EqualValues(p.t, askedCents, balance)
	require.Equal(p.t, 1, credits)
	events := p.events(s.ID)
	require.Len(p.t, events, 1)
	require.JSONEq(p.t, fmt.Sprintf(`{"id": %q, "amountUsdCents": %d, "txHash": %q, "payerAddress": %q}`, s.ID, askedCents,
		tx.Hex(), *p.read(s).PayerAddress), events[0])
}
