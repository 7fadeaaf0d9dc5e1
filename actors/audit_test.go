package actors_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/partner"
	"purser/persistence"
	"purser/persistence/ident"
)

// slowBank takes accounts when it is told to.
type slowBank struct {
	heldBank
	open chan struct{}
}

func (b *slowBank) Tokenize(ctx context.Context, a partner.Account) (string, error) {
	select {
	case <-b.open:
		return b.heldBank.Tokenize(ctx, a)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// meanwhile is a journal in which something happens after a shard's events were read and before its records are.
type meanwhile struct {
	persistence.Journal
	shard   ident.Shard
	once    sync.Once
	happens func()
}

func (m *meanwhile) Records(ctx context.Context, shard ident.Shard, kind, after string, limit int) ([]persistence.Record, error) {
	if shard == m.shard {
		m.once.Do(m.happens)
	}
	return m.Journal.Records(ctx, shard, kind, after, limit)
}

// A world that has answered all it was asked may still have reactions under way: a new recipient's account goes to the bank by
// itself. An audit that one of them overtakes looks again, and finds nothing: it is a difference of moments, not of dollars.
func TestAnAuditThatAReactionOvertakesIsClean(t *testing.T) {
	bank := &slowBank{heldBank: heldBank{orders: map[string]int64{}}, open: make(chan struct{})}
	w := newWorld(t, vfs.NewMem(), worldOptions{bank: bank})
	defer func() { w.stop() }()
	ws := w.newWorkspace(5)
	id := w.newID(ident.Counterparty, slotOf(ws))
	w.must("counterparty", id, ws, counterparty.Save{ID: id, Workspace: ws, Account: counterparty.Account{Name: "Ada",
		RoutingNumber: "021000021", AccountNumber: "987654321", AccountType: "checking"}})
	told := func() string { return w.must("counterparty", id, ws, decision.Read{}).(counterparty.State).Token }
	require.Empty(t, told())
	journal := &meanwhile{Journal: w.journal, shard: slotOf(ws).Shard(), happens: func() {
		close(bank.open)
		require.Eventually(t, func() bool { return told() != "" }, time.Minute, time.Millisecond)
	}}
	require.Empty(t, w.auditOf(journal).Findings)
	require.NotEmpty(t, told(), "nothing has happened meanwhile")
}
