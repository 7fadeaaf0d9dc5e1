package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/settings"
	"purser/persistence/pebblegate"
)

// smallDisk is a file system in memory whose size a test changes, so that it fills at once.
type smallDisk struct{ dir string }

// mountSmallDisk mounts a tmpfs until the test ends. It returns nil where the test may not mount
// one: the tests of disk_test.go and of persistence/pebblegate then cover the case.
func mountSmallDisk(t *testing.T, bytes int64) *smallDisk {
	t.Helper()
	d := &smallDisk{t.TempDir()}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprint("size=", bytes), "purser-test",
		d.dir).CombinedOutput(); err != nil {
		t.Logf("no small disk on this machine: %s", out)
		return nil
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", d.dir).Run()) })
	return d
}

// setFreeBytes resizes the disk until it has free bytes left. It repeats a remount that fails
// because a server has written meanwhile.
func (d *smallDisk) setFreeBytes(t *testing.T, free int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		var s syscall.Statfs_t
		require.NoError(t, syscall.Statfs(d.dir, &s))
		used := int64(s.Blocks-s.Bfree) * s.Bsize
		return exec.Command("mount", "-o", fmt.Sprint("remount,size=", used+free), d.dir).Run() == nil
	}, stateTimeout, pollInterval)
}

// swipeStream sends one-cent authorizations of one card from eight connections and keeps the
// answers.
type swipeStream struct {
	token string
	n     atomic.Int64

	mu       sync.Mutex
	answered []swipeAnswer // approvals and declines, which a repeat must return again
	refused  atomic.Int64  // answers "system_unavailable"
}

type swipeAnswer struct {
	body []byte
	raw  string
}

// runUntil swipes until the condition holds or the process no longer answers. It fails the test
// after stateTimeout.
func (s *swipeStream) runUntil(t *testing.T, p *process, holds func() bool) {
	t.Helper()
	var streams sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), stateTimeout)
	defer cancel()
	for range 8 {
		streams.Go(func() {
			for !holds() && ctx.Err() == nil && s.sendNextSwipe(ctx, p) {
			}
		})
	}
	streams.Wait()
	require.NoError(t, ctx.Err(), "the disk did not become full")
}

// sendNextSwipe sends one swipe. It returns false when the process does not answer.
func (s *swipeStream) sendNextSwipe(ctx context.Context, p *process) (alive bool) {
	body := marshal(fields{"id": fmt.Sprint("swipe-", s.n.Add(1)), "cardToken": s.token, "amountCents": 1,
		"currency": "USD",
		"merchant": fields{"name": strings.Repeat("Cafe ", 8), "mcc": "5812"}})
	a, err := p.client(p.network, p.secret).Send(ctx,
		apiclient.Request{Method: "POST", Path: "/v1/authorizations", Body: body})
	switch {
	case err != nil:
		return false
	case a.Text("reason") == "system_unavailable":
		s.refused.Add(1)
	case a.Status == http.StatusOK && a.Text("reason") != "timeout":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answered = append(s.answered, swipeAnswer{body, string(a.Raw)})
	}
	return true
}

// requireSameAnswers repeats every answered swipe and requires its first answer.
func (s *swipeStream) requireSameAnswers(t *testing.T, p *process) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, was := range s.answered {
		a, err := p.client(p.network, p.secret).SendUntilDecided(t.Context(),
			apiclient.Request{Method: "POST", Path: "/v1/authorizations", Body: was.body})
		require.NoError(t, err)
		require.Equal(t, was.raw, string(a.Raw))
	}
}

// launchOnFullDisk starts a server on a disk without room for approvals, which therefore is not
// ready.
func launchOnFullDisk(t *testing.T, purser program, data string) *process {
	t.Helper()
	p, addresses := startCommand(t, purserCommand(purser, data, "serve"))
	p.rest, p.network = "http://"+addresses["http"], "http://"+addresses["authorizer"]
	p.admin = "http://" + addresses["admin"]
	secret, err := os.ReadFile(filepath.Join(data, "network-secret"))
	require.NoError(t, err)
	p.secret = strings.TrimSpace(string(secret))
	return p
}

// launchOnSmallDisk starts a server with its data on a small disk, and returns a stream of swipes
// that it approves. All results are zero where no disk can be mounted.
func launchOnSmallDisk(t *testing.T) (*smallDisk, program, string, *process, *swipeStream) {
	t.Helper()
	d := mountSmallDisk(t, 2<<30)
	if d == nil {
		return nil, program{}, "", nil, nil
	}
	purser := program{path: buildProgram(t), env: []string{fmt.Sprint("PURSER_DISK_RESERVE=", settings.MinDiskReserve)}}
	data := filepath.Join(d.dir, "data")
	p := launch(t, purser, data)
	tn := &tenant{bearer: signUp(t, p, 0)}
	tn.mustPost(t, p, "/api/treasury/deposits", depositRequest(1_000_000_00), 202)
	card := tn.mustPost(t, p, "/api/cards", cardRequest(), 200).answer
	s := &swipeStream{token: card.Text("card", "partnerCardToken")}
	p.await(t, "funds", func() bool {
		a := p.postCardMessage(t, "/v1/authorizations", oneDollarSwipe(fmt.Sprint("probe-", s.n.Add(1)), s.token))
		return a.Text("decision") == "approved"
	})
	return d, purser, data, p, s
}

// A disk fills under swipes. Approvals stop before the reserve is used, every answered swipe is
// relayed, the process stops and starts on the full disk, and approvals return with the space.
// Without the reserve the process ended in the middle of a commit, and a start could hang forever.
func TestAttackFullDiskOfTheRealProcess(t *testing.T) {
	d, purser, data, p, s := launchOnSmallDisk(t)
	if d == nil {
		return
	}
	rounds, room := 1, int64(1<<20)
	if os.Getenv(fullLengthVariable) != "" {
		rounds, room = 8, 128<<20
	}
	for round := range rounds {
		d.setFreeBytes(t, settings.MinDiskReserve+room)
		s.runUntil(t, p, func() bool { return s.refused.Load() > 0 })
		p.awaitEmptyBacklog(t)
		require.NotEmpty(t, s.answered)
		require.Empty(t, p.signalAndWait(t, syscall.SIGTERM), "the server failed: %s", p.log.tail(logTailLines))
		require.Contains(t, p.log.String(), "approvals and requests that store more are refused until space is free")

		d.setFreeBytes(t, pebblegate.FlushBytes+8<<20) // less than the reserve, enough for a start
		p = launchOnFullDisk(t, purser, data)
		d.setFreeBytes(t, settings.MinDiskReserve-8<<20) // the start removed log files
		s.refused.Store(0)
		s.runUntil(t, p, func() bool { return s.refused.Load() > 0 })
		resp, err := p.http.Get(p.admin + "/readyz")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Equal(t, "system_unavailable", p.postCardMessage(t, "/v1/authorizations",
			oneDollarSwipe(fmt.Sprint("full-", round), s.token)).Text("reason"))
		d.setFreeBytes(t, 1<<30)
		p.await(t, "readiness", func() bool { return strings.Contains(p.adminPage("/readyz"), "ready") })
		p.requireApproval(t, s.token, fmt.Sprint("again-", round))
		s.refused.Store(0)
	}
	s.requireSameAnswers(t, p)
	p.awaitEmptyBacklog(t)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
}
