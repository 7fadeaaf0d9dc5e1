package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/partner/sandbox"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/demo"
	"purser/persistence/retry"
)

// payoutScenario orders payouts at a server whose clock moves only by advanceClock, so that each
// payout keeps its status.
type payoutScenario struct {
	t                        *testing.T
	clockMillis              atomic.Int64 // since the start of the scenario
	daemon                   *daemon
	client                   *apiclient.Client
	posts                    []answeredPost // every POST since the idempotency keys last expired
	payouts                  map[string]string
	usRecipient, euRecipient string
}

// answeredPost is a POST and the body of its answer.
type answeredPost struct {
	request apiclient.Request
	answer  string
}

const (
	bankDelay = time.Second
	// maxBackups is the number of backups that are tried until no payout changes its status between
	// the reads before and after. A payout changes its status after half a minute of real time.
	maxBackups = 20
)

func (p *payoutScenario) start(data string) {
	config := testConfig(p.t, data)
	config.RateLimits.Off, config.SandboxDelay = true, bankDelay
	p.daemon = newDaemon(config, debugLogger())
	p.daemon.Clock = func() time.Time {
		return time.Date(2026, 11, 20, 15, 0, 0, 0,
			time.UTC).Add(time.Duration(p.clockMillis.Load()) * time.Millisecond)
	}
	require.NoError(p.t, p.daemon.Start(p.t.Context()))
	rest, err := datadir.PublishedAddress(data, "HTTP_ADDR")
	require.NoError(p.t, err)
	if p.client == nil {
		p.client = apiclient.New("http://"+rest, signUpWithScopes(p.t, &process{rest: "http://" + rest}, 0,
			append(slices.Clone(demo.Scopes), "write:payouts", "write:counterparties")))
	}
	p.client.BaseURL = "http://" + rest
}

func (p *payoutScenario) advanceClock(by time.Duration) { p.clockMillis.Add(by.Milliseconds()) }

func (p *payoutScenario) get(path string) string {
	p.t.Helper()
	a, err := sendUntilKnown(p.t.Context(), p.client, apiclient.Request{Method: "GET", Path: path})
	require.NoError(p.t, err)
	require.Equal(p.t, 200, a.Status, string(a.Raw))
	return string(a.Raw)
}

func (p *payoutScenario) post(path string, body fields) apiclient.Answer {
	r := apiclient.Request{Method: "POST", Path: path, IdempotencyKey: apiclient.NewIdempotencyKey()}
	if body != nil {
		r.Body = marshal(body)
	}
	a, err := sendUntilKnown(p.t.Context(), p.client, r)
	require.NoError(p.t, err)
	require.Contains(p.t, []int{200, 202}, a.Status, string(a.Raw))
	p.posts = append(p.posts, answeredPost{r, string(a.Raw)})
	return a
}

// saveRecipient creates a counterparty in the US and returns its id.
func (p *payoutScenario) saveRecipient(name string) string {
	return p.post("/api/treasury/counterparties",
		fields{"name": name, "routingNumber": "021000021", "accountNumber": paidAccount,
			"accountType": "checking"}).Text("counterparty", "id")
}

// orderPayout orders a payout and stores its id under a name.
func (p *payoutScenario) orderPayout(name, rail, recipient string, cents int64) (id string) {
	id = p.post("/api/treasury/payouts", fields{"rail": rail, "counterpartyId": recipient, "amountCents": cents,
		"description": name}).Text("payout", "id")
	p.payouts[name] = id
	return id
}

// awaitStatus waits until the named payouts have a status. It does not advance the clock.
func (p *payoutScenario) awaitStatus(status string, names ...string) {
	p.t.Helper()
	for _, name := range names {
		for deadline := time.Now().Add(processTimeout); p.status(name) != status; {
			require.True(p.t, time.Now().Before(deadline), "%s is %s and not %s", name, p.status(name), status)
			require.True(p.t, retry.Pause(p.t.Context(), pollInterval))
		}
	}
}

// awaitOrder waits until the bank has an order that it does not answer. From then on, for an hour,
// the bank does not answer an inquiry about the order either.
func (p *payoutScenario) awaitOrder(name string) {
	p.t.Helper()
	for deadline := time.Now().Add(processTimeout); ; {
		orders, err := p.daemon.partners.bank.Paid(p.payouts[name])
		require.NoError(p.t, err)
		if orders > 0 {
			return
		}
		require.True(p.t, time.Now().Before(deadline), "the bank has no order of %s", name)
		require.True(p.t, retry.Pause(p.t.Context(), pollInterval))
	}
}

func (p *payoutScenario) status(name string) string {
	a := apiclient.Answer{Raw: []byte(p.get("/api/treasury/payouts/" + p.payouts[name]))}
	return a.Text("payout", "status")
}

// orderInEveryStatus orders payouts until at least one is in each status.
func (p *payoutScenario) orderInEveryStatus() {
	p.post("/api/treasury/deposits", depositRequest(10_000_00))
	for deadline := time.Now().Add(processTimeout); !strings.Contains(p.get("/api/treasury"),
		`"availableCents":1000000`); {
		require.True(p.t, time.Now().Before(deadline), "the deposit")
		p.advanceClock(bankDelay) // repeatedly, because the bank may receive the deposit after an advance
		require.True(p.t, retry.Pause(p.t.Context(), settlePollInterval))
	}
	p.usRecipient = p.saveRecipient("Ada")
	p.euRecipient = p.post("/api/treasury/counterparties",
		fields{"kind": "international", "name": "Grace", "bic": "DEUTDEFF",
			"currency": "EUR", "iban": "DE89370400440532013000",
			"address": fields{"line1": "1", "city": "Berlin", "postalCode": "10115", "country": "DE"}}).
		Text("counterparty", "id")
	p.orderPayout("lapses", "ach", p.usRecipient, 100_00+sandbox.EndingNever)
	p.awaitStatus("submitting", "lapses")
	p.awaitOrder("lapses")
	p.advanceClock(25 * time.Hour)
	p.awaitStatus("released", "lapses")
	p.posts = nil // 25 hours later, all idempotency keys have expired
	p.orderPayout("settles", "wire", p.usRecipient, 200_00)
	p.orderPayout("fails", "realtime", p.usRecipient, 300_00+sandbox.EndingFails)
	p.orderPayout("comes back", "ach", p.usRecipient, 400_00+sandbox.EndingReturned)
	p.awaitStatus("submitted", "settles", "fails", "comes back")
	p.advanceClock(bankDelay)
	p.awaitStatus("settled", "settles", "comes back")
	p.awaitStatus("failed", "fails")
	p.advanceClock(bankDelay)
	p.awaitStatus("returned", "comes back")
	p.orderPayout("is refused", "ach", p.usRecipient, 500_00+sandbox.EndingRefused)
	p.awaitStatus("failed", "is refused")
	p.orderPayout("waits", "intl_wire", p.euRecipient, 600_00)
	p.orderPayout("is called off", "intl_wire", p.euRecipient, 700_00)
	p.post("/api/treasury/payouts/"+p.payouts["is called off"]+"/cancel", nil)
	p.orderPayout("is sent", "ach", p.usRecipient, 800_00+sandbox.EndingUnreported)
	p.awaitStatus("submitted", "is sent")
	p.orderPayout("is not answered", "ach", p.usRecipient, 900_00+sandbox.EndingAnswersLost)
	p.awaitStatus("outcome_unknown", "is not answered")
	p.orderPayout("is being sent", "ach", p.usRecipient, 110_00+sandbox.EndingNever)
	p.awaitStatus("submitting", "is being sent")
	p.awaitOrder("is being sent")
	p.orderPayout("is not yet sent", "ach", p.saveRecipient(sandbox.NameSilent), 120_00)
	p.awaitStatus("reserved", "is not yet sent")
	p.awaitStatus("held", "waits")
	p.awaitStatus("cancelled", "is called off")
}

// readAll returns the answers to all reads of payouts and balances, by path, id or name.
func (p *payoutScenario) readAll() map[string]string {
	all := map[string]string{}
	for _, path := range []string{"/api/treasury", "/api/treasury/counterparties",
		"/api/treasury/statement?format=csv&from=2026-11-19&to=2026-11-20"} {
		all[path] = p.get(path)
	}
	for _, id := range p.payouts {
		all[id] = p.get("/api/treasury/payouts/" + id)
	}
	const listed = "/api/treasury/payouts?limit=100"
	var list struct {
		Payouts []json.RawMessage `json:"payouts"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(p.get(listed)), &list))
	for _, raw := range list.Payouts {
		shown := apiclient.Answer{Raw: raw}
		all["listed "+shown.Text("id")] = string(raw)
	}
	for _, name := range []string{"waits", "is called off"} {
		all[name] = p.get("/api/treasury/payouts/" + p.payouts[name] + "/tracking")
	}
	return all
}

// requireReplays repeats every POST and requires a replay of the same bytes.
func (p *payoutScenario) requireReplays() {
	for _, post := range p.posts {
		a, err := sendUntilKnown(p.t.Context(), p.client, post.request)
		require.NoError(p.t, err)
		require.True(p.t, a.Replayed, post.request.Path)
		require.Equal(p.t, post.answer, string(a.Raw))
	}
}

// requireOrderedOnce requires that the bank has one order of each payout, and none of those in
// never.
func (p *payoutScenario) requireOrderedOnce(never ...string) {
	for name, id := range p.payouts {
		want := 1
		if slices.Contains(never, name) {
			want = 0
		}
		orders, err := p.daemon.partners.bank.Paid(id)
		require.NoError(p.t, err)
		require.Equal(p.t, want, orders, name)
	}
}

// TestARestoreWithPayoutsInEveryState restores a backup that has payouts in every status. The
// restored server gives the same answers, orders no payout a second time, and completes each
// payout.
func TestARestoreWithPayoutsInEveryState(t *testing.T) {
	t.Parallel()
	data, backup, restored := t.TempDir(), "", filepath.Join(t.TempDir(), "restored")
	p := &payoutScenario{t: t, payouts: map[string]string{}}
	p.start(data)
	p.orderInEveryStatus()
	before := p.readAll()
	for n := 0; backup == ""; n++ { // until the reads before and after the backup are equal
		require.Less(t, n, maxBackups, "payouts changed during every backup")
		dir, last := filepath.Join(t.TempDir(), "backup"), before
		mustRun(t, "backup", "--data-dir", data, dir)
		if before = p.readAll(); maps.Equal(before, last) {
			backup = dir
		}
	}
	require.NoError(t, p.daemon.Close())

	mustRun(t, "restore", "--data-dir", restored, backup)
	require.Contains(t, runAudit(t, restored), "agree to the cent", "audit before the start")
	copySecrets(t, data, restored)
	p.start(restored)
	p.awaitStatus("outcome_unknown", "is being sent") // the process that submitted it has ended
	after := p.readAll()
	for _, id := range []string{p.payouts["is being sent"], "listed " + p.payouts["is being sent"]} {
		delete(before, id)
		delete(after, id)
	}
	require.Equal(t, before, after)
	p.requireReplays()
	p.requireOrderedOnce("is refused", "waits", "is called off", "is not yet sent")
	p.finish()
	p.requireOrderedOnce("is refused", "is called off", "is not yet sent")
	p.resolveOverdue(restored)
	require.NoError(t, p.daemon.Close())
	require.Contains(t, runAudit(t, restored), "agree to the cent")
}

// finish advances the clock until every open payout has ended that can end by itself.
func (p *payoutScenario) finish() {
	p.advanceClock(2 * time.Minute) // the bank rejects the recipient's account
	p.awaitStatus("settled", "is not answered")
	p.awaitStatus("outcome_unknown", "is being sent")
	p.awaitStatus("failed", "is not yet sent")
	p.post("/api/treasury/payouts/"+p.payouts["waits"]+"/release", nil)
	p.awaitStatus("submitted", "waits")
	p.advanceClock(bankDelay)
	p.awaitStatus("settled", "waits")
	p.advanceClock(25 * time.Hour)
	p.awaitEndings()
}

// awaitEndings waits until the remaining payouts have ended, and compares the balance. The bank has
// the payout named "is sent" and does not report it, so its dollars stay held.
func (p *payoutScenario) awaitEndings() {
	p.awaitStatus("released", "is being sent")
	p.awaitStatus("submitted", "is sent")
	p.awaitStatus("settled", "is not answered", "waits")
	p.awaitStatus("failed", "is not yet sent")
	p.requireDollars(10_000_00-finalPaidCents-finalHeldCents, finalHeldCents)
}

// The cents paid and held after every payout has ended that can end by itself.
const (
	finalPaidCents = 200_00 + 600_00 + 900_00 + sandbox.EndingAnswersLost
	finalHeldCents = 800_00 + sandbox.EndingUnreported
)

func (p *payoutScenario) requireDollars(available, held int64) {
	p.t.Helper()
	require.Contains(p.t, p.get("/api/treasury"),
		fmt.Sprintf(`"availableCents":%d,"incomingCents":0,"heldCents":%d`, available, held))
}

// resolveOverdue lists the payout that the bank does not report and resolves it as failed, with the
// operator's commands.
func (p *payoutScenario) resolveOverdue(data string) {
	p.t.Helper()
	id := p.payouts["is sent"]
	require.Contains(p.t, mustRun(p.t, "payouts", "overdue", "--data-dir", data), "\n0 overdue")
	early := run([]string{"payouts", "resolve", id, "--outcome", "failed", "--data-dir", data}, io.Discard)
	require.ErrorContains(p.t, early, "not overdue", "resolve before the bank's deadline in bank days")
	p.advanceClock(10 * 24 * time.Hour)
	require.Regexp(p.t, id+" +payout +ws_.* submitted .*\n1 overdue",
		mustRun(p.t, "payouts", "overdue", "--data-dir", data))
	require.Contains(p.t, mustRun(p.t, "payouts", "resolve", id, "--outcome", "failed", "--data-dir", data),
		"\n0 overdue")
	p.awaitStatus("failed", "is sent")
	p.requireDollars(10_000_00-finalPaidCents, 0)
}

// TestARestoredJournalSendsNothingAgain restores a journal from before the release of a wire,
// beside a bank that has the order. After a second release the server finds the order at the bank
// and does not order again.
func TestARestoredJournalSendsNothingAgain(t *testing.T) {
	t.Parallel()
	data, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	p := &payoutScenario{t: t, payouts: map[string]string{}}
	p.start(data)
	p.orderInEveryStatus()
	mustRun(t, "backup", "--data-dir", data, backup)
	p.finish()
	require.NoError(t, p.daemon.Close())

	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	mustRun(t, "restore", "--keep-authorizer", "--data-dir", data, backup)
	require.Contains(t, runAudit(t, data), "agree to the cent", "audit before the start")
	p.start(data)
	require.Equal(t, "held", p.status("waits"), "the restored journal is older than the release")
	p.post("/api/treasury/payouts/"+p.payouts["waits"]+"/release", nil)
	p.awaitEndings()
	p.requireOrderedOnce("is refused", "is called off", "is not yet sent")
	require.NoError(t, p.daemon.Close())
	require.Contains(t, runAudit(t, data), "agree to the cent")
}
