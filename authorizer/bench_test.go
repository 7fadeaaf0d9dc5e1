package authorizer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/authorizer/network"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// prepared returns a ticket in the state in which a decider gets it.
func (r *rig) prepared(m *hold.Message) *ticket {
	t := r.e.commits.newTicket(actDecide)
	t.keep(m)
	t.view.Now = r.clock.now().UnixMilli()
	require.NoError(r.t, r.e.decider.addressTicket(t, &t.message))
	return t
}

// BenchmarkDecideCached measures a decision under the lock on a cached card, without the commit.
func BenchmarkDecideCached(b *testing.B) {
	r := newRig(b, vfs.NewMem())
	c := cardOf(50, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	r.approved(authorization("a1", c, 100))
	tk, sh := r.prepared(authorization("a2", c, 100)), r.e.shards[c.card.Shard()]
	b.ReportAllocs()
	for b.Loop() {
		sh.mu.Lock()
		if !sh.fill(tk) {
			b.Fatal("not cached")
		}
		tk.view.Spendable, _ = spendableCents(tk.funds)
		tk.view.Spend = tk.card.spend
		if err := r.e.decider.judgeTicket(tk); err != nil {
			b.Fatal(err)
		}
		sh.mu.Unlock()
	}
}

// fillPage is the number of rules per Follow of fill.
const fillPage = 1000

// fill follows n cards, with a workspace in each slot except the system's, shard by shard.
func (r *rig) fill(n int) []ident.Token {
	tokens := make([]ident.Token, n)
	entropy := rand.NewChaCha8([32]byte{7})
	var pages [ident.Shards]Follow
	for i := range tokens {
		slot := ident.Slot(1 + i%(ident.Slots-1))
		tokens[i], _ = ident.NewToken(slot, entropy)
		card, _ := ident.New(slot, epoch, entropy)
		c := testCard{token: tokens[i], card: card, workspace: workspaceOf(slot)}
		rule := c.rule(1, hold.CardActive)
		rule.MonthCents = 1 << 40
		page := &pages[slot.Shard()]
		if i < ident.Slots-1 {
			page.Credits = append(page.Credits, Credit{Workspace: c.workspace, Cents: money.MaxAmount})
		}
		if page.Rules = append(page.Rules, rule); len(page.Rules) == fillPage {
			r.follows(slot.Shard(), *page)
			*page = Follow{}
		}
	}
	for i, page := range pages {
		if len(page.Rules) > 0 {
			r.follows(ident.Shard(i), page)
		}
	}
	return tokens
}

const million = 1_000_000

// bodies are authorizations of all tokens in random order, so that each card is as cold as among a
// million others. Each body is written into one buffer before it is read, because a request comes
// from a socket and is in the processor's cache.
type bodies struct {
	buffer []byte
	token  []byte // its part of the buffer
	texts  []byte // all tokens, concatenated
	next   int
}

func newBodies(tokens []ident.Token) *bodies {
	drawn := rand.New(rand.NewPCG(1, 1)).Perm(len(tokens))
	b := &bodies{buffer: fmt.Appendf(nil, `{"id":"n1000000","cardToken":"%s","amountCents":1250,"currency":"USD",`+
		`"merchant":{"id":"m-77","name":"Corner Shop","mcc":"5411","country":"US"}}`, tokens[0])}
	at := bytes.Index(b.buffer, []byte(ident.CardToken))
	b.token = b.buffer[at : at+len(tokens[0].String())]
	for _, i := range drawn {
		b.texts = append(b.texts, tokens[i].String()...)
	}
	return b
}

func (b *bodies) draw() []byte {
	if b.next == len(b.texts) {
		b.next = 0
	}
	b.next += copy(b.token, b.texts[b.next:])
	return b.buffer
}

// BenchmarkDrawBody measures the part of BenchmarkParseLookUpDecide that writes the bodies.
func BenchmarkDrawBody(b *testing.B) {
	tokens := make([]ident.Token, million)
	for i := range tokens {
		tokens[i] = ident.Token{byte(i >> 16), byte(i >> 8), byte(i)}
	}
	all := newBodies(tokens)
	for b.Loop() {
		all.draw()
	}
}

// BenchmarkParseLookUpDecide parses a request, finds its card among a million cached ones, and
// decides under the lock, without the commit.
func BenchmarkParseLookUpDecide(b *testing.B) {
	r := newRig(b, vfs.NewMem(), func(o *Options) { o.CacheBytes = 4 << 30 })
	tokens := r.fill(million)
	for _, token := range tokens {
		tk := r.prepared(authorization("warm", testCard{token: token}, 1))
		require.NoError(b, r.e.store.readInputs(tk))
		tk.shard.mu.Lock()
		require.True(b, tk.shard.fill(tk))
		tk.shard.mu.Unlock()
		r.e.commits.release(tk)
	}
	all, tk := newBodies(tokens), r.e.commits.newTicket(actDecide)
	tk.view.Now = epoch.UnixMilli()
	b.ReportAllocs()
	for b.Loop() {
		refusal := network.Scan(hold.Authorization, all.draw(), epoch.UnixMilli(), &tk.message)
		if refusal != "" || tk.message.Invalid != "" {
			b.Fatal(refusal, tk.message.Invalid)
		}
		if err := r.e.decider.addressTicket(tk, &tk.message); err != nil {
			b.Fatal(err)
		}
		tk.shard.mu.Lock()
		if !tk.shard.fill(tk) {
			b.Fatal("not cached")
		}
		tk.view.Spendable, _ = spendableCents(tk.funds)
		tk.view.Spend = tk.card.spend
		if err := r.e.decider.judgeTicket(tk); err != nil || tk.entry.Decision != hold.Approved {
			b.Fatal(err, tk.entry.Reason)
		}
		tk.shard.mu.Unlock()
	}
}

// BenchmarkRecallNew looks up a new id among a million, in as many buckets as can be live.
func BenchmarkRecallNew(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "store")
	r := onDisk(b, dir)
	now := time.Now().UnixMilli()
	n := 0
	for bucket := oldestBucket(now); bucket <= bucketOf(now); bucket++ {
		for range million / 4 {
			id := networkIDOf(routeAuthorizations, strconv.Itoa(n))
			r.e.store.table.Begin()
			r.e.store.remember(bucket, &id, &remembered{}, &scratch{})
			r.e.store.table.End()
			n++
		}
		require.NoError(b, r.e.store.projector.projectAll())
	}
	require.NoError(b, r.e.store.db.Compact(b.Context(), []byte{0}, []byte{0xff}, false))
	tk := r.e.commits.newTicket(actDecide)
	b.ReportAllocs()
	for b.Loop() {
		n++
		id := networkIDOf(routeAuthorizations, strconv.Itoa(n))
		if _, found, err := r.e.buckets.recallAnswer(r.e.store, &tk.scratch, &id, now); found || err != nil {
			b.Fatal(found, err)
		}
	}
}

// onDisk is a rig on the machine's own disk and clock.
func onDisk(b testing.TB, dir string) *rig {
	return newRig(b, nil, func(o *Options) {
		o.Dir, o.Deadline, o.Clock = dir, nil, time.Now
	})
}

// BenchmarkDurableAuthorize measures Submit on a real disk, by callers that each wait for their
// answer.
func BenchmarkDurableAuthorize(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			r := onDisk(b, filepath.Join(b.TempDir(), "store"))
			tokens := r.fill(4095)
			var next, late atomic.Int64
			b.SetParallelism(max(1, callers/2)) // times two processors
			if callers == 1 {
				for b.Loop() {
					r.swipe(tokens, next.Add(1), &late)
				}
			} else {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						r.swipe(tokens, next.Add(1), &late)
					}
				})
			}
			b.ReportMetric(float64(next.Load())/b.Elapsed().Seconds(), "answers/s")
			b.ReportMetric(float64(late.Load()), "late")
		})
	}
}

func (r *rig) swipe(tokens []ident.Token, n int64, late *atomic.Int64) {
	m := hold.Message{
		Kind: hold.Authorization, ID: strconv.FormatInt(n, 10), Token: tokens[int(n)%len(tokens)], Amount: 100,
		Currency: usd,
		Merchant: hold.Merchant{ID: "m-77", Name: "Corner Shop", Country: "US", MCC: 5411},
	}
	m.Fingerprint = m.Sum()
	a := r.e.Submit(&m)
	switch {
	case a.Reason == hold.ReasonTimeout:
		late.Add(1)
	case a.Decision != hold.Approved:
		panic(fmt.Sprintf("%+v", a))
	}
}

// BenchmarkFdatasync measures the disk's own sync time, for comparison with the durable answers.
func BenchmarkFdatasync(b *testing.B) {
	const size = 64 << 20
	for _, zeroed := range []bool{true, false} {
		b.Run(fmt.Sprint("zeroed=", zeroed), func(b *testing.B) {
			f, err := os.Create(filepath.Join(b.TempDir(), "blocks"))
			require.NoError(b, err)
			defer f.Close()
			if zeroed {
				_, err := f.Write(make([]byte, size))
				require.NoError(b, err)
				require.NoError(b, f.Sync())
			}
			record, at := make([]byte, 700), int64(0)
			for b.Loop() {
				_, err := f.WriteAt(record, at)
				require.NoError(b, err)
				require.NoError(b, syscall.Fdatasync(int(f.Fd())))
				if at += int64(len(record)); zeroed {
					at %= size - int64(len(record))
				}
			}
		})
	}
}

// BenchmarkOpen measures a start with a million cards in the store.
func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "store")
	r := onDisk(b, dir)
	r.fill(million)
	for b.Loop() {
		require.NoError(b, r.e.Close())
		r.e = nil
		e, err := Open(r.options(func(o *Options) { o.FS, o.Dir, o.Deadline, o.Clock = nil, dir, nil, time.Now }))
		require.NoError(b, err)
		r.e = e
	}
}

// BenchmarkBytesPerSwipe measures the bytes of a swipe in each part of the compacted store. It
// needs a fixed number of swipes: -benchtime 500000x.
func BenchmarkBytesPerSwipe(b *testing.B) {
	r := newRig(b, nil, func(o *Options) {
		o.Dir, o.NoSync, o.Deadline = filepath.Join(b.TempDir(), "store"), true, nil
	})
	tokens := r.fill(4095)
	var next, late atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.swipe(tokens, next.Add(1), &late)
		}
	})
	b.StopTimer()
	require.NoError(b, r.e.store.projector.projectAll())
	require.NoError(b, r.e.store.db.Compact(b.Context(), []byte{0}, []byte{0xff}, false))
	for name, prefix := range map[string]byte{"log": prefixLog, "holds": prefixHold, "repeats": prefixRepeat,
		"due": prefixDue} {
		used, err := r.e.store.db.EstimateDiskUsage([]byte{prefix}, []byte{prefix + 1})
		require.NoError(b, err)
		b.ReportMetric(float64(used)/float64(next.Load()), name+"-B/swipe")
	}
	b.ReportMetric(float64(late.Load()), "late")
}
