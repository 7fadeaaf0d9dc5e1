package pebblejournal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/pebblejournal"
)

var payload = json.RawMessage(`{"cardId":"card_01h455vb4pex5vsknk084sn02q","state":"frozen","monthlyLimitUsdCents":500000}`)

// lane is one caller of the benchmarks with a shard of its own.
type lane struct {
	j       *pebblejournal.Journal
	slot    ident.Slot
	epoch   uint64
	version uint64
}

func lanes(b *testing.B, n int) []*lane {
	b.Helper()
	j, err := pebblejournal.Open(pebblejournal.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, j.Close()) })
	all := make([]*lane, n)
	for i := range all {
		slot := ident.Slot(16 * i)
		heads, err := j.Raise(b.Context(), slot.Shard())
		require.NoError(b, err)
		all[i] = &lane{j: j, slot: slot, epoch: heads[0].Epoch}
	}
	return all
}

// append writes a group of batches, each one event and the state after it.
func (l *lane) append(group int) error {
	batches := make([]*persistence.Batch, group)
	for i := range batches {
		l.version++
		batches[i] = &persistence.Batch{
			Workspace: "ws_1", Slot: l.slot,
			Events: []persistence.Event{{
				ID: fmt.Sprint("evt_", l.version), Workspace: "ws_1", Kind: "card", Stream: "card_1", Version: l.version,
				Type: "card.frozen.v1", At: journaltest.Start, Payload: payload,
			}},
			Records: []persistence.Record{{Kind: "card", ID: "card_1", Version: l.version, Document: payload}},
		}
	}
	outcomes, err := l.j.Append(context.Background(), l.slot.Shard(), l.epoch, journaltest.Start, batches)
	if err != nil {
		return err
	}
	return outcomes[group-1].Err
}

func benchmarkAppend(b *testing.B, callers, group int) {
	all := lanes(b, callers)
	var left atomic.Int64
	var work sync.WaitGroup
	errs := make([]error, callers)
	b.ResetTimer()
	left.Store(int64(b.N))
	for i, l := range all {
		work.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				errs[i] = l.append(group)
			}
		})
	}
	work.Wait()
	b.StopTimer()
	for _, err := range errs {
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.N*group)/b.Elapsed().Seconds(), "batches/s")
}

func BenchmarkAppend1Caller(b *testing.B)          { benchmarkAppend(b, 1, 1) }
func BenchmarkAppend64Callers(b *testing.B)        { benchmarkAppend(b, 64, 1) }
func BenchmarkAppend1CallerGroup64(b *testing.B)   { benchmarkAppend(b, 1, 64) }
func BenchmarkAppend64CallersGroup64(b *testing.B) { benchmarkAppend(b, 64, 64) }

// BenchmarkRecordBesideWrites reads a record of a shard that is idle, and of one that commits without a pause.
func BenchmarkRecordBesideWrites(b *testing.B) {
	for _, busy := range []bool{false, true} {
		b.Run(fmt.Sprintf("busy %t", busy), func(b *testing.B) {
			l := lanes(b, 1)[0]
			require.NoError(b, l.append(1))
			var stop atomic.Bool
			done := make(chan error, 1)
			go func() {
				var err error
				for busy && err == nil && !stop.Load() {
					err = l.append(1)
				}
				done <- err
			}()
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				start := time.Now()
				_, err := l.j.Record(context.Background(), l.slot, "card", "card_1")
				require.NoError(b, err)
				took = append(took, time.Since(start))
			}
			stop.Store(true)
			require.NoError(b, <-done)
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkOpen opens a journal of a million events, closed in order.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	o := pebblejournal.Options{Dir: dir}
	j, err := pebblejournal.Open(o)
	require.NoError(b, err)
	for i := range 16 {
		l := &lane{j: j, slot: ident.Slot(16 * i)}
		heads, err := j.Raise(b.Context(), l.slot.Shard())
		require.NoError(b, err)
		l.epoch = heads[0].Epoch
		for range 1_000_000 / 16 / 500 {
			require.NoError(b, l.append(500))
		}
	}
	require.NoError(b, j.Close())
	for b.Loop() {
		j, err := pebblejournal.Open(o)
		require.NoError(b, err)
		require.NoError(b, j.Close())
	}
}

// relay makes what the relay of authorized swipes appends: batches of one event with all of them, of each swipe a new record and
// one that is there, and a new one that names all of them. Ids are as in life: they do not repeat, and most bytes around them do.
type relay struct {
	*lane
	random *rand.Rand
	seq    int
}

const (
	relaySwipes = 40
	relayCards  = 200 // per workspace
)

// id is 26 characters, the first 10 of them the same for all, as those of one minute are.
func (r *relay) id(prefix string) string {
	const base32 = "0123456789abcdefghjkmnpqrstvwxyz"
	b := append(make([]byte, 0, 32), prefix+"_01kagj5fkv"...)
	for range 16 {
		b = append(b, base32[r.random.IntN(32)])
	}
	return string(b)
}

func (r *relay) card(i int) string {
	return fmt.Sprintf("card_01kagj5fkve16r6s%05d%05d", r.slot, i%relayCards)
}

// swipe adds an entry's records to the batch and returns the authorization's id and the entry.
func (r *relay) swipe(b *persistence.Batch) (id, entry string) {
	r.seq++
	card, auth, network, cents := r.card(r.random.IntN(relayCards)), r.id("auth"), r.id("net"), r.random.IntN(90_000)
	at := fmt.Sprintf("2025-11-20T12:%02d:%02d.%06dZ", r.seq/6000%60, r.seq/100%60, r.random.IntN(1e6))
	document := fmt.Sprintf(`{"id":%q,"cardId":%q,"workspaceId":%q,"networkId":%q,"at":%q,"amountCents":%d,"approvedCents":%d,`+
		`"heldCents":%d,"clearedCents":0,"refundedCents":0,"month":202511,"monthCents":%d,"decision":"approved",`+
		`"reason":"approved","status":"held"}`, auth, card, b.Workspace, network, at, cents, cents, cents, cents)
	spend := fmt.Sprintf(`{"cardId":%q,"month":202511,"spentCents":%d}`, card, r.random.IntN(1e7))
	b.Records = append(b.Records,
		persistence.Record{Kind: "authorization", Parent: card, ID: auth, Document: json.RawMessage(document), New: true},
		persistence.Record{Kind: "card_spend", Parent: card, ID: card + ":202511", Document: json.RawMessage(spend)})
	merchant := r.random.IntN(50)
	return auth, fmt.Sprintf(`{"seq":%d,"workspaceSeq":%d,"at":%q,"kind":"authorization","decision":"approved","reason":"approved",`+
		`"shard":4,"workspaceId":%q,"cardId":%q,"networkId":%q,"fingerprint":"%016x%016x","amountCents":%d,"currency":"USD",`+
		`"merchant":{"id":"m%d","name":"Merchant %d","mcc":"%04d","country":"US"},"cardDeltaCents":%d,"holdDeltaCents":%d,`+
		`"spendDeltaCents":%d,"postedCents":0,"month":202511,"monthSpendCents":%d,"authorization":%s}`, r.seq, r.seq, at,
		b.Workspace, card, network, r.random.Uint64(), r.random.Uint64(), cents, merchant, merchant, 1000+merchant, -cents,
		cents, cents, r.random.IntN(1e7), document)
}

func (r *relay) batch() *persistence.Batch {
	b := &persistence.Batch{Workspace: fmt.Sprintf("ws_01kagj5fkve16t38s31r%05d", r.slot), Slot: r.slot}
	entries, made := make([]string, relaySwipes), make([]string, relaySwipes)
	for i := range entries {
		made[i], entries[i] = r.swipe(b)
	}
	b.Records = append(b.Records, persistence.Record{Kind: "authorization_index", ID: made[0], New: true,
		Document: json.RawMessage(fmt.Sprintf(`{"authorizationIds":["%s"]}`, strings.Join(made, `","`)))})
	r.version++
	b.Events = []persistence.Event{{
		ID: r.id("evt"), Kind: "balance", Stream: b.Workspace, Version: r.version, Type: "balance.relayed.v1", At: journaltest.Start,
		Payload: json.RawMessage(fmt.Sprintf(`{"workspace":%q,"entries":[%s],"postings":[],"at":"2025-11-20T12:00:00.123Z"}`,
			b.Workspace, strings.Join(entries, ","))),
	}}
	return b
}

// BenchmarkAppendRelayed writes batches of forty swipes, without syncs, over tables of many before. The processor time has that
// of flushes and compactions in it.
func BenchmarkAppendRelayed(b *testing.B) {
	const shards, before = 16, 2_000
	j, err := pebblejournal.Open(pebblejournal.Options{Dir: b.TempDir(), NoSync: true})
	require.NoError(b, err)
	relays := make([]*relay, shards)
	for i := range relays {
		slot := ident.Slot(16 * i)
		heads, err := j.Raise(b.Context(), slot.Shard())
		require.NoError(b, err)
		relays[i] = &relay{lane: &lane{j: j, slot: slot, epoch: heads[0].Epoch}, random: rand.New(rand.NewPCG(1, uint64(i)))}
	}
	appendNext := func(n int, batch *persistence.Batch) {
		r := relays[n%shards]
		outcomes, err := j.Append(context.Background(), r.slot.Shard(), r.epoch, journaltest.Start, []*persistence.Batch{batch})
		require.NoError(b, err)
		require.NoError(b, outcomes[0].Err)
	}
	for n := range before {
		appendNext(n, relays[n%shards].batch())
	}
	batches := make([]*persistence.Batch, b.N)
	for n := range batches {
		batches[n] = relays[n%shards].batch()
	}
	b.ReportAllocs()
	b.ResetTimer()
	started := processorTime(b)
	for n, batch := range batches {
		appendNext(n, batch)
	}
	b.StopTimer()
	used := processorTime(b) - started
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*relaySwipes), "cpu-ns/swipe")
	require.NoError(b, j.Close())
}

// processorTime is what the process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
