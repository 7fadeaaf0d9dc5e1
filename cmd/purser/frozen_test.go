package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"purser/authorizer/hold"

	"github.com/stretchr/testify/require"
)

const (
	frozenConnections = 32 // half are open before the freeze, half are opened during it
	frozenRounds      = 2
	frozenRoundsFull  = 30 // with PURSER_TEST_FULL
)

// TestAttackFrozenProcess stops the process, sends it swipes on open and on new connections, and
// resumes it after their deadline. Each of these swipes is declined with "timeout" and holds
// nothing. A later swipe is approved.
func TestAttackFrozenProcess(t *testing.T) {
	t.Parallel()
	rounds := frozenRounds
	if os.Getenv(fullLengthVariable) != "" {
		rounds = frozenRoundsFull
	}
	data := filepath.Join(t.TempDir(), "data")
	p := launch(t, program{path: buildProgram(t), env: asShipped}, data)
	v := newTenantWithHold(t, p)
	for round := range rounds {
		swipes := make([]*frozenSwipe, frozenConnections)
		for i := range swipes {
			swipes[i] = &frozenSwipe{id: fmt.Sprintf("frozen-%d-%d", round, i)}
			if i%2 == 0 {
				swipes[i].dial(t, p)
				swipes[i].send(t, v, fmt.Sprintf("warm-%d-%d", round, i), 0)
				swipes[i].readAnswer(t)
			}
		}
		p.freeze(t)
		for i, s := range swipes {
			if i%2 == 1 {
				s.dial(t, p)
			}
			s.send(t, v, s.id, 7) // with one of them held, the balance below is never a whole dollar
		}
		sent := time.Now()
		require.Eventually(t, func() bool { return time.Since(sent) > 2*hold.AnswerWithin }, time.Minute,
			pollInterval)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
		for _, s := range swipes {
			answer := s.readAnswer(t)
			require.Contains(t, answer, `"decision":"declined","reason":"timeout"`, s.id)
			require.NoError(t, s.conn.Close())
		}
	}
	p.requireApproval(t, v.token, "afterwards")
	p.await(t, "a balance without a frozen swipe", func() bool { return v.availableCents(t) == 29_00 })
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, program{path: buildProgram(t)}, data, "audit"), "agree to the cent")
}

// freeze sends SIGSTOP and returns when the kernel reports the process as stopped.
func (p *process) freeze(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(rest, "T")
	}, time.Minute, pollInterval)
}

// frozenSwipe is one authorization and its connection.
type frozenSwipe struct {
	id   string
	conn net.Conn
	in   *bufio.Reader
}

func (s *frozenSwipe) dial(t *testing.T, p *process) {
	t.Helper()
	var err error
	s.conn, err = net.Dial("tcp", strings.TrimPrefix(p.network, "http://"))
	require.NoError(t, err)
	s.in = bufio.NewReader(s.conn)
	t.Cleanup(func() { _ = s.conn.Close() })
}

func (s *frozenSwipe) send(t *testing.T, v *tenantWithHold, id string, cents int64) {
	t.Helper()
	body := marshal(fields{"id": id, "cardToken": v.token, "amountCents": cents, "currency": "USD",
		"merchant": fields{"name": "Cafe", "mcc": "5812"}})
	_, err := fmt.Fprintf(s.conn, "POST /v1/authorizations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Length: %d\r\n\r\n%s", v.p.secret, len(body), body)
	require.NoError(t, err)
}

func (s *frozenSwipe) readAnswer(t *testing.T) string {
	t.Helper()
	require.NoError(t, s.conn.SetReadDeadline(time.Now().Add(processTimeout)))
	resp, err := http.ReadResponse(s.in, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(text))
	return string(text)
}
