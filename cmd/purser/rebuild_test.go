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
	data        string
	wall        *steppedClock
	database    string // the URL of the journal's database; empty: the journal is in the data directory
	copyJournal func() // copies the journal of a stopped server
	failOver    func() // replaces the journal by the copy

	*tenantWithHold
	card       string
	laterSwipe string // a swipe that only the authorizer's log has
}

// staleDirectory returns a deployment with its journal in the data directory.
func staleDirectory(t *testing.T) *staleDeployment {
	d := &staleDeployment{data: t.TempDir(), wall: &steppedClock{}}
	stale := t.TempDir() + "/journal"
	d.copyJournal = func() { require.NoError(t, storecare.CopyTree(datadir.JournalDir(d.data), stale)) }
	d.failOver = func() {
		require.NoError(t, os.RemoveAll(datadir.JournalDir(d.data)))
		require.NoError(t, storecare.CopyTree(stale, datadir.JournalDir(d.data)))
	}
	return d
}

// stalePostgres returns a deployment with its journal in Postgres, or nil without Postgres.
func stalePostgres(t *testing.T) *staleDeployment {
	server := pgtest.Own(t, "a stale database", true)
	if server == nil {
		return nil
	}
	d := &staleDeployment{data: t.TempDir(), wall: &steppedClock{}, database: createDatabase(t, server, "live")}
	d.copyJournal = func() {
		conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "CREATE DATABASE stale TEMPLATE live")
		require.NoError(t, err)
		require.NoError(t, conn.Close(t.Context()))
	}
	d.failOver = func() { d.database = server.URL("stale") }
	return d
}

// configure sets a server's settings to those of the deployment's journal.
func (d *staleDeployment) configure(t *testing.T) func(*settings.Config) {
	return func(c *settings.Config) {
		if d.database != "" {
			*c = databaseConfig(t, d.data, d.database)
		}
	}
}

// runCommand runs a command on the deployment's stores.
func (d *staleDeployment) runCommand(name string, flags ...string) (string, error) {
	var out strings.Builder
	args := append([]string{name, "--data-dir", d.data}, flags...)
	if d.database != "" {
		args = append(args, "--database-url", d.database)
	}
	err := run(args, &out)
	return out.String(), err
}

func (d *staleDeployment) awaitEmptyBacklog(t *testing.T) {
	t.Helper()
	d.p.await(t, "an empty backlog", func() bool {
		return strings.Contains(d.p.adminPage("/metrics"),
			"\npurser_backlog_entries 0\n")
	})
}

func (d *staleDeployment) start(t *testing.T) {
	t.Helper()
	var p *process
	_, p = startOnClock(t, d.data, d.wall, d.configure(t))
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

// fallBehind swipes and freezes the card, and then replaces the journal by a copy that has neither.
func (d *staleDeployment) fallBehind(t *testing.T) {
	t.Helper()
	d.start(t)
	d.awaitEmptyBacklog(t)
	require.NoError(t, d.p.stop())
	d.copyJournal()
	d.start(t)
	d.laterSwipe = d.p.requireApproval(t, d.token, "later")
	a, err := d.p.sendToREST(d.bearer, apiclient.Request{Method: "GET", Path: "/api/cards"})
	require.NoError(t, err)
	d.card = a.Rows("data")[0]["id"].(string)
	d.setState(t, "frozen")
	d.awaitEmptyBacklog(t)
	require.NoError(t, d.p.stop())
	d.failOver()
}

// checkRecovered requires that the card stays frozen until it is activated, and that the audit is
// clean.
func (d *staleDeployment) checkRecovered(t *testing.T) {
	t.Helper()
	require.Equal(t, "card_frozen", d.declineReason(t, "after"))
	d.setState(t, "frozen")
	d.setState(t, "active")
	d.p.requireApproval(t, d.token, "confirmed")
	require.NoError(t, d.p.stop())
	out, err := d.runCommand("audit")
	require.NoError(t, err, out)
	require.Contains(t, out, "agree to the cent")
}

// hasLaterSwipe reports whether the journal has the swipe that the copy lacked.
func (d *staleDeployment) hasLaterSwipe() bool {
	a, err := d.p.sendToREST(d.bearer, apiclient.Request{Method: "GET", Path: "/api/authorizations"})
	return err == nil && strings.Contains(string(a.Raw), `"networkId":"`+d.laterSwipe+`"`)
}

// A journal that is older than the authorizer, as after a failover to a standby that lagged, gets
// back every decision that the authorizer's log has. No card may spend more than before.
func TestAttackStaleJournal(t *testing.T) {
	onlyInFullLength(t)
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
			out, err := d.runCommand("rebuild-authorizer")
			require.ErrorContains(t, err, "--yes")
			require.Contains(t, out, "decisions of the old log that the journal lacks are kept")
			out, err = d.runCommand("rebuild-authorizer", "--yes")
			require.NoError(t, err)
			require.Contains(t, out, "the journal has lost changes of 1 cards")
			require.Contains(t, out, d.card)
			d.start(t)
			d.p.await(t, "the decision that the journal had lost", d.hasLaterSwipe)
			require.Equal(t, string(d.swiped.Raw), string(d.repeatSwipe(t).Raw))
			d.checkRecovered(t)
		})
	}
}

// A restore that keeps the authorizer keeps a card frozen that the backup has active.
func TestARestoreKeepsTheStricterRuleOfTheKeptAuthorizer(t *testing.T) {
	t.Parallel()
	d := staleDirectory(t)
	backup := filepath.Join(t.TempDir(), "backup")
	d.start(t)
	d.awaitEmptyBacklog(t)
	require.NoError(t, d.p.stop())
	mustRun(t, "backup", "--data-dir", d.data, backup)
	d.fallBehind(t)
	require.NoError(t, os.RemoveAll(datadir.JournalDir(d.data)))
	out, err := d.runCommand("restore", "--keep-authorizer", backup)
	require.NoError(t, err, out)
	require.Contains(t, out, "the journal has lost changes of 1 cards")
	require.Contains(t, out, d.card)
	d.start(t)
	d.checkRecovered(t)
}

// rebuild-authorizer --discard-log names the decisions that it loses, and a frozen card stays
// frozen.
func TestDiscardLogNamesTheLostDecisions(t *testing.T) {
	t.Parallel()
	d := staleDirectory(t)
	d.fallBehind(t)
	out, err := d.runCommand("rebuild-authorizer", "--discard-log")
	require.ErrorContains(t, err, "--yes")
	require.Contains(t, out, "lost with --discard-log:")
	require.Regexp(t, `authorization `+d.laterSwipe+` approved, asked 100 cents, approved 100 cents, `+d.card, out)
	out, err = d.runCommand("rebuild-authorizer", "--discard-log", "--yes")
	require.NoError(t, err)
	require.Contains(t, out, d.laterSwipe)
	require.Contains(t, out, "the journal has lost changes of 1 cards")
	d.start(t)
	require.False(t, d.hasLaterSwipe())
	d.checkRecovered(t)
}

// The rebuild says that it cannot count the losses that a stale copy of the log lacks too.
func TestAStaleLogSaysThatItDoesNotCountEveryLoss(t *testing.T) {
	t.Parallel()
	d := staleDirectory(t)
	d.start(t)
	d.awaitEmptyBacklog(t)
	require.NoError(t, d.p.stop())
	older := filepath.Join(t.TempDir(), "older")
	require.NoError(t, storecare.CopyTree(datadir.AuthorizerDir(d.data), older))
	d.start(t)
	d.p.requireApproval(t, d.token, "later")
	d.awaitEmptyBacklog(t)
	require.NoError(t, d.p.stop())
	require.NoError(t, os.RemoveAll(datadir.AuthorizerDir(d.data)))
	require.NoError(t, storecare.CopyTree(older, datadir.AuthorizerDir(d.data)))
	out, err := d.runCommand("rebuild-authorizer")
	require.ErrorContains(t, err, "loses the 0 decisions of the old log that the journal lacks")
	require.Contains(t, out, "0 decisions of the old log that the journal lacks are lost with --discard-log")
	require.Contains(t, out, "decisions that neither the old log nor the journal has are lost too and not counted")
}

// A repair that is interrupted between the two renames of its stores loses nothing: the next repair
// reads the old store again.
func TestARepeatedRepairCompletesAnInterruptedOne(t *testing.T) {
	t.Parallel()
	d := staleDirectory(t)
	d.fallBehind(t)
	require.NoError(t, storecare.CopyTree(datadir.AuthorizerDir(d.data), storecare.FreshAuthorizerDir(d.data)))
	require.NoError(t, os.Rename(datadir.AuthorizerDir(d.data), datadir.AuthorizerDir(d.data)+".old-1000"))
	require.NoError(t, os.MkdirAll(datadir.AuthorizerDir(d.data)+".old-999", 0o700))
	require.ErrorContains(t, newDaemon(testConfig(t, d.data), debugLogger()).Start(t.Context()),
		"purser rebuild-authorizer")
	before := entryNames(t, d.data)
	out, err := d.runCommand("rebuild-authorizer")
	require.ErrorContains(t, err, "say --yes")
	require.Contains(t, out,
		"an earlier repair was interrupted: "+datadir.AuthorizerDir(d.data)+".old-1000 is the old store")
	require.Contains(t, out, "decisions of the old log that the journal lacks are kept")
	require.Equal(t, before, entryNames(t, d.data), "without --yes nothing is moved, made or removed")
	out, err = d.runCommand("rebuild-authorizer", "--yes")
	require.NoError(t, err)
	require.Contains(t, out, "an earlier repair was interrupted")
	kept, err := filepath.Glob(datadir.AuthorizerDir(d.data) + ".old-*")
	require.NoError(t, err)
	require.Len(t, kept, 2)
	d.start(t)
	d.p.await(t, "the decision that the journal had lost", d.hasLaterSwipe)
	d.checkRecovered(t)
}

// entryNames returns the names of the entries of a directory.
func entryNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func (v *tenantWithHold) declineReason(t *testing.T, id string) string {
	t.Helper()
	a, err := v.p.client(v.p.network, v.p.secret).SendUntilDecided(t.Context(),
		apiclient.Request{Method: "POST", Path: "/v1/authorizations",
			Body: marshal(fields{"id": id, "cardToken": v.token, "amountCents": 1_00, "currency": "USD",
				"merchant": fields{"name": "Cafe", "mcc": "5812"}})})
	require.NoError(t, err)
	return a.Text("reason")
}
