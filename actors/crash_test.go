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
	"purser/persistence/money"
)

// Extent of the crash test. Power fails at every crashEvery-th write of either store. The test
// recovers from about crashPoints failures, or crashPointsFull with PURSER_TEST_FULL.
const (
	crashClients = 8
	crashOps     = 60 // per client
	crashEvery   = 6
	crashPoints  = 16

	crashPointsFull = 60
)

// acknowledged is an answer that a client received. A repeat after a crash must give it again.
type acknowledged struct {
	message *hold.Message
	answer  hold.Answer
	rest    *restCall
	reply   []byte
}

type restCall struct {
	kind, stream, ws, key string
	command               any
}

// answerLog collects the answers that the clients have received.
type answerLog struct {
	mu       sync.Mutex
	answers  []acknowledged
	stopping atomic.Bool // asks the clients to stop
}

func (n *answerLog) add(a acknowledged) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers = append(n.answers, a)
}

func (n *answerLog) snapshot() []acknowledged {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.answers[:len(n.answers):len(n.answers)]
}

// powerFailure is the disk as a power failure left it, and the answers given before it.
type powerFailure struct {
	write    int64
	fs       *vfs.MemFS
	answered []acknowledged
	database string // the journal, when it is in Postgres
}

// snapshotDisk is a file system that captures its synced bytes, and nothing else, at every every-th
// write.
type snapshotDisk struct {
	disk      *vfs.MemFS
	answers   *answerLog
	every     int64
	armed     atomic.Bool
	writes    atomic.Int64
	mu        sync.Mutex
	failures  []powerFailure
	onCapture func() // replaces captureDisk when it is set
}

func (c *snapshotDisk) fs() vfs.FS { return errorfs.Wrap(c.disk, errorfs.InjectorFunc(c.onWrite)) }

func (c *snapshotDisk) onWrite(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !c.armed.Load() {
		return nil
	}
	switch n := c.writes.Add(1); {
	case n%c.every != 0:
	case c.onCapture != nil:
		c.onCapture()
	default:
		c.captureDisk(n)
	}
	return nil
}

func (c *snapshotDisk) captureDisk(n int64) {
	answered := c.answers.snapshot() // before the clone, which must contain these answers
	clone := c.disk.CrashClone(vfs.CrashCloneCfg{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, powerFailure{write: n, fs: clone, answered: answered})
}

// runSwipeStorm runs clients that swipe, reverse, clear, refund, deposit and change cards on a
// snapshotDisk, and returns its power failures.
func runSwipeStorm(t *testing.T, noSync bool, every int64) []powerFailure {
	notes := &answerLog{}
	c := &snapshotDisk{disk: vfs.NewCrashableMem(), answers: notes, every: every}
	w := newTestStack(t, c.fs(), stackOptions{noSync: noSync})
	cards := w.newStormCards()
	c.armed.Store(true)
	w.startClients(notes, cards).Wait()
	c.captureDisk(c.writes.Load() + 1) // and after the last acknowledgement
	c.armed.Store(false)
	w.stop()
	return c.failures
}

func (w *testStack) newStormCards() (cards []testCard) {
	for i := range 4 {
		ws := w.newWorkspace(ident.Slot(1 + i*16))
		w.deposit(ws, 50_000)
		cards = append(cards, w.mintCard(ws, 100_000, 20_000), w.mintCard(ws, 5_000, 2_000))
	}
	return cards
}

// startClients starts crashClients clients and returns the group that waits for them.
func (w *testStack) startClients(notes *answerLog, cards []testCard) *sync.WaitGroup {
	var working sync.WaitGroup
	for client := range crashClients {
		working.Go(func() { w.runClient(notes, client, cards[client%len(cards)]) })
	}
	return &working
}

// runClient sends crashOps random commands and logs the answers.
func (w *testStack) runClient(notes *answerLog, client int, c testCard) {
	random := rand.New(rand.NewPCG(1, uint64(client)))
	var open []string
	for i := range crashOps {
		if notes.stopping.Load() {
			return
		}
		id := fmt.Sprintf("c%d-%d", client, i)
		pick := func() string { return open[random.IntN(len(open))] }
		switch n := random.IntN(10); {
		case n < 4 || len(open) == 0:
			w.submitAndNote(notes, networkMessage(hold.Authorization, id, c, 100+money.Cents(random.Int64N(900))))
			open = append(open, id)
		case n == 4:
			w.submitFollowUp(notes, hold.Reversal, id, c, pick(), 50)
		case n == 5:
			w.submitFollowUp(notes, hold.Clearing, id, c, pick(), 100+money.Cents(random.Int64N(500)))
		case n == 6:
			w.submitFollowUp(notes, hold.Refund, id, c, pick(), 40)
		case n == 7:
			w.submitFollowUp(notes, hold.Incremental, id, c, pick(), 30)
		case n == 8:
			limit := 1_000 + money.Cents(random.Int64N(100_000))
			w.askAndNote(notes, restCall{"card", c.id, c.ws, id, card.Update{MonthlyLimitUsdCents: &limit}})
		default:
			w.askAndNote(notes, restCall{"balance", c.ws, c.ws, id, balance.CreateDeposit{Workspace: c.ws,
				ID: w.newID(ident.Deposit, slotOf(c.ws)), Rail: "ach", AmountUsdCents: 77, ExpectedAt: w.clock.now()}})
		}
	}
}

func (w *testStack) submitAndNote(notes *answerLog, m hold.Message) {
	if a := w.submit(m); a.Status == hold.StatusOK && a.Reason != hold.ReasonTimeout {
		notes.add(acknowledged{message: &m, answer: a})
	}
}

func (w *testStack) submitFollowUp(notes *answerLog, kind hold.Kind, id string, c testCard, original string,
	cents money.Cents) {
	m := networkMessage(kind, id, c, cents)
	m.OriginalID = original
	w.submitAndNote(notes, withFingerprint(m))
}

func (w *testStack) askAndNote(notes *answerLog, r restCall) {
	reply, err := w.ask(r.kind, r.stream, r.ws, r.command, w.idempotencyKey(r.key))
	if err != nil {
		return
	}
	body, err := json.Marshal(reply)
	if err != nil {
		w.t.Error(err)
	}
	notes.add(acknowledged{rest: &r, reply: body})
}

// recoverAndCheck starts the product on the disk that the failure left, audits it, repeats every
// answered command, and returns the differences.
func (c *powerFailure) recoverAndCheck(t *testing.T, noSync bool) (wrong []string) {
	defer func() {
		if cause := recover(); cause != nil {
			wrong = append(wrong, fmt.Sprint(cause))
		}
	}()
	w := &testStack{t: t, fs: c.fs, clock: newClock(), bank: &recordingBank{expected: map[string]int{}},
		options: stackOptions{database: c.database, retryUnavailable: c.database != "", noSync: noSync,
			fatal: func(err error) { wrong = append(wrong, err.Error()) }}}
	if err := w.tryStart(); err != nil {
		return []string{"start: " + err.Error()}
	}
	defer w.stop()
	for _, f := range w.runAudit().Findings {
		wrong = append(wrong, fmt.Sprint(f))
	}
	for _, a := range c.answered {
		wrong = append(wrong, w.verifyRepeat(a)...)
	}
	for _, f := range w.runAudit().Findings {
		wrong = append(wrong, fmt.Sprint("after the repeats: ", f))
	}
	return wrong
}

func (w *testStack) verifyRepeat(a acknowledged) []string {
	if a.message != nil {
		if again := w.submit(*a.message); again != a.answer {
			return []string{fmt.Sprintf("%s was answered %+v, now %+v", a.message.ID, a.answer, again)}
		}
		return nil
	}
	reply, err := w.ask(a.rest.kind, a.rest.stream, a.rest.ws, a.rest.command, w.idempotencyKey(a.rest.key))
	replayed, ok := reply.(actors.Replayed)
	if err != nil || !ok || string(replayed.Answer) != string(a.reply) {
		return []string{fmt.Sprintf("%s was answered %s, now %v %v", a.rest.key, a.reply, reply, err)}
	}
	return nil
}

// TestNothingAnsweredIsLostWhenThePowerFails cuts the power at many writes of either store. Every
// answer before the failure is given again, byte for byte, and the audit is clean.
func TestNothingAnsweredIsLostWhenThePowerFails(t *testing.T) {
	began := time.Now()
	crashes := runSwipeStorm(t, false, crashEvery)
	step := max(1, len(crashes)/atFullLength(crashPoints, crashPointsFull))
	tried, repeated := 0, 0
	for i := len(crashes) - 1; i >= 0; i -= step {
		wrong := crashes[i].recoverAndCheck(t, false)
		require.Empty(t, wrong, "power failure at write %d", crashes[i].write)
		tried, repeated = tried+1, repeated+len(crashes[i].answered)
	}
	t.Logf("%d power failures over %d writes, %d answers repeated, in %v", tried, crashes[len(crashes)-1].write,
		repeated,
		time.Since(began).Round(time.Second))
}

// TestThePowerFailureTestSeesAMissingSync runs the same storm on stores that answer before they
// sync. It must fail, else the test above proves nothing.
func TestThePowerFailureTestSeesAMissingSync(t *testing.T) {
	crashes := runSwipeStorm(t, true, crashEvery)
	for i := len(crashes) - 1; i >= 0; i-- {
		if len(crashes[i].recoverAndCheck(t, true)) > 0 {
			return
		}
	}
	t.Fatal("stores without a sync lost nothing in any power failure")
}
