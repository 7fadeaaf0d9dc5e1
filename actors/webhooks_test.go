package actors_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/processes"
	"purser/actors/webhook"
	"purser/actors/workspace"
	outbound "purser/httpapi/webhook"
	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// receivedRequest is a webhook request as its receiver got it.
type receivedRequest struct{ id, signature, body string }

// receiver is a webhook receiver on the loopback interface that records its requests.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	received []receivedRequest
	answer   func(w http.ResponseWriter, r *http.Request)
	status   atomic.Int32
}

func newReceiver(t testing.TB, status int) *receiver {
	v := &receiver{}
	v.status.Store(int32(status))
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		v.mu.Lock()
		v.received = append(v.received, receivedRequest{r.Header.Get("webhook-id"),
			r.Header.Get("service-signature"), string(body)})
		answer := v.answer
		v.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
		w.WriteHeader(int(v.status.Load()))
	}))
	t.Cleanup(v.Close)
	return v
}

func (v *receiver) requests() []receivedRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]receivedRequest{}, v.received...)
}

// webhookSystem is a counterSystem with webhook endpoints, whose deliveries go out over HTTP. Its
// owner is a workspace of ann, with bob as an admin.
type webhookSystem struct {
	*counterSystem
	owner string
	next  int
}

type posterFunc func(ctx context.Context, url, secret, id, event string, at time.Time, body []byte) (int, string)

func (p posterFunc) Post(ctx context.Context, url, secret, id, event string, at time.Time, body []byte) (int, string) {
	return p(ctx, url, secret, id, event, at, body)
}

func newSender(t testing.TB) *outbound.Sender {
	t.Helper()
	s, err := outbound.NewSender(outbound.SenderOptions{Guard: outbound.NewGuard(true, nil),
		ConnectTimeout: eventuallyWithin,
		Timeout:        eventuallyWithin})
	require.NoError(t, err)
	return s
}

func newWebhookSystem(t *testing.T, poster processes.Poster, change ...func(*actors.Config)) *webhookSystem {
	h := &webhookSystem{owner: counterID(5)}
	h.counterSystem = &counterSystem{t: t, poster: poster, fs: vfs.NewCrashableMem(), clock: newClock(),
		authorizer: &reservingAuthorizer{reserved: map[ident.UUID]money.Cents{}},
		config: func(c *actors.Config) {
			c.Kinds = append(c.Kinds, actors.Kind{Name: "webhook",
				New:      func() actors.State { return new(webhook.State) },
				Personal: []string{webhook.RecordEndpoint}})
			for _, kind := range processes.Kinds() {
				if kind.Name == "workspace" || kind.Name == "user" {
					c.Kinds = append(c.Kinds, kind)
				}
			}
			for _, f := range change {
				f(c)
			}
		}}
	h.start()
	t.Cleanup(func() { h.stop() })
	h.tellWorkspace(workspace.Create{ID: h.owner, Name: "Acme", OwnerIDs: []string{ann, bob},
		FirstKey: workspace.NewKey{ID: h.newID(ident.Key), Label: "k", Prefix: "apk_", SecretHash: "hash", CreatedBy: ann}})
	return h
}

// ownerSlot is the slot of the owner's workspace and of all its records.
func (h *webhookSystem) ownerSlot() ident.Slot {
	slot, err := ident.SlotOf(h.owner)
	require.NoError(h.t, err)
	return slot
}

func (h *webhookSystem) newID(prefix string) string {
	h.next++
	return ident.Derive(h.ownerSlot(), time.UnixMilli(1), fmt.Sprint("hook ", h.next)).Format(prefix)
}

const endpointSecret = "whsec_for-the-tests"

func (h *webhookSystem) registerEndpoint(url string, events ...string) string {
	h.t.Helper()
	id := h.newID(ident.Endpoint)
	h.askEndpoint(id, webhook.Register{ID: id, Workspace: h.owner, URL: url, Secret: endpointSecret, By: ann, Events: events})
	return id
}

func (h *webhookSystem) askEndpoint(endpoint string, command any) any {
	h.t.Helper()
	reply, err := h.system.Ask(h.t.Context(), actors.Envelope{Kind: "webhook", Stream: endpoint, Workspace: h.owner,
		Command: command})
	require.NoError(h.t, err)
	return reply
}

func (h *webhookSystem) sendPing(endpoint string) string {
	h.t.Helper()
	id := h.newID(ident.Delivery)
	h.askEndpoint(endpoint, webhook.Ping{ID: id, Body: `{"type":"ping", "at":"<now>"}`})
	return id
}

func (h *webhookSystem) readDelivery(id string) (d webhook.Delivery) {
	h.t.Helper()
	record, err := h.system.Record(h.t.Context(), webhook.RecordDelivery, h.owner, id)
	require.NoError(h.t, err)
	require.NoError(h.t, json.Unmarshal(record.Document, &d))
	return d
}

// awaitDelivery waits until the stored delivery satisfies says, and returns it.
func (h *webhookSystem) awaitDelivery(id string, says func(d webhook.Delivery) bool) webhook.Delivery {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return says(h.readDelivery(id)) }, eventuallyWithin, pollEvery)
	return h.readDelivery(id)
}

func (h *webhookSystem) awaitDelivered(id string) webhook.Delivery {
	h.t.Helper()
	return h.awaitDelivery(id, func(d webhook.Delivery) bool { return d.Status == webhook.StatusDelivered })
}

// verifySignature checks a signature as a receiver does, from the documented interface alone.
func verifySignature(t *testing.T, a receivedRequest, at time.Time) {
	t.Helper()
	stamp, sum, found := strings.Cut(strings.TrimPrefix(a.signature, "t="), ",v1=")
	require.True(t, found, a.signature)
	require.Equal(t, strconv.FormatInt(at.Unix(), 10), stamp)
	mac := hmac.New(sha256.New, []byte(endpointSecret))
	_, _ = io.WriteString(mac, stamp+"."+a.body)
	require.Equal(t, hex.EncodeToString(mac.Sum(nil)), sum)
}

func TestADeliveryIsTriedForThreeDays(t *testing.T) {
	h, v := newWebhookSystem(t, newSender(t)), newReceiver(t, 500)
	id := h.sendPing(h.registerEndpoint(v.URL, "*"))
	start := h.clock.now()
	d := h.readDelivery(id)
	for n := 1; d.Status == webhook.StatusPending; n++ {
		h.clock.turn(d.NextAttemptAt.Sub(h.clock.now()))
		d = h.awaitDelivery(id, func(d webhook.Delivery) bool { return len(d.Attempts) == n })
		require.Equal(t, h.clock.now(), d.Attempts[n-1].At.Time)
	}
	require.Equal(t, webhook.StatusFailed, d.Status)
	require.Equal(t, webhook.FailureGaveUp, d.Failure)
	pauses := []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}
	jittered := 0
	for i := 1; i < len(d.Attempts); i++ {
		pause := d.Attempts[i].At.Sub(d.Attempts[i-1].At.Time)
		if i <= len(pauses) {
			require.Equal(t, pauses[i-1], pause)
			continue
		}
		require.True(t, pause >= time.Hour && pause < time.Hour+webhook.MaxJitter, "%s", pause)
		if pause > time.Hour {
			jittered++
		}
	}
	require.Positive(t, jittered)
	last := d.Attempts[len(d.Attempts)-1].At.Sub(start)
	require.True(t, last > 70*time.Hour && last <= 72*time.Hour, "%s", last)
	got := v.requests()
	require.Len(t, got, len(d.Attempts))
	for i, a := range got {
		require.Equal(t, receivedRequest{id, a.signature, `{"type":"ping", "at":"<now>"}`}, a)
		verifySignature(t, a, d.Attempts[i].At.Time)
	}
}

// TestASlowEndpointDelaysOnlyItself: an endpoint that does not answer gets one request at a time,
// and deliveries of other endpoints are sent meanwhile.
func TestASlowEndpointDelaysOnlyItself(t *testing.T) {
	h, slow, quick := newWebhookSystem(t, newSender(t)), newReceiver(t, 200), newReceiver(t, 200)
	gate := make(chan struct{})
	var under, most atomic.Int32
	slow.answer = func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), under.Add(1)))
		<-gate
		under.Add(-1)
	}
	stuck := h.registerEndpoint(slow.URL, "*")
	var waiting []string
	for range 5 {
		waiting = append(waiting, h.sendPing(stuck))
	}
	require.Eventually(t, func() bool { return under.Load() == 1 }, eventuallyWithin, pollEvery)
	for range 3 {
		h.awaitDelivered(h.sendPing(h.registerEndpoint(quick.URL, "*")))
	}
	h.clock.turn(90 * time.Second) // the timers of the sent and the queued deliveries fire again
	h.awaitDelivered(h.sendPing(h.registerEndpoint(quick.URL, "*")))
	require.Len(t, slow.requests(), 1)
	close(gate)
	for _, id := range waiting {
		require.Len(t, h.awaitDelivered(id).Attempts, 1)
	}
	require.EqualValues(t, 1, most.Load())
	require.Len(t, slow.requests(), len(waiting))
}

// TestACrashBeforeTheAttemptRecordSendsAgain cuts the power after the receiver has answered and
// before the attempt is stored. The delivery is sent again under the same id, and its one record
// shows one attempt.
func TestACrashBeforeTheAttemptRecordSendsAgain(t *testing.T) {
	v, sender := newReceiver(t, 204), newSender(t)
	crashed := make(chan vfs.FS, 1)
	var h *webhookSystem
	h = newWebhookSystem(t, posterFunc(func(ctx context.Context, url, secret, id, event string, at time.Time,
		body []byte) (int,
		string) {
		status, failure := sender.Post(ctx, url, secret, id, event, at, body)
		select {
		case crashed <- h.fs.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{}):
		default:
		}
		return status, failure
	}))
	endpoint := h.registerEndpoint(v.URL, "*")
	id := h.sendPing(endpoint)
	require.Len(t, h.awaitDelivered(id).Attempts, 1)
	h.stop()
	h.fs = <-crashed
	h.start()
	require.Empty(t, h.readDelivery(id).Attempts)
	h.clock.turn(time.Minute)
	require.Len(t, h.awaitDelivered(id).Attempts, 1)
	got := v.requests()
	require.Len(t, got, 2)
	require.Equal(t, id, got[0].id)
	require.Equal(t, id, got[1].id)
	require.Equal(t, got[0].body, got[1].body)
	records, err := h.system.List(t.Context(), webhook.RecordDelivery, h.owner, endpoint, persistence.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, records, 1)
}

func TestADeliveryIsReplayed(t *testing.T) {
	h, v := newWebhookSystem(t, newSender(t)), newReceiver(t, 200)
	endpoint := h.registerEndpoint(v.URL, "*")
	id := h.sendPing(endpoint)
	first := h.awaitDelivered(id)
	h.clock.turn(time.Hour)
	h.askEndpoint(endpoint, webhook.Replay{Delivery: first})
	again := h.awaitDelivery(id, func(d webhook.Delivery) bool { return len(d.Attempts) == 2 })
	require.Equal(t, webhook.StatusDelivered, again.Status)
	got := v.requests()
	require.Equal(t, got[0].id, got[1].id)
	require.Equal(t, got[0].body, got[1].body)
	verifySignature(t, got[1], h.clock.now())
}

func TestARemovedEndpointReceivesNoDelivery(t *testing.T) {
	h, v := newWebhookSystem(t, newSender(t)), newReceiver(t, 500)
	endpoint := h.registerEndpoint(v.URL, "*")
	failing := h.sendPing(endpoint)
	h.awaitDelivery(failing, func(d webhook.Delivery) bool { return len(d.Attempts) == 1 })
	h.askEndpoint(endpoint, webhook.Remove{})
	timers, err := h.journal.Timers(t.Context(), h.ownerSlot().Shard(), h.clock.now().Add(1000*time.Hour),
		persistence.Timer{}, 10)
	require.NoError(t, err)
	require.Empty(t, timers)
	h.clock.turn(time.Hour)
	other := newReceiver(t, 200)
	h.awaitDelivered(h.sendPing(h.registerEndpoint(other.URL, "*")))
	require.Len(t, v.requests(), 1)
}

// TestQueuedDeliveriesOfARemovedEndpointAreDropped: a delivery that is queued behind a running
// attempt is not sent after its endpoint is removed.
func TestQueuedDeliveriesOfARemovedEndpointAreDropped(t *testing.T) {
	h, v := newWebhookSystem(t, newSender(t)), newReceiver(t, 200)
	gate, under := make(chan struct{}), make(chan struct{}, 8)
	v.answer = func(http.ResponseWriter, *http.Request) {
		under <- struct{}{}
		<-gate
	}
	endpoint := h.registerEndpoint(v.URL, "*")
	h.sendPing(endpoint)
	<-under
	fired := h.journal.appends.Load()
	h.sendPing(endpoint)
	// its timer has fired too
	require.Eventually(t, func() bool { return h.journal.appends.Load() >= fired+2 }, eventuallyWithin, pollEvery)
	h.askEndpoint(endpoint, webhook.Remove{})
	close(gate)
	other := newReceiver(t, 200)
	h.awaitDelivered(h.sendPing(h.registerEndpoint(other.URL, "*")))
	h.stop() // waits until the endpoint's queue is empty
	require.Len(t, v.requests(), 1)
	h.start()
}

// cursorLosingJournal does not store cursors.
type cursorLosingJournal struct{ persistence.Journal }

func (cursorLosingJournal) SaveCursor(context.Context, string, ident.Shard, uint64) error { return nil }

func announceAdded(e persistence.Event) (processes.Announcement, error) {
	return processes.Announcement{Event: webhook.CheckoutCompleted, Body: `{"cause":"` + e.ID + `"}`}, nil
}

// TestAnAnnouncementIsDeliveredOncePerSubscriber: every endpoint of the workspace that subscribes
// to the event gets one delivery, however often the event is handled.
func TestAnAnnouncementIsDeliveredOncePerSubscriber(t *testing.T) {
	h := newWebhookSystem(t, newSender(t), func(c *actors.Config) { c.Journal = cursorLosingJournal{c.Journal} })
	v := newReceiver(t, 200)
	all, some := h.registerEndpoint(v.URL, "*"), h.registerEndpoint(v.URL, webhook.CheckoutCompleted)
	none, gone := h.registerEndpoint(v.URL, webhook.PingEvent), h.registerEndpoint(v.URL, "*")
	h.askEndpoint(gone, webhook.Remove{})
	_, err := h.ask(h.owner, add{By: 1}, nil)
	require.NoError(t, err)
	_, err = h.ask(counterID(6), add{By: 1}, nil) // another tenant's
	require.NoError(t, err)
	handler := h.system.Announcer(processes.Announcements{"counter.added.v1": announceAdded})
	shard := h.ownerSlot().Shard()
	events, err := h.journal.Events(t.Context(), shard, 0, 100)
	require.NoError(t, err)
	require.ErrorIs(t, handler.Handle(t.Context(), shard, events[1:]), consumer.ErrMoved)
	for range 3 {
		require.NoError(t, handler.Handle(t.Context(), shard, events))
	}
	for endpoint, want := range map[string]int{all: 1, some: 1, none: 0, gone: 0} {
		records, err := h.system.List(t.Context(), webhook.RecordDelivery, h.owner, endpoint,
			persistence.Page{Limit: 10})
		require.NoError(t, err)
		require.Len(t, records, want)
		for _, r := range records {
			d := h.awaitDelivered(r.ID)
			require.Equal(t, webhook.CheckoutCompleted, d.Event)
			require.Equal(t, `{"cause":"`+events[len(events)-1].ID+`"}`, d.Body)
		}
	}
	require.NoError(t, handler.Handle(t.Context(), shard, events)) // once more, after every delivery is sent
	for _, endpoint := range []string{all, some} {
		require.Empty(t, h.askEndpoint(endpoint, decision.Read{}).(webhook.State).Pending)
	}
	require.Len(t, v.requests(), 2)
}

// TestTheAnnouncerReadsTheJournal runs the announcer on the journal's subscription. Every event is
// announced, also after an event whose first handling fails and after a restart.
func TestTheAnnouncerReadsTheJournal(t *testing.T) {
	h, v := newWebhookSystem(t, newSender(t)), newReceiver(t, 200)
	h.registerEndpoint(v.URL, "*")
	var failed atomic.Bool
	table := processes.Announcements{"counter.added.v1": func(e persistence.Event) (processes.Announcement, error) {
		if failed.CompareAndSwap(false, true) {
			return processes.Announcement{}, io.ErrUnexpectedEOF
		}
		return announceAdded(e)
	}}
	follow := func(until int) {
		subscription, err := consumer.Subscribe(consumer.Options{Journal: h.journal,
			RetryMin: time.Millisecond})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- subscription.Run(ctx, h.system.Announcer(table)) }()
		for range 3 {
			_, err := h.ask(h.owner, add{By: 1}, nil)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return len(v.requests()) == until }, eventuallyWithin, pollEvery)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
	follow(3)
	h.restart()
	follow(6)
	ids := map[string]bool{}
	for _, a := range v.requests() {
		ids[a.id] = true
	}
	require.Len(t, ids, 6)
}

// recordingListener records what the runtime reports about webhooks.
type recordingListener struct {
	processes.Listener
	mu      sync.Mutex
	posted  map[string]int
	pending atomic.Int64
}

func (l *recordingListener) Posted(outcome string, _ time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.posted[outcome]++
}
func (l *recordingListener) Deliveries(pending int)            { l.pending.Store(int64(pending)) }
func (*recordingListener) Committed(int, time.Duration, error) {}
func (*recordingListener) Reacted(string, error)               {}
func (*recordingListener) Fired(string, error)                 {}
func (l *recordingListener) hasRecorded(want map[string]int, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.posted) == fmt.Sprint(want) && l.pending.Load() == int64(n)
}

func TestPostedAttemptsAndPendingDeliveriesAreReported(t *testing.T) {
	l := &recordingListener{posted: map[string]int{}}
	h := newWebhookSystem(t, newSender(t), func(c *actors.Config) {
		c.Listener, c.HousekeepEvery = l,
			time.Millisecond
	})
	good, bad, dead := newReceiver(t, 200), newReceiver(t, 503), newReceiver(t, 200)
	dead.Close()
	for _, v := range []*receiver{good, bad, dead} {
		h.sendPing(h.registerEndpoint(v.URL, "*"))
	}
	want := map[string]int{"connect": 1, "status_2xx": 1, "status_5xx": 1}
	require.Eventually(t, func() bool { return l.hasRecorded(want, 2) }, eventuallyWithin, pollEvery, "%v", l)
}

// TestEndpointsAreAudited: the audit counts the endpoints of a workspace, removed ones included,
// and compares the count and the first id with the stored tally.
func TestEndpointsAreAudited(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(77)
	for i := range 4 {
		id := w.newID(ident.Endpoint, slotOf(ws))
		w.mustAsk("webhook", id, ws, webhook.Register{ID: id, Workspace: ws, URL: "https://example.com", Secret: "s",
			By: ann, Events: []string{"*"}})
		if i < 3 {
			w.mustAsk("webhook", id, ws, webhook.Remove{})
		}
	}
	w.requireCleanAudit()
}
