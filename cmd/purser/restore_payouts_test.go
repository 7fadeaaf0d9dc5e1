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

// paymaster pays from a server whose clock stands still but when it is turned, so that payouts stay in the statuses they have.
type paymaster struct {
	t       *testing.T
	turned  atomic.Int64 // milliseconds
	m       *daemon
	client  *apiclient.Client
	told    []told // what was ordered, and the answers
	payouts map[string]string
	us, eu  string
}

// told is a POST and its answer.
type told struct {
	request apiclient.Request
	answer  string
}

const (
	bankTakes = time.Second
	// mostBackups is how many are made until one has what is read: a payout is half a minute of the machine's time from another
	// status.
	mostBackups = 20
)

func (p *paymaster) start(data string) {
	config := testConfig(p.t, data)
	config.RateLimits.Off, config.SandboxDelay = true, bankTakes
	p.m = newDaemon(config, debugLogger())
	p.m.Clock = func() time.Time {
		return time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC).Add(time.Duration(p.turned.Load()) * time.Millisecond)
	}
	require.NoError(p.t, p.m.Start(p.t.Context()))
	rest, err := datadir.PublishedAddress(data, "HTTP_ADDR")
	require.NoError(p.t, err)
	if p.client == nil {
		p.client = apiclient.New("http://"+rest, signUpWithScopes(p.t, &process{rest: "http://" + rest}, 0,
			append(slices.Clone(demo.Scopes), "write:payouts", "write:counterparties")))
	}
	p.client.BaseURL = "http://" + rest
}

func (p *paymaster) turn(by time.Duration) { p.turned.Add(by.Milliseconds()) }

func (p *paymaster) get(path string) string {
	p.t.Helper()
	a, err := sendUntilKnown(p.t.Context(), p.client, apiclient.Request{Method: "GET", Path: path})
	require.NoError(p.t, err)
	require.Equal(p.t, 200, a.Status, string(a.Raw))
	return string(a.Raw)
}

func (p *paymaster) post(path string, body fields) apiclient.Answer {
	r := apiclient.Request{Method: "POST", Path: path, IdempotencyKey: apiclient.NewIdempotencyKey()}
	if body != nil {
		r.Body = marshal(body)
	}
	a, err := sendUntilKnown(p.t.Context(), p.client, r)
	require.NoError(p.t, err)
	require.Contains(p.t, []int{200, 202}, a.Status, string(a.Raw))
	p.told = append(p.told, told{r, string(a.Raw)})
	return a
}

// save saves a recipient in the US.
func (p *paymaster) save(name string) string {
	return p.post("/api/treasury/counterparties", fields{"name": name, "routingNumber": "021000021", "accountNumber": paidAccount,
		"accountType": "checking"}).Text("counterparty", "id")
}

// order orders a payout that is to be remembered by a name.
func (p *paymaster) order(name, rail, recipient string, cents int64) (id string) {
	id = p.post("/api/treasury/payouts", fields{"rail": rail, "counterpartyId": recipient, "amountCents": cents,
		"description": name}).Text("payout", "id")
	p.payouts[name] = id
	return id
}

// await waits until payouts have a status, in which the bank's clock stands still.
func (p *paymaster) await(status string, names ...string) {
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
func (p *paymaster) awaitOrder(name string) {
	p.t.Helper()
	for deadline := time.Now().Add(processTimeout); ; {
		orders, err := p.m.partners.sandboxBank.Paid(p.payouts[name])
		require.NoError(p.t, err)
		if orders > 0 {
			return
		}
		require.True(p.t, time.Now().Before(deadline), "the bank has no order of %s", name)
		require.True(p.t, persistence.Pause(p.t.Context(), pollInterval))
	}
}

func (p *paymaster) status(name string) string {
	a := apiclient.Answer{Raw: []byte(p.get("/api/treasury/payouts/" + p.payouts[name]))}
	return a.Text("payout", "status")
}

// everyState orders payouts until there is one in each status.
func (p *paymaster) everyState() {
	p.post("/api/treasury/deposits", depositRequest(10_000_00))
	for deadline := time.Now().Add(processTimeout); !strings.Contains(p.get("/api/treasury"), `"availableCents":1000000`); {
		require.True(p.t, time.Now().Before(deadline), "the deposit")
		p.turn(bankTakes) // once was enough, were it certain that the bank has heard of the deposit
		require.True(p.t, persistence.Pause(p.t.Context(), settlePollInterval))
	}
	p.us = p.save("Ada")
	p.eu = p.post("/api/treasury/counterparties", fields{"kind": "international", "name": "Grace", "bic": "DEUTDEFF",
		"currency": "EUR", "iban": "DE89370400440532013000", "address": fields{"line1": "1", "city": "Berlin", "postalCode": "10115", "country": "DE"}}).
		Text("counterparty", "id")
	p.order("lapses", "ach", p.us, 100_00+sandbox.EndingNever)
	p.await("submitting", "lapses")
	p.awaitOrder("lapses")
	p.turn(25 * time.Hour)
	p.await("released", "lapses")
	p.told = nil // the day of the keys is over
	p.order("settles", "wire", p.us, 200_00)
	p.order("fails", "realtime", p.us, 300_00+sandbox.EndingFails)
	p.order("comes back", "ach", p.us, 400_00+sandbox.EndingReturned)
	p.await("submitted", "settles", "fails", "comes back")
	p.turn(bankTakes)
	p.await("settled", "settles", "comes back")
	p.await("failed", "fails")
	p.turn(bankTakes)
	p.await("returned", "comes back")
	p.order("is refused", "ach", p.us, 500_00+sandbox.EndingRefused)
	p.await("failed", "is refused")
	p.order("waits", "intl_wire", p.eu, 600_00)
	p.order("is called off", "intl_wire", p.eu, 700_00)
	p.post("/api/treasury/payouts/"+p.payouts["is called off"]+"/cancel", nil)
	p.order("is sent", "ach", p.us, 800_00+sandbox.EndingUnreported)
	p.await("submitted", "is sent")
	p.order("is not answered", "ach", p.us, 900_00+sandbox.EndingAnswersLost)
	p.await("outcome_unknown", "is not answered")
	p.order("is being sent", "ach", p.us, 110_00+sandbox.EndingNever)
	p.await("submitting", "is being sent")
	p.awaitOrder("is being sent")
	p.order("is not yet sent", "ach", p.save(sandbox.NameSilent), 120_00)
	p.await("reserved", "is not yet sent")
	p.await("held", "waits")
	p.await("cancelled", "is called off")
}

// answers are what is read of the payouts and of the dollars, by path.
func (p *paymaster) answers() map[string]string {
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

// repeats sends everything again that was answered: each answer is the same, to the byte.
func (p *paymaster) repeats() {
	for _, told := range p.told {
		a, err := sendUntilKnown(p.t.Context(), p.client, told.request)
		require.NoError(p.t, err)
		require.True(p.t, a.Replayed, told.request.Path)
		require.Equal(p.t, told.answer, string(a.Raw))
	}
}

// requireOnce compares how often the bank was ordered to make each payment. What is not named it was ordered once.
func (p *paymaster) requireOnce(never ...string) {
	for name, id := range p.payouts {
		want := 1
		if slices.Contains(never, name) {
			want = 0
		}
		orders, err := p.m.partners.sandboxBank.Paid(id)
		require.NoError(p.t, err)
		require.Equal(p.t, want, orders, name)
	}
}

// TestARestoreWithPayoutsInEveryState: what was backed up with payouts in every status answers the same when it is restored, orders
// the bank nothing again, and brings each payout to its end.
func TestARestoreWithPayoutsInEveryState(t *testing.T) {
	t.Parallel()
	data, backup, restored := t.TempDir(), "", filepath.Join(t.TempDir(), "restored")
	p := &paymaster{t: t, payouts: map[string]string{}}
	p.start(data)
	p.everyState()
	before := p.answers()
	for n := 0; backup == ""; n++ { // until what is read is what is backed up
		require.Less(t, n, mostBackups, "what is read changes all the time")
		dir, last := filepath.Join(t.TempDir(), "backup"), before
		mustRun(t, "backup", "--data-dir", data, dir)
		if before = p.answers(); maps.Equal(before, last) {
			backup = dir
		}
	}
	require.NoError(t, p.m.Close())

	mustRun(t, "restore", "--data-dir", restored, backup)
	require.Contains(t, auditOf(t, restored), "agree to the cent", "before the start")
	copySecrets(t, data, restored)
	p.start(restored)
	p.await("outcome_unknown", "is being sent") // the process that was sending it is gone
	after := p.answers()
	for _, id := range []string{p.payouts["is being sent"], "listed " + p.payouts["is being sent"]} {
		delete(before, id)
		delete(after, id)
	}
	require.Equal(t, before, after)
	p.repeats()
	p.requireOnce("is refused", "waits", "is called off", "is not yet sent")
	p.finish()
	p.requireOnce("is refused", "is called off", "is not yet sent")
	p.decides(restored)
	require.NoError(t, p.m.Close())
	require.Contains(t, auditOf(t, restored), "agree to the cent")
}

// finish lets all that is open come to its end.
func (p *paymaster) finish() {
	p.turn(2 * time.Minute) // the bank does not take the account
	p.await("settled", "is not answered")
	p.await("outcome_unknown", "is being sent")
	p.await("failed", "is not yet sent")
	p.post("/api/treasury/payouts/"+p.payouts["waits"]+"/release", nil)
	p.await("submitted", "waits")
	p.turn(bankTakes)
	p.await("settled", "waits")
	p.turn(25 * time.Hour)
	p.ends()
}

// ends waits until the remaining orders have ended, and compares the dollars. The bank has the
// payout that "is sent" and does not report it: its dollars stay held.
func (p *paymaster) ends() {
	p.await("released", "is being sent")
	p.await("submitted", "is sent")
	p.await("settled", "is not answered", "waits")
	p.await("failed", "is not yet sent")
	p.hasDollars(10_000_00-goneAtLast-heldAtLast, heldAtLast)
}

// Cents that are gone, and held, when all has ended that ends by itself.
const (
	goneAtLast = 200_00 + 600_00 + 900_00 + sandbox.EndingAnswersLost
	heldAtLast = 800_00 + sandbox.EndingUnreported
)

func (p *paymaster) hasDollars(available, held int64) {
	p.t.Helper()
	require.Contains(p.t, p.get("/api/treasury"),
		fmt.Sprintf(`"availableCents":%d,"incomingCents":0,"heldCents":%d`, available, held))
}

// decides has an operator find the payout that the bank does not report, and decide that it failed.
func (p *paymaster) decides(data string) {
	p.t.Helper()
	id := p.payouts["is sent"]
	require.Contains(p.t, mustRun(p.t, "payouts", "overdue", "--data-dir", data), "\n0 overdue")
	early := run([]string{"payouts", "resolve", id, "--outcome", "failed", "--data-dir", data}, io.Discard)
	require.ErrorContains(p.t, early, "not overdue", "the bank has its bank days")
	p.turn(10 * 24 * time.Hour)
	require.Regexp(p.t, id+" +payout +ws_.* submitted .*\n1 overdue",
		mustRun(p.t, "payouts", "overdue", "--data-dir", data))
	require.Contains(p.t, mustRun(p.t, "payouts", "resolve", id, "--outcome", "failed", "--data-dir", data), "\n0 overdue")
	p.await("failed", "is sent")
	p.hasDollars(10_000_00-goneAtLast, 0)
}

// TestARestoredJournalSendsNothingAgain: the journal comes back as it was before a wire was released, beside a bank that has the
// order. Released once more it is found there and not ordered again.
func TestARestoredJournalSendsNothingAgain(t *testing.T) {
	t.Parallel()
	data, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	p := &paymaster{t: t, payouts: map[string]string{}}
	p.start(data)
	p.everyState()
	mustRun(t, "backup", "--data-dir", data, backup)
	p.finish()
	require.NoError(t, p.m.Close())

	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	mustRun(t, "restore", "--keep-authorizer", "--data-dir", data, backup)
	require.Contains(t, auditOf(t, data), "agree to the cent", "before the start")
	p.start(data)
	require.Equal(t, "held", p.status("waits"), "the journal does not know better")
	p.post("/api/treasury/payouts/"+p.payouts["waits"]+"/release", nil)
	p.ends()
	p.requireOnce("is refused", "is called off", "is not yet sent")
	require.NoError(t, p.m.Close())
	require.Contains(t, auditOf(t, data), "agree to the cent")
}
