package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/checkout"
	"purser/actors/checkout/address"
	"purser/actors/decision"
	"purser/actors/derivation"
	"purser/actors/fault"
	"purser/actors/processes"
	"purser/actors/webhook"
	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Extent of the crash test of checkouts.
const (
	payerCount          = 6
	sessionsPerPayer    = 6  // per client
	checkoutCrashPoints = 10 // 30 with PURSER_TEST_FULL
	checkoutCents       = 2_500
)

func testAccounts(t testing.TB) *address.Accounts {
	t.Helper()
	a, err := address.Sandbox(bytes.Repeat([]byte{3}, address.SeedBytes))
	require.NoError(t, err)
	return a
}

// newCheckout creates a checkout session as the HTTP layer does.
func (w *testStack) newCheckout(ws string) (checkout.View, error) {
	id := w.newID(ident.Checkout, slotOf(ws))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	create, err := w.prepareCheckout(ctx, ws, id)
	if err != nil {
		return checkout.View{}, err
	}
	return w.createCheckout(ctx, create)
}

func (w *testStack) createCheckout(ctx context.Context, create checkout.Create) (checkout.View, error) {
	reply, err := w.system.Ask(ctx, actors.Envelope{Kind: "checkout", Stream: create.ID, Workspace: create.Workspace,
		Command: create})
	view, _ := reply.(checkout.View)
	return view, err
}

func (w *testStack) prepareCheckout(ctx context.Context, ws, id string) (checkout.Create, error) {
	create := checkout.Create{ID: id, Workspace: ws, AmountUsdCents: checkoutCents, Expires: checkout.DefaultExpires,
		SettlementOption: checkout.HoldStablecoin, Text: checkout.Text{SuccessURL: "https://shop.example"}}
	return w.system.PrepareCheckout(ctx, create, []string{"USDC", "USDT"}, []string{"polygon", "solana"}, false)
}

func (w *testStack) observePayment(v checkout.View, ws string, confirmations int) error {
	_, err := w.ask("checkout", v.ID, ws, checkout.Observed{Chain: "polygon", Asset: "USDC",
		Address: v.ReceivingAddresses[0].Address, TxHash: "0x" + v.ID, Amount: "25000000", BlockHash: "0xb",
		Confirmations: confirmations, Threshold: 3, At: w.clock.now(), From: "0xpayer"}, nil)
	return err
}

// runPayer creates sessions, pays them, repeats some observations, and logs the answers.
func (w *testStack) runPayer(notes *payerLog, ws string) {
	for range sessionsPerPayer {
		v, err := w.newCheckout(ws)
		if err != nil {
			w.t.Error(err)
			return
		}
		notes.noteAddresses(v)
		_, err = w.ask("checkout", v.ID, ws, checkout.Select{Asset: "USDC", Chain: "polygon"}, nil)
		for _, confirmations := range []int{1, 2, 2, 3, 3} {
			if err == nil {
				err = w.observePayment(v, ws, confirmations)
			}
		}
		if err != nil {
			w.t.Error(err)
			return
		}
		notes.noteCompleted(v)
	}
}

// payerLog collects what payers were answered: the receiving addresses and the completed sessions.
type payerLog struct {
	mu        sync.Mutex
	addresses map[string]string // session id, by address
	completed []string
}

func (n *payerLog) noteAddresses(v checkout.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range v.ReceivingAddresses {
		n.addresses[p.Address] = v.ID
	}
}

func (n *payerLog) noteCompleted(v checkout.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.completed = append(n.completed, v.ID)
}

func (n *payerLog) snapshot() *payerLog {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := &payerLog{addresses: map[string]string{}, completed: append([]string{}, n.completed...)}
	for a, id := range n.addresses {
		c.addresses[a] = id
	}
	return c
}

// startAnnouncer runs the webhook announcer until stop is called.
func (w *testStack) startAnnouncer() (stop func()) {
	subscription, err := consumer.Subscribe(consumer.Options{Journal: w.journal,
		RetryMin: time.Millisecond})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	handler := w.system.Announcer(processes.WebhookAnnouncements())
	go func() { done <- subscription.Run(ctx, handler) }()
	return func() {
		cancel()
		require.ErrorIs(w.t, <-done, context.Canceled)
	}
}

func (w *testStack) registerEndpoint(ws string) string {
	id := w.newID(ident.Endpoint, slotOf(ws))
	w.mustAsk("webhook", id, ws, webhook.Register{ID: id, Workspace: ws, URL: "https://example.com", Secret: "whsec_1",
		By: ann, Events: []string{"*"}})
	return id
}

// readCheckouts returns the sessions of a workspace, by id.
func (w *testStack) readCheckouts(ws string) map[string]checkout.State {
	records, err := w.system.List(context.Background(), "checkout", ws, "",
		persistence.Page{Limit: persistence.MaxPage})
	require.NoError(w.t, err)
	all := map[string]checkout.State{}
	for _, r := range records {
		var s checkout.State
		require.NoError(w.t, json.Unmarshal(r.Document, &s))
		all[r.ID] = s
	}
	return all
}

// requireCreditedOnce waits until every completed session is credited and announced, and requires
// one ledger entry and one announcement for each.
func (w *testStack) requireCreditedOnce(ws, endpoint string) {
	w.t.Helper()
	completed := map[string]bool{}
	require.Eventually(w.t, func() bool {
		for id, s := range w.readCheckouts(ws) {
			if s.Status == checkout.Completed {
				completed[id] = true
			}
			if s.Status == checkout.Completed && s.CreditedAt == nil {
				return false
			}
		}
		return len(w.readDeliveries(ws, endpoint)) >= len(completed)
	}, time.Minute, 5*time.Millisecond)
	require.Equal(w.t, money.Cents(len(completed))*checkoutCents, w.settledBalance(ws).Snapshot.StablecoinUsdCents)
	lines := map[string]int{}
	records, err := w.system.List(context.Background(), balance.RecordLedgerEntry, ws, "",
		persistence.Page{Limit: persistence.MaxPage})
	require.NoError(w.t, err)
	for _, r := range records {
		var line balance.LedgerEntry
		require.NoError(w.t, json.Unmarshal(r.Document, &line))
		lines[line.Reference]++
	}
	announced := map[string]int{}
	for _, d := range w.readDeliveries(ws, endpoint) {
		var body struct{ ID, TxHash, PayerAddress string }
		require.NoError(w.t, json.Unmarshal([]byte(d.Body), &body))
		require.Equal(w.t, "0x"+body.ID+" 0xpayer", body.TxHash+" "+body.PayerAddress)
		announced[body.ID]++
	}
	want := map[string]int{}
	for id := range completed {
		want[id] = 1
	}
	require.Equal(w.t, want, lines, "lines of the ledger")
	require.Equal(w.t, want, announced, "announcements")
}

func (w *testStack) readDeliveries(ws, endpoint string) (all []webhook.Delivery) {
	records, err := w.system.List(context.Background(), webhook.RecordDelivery, ws, endpoint,
		persistence.Page{Limit: persistence.MaxPage})
	require.NoError(w.t, err)
	for _, r := range records {
		var d webhook.Delivery
		require.NoError(w.t, json.Unmarshal(r.Document, &d))
		all = append(all, d)
	}
	return all
}

// checkoutCrash is the disk as a power failure left it, and the payers' log before it.
type checkoutCrash struct {
	fs    vfs.FS
	notes *payerLog
}

// TestCheckoutsAreCreditedOnceWhenThePowerFails cuts the power at many writes while customers pay.
// A session whose payment was answered as confirmed is completed. Every completed session is
// credited once and announced once, and no address belongs to two sessions.
func TestCheckoutsAreCreditedOnceWhenThePowerFails(t *testing.T) {
	var mu sync.Mutex
	var moments []checkoutCrash
	notes := &payerLog{addresses: map[string]string{}}
	c := &snapshotDisk{disk: vfs.NewCrashableMem(), answers: &answerLog{}, every: 7}
	take := func() {
		told := notes.snapshot() // before the clone, which must contain their effects
		picture := c.disk.CrashClone(vfs.CrashCloneCfg{})
		mu.Lock()
		defer mu.Unlock()
		moments = append(moments, checkoutCrash{picture, told})
	}
	c.onCapture = take
	w := newTestStack(t, c.fs(), stackOptions{})
	workspaces, endpoints := make([]string, payerCount/2), make([]string, payerCount/2)
	for i := range workspaces {
		workspaces[i] = w.newWorkspace(ident.Slot(1 + i*16))
		endpoints[i] = w.registerEndpoint(workspaces[i])
	}
	stop := w.startAnnouncer()
	c.armed.Store(true)
	var wg sync.WaitGroup
	for client := range payerCount {
		wg.Go(func() { w.runPayer(notes, workspaces[client/2]) })
	}
	wg.Wait()
	for i, ws := range workspaces {
		w.requireCreditedOnce(ws, endpoints[i])
	}
	take()
	c.armed.Store(false)
	stop()
	w.stop()

	step := max(1, len(moments)/atFullLength(checkoutCrashPoints, 30))
	tried, completed := 0, 0
	for i := len(moments) - 1; i >= 0; i -= step {
		moments[i].recoverAndCheck(t, workspaces, endpoints)
		tried, completed = tried+1, completed+len(moments[i].notes.completed)
	}
	t.Logf("%d power failures of %d, %d paid links found again", tried, len(moments), completed)
	require.NotZero(t, completed)
}

// recoverAndCheck starts the product on the disk that the failure left, waits until every completed
// session is credited, and creates one more session in each workspace.
func (m *checkoutCrash) recoverAndCheck(t *testing.T, workspaces, endpoints []string) {
	again := newTestStack(t, m.fs, stackOptions{})
	stop := again.startAnnouncer()
	for j, ws := range workspaces {
		again.requireCreditedOnce(ws, endpoints[j])
		for id, s := range again.readCheckouts(ws) {
			for _, p := range s.Pairs {
				require.Contains(t, []string{"", id}, m.notes.addresses[p.Address])
				m.notes.addresses[p.Address] = id
			}
		}
		v, err := again.newCheckout(ws)
		require.NoError(t, err)
		for _, p := range v.ReceivingAddresses {
			require.NotContains(t, m.notes.addresses, p.Address, "an address is given again")
		}
		m.notes.noteAddresses(v)
	}
	for _, id := range m.notes.completed {
		read, err := again.ask("checkout", id, workspaceOfSlot(again, workspaces, id), decision.Read{}, nil)
		require.NoError(t, err)
		require.Equal(t, checkout.Completed, read.(checkout.View).Status, "it was answered as confirmed")
	}
	again.requireCleanAudit()
	stop()
	again.stop()
}

// workspaceOfSlot returns the workspace in the slot of a session.
func workspaceOfSlot(w *testStack, workspaces []string, id string) string {
	for _, ws := range workspaces {
		if slotOf(ws) == slotOf(id) {
			return ws
		}
	}
	w.t.Fatal("a session of no workspace")
	return ""
}

// seedOpenLinks stores a workspace's count of open links, before its first link.
func (w *testStack) seedOpenLinks(ws string, count int64) {
	slot := slotOf(ws)
	document, err := json.Marshal(actors.Tally{Count: count, First: "cs_first"})
	require.NoError(w.t, err)
	outcomes, err := w.journal.Append(w.t.Context(), slot.Shard(), w.journal.Head(slot.Shard()).Epoch, w.clock.now(),
		[]*persistence.Batch{{Slot: slot, Workspace: ws, Records: []persistence.Record{
			{Kind: actors.TallyKind(checkout.Tally), Workspace: ws, ID: ws, Slot: slot, Document: document}}}})
	require.NoError(w.t, err)
	require.NoError(w.t, outcomes[0].Err)
}

// readNextIndex returns the next index of the account of EVM chains.
func (w *testStack) readNextIndex() uint32 {
	system := ident.System.Format(ident.Workspace)
	state, err := w.ask("derivation", system, system, decision.Read{}, nil)
	require.NoError(w.t, err)
	return state.(derivation.State).Next[string(address.EVM)]
}

// TestOpenLinksAreBounded: of links created at once as many exist as there are places. A link that
// ends or is paid frees its place, and a refused link takes no address.
func TestOpenLinksAreBounded(t *testing.T) {
	const places, creations = 3, 8
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(1)
	w.seedOpenLinks(ws, checkout.MaxOpen-places)
	var mu sync.Mutex
	var links []checkout.View
	var wg sync.WaitGroup
	begin := make(chan struct{}) // closed once every link is prepared
	for range creations {
		id := w.newID(ident.Checkout, slotOf(ws))
		prepared, err := w.prepareCheckout(t.Context(), ws, id)
		require.NoError(t, err)
		wg.Go(func() {
			<-begin
			v, err := w.createCheckout(t.Context(), prepared)
			if err != nil {
				assert.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			links = append(links, v)
		})
	}
	close(begin)
	wg.Wait()
	require.Len(t, links, places)
	requireFull := func() {
		_, err := w.newCheckout(ws)
		require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
	}
	requireFull()

	w.mustAsk("checkout", links[0].ID, ws, checkout.Cancel{})
	before := w.readNextIndex()
	again, err := w.newCheckout(ws)
	require.NoError(t, err)
	requireFull()
	require.Equal(t, before+1, w.readNextIndex(), "a refused link takes no address")

	w.mustAsk("checkout", again.ID, ws, checkout.Select{Asset: "USDC", Chain: "polygon"})
	requireFull()
	w.mustAsk("checkout", again.ID, ws, checkout.Simulate{})
	w.mustAsk("checkout", again.ID, ws, checkout.Simulate{})
	_, err = w.newCheckout(ws)
	require.NoError(t, err)
	requireFull()
}
