package actors_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/checkout"
	"purser/actors/decision"
	"purser/actors/partner"
	"purser/actors/user"
	"purser/actors/workspace"
	"purser/persistence/ident"
)

// TestTheBankExpectsADeposit: a reaction announces each deposit to the bank.
func TestTheBankExpectsADeposit(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	id := w.deposit(w.newWorkspace(77), 1_000)
	require.Eventually(t, func() bool {
		w.bank.mu.Lock()
		defer w.bank.mu.Unlock()
		return w.bank.expected[id] > 0
	}, eventuallyWithin, pollEvery)
}

// TestAUsersListFollowsTheWorkspace: the list of a user names the workspaces that the user belongs
// to and the role in each, after every change of membership.
func TestAUsersListFollowsTheWorkspace(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	owner, member := w.newUser("owner@shop.example"), w.newUser("member@shop.example")
	ws := w.newWorkspaceOwnedBy(77, owner)
	lists := func(id string, want ...user.Membership) {
		t.Helper()
		require.Eventually(t, func() bool {
			return slices.Equal(want, w.mustAsk("user", id, id, decision.Read{}).(user.View).Workspaces)
		}, eventuallyWithin, pollEvery, "%v", want)
	}
	as := func(role string) user.Membership {
		return user.Membership{ID: ws, Name: "Acme", Role: role, Foreign: true}
	}
	lists(owner, user.Membership{ID: ws, Name: "Acme", Role: workspace.Owner})
	by := workspace.Principal{UserID: owner}
	w.mustAsk("workspace", ws, ws, workspace.Invite{ID: "inv_1", Email: "member@shop.example", EmailHash: "email",
		TokenHash: "token", UserID: member, Role: workspace.Member, By: by})
	w.mustAsk("workspace", ws, ws, workspace.AcceptInvitation{Invitee: workspace.Invitee{TokenHash: "token",
		UserID:    member,
		EmailHash: "email"}})
	lists(member, as(workspace.Member))
	w.mustAsk("workspace", ws, ws, workspace.ChangeRole{UserID: member, Role: workspace.Admin, By: by})
	lists(member, as(workspace.Admin))
	w.mustAsk("workspace", ws, ws, workspace.RemoveMember{UserID: member, By: by})
	lists(member)
}

func (w *testStack) newUser(email string) string {
	w.t.Helper()
	id := w.newID(ident.User, 7)
	w.mustAsk("user", id, id, user.Register{ID: id, Email: email, PasswordHash: "hash"})
	return id
}

// recordingChain is a chain with a new block at each call of Head. It records the addresses whose
// transfers were read since the call before.
type recordingChain struct {
	mu           sync.Mutex
	number       uint64
	asking, last []string
}

func (*recordingChain) Name() string   { return "polygon" }
func (*recordingChain) Threshold() int { return 1 }
func (*recordingChain) Span() int      { return 100 }

func (c *recordingChain) Head(ctx context.Context) (partner.Head, error) {
	c.mu.Lock()
	c.number++
	number := c.number
	c.last, c.asking = c.asking, nil
	c.mu.Unlock()
	return c.Block(ctx, number)
}

func (*recordingChain) Block(_ context.Context, number uint64) (partner.Head, error) {
	return partner.Head{Number: number, Hash: strconv.FormatUint(number, 10), At: time.Unix(int64(number), 0)}, nil
}

func (c *recordingChain) Transfers(_ context.Context, _, _ uint64, addresses []string) ([]partner.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = addresses
	return nil, nil
}

// awaitAddresses waits until exactly these addresses are read.
func (c *recordingChain) awaitAddresses(t *testing.T, addresses ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.number > 0 && slices.Equal(addresses, c.last)
	}, eventuallyWithin, pollEvery)
}

// TestAddressesAreWatchedWhileTheyCanBePaid: the receiving address of a checkout is watched from
// the choice of how to pay until no payment can arrive any more.
func TestAddressesAreWatchedWhileTheyCanBePaid(t *testing.T) {
	chain := new(recordingChain)
	w := newTestStack(t, vfs.NewMem(), stackOptions{chains: []partner.Chain{chain}})
	defer w.stop()
	chain.awaitAddresses(t) // the watcher has read the watched links and learns of later ones
	ws := w.newWorkspace(77)
	v, err := w.newCheckout(ws)
	require.NoError(t, err)
	w.mustAsk("checkout", v.ID, ws, checkout.Select{Asset: "USDC", Chain: chain.Name()})
	chain.awaitAddresses(t, v.ReceivingAddresses[0].Address)
	w.clock.turn(checkout.DefaultExpires + checkout.Grace)
	chain.awaitAddresses(t)
}
