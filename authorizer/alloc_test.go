//go:build !race

package authorizer

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/authorizer/network"
)

// The race detector makes sync.Pool drop tickets at random, so this test runs without it only.
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

// judged decides a message without the look-up of a repeat and without the commit, which belong to
// Pebble.
func (r *rig) judged(m *hold.Message) hold.Decision {
	tk := r.e.commits.newTicket(actDecide)
	defer r.e.commits.release(tk)
	r.e.commits.armTicket(tk, 0)
	if !r.e.commits.admitTicket(tk) || !r.e.commits.claims.takeMessage(tk, m) {
		panic("late")
	}
	tk.keep(m)
	tk.view.Now = epoch.UnixMilli()
	if err := r.e.decider.addressTicket(tk, &tk.message); err != nil {
		panic(err)
	}
	tk.shard.mu.Lock()
	defer tk.shard.mu.Unlock()
	if !tk.shard.fill(tk) {
		panic("not cached")
	}
	tk.view.Spendable, _ = spendableCents(tk.funds)
	tk.view.Spend = tk.card.spend
	if err := r.e.decider.judgeTicket(tk); err != nil {
		panic(err)
	}
	return tk.entry.Decision
}

// The path from the socket to the decision and back allocates nothing: fasthttp's loop, the parser,
// the decision, the answer.
func TestSwipeOverTheSocketAllocatesNothing(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(50, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	r.approved(authorization("a1", c, 100))
	address := serveSwipes(t, func(m *hold.Message) hold.Answer {
		return hold.Answer{Status: hold.StatusOK, ID: m.ID, Decision: r.judged(m), Reason: hold.ReasonApproved,
			Approved: m.Amount}
	})
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	body := fmt.Sprintf(`{"id":"a2","cardToken":%q,"amountCents":100,"currency":"USD","merchant":{"name":"Shop","mcc":"5411"}}`,
		c.token)
	request := fmt.Appendf(nil,
		"POST /v1/authorizations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		networkSecret,
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

// A whole swipe of a cached card allocates nothing: socket, Submit, decider, the look-up of its
// network id in the store (memtable and tables), decision, commit, sync, and back to the socket.
// Pebble pools its batches and iterators. AllocsPerRun rounds down, so it does not count Pebble's
// allocations per memtable or table. A card outside the cache allocates its rule, its workspace's
// funds, and Pebble's reads of tables.
func TestDurableSwipeAllocatesNothing(t *testing.T) {
	for name, cents := range map[string]int{"approved": 100, "declined": 1_000_001} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, vfs.NewMem())
			c := cardOf(50, 1)
			r.mint(c, func(rule *hold.Rule) { rule.PerTxnCents = 1_000_000 })
			r.deposit(c.workspace, 10_000_000)
			const warm = 12_000
			for i := range warm { // until the arenas of both generations have grown
				r.approved(authorization("warm"+strconv.Itoa(i), c, 1))
				if i%(warm/2) == 0 {
					require.NoError(t, r.e.store.projector.projectAll())
				}
			}
			require.NoError(t, r.e.store.projector.projectAll())
			allocs, answered := r.allocsOfSwipes(t, c, cents, fmt.Appendf(nil, `"decision":%q`, name))
			require.Zero(t, allocs)
			require.EqualValues(t, warm+answered, r.e.Synced(c.card.Shard()), "each was committed, none was a repeat")
		})
	}
}

// allocsOfSwipes sends swipes of new ids to an engine over one connection. Each answer must contain
// want.
func (r *rig) allocsOfSwipes(t *testing.T, c testCard, cents int, want []byte) (allocs float64, answered int) {
	address := serveSwipes(t, r.e.Submit)
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	const first = 1_000_000 // has as many digits as the last id
	body := fmt.Sprintf(`{"id":"%d","cardToken":%q,"amountCents":%d,"currency":"USD","merchant":{"name":"Shop","mcc":"5411"}}`,
		first, c.token, cents)
	request := fmt.Appendf(nil,
		"POST /v1/authorizations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		networkSecret,
		len(body), body)
	id := request[bytes.Index(request, []byte(`"id":"`))+len(`"id":"`):][:0]
	var buffer [2048]byte
	allocs = testing.AllocsPerRun(1000, func() {
		strconv.AppendInt(id, int64(first+answered), 10)
		if _, err := conn.Write(request); err != nil {
			panic(err)
		}
		n, err := conn.Read(buffer[:])
		if err != nil || !bytes.Contains(buffer[:n], want) {
			panic(string(buffer[:n]))
		}
		answered++
	})
	return allocs, answered
}

// networkSecret is the secret of serveSwipes.
const networkSecret = "network-secret"

// serveSwipes serves the card network's port and returns its address. Its timeouts never expire.
func serveSwipes(t *testing.T, submit func(*hold.Message) hold.Answer) string {
	server, err := network.New(network.Options{Decider: submitFunc(submit), Secrets: []string{networkSecret},
		Clock:       func() time.Time { return epoch },
		ReadTimeout: time.Hour, WriteTimeout: time.Hour, IdleTimeout: time.Hour})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown(context.Background()))
		require.NoError(t, <-served)
	})
	return ln.Addr().String()
}

type submitFunc func(m *hold.Message) hold.Answer

func (f submitFunc) Submit(m *hold.Message) hold.Answer { return f(m) }
