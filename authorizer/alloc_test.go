//go:build !race

package authorizer

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
)

// Under the race detector sync.Pool drops tickets at random, so this runs in make test only.
func TestDecisionAllocatesNothing(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(50, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	m := authorization("a1", c, 100)
	r.approved(m)
	allocs := testing.AllocsPerRun(1000, func() {
		require.Equal(t, hold.Approved, r.judged(m))
	})
	require.Zero(t, allocs)
}

// judged goes the way of a message up to the decision, without the look for a repeat and the commit, which are Pebble's.
func (r *rig) judged(m *hold.Message) hold.Decision {
	tk := r.e.newTicket(actDecide)
	defer r.e.release(tk)
	r.e.arm(tk)
	if !r.e.admit(tk, true) || !r.e.claim(tk, m, true) {
		panic("late")
	}
	tk.keep(m)
	tk.view.Now = epoch.UnixMilli()
	if err := r.e.address(tk, &tk.message); err != nil {
		panic(err)
	}
	tk.shard.mu.Lock()
	defer tk.shard.mu.Unlock()
	if !tk.shard.fill(tk) {
		panic("not cached")
	}
	tk.view.Spendable, _ = spendable(tk.funds)
	tk.view.Spend = tk.card.spend
	if err := r.e.judge(tk); err != nil {
		panic(err)
	}
	return tk.entry.Decision
}

// From the socket to the decision and back to the socket: the HTTP library's loop, the parser, the decision, the answer.
func TestSwipeOverTheSocketAllocatesNothing(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(50, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	r.approved(authorization("a1", c, 100))
	o := openDoor(t, func(m *hold.Message) Answer {
		return Answer{Status: StatusOK, ID: m.ID, Decision: r.judged(m), Reason: hold.ReasonApproved, Approved: m.Amount}
	})
	conn, err := net.Dial("tcp", o.address)
	require.NoError(t, err)
	defer conn.Close()
	body := fmt.Sprintf(`{"id":"a2","cardToken":%q,"amountCents":100,"currency":"USD","merchant":{"name":"Shop","mcc":"5411"}}`,
		c.token)
	request := fmt.Appendf(nil,
		"POST /v1/authorizations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testSecret,
		len(body), body)
	var buffer [2048]byte
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := conn.Write(request); err != nil {
			panic(err)
		}
		n, err := conn.Read(buffer[:])
		if err != nil || !bytes.Contains(buffer[:n], []byte(`"decision":"approved"`)) {
			panic(string(buffer[:n]))
		}
	})
	require.Zero(t, allocs)
}
