package authorizer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// acknowledged holds the promises that the engine has made.
type acknowledged struct {
	mu       sync.Mutex
	told     []told
	reserved []ident.UUID
}

func (a *acknowledged) answer(m *hold.Message, said hold.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if said.Status == hold.StatusOK && said.Reason != hold.ReasonCardNotFound && said.Reason != hold.ReasonTimeout &&
		said.Reason != hold.ReasonSystemUnavailable {
		a.told = append(a.told, told{message: m, answer: said})
	}
}

func (a *acknowledged) reservation(id ident.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reserved = append(a.reserved, id)
}

func (a *acknowledged) so() *acknowledged {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &acknowledged{told: a.told[:len(a.told):len(a.told)], reserved: a.reserved[:len(a.reserved):len(a.reserved)]}
}

const depositCents = 10_000

// load runs concurrent swipes, deposits and reservations of four tenants, until all are done or the
// engine has stopped.
func (a *acknowledged) load(r *rig, steps int) {
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			c := cardOf(ident.Slot(200+n*300), n)
			shard := c.card.Shard()
			f := Follow{Through: 1, Rules: []hold.Rule{c.rule(1, hold.CardActive)}}
			for i := range steps {
				id := fmt.Sprint(n, "/", i)
				switch i % 8 {
				case 0:
					f.Through, f.Credits = f.Through+1, []Credit{{Workspace: c.workspace, Cents: depositCents}}
					if r.e.Follow(shard, f) != nil {
						return
					}
				case 3:
					rsv := ident.Derive(c.workspace.Slot(), epoch, id)
					if ok, err := r.e.Reserve(c.workspace, rsv, 5); ok && err == nil {
						a.reservation(rsv)
					}
				case 5:
					m := clearing(id, fmt.Sprint(n, "/", i-1), c, 60)
					a.answer(m, r.e.Submit(m))
				case 6:
					m := reversal(id, fmt.Sprint(n, "/", i+1))
					a.answer(m, r.e.Submit(m))
				default:
					m := authorization(id, c, 100)
					a.answer(m, r.e.Submit(m))
				}
			}
		})
	}
	group.Wait()
}

// lost counts the broken promises of a store.
func (a *acknowledged) lost(t *testing.T, fs vfs.FS, segmentBytes int) (lost int) {
	r := newRig(t, fs, func(o *Options) { o.SegmentBytes = segmentBytes })
	r.agree()
	reserved := make(map[ident.UUID]bool)
	sums := make(map[ident.UUID]money.Cents)
	require.NoError(t, r.e.WalkReservations(func(w, id ident.UUID, cents money.Cents) error {
		reserved[id] = true
		sums[w] += cents
		return nil
	}))
	require.NoError(t, r.walk(func(s *Snapshot) error {
		return s.WalkFunds(func(w ident.UUID, f Funds, _ uint64) error {
			require.Equal(t, sums[w], f.ReservedCents)
			if w != ident.System {
				positions := max(r.e.Followed(w.Shard()), 1) - 1
				require.Equal(t, money.Cents(positions)*depositCents, f.LedgerCents, "the cursor and its credits are one")
			}
			return nil
		})
	}))
	for _, id := range a.reserved {
		if !reserved[id] {
			lost++
		}
	}
	for _, told := range a.told {
		if r.e.Submit(told.message) != told.answer {
			lost++
		}
	}
	r.agree()
	require.NoError(t, r.e.Close()) // many stores that are open at once take the processors
	r.e = nil
	return lost
}

// crashes runs do on a store, crashes it at every step-th write and after the last answer, and
// returns the total of lost promises.
func crashes(t *testing.T, noSync bool, segmentBytes int, step int64, do func(*rig, *acknowledged)) (clones, lost int) {
	fs := vfs.NewCrashableMem()
	var a acknowledged
	type crash struct {
		fs  *vfs.MemFS
		had *acknowledged
	}
	var all []crash
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(3, 4))
	ended := false // the log notes its length after the last answer too
	clone := func(last bool) {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		ended = last
		// First, because answers during the clone are not promised by it.
		had := a.so()
		cfg := vfs.CrashCloneCfg{}
		if len(all)%2 == 1 {
			cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: random}
		}
		all = append(all, crash{fs: fs.CrashClone(cfg), had: had})
	}
	var writes atomic.Int64
	var opened atomic.Bool
	crashing := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && opened.Load() && writes.Add(1)%step == 0 {
			clone(false)
		}
		return nil
	})
	r := newRig(t, errorfs.Wrap(fs, crashing), func(o *Options) { o.NoSync, o.SegmentBytes = noSync, segmentBytes })
	opened.Store(true)
	do(r, &a)
	clone(true)
	for i := range all {
		lost += all[i].had.lost(t, all[i].fs, segmentBytes)
	}
	return len(all), lost
}

func TestCrashesLoseNothing(t *testing.T) {
	lengths := []int{8 << 10, 16 << 10, 256 << 10} // the length of segments
	if testing.Short() {                           // goroutines do the same for each length
		lengths = lengths[1:2]
	}
	for _, segmentBytes := range lengths {
		clones, lost := crashes(t, false, segmentBytes, 7, storm)
		require.Greater(t, clones, 10)
		require.Zero(t, lost)
	}
}

func storm(r *rig, a *acknowledged) { a.load(r, 64) }

// Projections, and segments that are freed, lose nothing.
func TestCrashesOfProjectionsLoseNothing(t *testing.T) {
	clones, lost := crashes(t, false, 64<<10, 1, func(r *rig, a *acknowledged) {
		a.load(r, 8)
		require.NoError(t, r.e.store.projector.projectAll())
		a.load(r, 8)
		require.NoError(t, r.e.store.projector.projectAll())
	})
	require.Greater(t, clones, 10)
	require.Zero(t, lost)
}

func TestCrashesWithoutSyncLoseAnswers(t *testing.T) {
	_, lost := crashes(t, true, 64<<10, 7, storm)
	require.Positive(t, lost, "the crash test would not notice a loss")
}

func TestFailedDiskStopsEverything(t *testing.T) {
	stopped := 0
	for i := int64(1); ; i += 3 {
		fs := vfs.NewCrashableMem()
		var writes atomic.Int64
		var armed atomic.Bool
		failing := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && isLog(op.Path) && op.Kind.ReadOrWrite() == errorfs.OpIsWrite &&
				writes.Add(1) >= i {
				return errorfs.ErrInjected
			}
			return nil
		})
		r := newRig(t, errorfs.Wrap(fs, failing))
		armed.Store(true)
		var a acknowledged
		// Fewer bytes than a block of Pebble's log, 32 KiB. At the end of a block after the failure
		// Pebble panics with its commits locked, and a commit at that moment would wait for ever,
		// before Fatal ends the process.
		a.load(r, 16)
		armed.Store(false)
		if r.fatals.Load() == 0 {
			break
		}
		stopped++
		require.Equal(t, int64(1), r.fatals.Load(), "Fatal is told once")
		c := cardOf(200, 0)
		require.Equal(t, hold.Answer{}, r.e.Submit(authorization("after", c, 1)), "no answer leaves")
		require.ErrorIs(t, r.e.Follow(0, Follow{Through: 1}), ErrStopped)
		_, err := r.e.Reserve(c.workspace, c.card, 1)
		require.ErrorIs(t, err, ErrStopped)
		had := a.so()
		require.Zero(t, had.lost(t, fs.CrashClone(vfs.CrashCloneCfg{}), 0))
	}
	require.Greater(t, stopped, 5)
}

// isLog reports whether a path is a segment of the log, or a file that becomes one.
func isLog(path string) bool {
	return strings.HasSuffix(path, ".wal") || strings.HasSuffix(path, ".unfinished") ||
		strings.HasSuffix(path, ".spare")
}

// slowDisk is a file system that can delay the syncs of its write-ahead log.
type slowDisk struct {
	vfs.FS
	mu   sync.Mutex
	gate chan struct{}
}

func newSlowDisk() *slowDisk {
	d := &slowDisk{}
	d.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if isLog(op.Path) && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			d.mu.Lock()
			gate := d.gate
			d.mu.Unlock()
			if gate != nil {
				<-gate
			}
		}
		return nil
	}))
	return d
}

func (d *slowDisk) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = make(chan struct{})
}

func (d *slowDisk) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.gate)
	d.gate = nil
}

// deadlines returns deadlines that a test lets pass.
type deadlines struct {
	mu  sync.Mutex
	all []chan time.Time
}

func (d *deadlines) next() <-chan time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := make(chan time.Time, 1)
	d.all = append(d.all, c)
	return c
}

func (d *deadlines) pass(i int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[i] <- time.Time{}
}

func (d *deadlines) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

func TestLateSyncIsATimeoutThatIsUndone(t *testing.T) {
	disk, late := newSlowDisk(), &deadlines{}
	r := newRig(t, disk, func(o *Options) { o.Deadline = late.next })
	c := cardOf(66, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000)
	r.approved(authorization("a0", c, 100))

	disk.stop()
	answers := make(chan hold.Answer, 8)
	send := func(m *hold.Message) {
		n := late.count()
		go func() { answers <- r.e.Submit(m) }()
		require.Eventually(t, func() bool { return late.count() == n+1 }, time.Minute, time.Millisecond)
	}
	inLog := func(n uint64) {
		require.Eventually(t, func() bool {
			sh := r.e.shards[c.card.Shard()]
			sh.mu.Lock()
			defer sh.mu.Unlock()
			return sh.seq == n
		}, time.Minute, time.Millisecond)
	}
	send(authorization("a1", c, 300))
	inLog(2)
	send(incremental("i1", "a0", c, 50))
	inLog(3)
	send(clearing("c1", "", c, 10))
	inLog(4)
	send(authorization("a1", c, 300)) // a repeat while the first message is in progress
	for i := range 4 {
		if i == 0 {
			// The repeat's deadline comes first, and both must get the same answer.
			late.pass(4)
			require.Equal(t, hold.ReasonTimeout, (<-answers).Reason)
			continue
		}
		late.pass(i)
		a := <-answers
		require.Equal(t, hold.ReasonTimeout, a.Reason)
		require.Zero(t, a.Approved)
		if a.ID == "c1" {
			require.Equal(t, hold.StatusFull, a.Status, "a fact is not refused: its outcome is not known yet")
		}
	}
	require.Equal(t, uint64(1), r.e.Synced(c.card.Shard()))
	disk.resume()
	inLog(6) // the two approvals are undone
	r.declined(authorization("a1", c, 300), hold.ReasonTimeout)
	r.declined(incremental("i1", "a0", c, 50), hold.ReasonTimeout)
	require.Equal(t, hold.Posted, r.submit(clearing("c1", "", c, 10)).Decision, "the fact stands")
	require.Equal(t, money.Cents(-110), r.funds(c.workspace).CardCents)
	entries := r.log(c.card.Shard())
	require.Equal(t, hold.TimeoutReturn, entries[4].Kind)
	require.Equal(t, money.Cents(300), entries[4].CardDelta)
	require.Equal(t, money.Cents(50), entries[5].CardDelta)
	r.agree()
	require.Eventually(t, func() bool { return len(r.e.commits.slots) == 0 }, time.Minute, time.Millisecond,
		"every place was given back")

	anew := newRig(t, vfs.NewMem())
	require.NoError(t, anew.e.Rebuilder().Replay(c.card.Shard(), entries))
	anew.mint(c)
	anew.declined(authorization("a1", c, 300), hold.ReasonTimeout)
	require.Equal(t, money.Cents(-110), anew.funds(c.workspace).CardCents)
}

func TestTimeoutOfARepeatReachesTheFirst(t *testing.T) {
	disk, late := newSlowDisk(), &deadlines{}
	r := newRig(t, disk, func(o *Options) { o.Deadline = late.next })
	c := cardOf(67, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000)
	disk.stop()
	first, second := make(chan hold.Answer, 1), make(chan hold.Answer, 1)
	go func() { first <- r.e.Submit(authorization("a1", c, 300)) }()
	sh := r.e.shards[c.card.Shard()]
	require.Eventually(t, func() bool { sh.mu.Lock(); defer sh.mu.Unlock(); return sh.seq == 1 }, time.Minute,
		time.Millisecond)
	go func() { second <- r.e.Submit(authorization("a1", c, 300)) }()
	require.Eventually(t, func() bool { return late.count() == 2 }, time.Minute, time.Millisecond)
	late.pass(1)
	require.Equal(t, hold.ReasonTimeout, (<-second).Reason)
	disk.resume() // the sync comes before the first one's own deadline
	require.Equal(t, hold.ReasonTimeout, (<-first).Reason)
	r.declined(authorization("a1", c, 300), hold.ReasonTimeout)
	require.Zero(t, r.funds(c.workspace).CardCents)
	r.agree()
}

func TestAStalledDiskHoldsUpNoAnswer(t *testing.T) {
	disk, late := newSlowDisk(), &deadlines{}
	r := newRig(t, disk, func(o *Options) { o.Deadline = late.next })
	c := cardOf(68, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	disk.stop()
	var group sync.WaitGroup
	var tooMany atomic.Int64
	for i := range MaxUnsynced + 10 {
		group.Go(func() {
			if r.e.Submit(authorization(fmt.Sprint(i), c, 1)).Reason == hold.ReasonTimeout {
				tooMany.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return late.count() == MaxUnsynced+10 }, time.Minute, time.Millisecond)
	for i := range late.count() {
		late.pass(i)
	}
	// Pebble, which must sync its first small log before it begins the next, accepts no commits.
	group.Wait()
	require.Equal(t, int64(MaxUnsynced+10), tooMany.Load())
	disk.resume()
	require.Eventually(t, func() bool { return len(r.e.commits.slots) == 0 }, time.Minute, time.Millisecond)
	require.Zero(t, r.funds(c.workspace).CardCents, "every approval that was answered timeout came back")
	r.agree()
}
