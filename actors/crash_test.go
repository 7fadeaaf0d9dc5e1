package actors_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// Extent of the crash test. Every crashEvery-th write of either store is a moment at which the power fails.
const (
	crashClients = 8
	crashOps     = 60 // of one client
	crashEvery   = 6
	crashPoints  = 60
)

// acked is something that a client was told, and must be told again.
type acked struct {
	message *hold.Message
	answer  hold.Answer
	rest    *restCall
	reply   []byte
}

type restCall struct {
	kind, stream, ws, key string
	command               any
}

// notebook is what the clients were told so far.
type notebook struct {
	mu   sync.Mutex
	told []acked
	over atomic.Bool // the clients may go
}

func (n *notebook) write(a acked) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, a)
}

func (n *notebook) copy() []acked {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told[:len(n.told):len(n.told)]
}

// crash is the disk as the power failure left it, and what had been answered before.
type crash struct {
	write    int64
	fs       *vfs.MemFS
	told     []acked
	database string // of the journal, when it is not on the disk
}

// crasher is a file system that photographs itself at chosen writes: all that was synced, and nothing else.
type crasher struct {
	disk    *vfs.MemFS
	notes   *notebook
	every   int64
	armed   atomic.Bool
	writes  atomic.Int64
	mu      sync.Mutex
	crashes []crash
	take    func() // in the place of photograph, when there is one
}

func (c *crasher) fs() vfs.FS { return errorfs.Wrap(c.disk, errorfs.InjectorFunc(c.before)) }

func (c *crasher) before(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !c.armed.Load() {
		return nil
	}
	switch n := c.writes.Add(1); {
	case n%c.every != 0:
	case c.take != nil:
		c.take()
	default:
		c.photograph(n)
	}
	return nil
}

func (c *crasher) photograph(n int64) {
	told := c.notes.copy() // before the picture: what was answered by now must be in it
	clone := c.disk.CrashClone(vfs.CrashCloneCfg{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crashes = append(c.crashes, crash{write: n, fs: clone, told: told})
}

// shortCrashes is how many power failures the short form goes on after.
const shortCrashes = 6

// visited are the power failures to go on after: all, in the short form some, the last of them too.
func (c *crasher) visited() []crash {
	if !testing.Short() {
		return c.crashes
	}
	var some []crash
	for i := range shortCrashes {
		some = append(some, c.crashes[(i+1)*len(c.crashes)/shortCrashes-1])
	}
	return some
}

// storm runs clients that swipe, reverse, clear, refund, deposit and change cards, on a disk that is photographed as it goes.
func storm(t *testing.T, noSync bool, every int64) []crash {
	notes := &notebook{}
	c := &crasher{disk: vfs.NewCrashableMem(), notes: notes, every: every}
	w := newWorld(t, c.fs(), worldOptions{noSync: noSync})
	cards := w.stormCards()
	c.armed.Store(true)
	w.clients(notes, cards).Wait()
	c.photograph(c.writes.Load() + 1) // and after the last acknowledgement
	c.armed.Store(false)
	w.stop()
	return c.crashes
}

func (w *world) stormCards() (cards []plastic) {
	for i := range 4 {
		ws := w.newWorkspace(ident.Slot(1 + i*16))
		w.deposit(ws, 50_000)
		cards = append(cards, w.mint(ws, 100_000, 20_000), w.mint(ws, 5_000, 2_000))
	}
	return cards
}

// clients begins what each of them does.
func (w *world) clients(notes *notebook, cards []plastic) *sync.WaitGroup {
	var working sync.WaitGroup
	for client := range crashClients {
		working.Go(func() { w.client(notes, client, cards[client%len(cards)]) })
	}
	return &working
}

// client does one thing after another and notes what it was told.
func (w *world) client(notes *notebook, client int, c plastic) {
	random := rand.New(rand.NewPCG(1, uint64(client)))
	var open []string
	for i := range crashOps {
		if notes.over.Load() {
			return
		}
		id := fmt.Sprintf("c%d-%d", client, i)
		pick := func() string { return open[random.IntN(len(open))] }
		switch n := random.IntN(10); {
		case n < 4 || len(open) == 0:
			w.note(notes, message(hold.Authorization, id, c, 100+random.Int64N(900)))
			open = append(open, id)
		case n == 4:
			w.noteOn(notes, hold.Reversal, id, c, pick(), 50)
		case n == 5:
			w.noteOn(notes, hold.Clearing, id, c, pick(), 100+random.Int64N(500))
		case n == 6:
			w.noteOn(notes, hold.Refund, id, c, pick(), 40)
		case n == 7:
			w.noteOn(notes, hold.Incremental, id, c, pick(), 30)
		case n == 8:
			limit := 1_000 + random.Int64N(100_000)
			w.noteREST(notes, restCall{"card", c.id, c.ws, id, card.Update{MonthlyLimitUsdCents: &limit}})
		default:
			w.noteREST(notes, restCall{"balance", c.ws, c.ws, id, balance.CreateDeposit{Workspace: c.ws,
				ID: w.newID(ident.Deposit, slotOf(c.ws)), Rail: "ach", AmountUsdCents: 77, ExpectedAt: w.clock.now()}})
		}
	}
}

func (w *world) note(notes *notebook, m hold.Message) {
	if a := w.submit(m); a.Status == hold.StatusOK && a.Reason != hold.ReasonTimeout {
		notes.write(acked{message: &m, answer: a})
	}
}

func (w *world) noteOn(notes *notebook, kind hold.Kind, id string, c plastic, original string, cents int64) {
	m := message(kind, id, c, cents)
	m.OriginalID = original
	w.note(notes, sealed(m))
}

func (w *world) noteREST(notes *notebook, r restCall) {
	reply, err := w.ask(r.kind, r.stream, r.ws, r.command, w.keyed(r.key))
	if err != nil {
		return
	}
	body, err := json.Marshal(reply)
	if err != nil {
		w.t.Error(err)
	}
	notes.write(acked{rest: &r, reply: body})
}

// survives starts the product on what the crash left and returns what is wrong with it.
func (c *crash) survives(t *testing.T, noSync bool) (wrong []string) {
	defer func() {
		if cause := recover(); cause != nil {
			wrong = append(wrong, fmt.Sprint(cause))
		}
	}()
	w := &world{t: t, fs: c.fs, clock: newClock(), bank: &quietBank{expected: map[string]int{}},
		options: worldOptions{database: c.database, patient: c.database != "", noSync: noSync,
			fatal: func(err error) { wrong = append(wrong, err.Error()) }}}
	if err := w.tryStart(); err != nil {
		return []string{"start: " + err.Error()}
	}
	defer w.stop()
	for _, f := range w.audit().Findings {
		wrong = append(wrong, fmt.Sprint(f))
	}
	for _, a := range c.told {
		wrong = append(wrong, w.repeats(a)...)
	}
	for _, f := range w.audit().Findings {
		wrong = append(wrong, fmt.Sprint("after the repeats: ", f))
	}
	return wrong
}

func (w *world) repeats(a acked) []string {
	if a.message != nil {
		if again := w.submit(*a.message); again != a.answer {
			return []string{fmt.Sprintf("%s was answered %+v, now %+v", a.message.ID, a.answer, again)}
		}
		return nil
	}
	reply, err := w.ask(a.rest.kind, a.rest.stream, a.rest.ws, a.rest.command, w.keyed(a.rest.key))
	replayed, ok := reply.(actors.Replayed)
	if err != nil || !ok || string(replayed.Answer) != string(a.reply) {
		return []string{fmt.Sprintf("%s was answered %s, now %v %v", a.rest.key, a.reply, reply, err)}
	}
	return nil
}

// Power fails at many writes of either store. Whatever was answered is answered again, to the letter, and every sum agrees.
func TestNothingAnsweredIsLostWhenThePowerFails(t *testing.T) {
	began := time.Now()
	crashes := storm(t, false, crashEvery)
	points := crashPoints
	if testing.Short() {
		points = crashPoints / 6
	}
	step := max(1, len(crashes)/points)
	tried, told := 0, 0
	for i := len(crashes) - 1; i >= 0; i -= step {
		wrong := crashes[i].survives(t, false)
		require.Empty(t, wrong, "power failure at write %d", crashes[i].write)
		tried, told = tried+1, told+len(crashes[i].told)
	}
	t.Logf("%d power failures over %d writes, %d answers repeated, in %v", tried, crashes[len(crashes)-1].write, told,
		time.Since(began).Round(time.Second))
}

// The same, on stores that answer before they sync, must be seen to fail: else the test above proves nothing.
func TestThePowerFailureTestSeesAMissingSync(t *testing.T) {
	crashes := storm(t, true, crashEvery)
	for i := len(crashes) - 1; i >= 0; i-- {
		if len(crashes[i].survives(t, true)) > 0 {
			return
		}
	}
	t.Fatal("stores without a sync lost nothing in any power failure")
}
