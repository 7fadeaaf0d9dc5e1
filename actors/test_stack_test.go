package actors_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/audit"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/processes"
	"purser/actors/workspace"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/pebblejournal"
)

var deployment = ident.Derive(0, time.UnixMilli(1), "the deployment of the tests")

// testStack runs the product without its network ports: both stores on one file system, the
// authorizer, the actors, and a clock that tests turn.
type testStack struct {
	t            testing.TB
	fs           vfs.FS
	clock        *clock
	engine       *authorizer.Engine
	journal      *poweredJournal
	system       *processes.Product
	bank         *recordingBank
	bankOverride partner.Bank // replaces bank when it is set
	options      stackOptions
}

type stackOptions struct {
	// database is the URL of the journal's Postgres database. Empty: the journal is on the file
	// system.
	database string
	noSync   bool
	stores   func(*authorizer.Options, *pebblejournal.Options)
	fatal    func(error)
	kinds    []actors.Kind // nil: those of the product
	bank     partner.Bank  // nil: testStack.bank
	issuer   partner.Issuer
	ramp     partner.Ramp
	chains   []partner.Chain
	// loopInterval is the interval of the timer and expiry loops; zero means 10 ms.
	loopInterval time.Duration
	// retryUnavailable makes ask repeat commands that are answered unavailable: Postgres on a slow
	// machine does not commit every batch in time.
	retryUnavailable bool
	// logLevel is the lowest level that is printed; zero means warnings.
	logLevel slog.Level
}

// poweredJournal is a journal that refuses every write once its power is cut, as if the process had
// died.
type poweredJournal struct {
	persistence.Journal
	mu  sync.RWMutex
	off bool
}

// Snapshot implements persistence.Archiver.
func (p *poweredJournal) Snapshot(ctx context.Context) (persistence.Snapshot, error) {
	return p.Journal.(persistence.Archiver).Snapshot(ctx)
}

func (p *poweredJournal) cutPower() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
}

// whilePowered runs write unless the power is off. cutPower waits for writes that have begun.
func (p *poweredJournal) whilePowered(write func() error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.off {
		return persistence.ErrUnavailable
	}
	return write()
}

func (p *poweredJournal) Append(ctx context.Context, shard ident.Shard, epoch uint64, now time.Time,
	group []*persistence.Batch) (outcomes []persistence.Outcome, err error) {
	err = p.whilePowered(func() (err error) {
		outcomes, err = p.Journal.Append(ctx, shard, epoch, now, group)
		return err
	})
	return outcomes, err
}

func (p *poweredJournal) Raise(ctx context.Context, shards ...ident.Shard) (heads []persistence.Head, err error) {
	err = p.whilePowered(func() (err error) {
		heads, err = p.Journal.Raise(ctx, shards...)
		return err
	})
	return heads, err
}

func (p *poweredJournal) SaveCursor(ctx context.Context, name string, shard ident.Shard, position uint64) error {
	return p.whilePowered(func() error { return p.Journal.SaveCursor(ctx, name, shard, position) })
}

// recordingBank counts announced deposits and reports nothing: tests make the reports.
type recordingBank struct {
	unreachablePayments
	mu       sync.Mutex
	expected map[string]int
}

// unreachablePayments is the part for payments of a bank that cannot be reached. A payout that a
// test stores is asked about in the background.
type unreachablePayments struct{}

func (unreachablePayments) Tokenize(context.Context, partner.Account) (string, error) {
	return "", partner.ErrFull
}
func (unreachablePayments) Pay(context.Context, partner.Payment) error { return partner.ErrFull }
func (unreachablePayments) Standing(context.Context, string) (none partner.Standing, err error) {
	return none, partner.ErrFull
}

func (b *recordingBank) Expect(_ context.Context, d partner.Deposit) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected[d.ID]++
	return nil
}

func newTestStack(t testing.TB, fs vfs.FS, o stackOptions) *testStack {
	w := &testStack{t: t, fs: fs, clock: newClock(), options: o, bank: &recordingBank{expected: map[string]int{}}}
	if o.fatal == nil {
		w.options.fatal = func(err error) { t.Errorf("fatal: %v", err) }
	}
	w.start()
	return w
}

func (w *testStack) start() { require.NoError(w.t, w.tryStart()) }

// restartActors stops the actors and starts them over the open stores, with a changed Config.
func (w *testStack) restartActors(change func(*actors.Config)) {
	w.t.Helper()
	w.system.Stop()
	c := actors.Config{Journal: w.journal, Authorizer: w.engine, Sealer: testSealer(w.t),
		Clock:   w.clock.now,
		Entropy: rand.Reader, Fatal: w.options.fatal}
	change(&c)
	var err error
	w.system, err = processes.Start(context.Background(), processes.Config{Config: c, Bank: w.bank})
	require.NoError(w.t, err)
}

// loopPaces returns how often a stack looks for due timers and expiries. Under the race detector
// (short mode) Pebble takes a stack trace for each table that a read opens, and reads every 10 ms
// would leave no processor idle.
func loopPaces() (timers, expiries time.Duration) {
	if testing.Short() {
		return 50 * time.Millisecond, 500 * time.Millisecond
	}
	return 10 * time.Millisecond, 10 * time.Millisecond
}

func (w *testStack) tryStart() error {
	jo := pebblejournal.Options{FS: w.fs, Dir: "journal", Deployment: deployment, Clock: w.clock.now,
		Entropy: rand.Reader,
		NoSync:  w.options.noSync, Fatal: w.options.fatal}
	ao := authorizer.Options{FS: w.fs, Dir: "authorizer", Deployment: deployment, Clock: w.clock.now,
		Entropy: rand.Reader,
		NoSync:  w.options.noSync, CacheBytes: 8 << 20, SegmentBytes: segmentBytes, Fatal: w.options.fatal,
		// A machine under load may not sync within 150 ms. The authorizer's own tests cover
		// deadlines.
		Deadline: func() <-chan time.Time { return nil }}
	if w.options.stores != nil {
		w.options.stores(&ao, &jo)
	}
	bank := partner.Bank(w.bank)
	if w.options.bank != nil {
		bank = w.options.bank
	}
	if w.bankOverride != nil {
		bank = w.bankOverride
	}
	journal, err := openJournal(w.options.database, jo)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	w.journal = &poweredJournal{Journal: journal}
	if w.engine, err = authorizer.Open(ao); err != nil {
		return fmt.Errorf("authorizer: %w", err)
	}
	timers, expiries := loopPaces()
	w.system, err = processes.Start(context.Background(), processes.Config{
		Bank:   bank,
		Issuer: w.options.issuer, Ramp: w.options.ramp, Accounts: testAccounts(w.t), Chains: w.options.chains,
		WatchEvery: cmp.Or(w.options.loopInterval, 10*time.Millisecond),
		Config: actors.Config{Journal: w.journal, Authorizer: w.engine, Sealer: testSealer(w.t),
			Clock: w.clock.now, Entropy: rand.Reader, Kinds: w.options.kinds,
			TimerEvery:  cmp.Or(w.options.loopInterval, timers),
			ExpireEvery: cmp.Or(w.options.loopInterval, expiries),
			// A refused debit waits up to a minute for credits that the authorizer has not
			// followed.
			FollowedWithin: time.Minute, Fatal: w.options.fatal, Logger: slog.New(slog.NewTextHandler(os.Stderr,
				&slog.HandlerOptions{Level: cmp.Or(w.options.logLevel, slog.LevelWarn)}))}})
	return err
}

func (w *testStack) stop() {
	w.system.Stop()
	require.NoError(w.t, w.engine.Close())
	require.NoError(w.t, w.journal.Close())
}

func (w *testStack) restart() {
	w.stop()
	w.start()
}

// failPower stops the product and keeps only the synced bytes of the disk, which must be a
// crashable MemFS.
func (w *testStack) failPower() {
	w.journal.cutPower()
	disk := w.fs.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{})
	w.stop()
	w.fs = disk
}

// readStored reads a record while the product is stopped.
func readStored[D any](w *testStack, kind, id string) (document D) {
	w.t.Helper()
	journal := w.openJournal()
	record, err := journal.Record(context.Background(), slotOf(id), kind, id)
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(record.Document, &document))
	require.NoError(w.t, journal.Close())
	return document
}

// runAudit settles the system and audits both stores. Shards in which a reaction or a timer moved
// something meanwhile are read again.
func (w *testStack) runAudit() audit.Report { return w.runAuditOn(w.journal) }

// runAuditOn is runAudit over another reader of the stack's journal.
func (w *testStack) runAuditOn(journal persistence.Journal) audit.Report {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	require.NoError(w.t, w.system.Settle(ctx))
	report, err := audit.Run(ctx, audit.Sources{Journal: journal.(audit.Journal), Authorizer: audit.FromEngine(w.engine),
		Pause: 10 * time.Millisecond})
	require.NoError(w.t, err)
	return report
}

func (w *testStack) requireCleanAudit() {
	w.t.Helper()
	require.Empty(w.t, w.runAudit().Findings)
}

func (w *testStack) ask(kind, stream, tenant string, command any, key *actors.Key) (reply any, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		reply, err = w.askOnce(ctx, kind, stream, tenant, command, key)
		if !w.options.retryUnavailable || !fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
			return reply, err
		}
	}
}

// askOnce asks without a retry, for commands whose expected answer is unavailable.
func (w *testStack) askOnce(ctx context.Context, kind, stream, tenant string, command any,
	key *actors.Key) (any, error) {
	return w.system.Ask(ctx, actors.Envelope{Kind: kind, Stream: stream, Workspace: tenant, Command: command, Key: key})
}

func (w *testStack) mustAsk(kind, stream, tenant string, command any) any {
	w.t.Helper()
	reply, err := w.ask(kind, stream, tenant, command, nil)
	require.NoError(w.t, err)
	return reply
}

// newID returns a new id in a slot.
func (w *testStack) newID(prefix string, slot ident.Slot) string {
	u, err := ident.New(slot, w.clock.now(), rand.Reader)
	require.NoError(w.t, err)
	return u.Format(prefix)
}

func slotOf(id string) ident.Slot {
	slot, err := ident.SlotOf(id)
	if err != nil {
		panic(err)
	}
	return slot
}

// newWorkspace creates a workspace in a slot.
func (w *testStack) newWorkspace(slot ident.Slot) string {
	w.t.Helper()
	return w.newWorkspaceOwnedBy(slot, ann)
}

func (w *testStack) newWorkspaceOwnedBy(slot ident.Slot, owner string) string {
	w.t.Helper()
	id := w.newID(ident.Workspace, slot)
	secret, err := ident.NewSecret(ident.APISecret, slot, rand.Reader)
	require.NoError(w.t, err)
	_, hash, err := ident.ParseSecret(ident.APISecret, secret)
	require.NoError(w.t, err)
	w.mustAsk("workspace", id, id, workspace.Create{ID: id, Name: "Acme", Plan: "alpha",
		OwnerIDs: []string{owner}, Founder: owner, IssuerID: "issuer",
		IssuerFixture: true, FirstKey: workspace.NewKey{ID: w.newID(ident.Key, slot), Label: "first",
			Prefix:     secret[:12],
			SecretHash: hash, CreatedBy: owner}})
	return id
}

// deposit announces a deposit of US dollars and reports it settled.
func (w *testStack) deposit(ws string, cents money.Cents) string {
	w.t.Helper()
	id := w.newID(ident.Deposit, slotOf(ws))
	w.mustAsk("balance", ws, ws, balance.CreateDeposit{Workspace: ws, ID: id, Rail: "ach", AmountUsdCents: cents,
		ExpectedAt: w.clock.now().Add(time.Hour)})
	w.mustAsk("balance", ws, ws, balance.SettleDeposit{EventID: "bank-" + id, DepositID: id})
	return id
}

type testCard struct {
	id, ws string
	token  ident.Token
}

// mintCard issues a card without allowlists.
func (w *testStack) mintCard(ws string, monthly, perTxn money.Cents) testCard {
	w.t.Helper()
	token, err := ident.NewToken(slotOf(ws), rand.Reader)
	require.NoError(w.t, err)
	c := testCard{id: w.newID(ident.Card, slotOf(ws)), ws: ws, token: token}
	w.mustAsk("card", c.id, ws, card.Mint{ID: c.id, Workspace: ws, Token: token.String(), Last4: "4242",
		HolderKind:  "agent",
		HolderLabel: "A", MonthlyLimitUsdCents: monthly, PerTxnLimitUsdCents: perTxn, Fixture: true})
	return c
}

func (w *testStack) setCardState(c testCard, state string) error {
	_, err := w.ask("card", c.id, c.ws, card.Update{State: &state}, nil)
	return err
}

// networkMessage returns a well-formed message of the card network.
func networkMessage(kind hold.Kind, id string, c testCard, cents money.Cents) hold.Message {
	m := hold.Message{Kind: kind, ID: id, Token: c.token, Amount: cents, Currency: [3]byte{'U', 'S', 'D'},
		Merchant: hold.Merchant{Name: "Shop", MCC: 5411}}
	return withFingerprint(m)
}

// withFingerprint sets a message's fingerprint, as the network server does.
func withFingerprint(m hold.Message) hold.Message {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, struct {
		Kind   hold.Kind
		Token  ident.Token
		Amount money.Cents
		Auth   ident.UUID
	}{m.Kind, m.Token, m.Amount, m.AuthorizationID})
	_, _ = io.WriteString(h, m.OriginalID)
	copy(m.Fingerprint[:], h.Sum(nil))
	return m
}

func (w *testStack) submit(m hold.Message) hold.Answer { return w.engine.Submit(&m) }

func (w *testStack) availableCents(ws string) money.Cents {
	funds, _ := w.engine.Funds(mustParse(ident.Workspace, ws))
	return funds.LedgerCents + funds.CardCents - funds.ReservedCents
}

func mustParse(prefix, id string) ident.UUID {
	u, err := ident.Parse(prefix, id)
	if err != nil {
		panic(err)
	}
	return u
}

func (w *testStack) settledBalance(ws string) balance.View {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(w.t, w.system.Settle(ctx))
	return w.mustAsk("balance", ws, ws, decision.Read{}).(balance.View)
}

// readRecord reads a record and decodes its document.
func readRecord[D any](w *testStack, kind, id string) (document D, err error) {
	record, err := w.system.Find(context.Background(), slotOf(id), kind, id)
	if err == nil {
		err = json.Unmarshal(record.Document, &document)
	}
	return document, err
}

// idempotencyKey returns a key of the http scope whose stored answer is the reply's JSON.
func (w *testStack) idempotencyKey(name string) *actors.Key {
	return &actors.Key{Scope: "http", Key: name, Expires: w.clock.now().Add(24 * time.Hour),
		Fingerprint: sha256.Sum256([]byte(name)),
		Seal:        func(reply any) ([]byte, error) { return json.Marshal(reply) }}
}

// rebuildAuthorizer replaces the authorizer's store by one rebuilt from the journal, as `purser
// rebuild-authorizer` does.
func (w *testStack) rebuildAuthorizer() error {
	journal, err := openJournal(w.options.database, pebblejournal.Options{FS: w.fs, Dir: "journal",
		Entropy: rand.Reader, Fatal: w.options.fatal})
	if err != nil {
		return err
	}
	relayed, err := w.rebuildAuthorizerIn("authorizer.new", journal)
	if err != nil {
		return err
	}
	if err := w.fs.RemoveAll("authorizer"); err != nil {
		return err
	}
	if err := w.fs.Rename("authorizer.new", "authorizer"); err != nil {
		return err
	}
	return errors.Join(actors.SaveRelayed(context.Background(), journal, relayed), journal.Close())
}

func (w *testStack) rebuildAuthorizerIn(dir string, journal persistence.Journal) (relayed actors.Relayed, err error) {
	engine, err := authorizer.Open(authorizer.Options{FS: w.fs, Dir: dir, Deployment: deployment, Clock: w.clock.now,
		Entropy: rand.Reader, SegmentBytes: segmentBytes, Fatal: w.options.fatal})
	if err != nil {
		return relayed, err
	}
	relayed, err = actors.Rebuild(context.Background(), journal, engine.Rebuilder(), processes.Kinds())
	return relayed, errors.Join(err, engine.Close())
}

// copyDir copies a directory within an in-memory file system.
func copyDir(t testing.TB, fs vfs.FS, from, to string) {
	ok, err := vfs.Clone(fs, fs, from, to)
	require.NoError(t, err)
	require.True(t, ok)
}
