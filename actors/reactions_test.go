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

// The bank is told what to expect.
func TestTheBankIsToldOfADeposit(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	id := w.deposit(w.newWorkspace(77), 1_000)
	require.Eventually(t, func() bool {
		w.bank.mu.Lock()
		defer w.bank.mu.Unlock()
		return w.bank.expected[id] > 0
	}, comesWithin, lookEvery)
}

// A user's own list has the workspaces that the user belongs to, and as what, whoever has changed it.
func TestAUsersListFollowsTheWorkspace(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	owner, member := w.newUser("owner@shop.example"), w.newUser("member@shop.example")
	ws := w.newWorkspaceOf(77, owner)
	lists := func(id string, want ...user.Membership) {
		t.Helper()
		require.Eventually(t, func() bool {
			return slices.Equal(want, w.must("user", id, id, decision.Read{}).(user.View).Workspaces)
		}, comesWithin, lookEvery, "%v", want)
	}
	as := func(role string) user.Membership {
		return user.Membership{ID: ws, Name: "Acme", Role: role, Foreign: true}
	}
	lists(owner, user.Membership{ID: ws, Name: "Acme", Role: workspace.Owner})
	by := workspace.Principal{UserID: owner}
	invite := workspace.Invite{ID: "inv_1", Email: "member@shop.example", EmailHash: "email", TokenHash: "token",
		UserID: member, Role: workspace.Member, By: by}
	w.must("workspace", ws, ws, invite)
	w.must("workspace", ws, ws, workspace.AcceptInvitation{Invitee: workspace.Invitee{TokenHash: "token",
		UserID:    member,
		EmailHash: "email"}})
	lists(member, as(workspace.Member))
	invite.Role = workspace.Admin
	w.must("workspace", ws, ws, invite)
	lists(member, as(workspace.Admin))
	w.must("workspace", ws, ws, workspace.RemoveMember{UserID: member, By: by})
	lists(member)
}

func (w *world) newUser(email string) string {
	w.t.Helper()
	id := w.newID(ident.User, 7)
	w.must("user", id, id, user.Register{ID: id, Email: email, PasswordHash: "hash"})
	return id
}

// askedChain has a new block whenever it is asked for one, and notes for which addresses transfers were read since the last time.
type askedChain struct {
	mu           sync.Mutex
	number       uint64
	asking, last []string
}

func (*askedChain) Name() string   { return "polygon" }
func (*askedChain) Threshold() int { return 1 }
func (*askedChain) Span() int      { return 100 }

func (c *askedChain) Head(ctx context.Context) (partner.Head, error) {
	c.mu.Lock()
	c.number++
	number := c.number
	c.last, c.asking = c.asking, nil
	c.mu.Unlock()
	return c.Block(ctx, number)
}

func (*askedChain) Block(_ context.Context, number uint64) (partner.Head, error) {
	return partner.Head{Number: number, Hash: strconv.FormatUint(number, 10), At: time.Unix(int64(number), 0)}, nil
}

func (c *askedChain) Transfers(_ context.Context, _, _ uint64, addresses []string) ([]partner.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = addresses
	return nil, nil
}

// awaits waits until transfers to these addresses alone are read.
func (c *askedChain) awaits(t *testing.T, addresses ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.number > 0 && slices.Equal(addresses, c.last)
	}, comesWithin, lookEvery)
}

// A link's address is looked at from when its customer has chosen how to pay until nothing can come any more.
func TestAddressesAreWatchedWhileTheyCanBePaid(t *testing.T) {
	chain := new(askedChain)
	w := newWorld(t, vfs.NewMem(), worldOptions{chains: []partner.Chain{chain}})
	defer w.stop()
	chain.awaits(t) // the links that are watched have been read: a further one is heard of
	ws := w.newWorkspace(77)
	v, err := w.newCheckout(ws)
	require.NoError(t, err)
	w.must("checkout", v.ID, ws, checkout.Select{Asset: "USDC", Chain: chain.Name()})
	chain.awaits(t, v.ReceivingAddresses[0].Address)
	w.clock.turn(checkout.DefaultExpires + checkout.Grace)
	chain.awaits(t)
}
