package actors_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/audit"
	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/partner"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// gatedBank is a bank whose Tokenize returns once open is closed.
type gatedBank struct {
	scriptedBank
	open chan struct{}
}

func (b *gatedBank) Tokenize(ctx context.Context, a partner.Account) (string, error) {
	select {
	case <-b.open:
		return b.scriptedBank.Tokenize(ctx, a)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// interleavingJournal is a journal whose snapshots call interleave once each, after a shard's
// events were read and before its records are. taken, unless it is nil, is called after each snapshot.
type interleavingJournal struct {
	persistence.Journal
	shard      ident.Shard
	interleave func()
	taken      func()
}

func (m *interleavingJournal) Snapshot(ctx context.Context) (persistence.Snapshot, error) {
	s, err := m.Journal.(audit.Journal).Snapshot(ctx)
	if m.taken != nil {
		m.taken()
	}
	return &interleavingSnapshot{Snapshot: s, journal: m}, err
}

type interleavingSnapshot struct {
	persistence.Snapshot
	journal *interleavingJournal
	once    sync.Once
}

func (s *interleavingSnapshot) Records(ctx context.Context, shard ident.Shard, kind, after string,
	limit int) ([]persistence.Record, error) {
	if shard == s.journal.shard {
		s.once.Do(s.journal.interleave)
	}
	return s.Snapshot.Records(ctx, shard, kind, after, limit)
}

// TestAnAuditThatAReactionOvertakesIsClean: a stack that has answered every command may still run
// reactions, here the tokenization of a recipient's account. An audit that a reaction overtakes
// has no findings.
func TestAnAuditThatAReactionOvertakesIsClean(t *testing.T) {
	bank := &gatedBank{scriptedBank: scriptedBank{orders: map[string]money.Minor{}}, open: make(chan struct{})}
	w := newTestStack(t, vfs.NewMem(), stackOptions{bank: bank})
	defer func() { w.stop() }()
	ws := w.newWorkspace(5)
	id := w.newID(ident.Counterparty, slotOf(ws))
	w.mustAsk("counterparty", id, ws, counterparty.Save{ID: id, Workspace: ws,
		Account: counterparty.Account{Name: "Ada",
			RoutingNumber: "021000021", AccountNumber: "987654321", AccountType: "checking"}})
	token := func() string { return w.mustAsk("counterparty", id, ws, decision.Read{}).(counterparty.State).Token }
	require.Empty(t, token())
	opened := sync.OnceFunc(func() { close(bank.open) })
	journal := &interleavingJournal{Journal: w.journal, shard: slotOf(ws).Shard(), interleave: func() {
		opened()
		require.Eventually(t, func() bool { return token() != "" }, eventuallyWithin, pollEvery)
	}}
	require.Empty(t, w.runAuditOn(journal).Findings)
	require.NotEmpty(t, token(), "the reaction did not run during the audit")
}

// Every look at a shard is overtaken by a swipe that the journal has before the records are read.
// The looks see the stores as of one instant, so none of them shows a difference.
func TestAnAuditBesideSwipesIsClean(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer func() { w.stop() }()
	ws := w.newWorkspace(5)
	w.deposit(ws, 100_000)
	c := w.mintCard(ws, 50_000, 50_000)
	swipes := 0
	swipe := func() {
		swipes++
		answer := w.submit(networkMessage(hold.Authorization, fmt.Sprint("beside", swipes), c, 100))
		require.Equal(t, hold.Approved, answer.Decision)
		w.system.WaitRelayed(t.Context(), ws)
	}
	swipe()
	journal := &interleavingJournal{Journal: w.journal, shard: slotOf(ws).Shard(), interleave: swipe}
	require.Empty(t, w.runAuditOn(journal).Findings)
	require.Greater(t, swipes, 1)
}

// A deposit and a card's change settle between the snapshots of the journal and of the authorizer, at
// every look. The audit reads the events that the authorizer has followed meanwhile.
func TestAnAuditReadsTheEventsThatTheAuthorizerHasFollowed(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer func() { w.stop() }()
	ws := w.newWorkspace(5)
	w.deposit(ws, 100_000)
	c := w.mintCard(ws, 50_000, 50_000)
	changes := 0
	journal := &interleavingJournal{Journal: w.journal, shard: slotOf(ws).Shard(), interleave: func() {}, taken: func() {
		changes++
		w.deposit(ws, 700)
		require.NoError(t, w.setCardState(c, []string{"active", "frozen"}[changes%2]))
		w.settledBalance(ws)
	}}
	require.Empty(t, w.runAuditOn(journal).Findings)
	require.Positive(t, changes)
}
