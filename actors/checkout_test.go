package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/checkout"
	"purser/actors/checkout/address"
	"purser/actors/decision"
	"purser/actors/webhook"
	"purser/persistence"
	"purser/persistence/ident"
)

// Extent of the crash test of checkouts.
const (
	payingClients  = 6
	payingSessions = 6 // of one client
	payingCrashes  = 30
	paidCents      = 2_500
)

func testAccounts(t testing.TB) *address.Accounts {
	t.Helper()
	a, err := address.Sandbox(bytes.Repeat([]byte{3}, address.SeedBytes))
	require.NoError(t, err)
	return a
}

// newCheckout makes a link as the interface does.
func (w *world) newCheckout(ws string) (checkout.View, error) {
	id := w.newID(ident.Checkout, slotOf(ws))
	create := checkout.Create{ID: id, Workspace: ws, AmountUsdCents: paidCents, Expires: checkout.DefaultExpires,
		SettlementOption: checkout.HoldStablecoin, Text: checkout.Text{SuccessURL: "https://shop.example"}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	reply, err := w.system.Ask(ctx, actors.Envelope{Kind: "checkout", Stream: id, Workspace: ws,
		Prepare: func(ctx context.Context) (any, error) {
			return w.system.PrepareCheckout(ctx, create, []string{"USDC", "USDT"}, []string{"polygon", "solana"}, false)
		}})
	view, _ := reply.(checkout.View)
	return view, err
}

func (w *world) sees(v checkout.View, ws string, confirmations int) error {
	_, err := w.ask("checkout", v.ID, ws, checkout.Observed{Chain: "polygon", Asset: "USDC",
		Address: v.ReceivingAddresses[0].Address, TxHash: "0x" + v.ID, Amount: "25000000", BlockHash: "0xb",
		Confirmations: confirmations, Threshold: 3, At: w.clock.now(), From: "0xpayer"}, nil)
	return err
}

// payer makes links, pays them, and tells some of it twice; what was answered is noted.
func (w *world) payer(notes *payerNotes, ws string) {
	for range payingSessions {
		v, err := w.newCheckout(ws)
		if err != nil {
			w.t.Error(err)
			return
		}
		notes.made(v)
		_, err = w.ask("checkout", v.ID, ws, checkout.Select{Asset: "USDC", Chain: "polygon"}, nil)
		for _, confirmations := range []int{1, 2, 2, 3, 3} {
			if err == nil {
				err = w.sees(v, ws, confirmations)
			}
		}
		if err != nil {
			w.t.Error(err)
			return
		}
		notes.paid(v)
	}
}

// payerNotes are what payers were told so far: the addresses that they may have paid to, the links that they have paid.
type payerNotes struct {
	mu        sync.Mutex
	addresses map[string]string // → session
	completed []string
}

func (n *payerNotes) made(v checkout.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range v.ReceivingAddresses {
		n.addresses[p.Address] = v.ID
	}
}

func (n *payerNotes) paid(v checkout.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.completed = append(n.completed, v.ID)
}

func (n *payerNotes) copy() *payerNotes {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := &payerNotes{addresses: map[string]string{}, completed: append([]string{}, n.completed...)}
	for a, id := range n.addresses {
		c.addresses[a] = id
	}
	return c
}

// announce runs what tells webhooks, until the test ends it.
func (w *world) announce() (stop func()) {
	subscription, err := persistence.Subscribe(persistence.SubscriptionOptions{Journal: w.journal, RetryMin: time.Millisecond})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	handler := w.system.Announcer(actors.WebhookAnnouncements())
	go func() { done <- subscription.Run(ctx, handler) }()
	return func() {
		cancel()
		require.ErrorIs(w.t, <-done, context.Canceled)
	}
}

func (w *world) endpoint(ws string) string {
	id := w.newID(ident.Endpoint, slotOf(ws))
	w.must("webhook", id, ws, webhook.Register{ID: id, Workspace: ws, URL: "https://example.com", Secret: "whsec_1",
		Events: []string{"*"}})
	return id
}

// checkouts are the sessions of a workspace as they stand.
func (w *world) checkouts(ws string) map[string]checkout.State {
	records, err := w.system.List(context.Background(), "checkout", ws, "", persistence.Page{Limit: persistence.MaxPage})
	require.NoError(w.t, err)
	all := map[string]checkout.State{}
	for _, r := range records {
		var s checkout.State
		require.NoError(w.t, json.Unmarshal(r.Document, &s))
		all[r.ID] = s
	}
	return all
}

// creditedOnce waits until everything that follows from what is completed has followed, and holds it to one credit and one
// announcement for each session.
func (w *world) creditedOnce(ws, endpoint string) {
	w.t.Helper()
	completed := map[string]bool{}
	require.Eventually(w.t, func() bool {
		for id, s := range w.checkouts(ws) {
			if s.Status == checkout.Completed {
				completed[id] = true
			}
			if s.Status == checkout.Completed && s.CreditedAt == nil {
				return false
			}
		}
		return len(w.deliveries(ws, endpoint)) >= len(completed)
	}, time.Minute, 5*time.Millisecond)
	require.Equal(w.t, int64(len(completed))*paidCents, w.balance(ws).Snapshot.StablecoinUsdCents)
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
	for _, d := range w.deliveries(ws, endpoint) {
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

func (w *world) deliveries(ws, endpoint string) (all []webhook.Delivery) {
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

// moment is the disk as a power failure left it, and what payers had been told before.
type moment struct {
	fs    vfs.FS
	notes *payerNotes
}

// Power fails at many writes while customers pay. What was answered as confirmed is completed; whatever is completed is credited
// once and announced once; no address is ever given to two sessions.
func TestCheckoutsAreCreditedOnceWhenThePowerFails(t *testing.T) {
	var mu sync.Mutex
	var moments []moment
	notes := &payerNotes{addresses: map[string]string{}}
	c := &crasher{disk: vfs.NewCrashableMem(), notes: &notebook{}, every: 7}
	take := func() {
		told := notes.copy() // before the picture: what was answered by now must be in it
		picture := c.disk.CrashClone(vfs.CrashCloneCfg{})
		mu.Lock()
		defer mu.Unlock()
		moments = append(moments, moment{picture, told})
	}
	c.take = take
	w := newWorld(t, c.fs(), worldOptions{})
	workspaces, endpoints := make([]string, payingClients/2), make([]string, payingClients/2)
	for i := range workspaces {
		workspaces[i] = w.newWorkspace(ident.Slot(1 + i*16))
		endpoints[i] = w.endpoint(workspaces[i])
	}
	stop := w.announce()
	c.armed.Store(true)
	var wg sync.WaitGroup
	for client := range payingClients {
		wg.Go(func() { w.payer(notes, workspaces[client/2]) })
	}
	wg.Wait()
	for i, ws := range workspaces {
		w.creditedOnce(ws, endpoints[i])
	}
	take()
	c.armed.Store(false)
	stop()
	w.stop()

	visited := payingCrashes
	if testing.Short() {
		visited = shortCrashes
	}
	step := max(1, len(moments)/visited)
	tried, completed := 0, 0
	for i := len(moments) - 1; i >= 0; i -= step {
		moments[i].survives(t, workspaces, endpoints)
		tried, completed = tried+1, completed+len(moments[i].notes.completed)
	}
	t.Logf("%d power failures of %d, %d paid links found again", tried, len(moments), completed)
	require.NotZero(t, completed)
}

// survives starts the product on what the power failure left, lets everything follow that has to, and makes one more link in each
// workspace.
func (m *moment) survives(t *testing.T, workspaces, endpoints []string) {
	again := newWorld(t, m.fs, worldOptions{})
	stop := again.announce()
	for j, ws := range workspaces {
		again.creditedOnce(ws, endpoints[j])
		for id, s := range again.checkouts(ws) {
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
		m.notes.made(v)
	}
	for _, id := range m.notes.completed {
		read, err := again.ask("checkout", id, wsOf(again, workspaces, id), decision.Read{}, nil)
		require.NoError(t, err)
		require.Equal(t, checkout.Completed, read.(checkout.View).Status, "it was answered as confirmed")
	}
	again.requireClean()
	stop()
	again.stop()
}

// wsOf finds the workspace of a session by its slot.
func wsOf(w *world, workspaces []string, id string) string {
	for _, ws := range workspaces {
		if slotOf(ws) == slotOf(id) {
			return ws
		}
	}
	w.t.Fatal("a session of no workspace")
	return ""
}
