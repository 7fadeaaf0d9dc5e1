package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A journal that is older than the authorizer, as after a failover to a standby that lagged, loses
// no decision that the authorizer's log has and lets no card do more than it could.
func TestAttackStaleJournal(t *testing.T) {
	data := t.TempDir()
	wall := &stepped{}
	_, p := riseAt(t, data, wall)
	v := newClockVictim(t, p)
	drain := func() {
		p.await(t, "an empty backlog", func() bool { return strings.Contains(p.ask("/metrics"), "\npurser_backlog_entries 0\n") })
	}
	drain()
	require.NoError(t, p.stop())
	stale := t.TempDir() + "/journal"
	require.NoError(t, copyTree(journalDir(data), stale))

	_, v.p = riseAt(t, data, wall)
	p = v.p
	later := p.swipeFor(t, v.token, "later")
	a, err := p.api(v.bearer, request{method: "GET", path: "/api/cards"})
	require.NoError(t, err)
	card := a.rows("data")[0]["id"].(string)
	a, err = p.api(v.bearer, request{method: "PATCH", path: "/api/cards/" + card, body: marshal(fields{"state": "frozen"})})
	require.NoError(t, err)
	require.Equal(t, 200, a.status, string(a.raw))
	drain()
	require.NoError(t, p.stop())
	require.NoError(t, os.RemoveAll(journalDir(data)))
	require.NoError(t, copyTree(stale, journalDir(data)))

	m := NewMain(testConfig(t, data), talkative())
	require.ErrorContains(t, m.Start(t.Context()), "purser rebuild-authorizer")
	var out strings.Builder
	require.ErrorContains(t, run([]string{"rebuild-authorizer", "--data-dir", data}, &out), "--yes")
	require.Contains(t, out.String(), "1 decisions of the old log that the journal lacks are kept")
	out.Reset()
	require.NoError(t, run([]string{"rebuild-authorizer", "--yes", "--data-dir", data}, &out))
	require.Contains(t, out.String(), "the journal has lost changes of 1 cards")
	require.Contains(t, out.String(), card)

	_, v.p = riseAt(t, data, wall)
	v.p.await(t, "the decision that the journal had lost", func() bool {
		a, err := v.p.api(v.bearer, request{method: "GET", path: "/api/authorizations"})
		return err == nil && strings.Contains(string(a.raw), `"networkId":"`+later+`"`)
	})
	require.Equal(t, string(v.swiped.raw), string(v.send(t).raw))
	require.Equal(t, "card_frozen", v.reasonOf(t, "after"))
	for _, state := range []string{"frozen", "active"} {
		a, err = v.p.api(v.bearer, request{method: "PATCH", path: "/api/cards/" + card, body: marshal(fields{"state": state})})
		require.NoError(t, err)
		require.Equal(t, 200, a.status, string(a.raw))
	}
	v.p.swipeFor(t, v.token, "confirmed")
	require.NoError(t, v.p.stop())
	require.Contains(t, auditOf(t, data), "agree to the cent")
}

func (v *clockVictim) reasonOf(t *testing.T, id string) string {
	t.Helper()
	a, err := v.p.as(v.p.network, v.p.secret).decided(t.Context(), request{method: "POST", path: "/v1/authorizations",
		body: marshal(fields{"id": id, "cardToken": v.token, "amountCents": 1_00, "currency": "USD",
			"merchant": fields{"name": "Cafe", "mcc": "5812"}})})
	require.NoError(t, err)
	return a.text("reason")
}
