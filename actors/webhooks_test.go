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
	"purser/actors/webhook"
	outbound "purser/httpapi/webhook"
	"purser/persistence"
	"purser/persistence/ident"
)

// arrival is a request as a receiver got it.
type arrival struct{ id, signature, body string }

// receiver is a server on loopback that keeps what it gets.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []arrival
	answer func(w http.ResponseWriter, r *http.Request)
	status atomic.Int32
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
		v.got = append(v.got, arrival{r.Header.Get("webhook-id"), r.Header.Get("service-signature"), string(body)})
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

func (v *receiver) arrivals() []arrival {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]arrival{}, v.got...)
}

// hooks is a rig of endpoints and counters, whose deliveries really go out.
type hooks struct {
	*rig
	owner string
	next  int
}

type post func(ctx context.Context, url, secret, id, event string, at time.Time, body []byte) (int, string)

func (p post) Post(ctx context.Context, url, secret, id, event string, at time.Time, body []byte) (int, string) {
	return p(ctx, url, secret, id, event, at, body)
}

func newSender(t testing.TB) *outbound.Sender {
	t.Helper()
	s, err := outbound.NewSender(outbound.SenderOptions{Guard: outbound.NewGuard(true, nil), ConnectTimeout: comesWithin,
		Timeout: comesWithin})
	require.NoError(t, err)
	return s
}

func newHooks(t *testing.T, poster actors.Poster, change ...func(*actors.Config)) *hooks {
	h := &hooks{owner: stream(5)}
	h.rig = &rig{t: t, fs: vfs.NewCrashableMem(), clock: newClock(), books: &books{reserved: map[ident.UUID]int64{}},
		config: func(c *actors.Config) {
			c.Poster = poster
			c.Kinds = append(c.Kinds, actors.Kind{Name: "webhook",
				New:      func() actors.State { return new(webhook.State) },
				Personal: []string{webhook.RecordEndpoint}})
			for _, f := range change {
				f(c)
			}
		}}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

// slot is the owner's, where all its records are.
func (h *hooks) slot() ident.Slot {
	slot, err := ident.SlotOf(h.owner)
	require.NoError(h.t, err)
	return slot
}

func (h *hooks) newID(prefix string) string {
	h.next++
	return ident.Derive(h.slot(), time.UnixMilli(1), fmt.Sprint("hook ", h.next)).Format(prefix)
}

const hookSecret = "whsec_for-the-tests"

func (h *hooks) register(url string, events ...string) string {
	h.t.Helper()
	id := h.newID(ident.Endpoint)
	h.tell(id, webhook.Register{ID: id, Workspace: h.owner, URL: url, Secret: hookSecret, Events: events})
	return id
}

func (h *hooks) tell(endpoint string, command any) any {
	h.t.Helper()
	reply, err := h.system.Ask(h.t.Context(), actors.Envelope{Kind: "webhook", Stream: endpoint, Workspace: h.owner,
		Command: command})
	require.NoError(h.t, err)
	return reply
}

func (h *hooks) ping(endpoint string) string {
	h.t.Helper()
	id := h.newID(ident.Delivery)
	h.tell(endpoint, webhook.Ping{ID: id, Body: `{"type":"ping", "at":"<now>"}`})
	return id
}

func (h *hooks) delivery(id string) (d webhook.Delivery) {
	h.t.Helper()
	record, err := h.system.Record(h.t.Context(), webhook.RecordDelivery, h.owner, id)
	require.NoError(h.t, err)
	require.NoError(h.t, json.Unmarshal(record.Document, &d))
	return d
}

// awaits waits for a delivery's record to say so.
func (h *hooks) awaits(id string, says func(d webhook.Delivery) bool) webhook.Delivery {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return says(h.delivery(id)) }, time.Minute, time.Millisecond)
	return h.delivery(id)
}

func (h *hooks) delivered(id string) webhook.Delivery {
	h.t.Helper()
	return h.awaits(id, func(d webhook.Delivery) bool { return d.Status == webhook.StatusDelivered })
}

// verify is a receiver's check, written from the interface alone.
func verify(t *testing.T, a arrival, at time.Time) {
	t.Helper()
	stamp, sum, found := strings.Cut(strings.TrimPrefix(a.signature, "t="), ",v1=")
	require.True(t, found, a.signature)
	require.Equal(t, strconv.FormatInt(at.Unix(), 10), stamp)
	mac := hmac.New(sha256.New, []byte(hookSecret))
	_, _ = io.WriteString(mac, stamp+"."+a.body)
	require.Equal(t, hex.EncodeToString(mac.Sum(nil)), sum)
}

func TestADeliveryIsTriedForThreeDays(t *testing.T) {
	h, v := newHooks(t, newSender(t)), newReceiver(t, 500)
	id := h.ping(h.register(v.URL, "*"))
	start := h.clock.now()
	d := h.delivery(id)
	for n := 1; d.Status == webhook.StatusPending; n++ {
		h.clock.turn(d.NextAttemptAt.Sub(h.clock.now()))
		d = h.awaits(id, func(d webhook.Delivery) bool { return len(d.Attempts) == n })
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
	got := v.arrivals()
	require.Len(t, got, len(d.Attempts))
	for i, a := range got {
		require.Equal(t, arrival{id, a.signature, `{"type":"ping", "at":"<now>"}`}, a)
		verify(t, a, d.Attempts[i].At.Time)
	}
}

// One endpoint never answers, and has more waiting; the others get theirs meanwhile, and it is asked one thing at a time.
func TestASlowEndpointDelaysNobody(t *testing.T) {
	h, slow, quick := newHooks(t, newSender(t)), newReceiver(t, 200), newReceiver(t, 200)
	gate := make(chan struct{})
	var under, most atomic.Int32
	slow.answer = func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), under.Add(1)))
		<-gate
		under.Add(-1)
	}
	stuck := h.register(slow.URL, "*")
	var waiting []string
	for range 5 {
		waiting = append(waiting, h.ping(stuck))
	}
	require.Eventually(t, func() bool { return under.Load() == 1 }, time.Minute, time.Millisecond)
	for range 3 {
		h.delivered(h.ping(h.register(quick.URL, "*")))
	}
	h.clock.turn(90 * time.Second) // the timers of what is under way and what waits fire again
	h.delivered(h.ping(h.register(quick.URL, "*")))
	require.Len(t, slow.arrivals(), 1)
	close(gate)
	for _, id := range waiting {
		require.Len(t, h.delivered(id).Attempts, 1)
	}
	require.EqualValues(t, 1, most.Load())
	require.Len(t, slow.arrivals(), len(waiting))
}

// The power fails after the receiver has taken a delivery and before that is written down: it is sent once more, under the same
// id, and there is one record of it, with one attempt.
func TestACrashBeforeTheRecordSendsAgain(t *testing.T) {
	v, sender := newReceiver(t, 204), newSender(t)
	crashed := make(chan vfs.FS, 1)
	var h *hooks
	h = newHooks(t, post(func(ctx context.Context, url, secret, id, event string, at time.Time, body []byte) (int,
		string) {
		status, failure := sender.Post(ctx, url, secret, id, event, at, body)
		select {
		case crashed <- h.fs.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{}):
		default:
		}
		return status, failure
	}))
	endpoint := h.register(v.URL, "*")
	id := h.ping(endpoint)
	require.Len(t, h.delivered(id).Attempts, 1)
	h.stop()
	h.fs = <-crashed
	h.start()
	require.Empty(t, h.delivery(id).Attempts)
	h.clock.turn(time.Minute)
	require.Len(t, h.delivered(id).Attempts, 1)
	got := v.arrivals()
	require.Len(t, got, 2)
	require.Equal(t, id, got[0].id)
	require.Equal(t, id, got[1].id)
	require.Equal(t, got[0].body, got[1].body)
	records, err := h.system.List(t.Context(), webhook.RecordDelivery, h.owner, endpoint, persistence.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, records, 1)
}

func TestADeliveryIsReplayed(t *testing.T) {
	h, v := newHooks(t, newSender(t)), newReceiver(t, 200)
	endpoint := h.register(v.URL, "*")
	id := h.ping(endpoint)
	first := h.delivered(id)
	h.clock.turn(time.Hour)
	h.tell(endpoint, webhook.Replay{Delivery: first})
	again := h.awaits(id, func(d webhook.Delivery) bool { return len(d.Attempts) == 2 })
	require.Equal(t, webhook.StatusDelivered, again.Status)
	got := v.arrivals()
	require.Equal(t, got[0].id, got[1].id)
	require.Equal(t, got[0].body, got[1].body)
	verify(t, got[1], h.clock.now())
}

func TestARemovedEndpointGetsNothingMore(t *testing.T) {
	h, v := newHooks(t, newSender(t)), newReceiver(t, 500)
	endpoint := h.register(v.URL, "*")
	failing := h.ping(endpoint)
	h.awaits(failing, func(d webhook.Delivery) bool { return len(d.Attempts) == 1 })
	h.tell(endpoint, webhook.Remove{})
	timers, err := h.journal.Timers(t.Context(), h.slot().Shard(), h.clock.now().Add(1000*time.Hour),
		persistence.Timer{}, 10)
	require.NoError(t, err)
	require.Empty(t, timers)
	h.clock.turn(time.Hour)
	other := newReceiver(t, 200)
	h.delivered(h.ping(h.register(other.URL, "*")))
	require.Len(t, v.arrivals(), 1)
}

// What waits in line behind an attempt that is under way is not sent either, once the endpoint is removed.
func TestWhatWaitsForARemovedEndpointIsNotSent(t *testing.T) {
	h, v := newHooks(t, newSender(t)), newReceiver(t, 200)
	gate, under := make(chan struct{}), make(chan struct{}, 8)
	v.answer = func(http.ResponseWriter, *http.Request) {
		under <- struct{}{}
		<-gate
	}
	endpoint := h.register(v.URL, "*")
	h.ping(endpoint)
	<-under
	fired := h.journal.appends.Load()
	h.ping(endpoint)
	// its timer too
	require.Eventually(t, func() bool { return h.journal.appends.Load() >= fired+2 }, time.Minute, time.Millisecond)
	h.tell(endpoint, webhook.Remove{})
	close(gate)
	other := newReceiver(t, 200)
	h.delivered(h.ping(h.register(other.URL, "*")))
	h.stop() // waits for the line to end
	require.Len(t, v.arrivals(), 1)
	h.start()
}

// unsaved loses the cursors it is told to save.
type unsaved struct{ persistence.Journal }

func (unsaved) SaveCursor(context.Context, string, ident.Shard, uint64) error { return nil }

func announceAdded(e persistence.Event) (actors.Announcement, error) {
	return actors.Announcement{Event: webhook.CheckoutCompleted, Body: `{"cause":"` + e.ID + `"}`}, nil
}

// What is announced comes to each endpoint of the workspace that subscribes to it, once, however often it is handled.
func TestAnAnnouncementComesOnceToWhoSubscribes(t *testing.T) {
	h := newHooks(t, newSender(t), func(c *actors.Config) { c.Journal = unsaved{c.Journal} })
	v := newReceiver(t, 200)
	all, some := h.register(v.URL, "*"), h.register(v.URL, webhook.CheckoutCompleted)
	none, gone := h.register(v.URL, webhook.PingEvent), h.register(v.URL, "*")
	h.tell(gone, webhook.Remove{})
	_, err := h.ask(h.owner, add{By: 1}, nil)
	require.NoError(t, err)
	_, err = h.ask(stream(6), add{By: 1}, nil) // another tenant's
	require.NoError(t, err)
	handler := h.system.Announcer(actors.Announcements{"counter.added.v1": announceAdded})
	shard := h.slot().Shard()
	events, err := h.journal.Events(t.Context(), shard, 0, 100)
	require.NoError(t, err)
	require.ErrorIs(t, handler.Handle(t.Context(), shard, events[1:]), persistence.ErrMoved)
	for range 3 {
		require.NoError(t, handler.Handle(t.Context(), shard, events))
	}
	for endpoint, want := range map[string]int{all: 1, some: 1, none: 0, gone: 0} {
		records, err := h.system.List(t.Context(), webhook.RecordDelivery, h.owner, endpoint, persistence.Page{Limit: 10})
		require.NoError(t, err)
		require.Len(t, records, want)
		for _, r := range records {
			d := h.delivered(r.ID)
			require.Equal(t, webhook.CheckoutCompleted, d.Event)
			require.Equal(t, `{"cause":"`+events[len(events)-1].ID+`"}`, d.Body)
		}
	}
	require.NoError(t, handler.Handle(t.Context(), shard, events)) // once more, when all is through
	for _, endpoint := range []string{all, some} {
		require.Empty(t, h.tell(endpoint, decision.Read{}).(webhook.State).Pending)
	}
	require.Len(t, v.arrivals(), 2)
}

// Through the journal's own subscription, past an event that fails at first and over a restart, all arrive.
func TestTheAnnouncerReadsTheJournal(t *testing.T) {
	h, v := newHooks(t, newSender(t)), newReceiver(t, 200)
	h.register(v.URL, "*")
	var failed atomic.Bool
	table := actors.Announcements{"counter.added.v1": func(e persistence.Event) (actors.Announcement, error) {
		if failed.CompareAndSwap(false, true) {
			return actors.Announcement{}, io.ErrUnexpectedEOF
		}
		return announceAdded(e)
	}}
	follow := func(until int) {
		subscription, err := persistence.Subscribe(persistence.SubscriptionOptions{Journal: h.journal,
			RetryMin: time.Millisecond})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- subscription.Run(ctx, h.system.Announcer(table)) }()
		for range 3 {
			_, err := h.ask(h.owner, add{By: 1}, nil)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return len(v.arrivals()) == until }, time.Minute, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
	follow(3)
	h.restart()
	follow(6)
	ids := map[string]bool{}
	for _, a := range v.arrivals() {
		ids[a.id] = true
	}
	require.Len(t, ids, 6)
}

// heard keeps what a listener is told of webhooks.
type heard struct {
	actors.Listener
	mu      sync.Mutex
	posted  map[string]int
	pending atomic.Int64
}

func (l *heard) Posted(outcome string, _ time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.posted[outcome]++
}
func (l *heard) Deliveries(pending int)            { l.pending.Store(int64(pending)) }
func (*heard) Committed(int, time.Duration, error) {}
func (*heard) Reacted(string, error)               {}
func (*heard) Fired(string, error)                 {}
func (l *heard) says(want map[string]int, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.posted) == fmt.Sprint(want) && l.pending.Load() == int64(n)
}

func TestAttemptsAndWhatIsPendingAreTold(t *testing.T) {
	l := &heard{posted: map[string]int{}}
	h := newHooks(t, newSender(t), func(c *actors.Config) { c.Listener, c.HousekeepEvery = l, time.Millisecond })
	good, bad, dead := newReceiver(t, 200), newReceiver(t, 503), newReceiver(t, 200)
	dead.Close()
	for _, v := range []*receiver{good, bad, dead} {
		h.ping(h.register(v.URL, "*"))
	}
	want := map[string]int{"connect": 1, "status_2xx": 1, "status_5xx": 1}
	require.Eventually(t, func() bool { return l.says(want, 2) }, time.Minute, time.Millisecond, "%v", l)
}

// The audit's own count of a workspace's endpoints is the tally's, those removed and the first among them.
func TestEndpointsAreAudited(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	ws := w.newWorkspace(77)
	for i := range 4 {
		id := w.newID(ident.Endpoint, slotOf(ws))
		w.must("webhook", id, ws, webhook.Register{ID: id, Workspace: ws, URL: "https://example.com", Secret: "s",
			Events: []string{"*"}})
		if i < 3 {
			w.must("webhook", id, ws, webhook.Remove{})
		}
	}
	w.requireClean()
}
