// Package evmtest has the program as it is shipped watch a real EVM, go-ethereum's, over JSON-RPC and HTTP: customers pay USDC,
// the chain reorganises, the node comes back with less than it had. It is a module of its own, because go-ethereum is no part of
// the product.
package evmtest

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// What is paid, and how deep it has to lie on ethereum.
const (
	askedCents = 25_00
	units      = 25_000_000 // of USDC
	threshold  = 12
	crowd      = 1000 // links at once
)

func start(t *testing.T) (*node, *program) {
	t.Helper()
	n := startNode(t)
	return n, startProgram(t, n, "ethereum")
}

// confirming waits until a link has one payment, there and not final.
func (p *program) confirming(s *session) *session {
	p.t.Helper()
	return p.becomes(s, "confirming", func(now *session) bool {
		return now.Status == "confirming" && len(now.Payments) == 1 && now.Payments[0].Status == "confirming"
	})
}

// A payment is seen in its block, stays unconfirmed one block before the threshold, and completes the link at it.
func TestPayConfirmComplete(t *testing.T) {
	n, p := start(t)
	s, _ := p.link("USDC", "ethereum")
	tx := n.send(usdc, nil, transfer(s.address(), units))
	n.mine(1)
	seen := p.confirming(s)
	require.Equal(t, tx.Hash().Hex(), seen.Payments[0].TxHash)
	require.Zero(t, seen.Confirmations.Seen)
	n.mine(threshold - 2)
	p.becomes(s, "two of three", func(now *session) bool { return now.Confirmations.Seen == 2 })
	n.looked(3)
	require.Equal(t, "confirming", p.read(s).Status)
	balance, _ := p.stablecoin(s)
	require.Zero(t, balance)
	n.mine(1)
	p.completes(s, tx.Hash())
	require.Equal(t, int64(0), p.read(s).DueUsdCents)
	require.Equal(t, n.payer(), common.HexToAddress(*p.read(s).PayerAddress))
}

// A reorganisation takes the payment out of its block and into another: the depth counts anew from there.
func TestReorganisedBeforeTheThreshold(t *testing.T) {
	n, p := start(t)
	s, _ := p.link("USDC", "ethereum")
	tx := n.send(usdc, nil, transfer(s.address(), units))
	n.mine(9)
	p.becomes(s, "two of three", func(now *session) bool { return now.Confirmations.Seen == 2 })
	before := n.block(tx)
	n.fork(9)
	n.mine(2)
	require.NotEqual(t, before, n.block(tx))
	p.becomes(s, "none of three", func(now *session) bool { return now.Confirmations.Seen == 0 })
	p.confirming(s)
	n.mine(threshold - 3) // eleven deep in its second block, the eighteenth since it was sent
	n.looked(3)
	require.Equal(t, "confirming", p.read(s).Status)
	n.mine(1)
	p.completes(s, tx.Hash())
}

// What was final is reorganised: first the payment only moves, then it is gone for good. Neither takes the credit back or makes
// another; that it is gone is shown, for people to act on.
func TestReorganisedAfterTheThreshold(t *testing.T) {
	n, p := start(t)
	s, _ := p.link("USDC", "ethereum")
	tx := n.send(usdc, nil, transfer(s.address(), units))
	n.mine(threshold)
	p.completes(s, tx.Hash())
	before := n.block(tx)
	n.fork(threshold)
	n.mine(threshold + 1)
	require.NotEqual(t, before, n.block(tx))
	n.looked(3)
	p.becomes(s, "paid in full", func(now *session) bool { return now.ReceivedUsdCents == askedCents && now.DueUsdCents == 0 })
	p.creditedOnce(s, tx.Hash())
	n.fork(threshold + 1)
	n.replace(tx)
	n.mine(threshold + 2)
	gone := p.becomes(s, "the payment is gone", func(now *session) bool { return now.DueUsdCents == askedCents })
	require.Equal(t, "completed", gone.Status)
	require.Zero(t, gone.ReceivedUsdCents)
	require.Equal(t, "withdrawn", gone.Payments[0].Status)
	n.looked(3)
	p.creditedOnce(s, tx.Hash())
}

// A payment that a reorganisation drops, because its payer spent the nonce on something else, completes nothing. The next one
// does.
func TestDroppedPayment(t *testing.T) {
	n, p := start(t)
	s, _ := p.link("USDC", "ethereum")
	tx := n.send(usdc, nil, transfer(s.address(), units))
	n.mine(6)
	p.confirming(s)
	n.fork(6)
	n.replace(tx)
	n.mine(threshold + 6)
	gone := p.becomes(s, "withdrawn", func(now *session) bool { return now.Payments[0].Status == "withdrawn" })
	require.Equal(t, []int64{0, askedCents}, []int64{gone.ReceivedUsdCents, gone.DueUsdCents})
	n.looked(3)
	require.Empty(t, p.events(s.ID))
	balance, _ := p.stablecoin(s)
	require.Zero(t, balance)
	again := n.send(usdc, nil, transfer(s.address(), units))
	n.mine(threshold)
	p.completes(s, again.Hash())
}

// Two transfers of one transaction are two payments: neither alone would do.
func TestTwoTransfersInOneTransaction(t *testing.T) {
	n, p := start(t)
	s, _ := p.link("USDC", "ethereum")
	tx := n.send(twice, nil, call("pay(address,address,uint256,uint256)", usdc.Bytes(), s.address().Bytes(),
		big.NewInt(15_000_000).Bytes(), big.NewInt(10_000_000).Bytes()))
	n.mine(threshold)
	p.completes(s, tx.Hash())
	now := p.read(s)
	require.Len(t, now.Payments, 2)
	require.NotEqual(t, now.Payments[0].Index, now.Payments[1].Index)
	require.Equal(t, []string{"15000000", "10000000"}, []string{now.Payments[0].Units, now.Payments[1].Units})
	require.Equal(t, int64(askedCents), now.ReceivedUsdCents)
}

// Somebody else's transfer comes into the block before them, so that the node's indexes of both are others: nothing is lost or
// counted twice.
func TestTwoTransfersMovedWithinTheirBlock(t *testing.T) {
	n, p := start(t)
	s, _ := p.link("USDC", "ethereum")
	tx := n.send(twice, nil, call("pay(address,address,uint256,uint256)", usdc.Bytes(), s.address().Bytes(),
		big.NewInt(units/2).Bytes(), big.NewInt(units/2).Bytes()))
	n.mine(3)
	p.becomes(s, "both", func(now *session) bool { return len(now.Payments) == 2 && now.ReceivedUsdCents == askedCents })
	n.fork(3)
	n.overtake(transfer(n.payer(), 1))
	n.mine(5)
	require.EqualValues(t, 1, n.receipt(tx).Logs[0].Index)
	n.looked(3)
	require.EqualValues(t, askedCents, p.read(s).ReceivedUsdCents)
	n.mine(threshold)
	p.completes(s, tx.Hash())
	require.EqualValues(t, askedCents, p.read(s).ReceivedUsdCents)
}

// A token that only calls itself USDC counts for nothing: one that is known for a bridged look-alike is shown as the wrong token,
// one that nobody knows is not looked at. Both lie deeper than the part of the link that is then paid in the real thing.
func TestBridgedLookAlike(t *testing.T) {
	n := startNode(t)
	p := startProgram(t, n, "ethereum", "polygon")
	s, _ := p.link("USDC", "polygon", "ethereum")
	n.send(stranger, nil, transfer(s.address(), units))
	n.send(bridged, nil, transfer(s.address(), units))
	n.mine(1)
	wrong := p.becomes(s, "the wrong token", func(now *session) bool { return len(now.Payments) == 1 })
	require.Equal(t, "USDC.e", wrong.Payments[0].Asset)
	require.Equal(t, "wrong_token", *wrong.Payments[0].Reason)
	require.Equal(t, "awaiting_payment", wrong.Status)
	n.send(native, nil, transfer(s.address(), units/5))
	n.mine(50)
	short := p.becomes(s, "underpaid", func(now *session) bool { return now.Status == "underpaid" })
	require.Len(t, short.Payments, 2)
	require.Equal(t, []int64{askedCents / 5, askedCents * 4 / 5}, []int64{short.ReceivedUsdCents, short.DueUsdCents})
	tx := n.send(usdc, nil, transfer(s.address(), units*4/5))
	n.mine(threshold)
	p.completes(s, tx.Hash())
}

// The node is restored from a copy that is older than the payment, and then follows another chain. While it is behind nothing is
// concluded from it; what the new chain does not have is withdrawn, what it has is found, once. So it is when the copy is older
// than all that the watcher has left behind for good, which is what lies more than 32 blocks deep.
func TestNodeRestartedFromAnOlderHead(t *testing.T) {
	for name, blocks := range map[string]int{"a little older": 2, "older than what is read anew": 40} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t)
			copied := n.copy()
			n.mine(blocks)
			p := startProgram(t, n, "ethereum")
			s, _ := p.link("USDC", "ethereum")
			tx := n.send(usdc, nil, transfer(s.address(), units))
			n.mine(6)
			p.confirming(s)
			n.restore(copied)
			n.looked(3)
			p.confirming(s)
			n.mine(blocks + 10)
			p.becomes(s, "withdrawn", func(now *session) bool { return now.Payments[0].Status == "withdrawn" })
			require.Empty(t, p.events(s.ID))
			again := n.send(usdc, nil, transfer(s.address(), units))
			require.Equal(t, tx.Hash(), again.Hash(), "the customer's wallet sends the same transaction")
			n.mine(threshold)
			p.completes(s, tx.Hash())
			require.Len(t, p.read(s).Payments, 1)
		})
	}
}

// Ether leaves no log: it is found in the transactions of the blocks.
func TestEther(t *testing.T) {
	n, p := start(t)
	s, wei := p.link("ETH", "ethereum")
	due, ok := new(big.Int).SetString(wei, 10)
	require.True(t, ok)
	tx := n.send(s.address(), due, nil)
	n.mine(threshold)
	p.completes(s, tx.Hash())
	require.Len(t, p.read(s).Payments, 1)
}

// However many links are open, a block costs one query for logs, and no block costs none.
func TestAThousandLinksOneQuery(t *testing.T) {
	n, p := start(t)
	var last *session
	for range crowd {
		last, _ = p.link("USDC", "ethereum")
	}
	n.mine(1)
	await(t, "every link is looked for", func() bool { return n.lookedFor() == crowd })
	n.looked(3)
	for range 3 {
		before := n.asked("eth_getLogs")
		n.mine(1)
		n.looked(3)
		require.Equal(t, before+1, n.asked("eth_getLogs"))
		n.looked(2)
		require.Equal(t, before+1, n.asked("eth_getLogs"))
	}
	tx := n.send(usdc, nil, transfer(last.address(), units))
	n.mine(threshold)
	p.completes(last, tx.Hash())
}
