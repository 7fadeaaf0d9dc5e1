package actors_test

import (
	"context"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/partner"
	"purser/persistence"
	"purser/persistence/ident"
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

// interleavingJournal is a journal that calls interleave once, after a shard's events were read and
// before its records are.
type interleavingJournal struct {
	persistence.Journal
	shard      ident.Shard
	once       sync.Once
	interleave func()
}

func (m *interleavingJournal) Records(ctx context.Context, shard ident.Shard, kind, after string,
	limit int) ([]persistence.Record, error) {
	if shard == m.shard {
		m.once.Do(m.interleave)
	}
	return m.Journal.Records(ctx, shard, kind, after, limit)
}

// TestAnAuditThatAReactionOvertakesIsClean: a stack that has answered every command may still run
// reactions, here the tokenization of a recipient's account. An audit that a reaction overtakes
// reads the shard again and has no findings.
func TestAnAuditThatAReactionOvertakesIsClean(t *testing.T) {
	bank := &gatedBank{scriptedBank: scriptedBank{orders: map[string]int64{}}, open: make(chan struct{})}
	w := newTestStack(t, vfs.NewMem(), stackOptions{bank: bank})
	defer func() { w.stop() }()
	ws := w.newWorkspace(5)
	id := w.newID(ident.Counterparty, slotOf(ws))
	w.mustAsk("counterparty", id, ws, counterparty.Save{ID: id, Workspace: ws,
		Account: counterparty.Account{Name: "Ada",
			RoutingNumber: "021000021", AccountNumber: "987654321", AccountType: "checking"}})
	token := func() string { return w.mustAsk("counterparty", id, ws, decision.Read{}).(counterparty.State).Token }
	require.Empty(t, token())
	journal := &interleavingJournal{Journal: w.journal, shard: slotOf(ws).Shard(), interleave: func() {
		close(bank.open)
		require.Eventually(t, func() bool { return token() != "" }, eventuallyWithin, pollEvery)
	}}
	require.Empty(t, w.runAuditOn(journal).Findings)
	require.NotEmpty(t, token(), "the reaction did not run during the audit")
}
