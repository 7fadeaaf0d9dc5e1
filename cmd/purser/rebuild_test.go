package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/cmd/purser/storecare"
	"purser/persistence/pgjournal/pgtest"
)

// staleDeployment is a deployment whose journal falls back to an earlier state, as after a failover
// to a standby that lagged.
type staleDeployment struct {
	data     string
	wall     *steppedClock
	database string // the journal's; empty: the directory has it
	keep     func() // copies the journal of a stopped server
	failOver func() // puts the copy in the journal's place

	*tenantWithHold
	card  string
	later string // a swipe that only the authorizer's log has
}

// staleDirectory is a deployment with its journal in the directory.
func staleDirectory(t *testing.T) *staleDeployment {
	d := &staleDeployment{data: t.TempDir(), wall: &steppedClock{}}
	stale := t.TempDir() + "/journal"
	d.keep = func() { require.NoError(t, storecare.CopyTree(datadir.JournalDir(d.data), stale)) }
	d.failOver = func() {
		require.NoError(t, os.RemoveAll(datadir.JournalDir(d.data)))
		require.NoError(t, storecare.CopyTree(stale, datadir.JournalDir(d.data)))
	}
	return d
}

// stalePostgres is a deployment with its journal in Postgres; nil where there is no Postgres.
func stalePostgres(t *testing.T) *staleDeployment {
	server := pgtest.Own(t, "a stale database", true)
	if server == nil {
		return nil
	}
	d := &staleDeployment{data: t.TempDir(), wall: &steppedClock{}, database: makeDatabase(t, server, "live")}
	d.keep = func() {
		conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "CREATE DATABASE stale TEMPLATE live")
		require.NoError(t, err)
		require.NoError(t, conn.Close(t.Context()))
	}
	d.failOver = func() { d.database = server.URL("stale") }
	return d
}

// onPlace makes the settings of a server those of the deployment's journal.
func (d *staleDeployment) onPlace(t *testing.T) func(*settings.Config) {
	return func(c *settings.Config) {
		if d.database != "" {
			*c = onDatabase(t, d.data, d.database)
		}
	}
}

// command runs a command on the deployment's stores.
func (d *staleDeployment) command(name string, flags ...string) (string, error) {
	var out strings.Builder
	args := append([]string{name, "--data-dir", d.data}, flags...)
	if d.database != "" {
		args = append(args, "--database-url", d.database)
	}
	err := run(args, &out)
	return out.String(), err
}

func (d *staleDeployment) drain(t *testing.T) {
	t.Helper()
	d.p.await(t, "an empty backlog", func() bool {
		return strings.Contains(d.p.adminPage("/metrics"),
			"\npurser_backlog_entries 0\n")
	})
}

func (d *staleDeployment) start(t *testing.T) {
	t.Helper()
	var p *process
	_, p = startOnClock(t, d.data, d.wall, d.onPlace(t))
	p.awaitReady(t)
	if d.tenantWithHold != nil {
		d.p = p
		return
	}
	d.tenantWithHold = newTenantWithHold(t, p)
}

// setState changes the card.
func (d *staleDeployment) setState(t *testing.T, state string) {
	t.Helper()
	a, err := d.p.sendToREST(d.bearer, apiclient.Request{Method: "PATCH", Path: "/api/cards/" + d.card,
		Body: marshal(fields{"state": state})})
	require.NoError(t, err)
	require.Equal(t, 200, a.Status, string(a.Raw))
}

// fallBehind swipes and freezes the card, and then takes both from the journal.
func (d *staleDeployment) fallBehind(t *testing.T) {
	t.Helper()
	d.start(t)
	d.drain(t)
	require.NoError(t, d.p.stop())
	d.keep()
	d.start(t)
	d.later = d.p.swipeFor(t, d.token, "later")
	a, err := d.p.sendToREST(d.bearer, apiclient.Request{Method: "GET", Path: "/api/cards"})
	require.NoError(t, err)
	d.card = a.Rows("data")[0]["id"].(string)
	d.setState(t, "frozen")
	d.drain(t)
	require.NoError(t, d.p.stop())
	d.failOver()
}

// goesOn requires that the card is frozen until it is activated, and that the audit is clean.
func (d *staleDeployment) goesOn(t *testing.T) {
	t.Helper()
	require.Equal(t, "card_frozen", d.reasonOf(t, "after"))
	d.setState(t, "frozen")
	d.setState(t, "active")
	d.p.swipeFor(t, d.token, "confirmed")
	require.NoError(t, d.p.stop())
	out, err := d.command("audit")
	require.NoError(t, err, out)
	require.Contains(t, out, "agree to the cent")
}

// hasLater reports whether the journal has the swipe that it had lost.
func (d *staleDeployment) hasLater() bool {
	a, err := d.p.sendToREST(d.bearer, apiclient.Request{Method: "GET", Path: "/api/authorizations"})
	return err == nil && strings.Contains(string(a.Raw), `"networkId":"`+d.later+`"`)
}

// A journal that is older than the authorizer, as after a failover to a standby that lagged, loses
// no decision that the authorizer's log has and lets no card do more than it could.
func TestAttackStaleJournal(t *testing.T) {
	t.Parallel()
	for name, deploy := range map[string]func(*testing.T) *staleDeployment{"directory": staleDirectory,
		"postgres": stalePostgres} {
		t.Run(name, func(t *testing.T) {
			d := deploy(t)
			if d == nil {
				return
			}
			d.fallBehind(t)
			if d.database == "" {
				m := newDaemon(testConfig(t, d.data), debugLogger())
				require.ErrorContains(t, m.Start(t.Context()), "purser rebuild-authorizer")
			}
			out, err := d.command("rebuild-authorizer")
			require.ErrorContains(t, err, "--yes")
			require.Contains(t, out, "decisions of the old log that the journal lacks are kept")
			out, err = d.command("rebuild-authorizer", "--yes")
			require.NoError(t, err)
			require.Contains(t, out, "the journal has lost changes of 1 cards")
			require.Contains(t, out, d.card)
			d.start(t)
			d.p.await(t, "the decision that the journal had lost", d.hasLater)
			require.Equal(t, string(d.swiped.Raw), string(d.repeatSwipe(t).Raw))
			d.goesOn(t)
		})
	}
}

// With --discard-log the decisions are named before they are lost, and a frozen card stays frozen.
func TestADiscardedLogIsNamed(t *testing.T) {
	t.Parallel()
	d := staleDirectory(t)
	d.fallBehind(t)
	out, err := d.command("rebuild-authorizer", "--discard-log")
	require.ErrorContains(t, err, "--yes")
	require.Contains(t, out, "lost with --discard-log:")
	require.Regexp(t, `authorization `+d.later+` approved, asked 100 cents, approved 100 cents, `+d.card, out)
	out, err = d.command("rebuild-authorizer", "--discard-log", "--yes")
	require.NoError(t, err)
	require.Contains(t, out, d.later)
	require.Contains(t, out, "the journal has lost changes of 1 cards")
	d.start(t)
	require.False(t, d.hasLater())
	d.goesOn(t)
}

// A repair that ends between the two renames of its stores loses nothing: the next repair takes the
// old store again.
func TestARepairIsInterruptedBetweenItsRenames(t *testing.T) {
	t.Parallel()
	d := staleDirectory(t)
	d.fallBehind(t)
	require.NoError(t, storecare.CopyTree(datadir.AuthorizerDir(d.data), storecare.FreshAuthorizerDir(d.data)))
	require.NoError(t, os.Rename(datadir.AuthorizerDir(d.data), datadir.AuthorizerDir(d.data)+".old-1000"))
	require.NoError(t, os.MkdirAll(datadir.AuthorizerDir(d.data)+".old-999", 0o700))
	require.ErrorContains(t, newDaemon(testConfig(t, d.data), debugLogger()).Start(t.Context()),
		"purser rebuild-authorizer")
	before := entriesOf(t, d.data)
	out, err := d.command("rebuild-authorizer")
	require.ErrorContains(t, err, "say --yes")
	require.Contains(t, out, "an earlier repair was interrupted: "+datadir.AuthorizerDir(d.data)+".old-1000 is the old store")
	require.Contains(t, out, "decisions of the old log that the journal lacks are kept")
	require.Equal(t, before, entriesOf(t, d.data), "without --yes nothing is moved, made or removed")
	out, err = d.command("rebuild-authorizer", "--yes")
	require.NoError(t, err)
	require.Contains(t, out, "an earlier repair was interrupted")
	kept, err := filepath.Glob(datadir.AuthorizerDir(d.data) + ".old-*")
	require.NoError(t, err)
	require.Len(t, kept, 2)
	d.start(t)
	d.p.await(t, "the decision that the journal had lost", d.hasLater)
	d.goesOn(t)
}

// entriesOf returns the names of the entries of a directory.
func entriesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func (v *tenantWithHold) reasonOf(t *testing.T, id string) string {
	t.Helper()
	a, err := v.p.client(v.p.network, v.p.secret).SendUntilDecided(t.Context(), apiclient.Request{Method: "POST", Path: "/v1/authorizations",
		Body: marshal(fields{"id": id, "cardToken": v.token, "amountCents": 1_00, "currency": "USD",
			"merchant": fields{"name": "Cafe", "mcc": "5812"}})})
	require.NoError(t, err)
	return a.Text("reason")
}
