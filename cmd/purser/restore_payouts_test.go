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
	"purser/persistence"
)

// payoutScenario pays from a server whose clock stands still but when it is turned, so that payouts stay in the statuses they have.
type payoutScenario struct {
	t                        *testing.T
	clockMillis              atomic.Int64 // milliseconds
	daemon                   *daemon
	client                   *apiclient.Client
	posts                    []answeredPost // what was ordered, and the answers
	payouts                  map[string]string
	usRecipient, euRecipient string
}

// answeredPost is a POST and its answer.
type answeredPost struct {
	request apiclient.Request
	answer  string
}

const (
	bankDelay = time.Second
	// mostBackups is how many are made until one has what is read: a payout is half a minute of the machine's time from another
	// status.
	maxBackups = 20
)

func (p *payoutScenario) start(data string) {
	config := testConfig(p.t, data)
	config.RateLimits.Off, config.SandboxDelay = true, bankDelay
	p.daemon = newDaemon(config, debugLogger())
	p.daemon.Clock = func() time.Time {
		return time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC).Add(time.Duration(p.clockMillis.Load()) * time.Millisecond)
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

// saveRecipient saves a recipient in the US.
func (p *payoutScenario) saveRecipient(name string) string {
	return p.post("/api/treasury/counterparties", fields{"name": name, "routingNumber": "021000021", "accountNumber": paidAccount,
		"accountType": "checking"}).Text("counterparty", "id")
}

// orderPayout orders a payout that is to be remembered by a name.
func (p *payoutScenario) orderPayout(name, rail, recipient string, cents int64) (id string) {
	id = p.post("/api/treasury/payouts", fields{"rail": rail, "counterpartyId": recipient, "amountCents": cents,
		"description": name}).Text("payout", "id")
	p.payouts[name] = id
	return id
}

// awaitStatus waits until payouts have a status, in which the bank's clock stands still.
func (p *payoutScenario) awaitStatus(status string, names ...string) {
	p.t.Helper()
	for _, name := range names {
		for deadline := time.Now().Add(processTimeout); p.status(name) != status; {
			require.True(p.t, time.Now().Before(deadline), "%s is %s and not %s", name, p.status(name), status)
			require.True(p.t, persistence.Pause(p.t.Context(), pollInterval))
		}
	}
}

// awaitOrder waits until the bank has an order that it does not answer. The hour in which it
// answers no inquiry about it begins then.
func (p *payoutScenario) awaitOrder(name string) {
	p.t.Helper()
	for deadline := time.Now().Add(processTimeout); ; {
		orders, err := p.daemon.partners.sandboxBank.Paid(p.payouts[name])
		require.NoError(p.t, err)
		if orders > 0 {
			return
		}
		require.True(p.t, time.Now().Before(deadline), "the bank has no order of %s", name)
		require.True(p.t, persistence.Pause(p.t.Context(), pollInterval))
	}
}

func (p *payoutScenario) status(name string) string {
	a := apiclient.Answer{Raw: []byte(p.get("/api/treasury/payouts/" + p.payouts[name]))}
	return a.Text("payout", "status")
}

// orderInEveryStatus orders payouts until there is one in each status.
func (p *payoutScenario) orderInEveryStatus() {
	p.post("/api/treasury/deposits", depositRequest(10_000_00))
	for deadline := time.Now().Add(processTimeout); !strings.Contains(p.get("/api/treasury"), `"availableCents":1000000`); {
		require.True(p.t, time.Now().Before(deadline), "the deposit")
		p.advanceClock(bankDelay) // once was enough, were it certain that the bank has heard of the deposit
		require.True(p.t, persistence.Pause(p.t.Context(), settlePollInterval))
	}
	p.usRecipient = p.saveRecipient("Ada")
	p.euRecipient = p.post("/api/treasury/counterparties", fields{"kind": "international", "name": "Grace", "bic": "DEUTDEFF",
		"currency": "EUR", "iban": "DE89370400440532013000", "address": fields{"line1": "1", "city": "Berlin", "postalCode": "10115", "country": "DE"}}).
		Text("counterparty", "id")
	p.orderPayout("lapses", "ach", p.usRecipient, 100_00+sandbox.EndingNever)
	p.awaitStatus("submitting", "lapses")
	p.awaitOrder("lapses")
	p.advanceClock(25 * time.Hour)
	p.awaitStatus("released", "lapses")
	p.posts = nil // the day of the keys is over
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

// readAll are what is read of the payouts and of the dollars, by path.
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

// requireReplays sends everything again that was answered: each answer is the same, to the byte.
func (p *payoutScenario) requireReplays() {
	for _, told := range p.posts {
		a, err := sendUntilKnown(p.t.Context(), p.client, told.request)
		require.NoError(p.t, err)
		require.True(p.t, a.Replayed, told.request.Path)
		require.Equal(p.t, told.answer, string(a.Raw))
	}
}

// requireOrderedOnce compares how often the bank was ordered to make each payment. What is not named it was ordered once.
func (p *payoutScenario) requireOrderedOnce(never ...string) {
	for name, id := range p.payouts {
		want := 1
		if slices.Contains(never, name) {
			want = 0
		}
		orders, err := p.daemon.partners.sandboxBank.Paid(id)
		require.NoError(p.t, err)
		require.Equal(p.t, want, orders, name)
	}
}

// TestARestoreWithPayoutsInEveryState: what was backed up with payouts in every status answers the same when it is restored, orders
// the bank nothing again, and brings each payout to its end.
func TestARestoreWithPayoutsInEveryState(t *testing.T) {
	t.Parallel()
	data, backup, restored := t.TempDir(), "", filepath.Join(t.TempDir(), "restored")
	p := &payoutScenario{t: t, payouts: map[string]string{}}
	p.start(data)
	p.orderInEveryStatus()
	before := p.readAll()
	for n := 0; backup == ""; n++ { // until what is read is what is backed up
		require.Less(t, n, maxBackups, "what is read changes all the time")
		dir, last := filepath.Join(t.TempDir(), "backup"), before
		mustRun(t, "backup", "--data-dir", data, dir)
		if before = p.readAll(); maps.Equal(before, last) {
			backup = dir
		}
	}
	require.NoError(t, p.daemon.Close())

	mustRun(t, "restore", "--data-dir", restored, backup)
	require.Contains(t, runAudit(t, restored), "agree to the cent", "before the start")
	copySecrets(t, data, restored)
	p.start(restored)
	p.awaitStatus("outcome_unknown", "is being sent") // the process that was sending it is gone
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

// finish lets all that is open come to its end.
func (p *payoutScenario) finish() {
	p.advanceClock(2 * time.Minute) // the bank does not take the account
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

// awaitEndings waits until the remaining orders have ended, and compares the dollars. The bank has the
// payout that "is sent" and does not report it: its dollars stay held.
func (p *payoutScenario) awaitEndings() {
	p.awaitStatus("released", "is being sent")
	p.awaitStatus("submitted", "is sent")
	p.awaitStatus("settled", "is not answered", "waits")
	p.awaitStatus("failed", "is not yet sent")
	p.requireDollars(10_000_00-finalPaidCents-finalHeldCents, finalHeldCents)
}

// Cents that are gone, and held, when all has ended that ends by itself.
const (
	finalPaidCents = 200_00 + 600_00 + 900_00 + sandbox.EndingAnswersLost
	finalHeldCents = 800_00 + sandbox.EndingUnreported
)

func (p *payoutScenario) requireDollars(available, held int64) {
	p.t.Helper()
	require.Contains(p.t, p.get("/api/treasury"),
		fmt.Sprintf(`"availableCents":%d,"incomingCents":0,"heldCents":%d`, available, held))
}

// resolveOverdue has an operator find the payout that the bank does not report, and decide that it failed.
func (p *payoutScenario) resolveOverdue(data string) {
	p.t.Helper()
	id := p.payouts["is sent"]
	require.Contains(p.t, mustRun(p.t, "payouts", "overdue", "--data-dir", data), "\n0 overdue")
	early := run([]string{"payouts", "resolve", id, "--outcome", "failed", "--data-dir", data}, io.Discard)
	require.ErrorContains(p.t, early, "not overdue", "the bank has its bank days")
	p.advanceClock(10 * 24 * time.Hour)
	require.Regexp(p.t, id+" +payout +ws_.* submitted .*\n1 overdue",
		mustRun(p.t, "payouts", "overdue", "--data-dir", data))
	require.Contains(p.t, mustRun(p.t, "payouts", "resolve", id, "--outcome", "failed", "--data-dir", data), "\n0 overdue")
	p.awaitStatus("failed", "is sent")
	p.requireDollars(10_000_00-finalPaidCents, 0)
}

// TestARestoredJournalSendsNothingAgain: the journal comes back as it was before a wire was released, beside a bank that has the
// order. Released once more it is found there and not ordered again.
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
	require.Contains(t, runAudit(t, data), "agree to the cent", "before the start")
	p.start(data)
	require.Equal(t, "held", p.status("waits"), "the journal does not know better")
	p.post("/api/treasury/payouts/"+p.payouts["waits"]+"/release", nil)
	p.awaitEndings()
	p.requireOrderedOnce("is refused", "is called off", "is not yet sent")
	require.NoError(t, p.daemon.Close())
	require.Contains(t, runAudit(t, data), "agree to the cent")
}
