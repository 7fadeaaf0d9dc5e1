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
	"purser/actors/workspace"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pebblejournal"
)

var deployment = ident.Derive(0, time.UnixMilli(1), "the deployment of the tests")

// world is the product without its network: both stores on one file system, the authorizer, the actors, a clock turned by hand.
type world struct {
	t       testing.TB
	fs      vfs.FS
	clock   *clock
	engine  *authorizer.Engine
	journal *power
	system  *actors.System
	bank    *quietBank
	paying  partner.Bank // used in the place of bank, when there is one
	options worldOptions
}

type worldOptions struct {
	// database is where the journal is; in the file system when it is empty.
	database string
	noSync   bool
	stores   func(*authorizer.Options, *pebblejournal.Options)
	fatal    func(error)
	kinds    []actors.Kind // nil: the product's
	bank     partner.Bank  // nil: world.bank
	issuer   partner.Issuer
	ramp     partner.Ramp
	chains   []partner.Chain
	// pace is how often timers and holds are looked at; zero means every 10 ms.
	pace time.Duration
	// patient worlds ask again while the answer is that nothing has changed: a slow machine's Postgres does not take every commit
	// in time.
	patient bool
	// logLevel is from which on the product's lines are shown; zero means warnings.
	logLevel slog.Level
}

// power is what the journal is written with. Once it is off nothing more is kept, as when the process has died.
type power struct {
	persistence.Journal
	mu  sync.RWMutex
	off bool
}

func (p *power) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
}

// write does what a journal without power does not do. What has begun to be written is through before the power is off.
func (p *power) write(write func() error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.off {
		return persistence.ErrUnavailable
	}
	return write()
}

func (p *power) Append(ctx context.Context, shard ident.Shard, epoch uint64, now time.Time,
	group []*persistence.Batch) (outcomes []persistence.Outcome, err error) {
	err = p.write(func() (err error) {
		outcomes, err = p.Journal.Append(ctx, shard, epoch, now, group)
		return err
	})
	return outcomes, err
}

func (p *power) Raise(ctx context.Context, shards ...ident.Shard) (heads []persistence.Head, err error) {
	err = p.write(func() (err error) {
		heads, err = p.Journal.Raise(ctx, shards...)
		return err
	})
	return heads, err
}

func (p *power) SaveCursor(ctx context.Context, name string, shard ident.Shard, position uint64) error {
	return p.write(func() error { return p.Journal.SaveCursor(ctx, name, shard, position) })
}

// quietBank keeps what it is told and reports nothing: the tests report.
type quietBank struct {
	partner.Payments // nil: no test with this bank pays
	mu               sync.Mutex
	expected         map[string]int
}

func (b *quietBank) Expect(_ context.Context, d partner.Deposit) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected[d.ID]++
	return nil
}

func newWorld(t testing.TB, fs vfs.FS, o worldOptions) *world {
	w := &world{t: t, fs: fs, clock: newClock(), options: o, bank: &quietBank{expected: map[string]int{}}}
	if o.fatal == nil {
		w.options.fatal = func(err error) { t.Errorf("fatal: %v", err) }
	}
	w.start()
	return w
}

func (w *world) start() { require.NoError(w.t, w.tryStart()) }

// startAgain ends the actors and starts them anew over the stores that are open, as the change has them.
func (w *world) startAgain(change func(*actors.Config)) {
	w.t.Helper()
	w.system.Stop()
	c := actors.Config{Journal: w.journal, Authorizer: w.engine, Bank: w.bank, Sealer: testSealer(w.t), Clock: w.clock.now,
		Entropy: rand.Reader, Fatal: w.options.fatal}
	change(&c)
	var err error
	w.system, err = actors.Start(context.Background(), c)
	require.NoError(w.t, err)
}

func (w *world) tryStart() error {
	jo := pebblejournal.Options{FS: w.fs, Dir: "journal", Deployment: deployment, Clock: w.clock.now, Entropy: rand.Reader,
		NoSync: w.options.noSync, Fatal: w.options.fatal}
	ao := authorizer.Options{FS: w.fs, Dir: "authorizer", Deployment: deployment, Clock: w.clock.now, Entropy: rand.Reader,
		NoSync: w.options.noSync, CacheBytes: 8 << 20, Fatal: w.options.fatal,
		// A machine under load may not sync within 150 ms. What a late answer does is the authorizer's own test.
		Deadline: func() <-chan time.Time { return nil }}
	if w.options.stores != nil {
		w.options.stores(&ao, &jo)
	}
	bank := partner.Bank(w.bank)
	if w.options.bank != nil {
		bank = w.options.bank
	}
	if w.paying != nil {
		bank = w.paying
	}
	journal, err := openJournal(w.options.database, jo)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	w.journal = &power{Journal: journal}
	if w.engine, err = authorizer.Open(ao); err != nil {
		return fmt.Errorf("authorizer: %w", err)
	}
	pace := cmp.Or(w.options.pace, 10*time.Millisecond)
	w.system, err = actors.Start(context.Background(), actors.Config{Journal: w.journal, Authorizer: w.engine, Bank: bank,
		Issuer: w.options.issuer, Ramp: w.options.ramp, Accounts: testAccounts(w.t), Chains: w.options.chains, WatchEvery: pace,
		Sealer: testSealer(w.t), Clock: w.clock.now, Entropy: rand.Reader, Kinds: w.options.kinds, TimerEvery: pace, ExpireEvery: pace,
		// Nor may it follow within 250 ms: what has come in can be spent, however late it is.
		FollowedWithin: time.Minute, Fatal: w.options.fatal, Logger: slog.New(slog.NewTextHandler(os.Stderr,
			&slog.HandlerOptions{Level: cmp.Or(w.options.logLevel, slog.LevelWarn)}))})
	return err
}

func (w *world) stop() {
	w.system.Stop()
	require.NoError(w.t, w.engine.Close())
	require.NoError(w.t, w.journal.Close())
}

func (w *world) restart() {
	w.stop()
	w.start()
}

// powerFails stops the product and leaves what had been synced by then. The disk has to be a crashable one.
func (w *world) powerFails() {
	w.journal.cut()
	disk := w.fs.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{})
	w.stop()
	w.fs = disk
}

// left is a record as it stands while the product is stopped.
func left[D any](w *world, kind, id string) (document D) {
	w.t.Helper()
	journal := w.openJournal()
	record, err := journal.Record(context.Background(), slotOf(id), kind, id)
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(record.Document, &document))
	require.NoError(w.t, journal.Close())
	return document
}

// audit waits until the stores are at rest and compares everything; a shard in which a reaction or a timer has moved something
// meanwhile is read again.
func (w *world) audit() audit.Report { return w.auditOf(w.journal) }

// auditOf is audit, by way of another reader of the world's journal.
func (w *world) auditOf(journal persistence.Journal) audit.Report {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	require.NoError(w.t, w.system.Settle(ctx))
	report, err := audit.Run(ctx, audit.Sources{Journal: journal, Authorizer: audit.Of(w.engine),
		Pause: 10 * time.Millisecond})
	require.NoError(w.t, err)
	return report
}

func (w *world) requireClean() {
	w.t.Helper()
	require.Empty(w.t, w.audit().Findings)
}

func (w *world) ask(kind, stream, tenant string, command any, key *actors.Key) (reply any, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		reply, err = w.askOnce(ctx, kind, stream, tenant, command, key)
		if !w.options.patient || !fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
			return reply, err
		}
	}
}

// askOnce is for what is unavailable by rule: a patient world would ask again for a minute.
func (w *world) askOnce(ctx context.Context, kind, stream, tenant string, command any, key *actors.Key) (any, error) {
	return w.system.Ask(ctx, actors.Envelope{Kind: kind, Stream: stream, Workspace: tenant, Command: command, Key: key})
}

func (w *world) must(kind, stream, tenant string, command any) any {
	w.t.Helper()
	reply, err := w.ask(kind, stream, tenant, command, nil)
	require.NoError(w.t, err)
	return reply
}

// newID draws an id of a tenant's slot.
func (w *world) newID(prefix string, slot ident.Slot) string {
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

// newWorkspace makes a workspace in a slot.
func (w *world) newWorkspace(slot ident.Slot) string {
	w.t.Helper()
	return w.newWorkspaceOf(slot, w.newID(ident.User, 7))
}

func (w *world) newWorkspaceOf(slot ident.Slot, owner string) string {
	w.t.Helper()
	id := w.newID(ident.Workspace, slot)
	secret, err := ident.NewSecret(ident.APISecret, slot, rand.Reader)
	require.NoError(w.t, err)
	_, hash, err := ident.ParseSecret(ident.APISecret, secret)
	require.NoError(w.t, err)
	w.must("workspace", id, id, workspace.Create{ID: id, Name: "Acme", Plan: "alpha", OwnerIDs: []string{owner}, IssuerID: "issuer",
		IssuerFixture: true, FirstKey: workspace.NewKey{ID: w.newID(ident.Key, slot), Label: "first", Prefix: secret[:12],
			SecretHash: hash, CreatedBy: owner}})
	return id
}

// deposit announces dollars and reports them settled.
func (w *world) deposit(ws string, cents int64) string {
	w.t.Helper()
	id := w.newID(ident.Deposit, slotOf(ws))
	w.must("balance", ws, ws, balance.CreateDeposit{Workspace: ws, ID: id, Rail: "ach", AmountUsdCents: cents,
		ExpectedAt: w.clock.now().Add(time.Hour)})
	w.must("balance", ws, ws, balance.SettleDeposit{EventID: "bank-" + id, DepositID: id})
	return id
}

type plastic struct {
	id, ws string
	token  ident.Token
}

// mint issues a card without allowlists.
func (w *world) mint(ws string, monthly, perTxn int64) plastic {
	w.t.Helper()
	token, err := ident.NewToken(slotOf(ws), rand.Reader)
	require.NoError(w.t, err)
	c := plastic{id: w.newID(ident.Card, slotOf(ws)), ws: ws, token: token}
	w.must("card", c.id, ws, card.Mint{ID: c.id, Workspace: ws, Token: token.String(), Last4: "4242", HolderKind: "agent",
		HolderLabel: "A", MonthlyLimitUsdCents: monthly, PerTxnLimitUsdCents: perTxn, Fixture: true})
	return c
}

func (w *world) setState(c plastic, state string) error {
	_, err := w.ask("card", c.id, c.ws, card.Update{State: &state}, nil)
	return err
}

// message is a well-formed message of the network.
func message(kind hold.Kind, id string, c plastic, cents int64) hold.Message {
	m := hold.Message{Kind: kind, ID: id, Token: c.token, Amount: cents, Currency: [3]byte{'U', 'S', 'D'},
		Merchant: hold.Merchant{Name: "Shop", MCC: 5411}}
	return sealed(m)
}

// sealed gives a message its fingerprint, as the network server does.
func sealed(m hold.Message) hold.Message {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, struct {
		Kind   hold.Kind
		Token  ident.Token
		Amount int64
		Auth   ident.UUID
	}{m.Kind, m.Token, m.Amount, m.AuthorizationID})
	_, _ = io.WriteString(h, m.OriginalID)
	copy(m.Fingerprint[:], h.Sum(nil))
	return m
}

func (w *world) submit(m hold.Message) hold.Answer { return w.engine.Submit(&m) }

func (w *world) available(ws string) int64 {
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

func (w *world) balance(ws string) balance.View {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(w.t, w.system.Settle(ctx))
	return w.must("balance", ws, ws, decision.Read{}).(balance.View)
}

// readRecord reads a record as its document.
func readRecord[D any](w *world, kind, id string) (document D, err error) {
	record, err := w.system.Find(context.Background(), slotOf(id), kind, id)
	if err == nil {
		err = json.Unmarshal(record.Document, &document)
	}
	return document, err
}

// keyed is an idempotency key whose answer is the reply's JSON.
func (w *world) keyed(name string) *actors.Key {
	return &actors.Key{Scope: "http", Key: name, Expires: w.clock.now().Add(24 * time.Hour), Fingerprint: sha256.Sum256([]byte(name)),
		Seal: func(reply any) ([]byte, error) { return json.Marshal(reply) }}
}

// rebuildAuthorizer makes the authorizer's store from the journal, as the command does.
func (w *world) rebuildAuthorizer() error {
	journal, err := openJournal(w.options.database, pebblejournal.Options{FS: w.fs, Dir: "journal", Entropy: rand.Reader, Fatal: w.options.fatal})
	if err != nil {
		return err
	}
	relayed, err := w.rebuildInto("authorizer.new", journal)
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

func (w *world) rebuildInto(dir string, journal persistence.Journal) (relayed actors.Relayed, err error) {
	engine, err := authorizer.Open(authorizer.Options{FS: w.fs, Dir: dir, Deployment: deployment, Clock: w.clock.now,
		Entropy: rand.Reader, Fatal: w.options.fatal})
	if err != nil {
		return relayed, err
	}
	relayed, err = actors.Rebuild(context.Background(), journal, engine)
	return relayed, errors.Join(err, engine.Close())
}

// copyDir copies a directory of an in-memory file system.
func copyDir(t testing.TB, fs vfs.FS, from, to string) {
	ok, err := vfs.Clone(fs, fs, from, to)
	require.NoError(t, err)
	require.True(t, ok)
}
