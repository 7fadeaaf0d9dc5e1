// Package evmtest tests the shipped program against a real EVM, go-ethereum's, over JSON-RPC and
// HTTP: customers pay USDC, the chain reorganises, and the node is restored from an older copy. It
// is a module of its own, because go-ethereum is no dependency of the product.
package evmtest

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// Amounts of the payments, and the threshold of ethereum.
const (
	askedCents   = 25_00
	units        = 25_000_000 // in smallest units of USDC
	threshold    = 12
	openSessions = 1000 // open at the same time
)

func startNodeAndProgram(t *testing.T) (*node, *program) {
	t.Helper()
	n := startNode(t)
	return n, startProgram(t, n, "ethereum")
}

// awaitConfirming waits until a session has one payment that is not final.
func (p *program) awaitConfirming(s *checkoutSession) *checkoutSession {
	p.t.Helper()
	return p.awaitSession(s, "confirming", func(now *checkoutSession) bool {
		return now.Status == "confirming" && len(now.Payments) == 1 && now.Payments[0].Status == "confirming"
	})
}

// A payment is shown in its block, stays unconfirmed one block before the threshold, and completes
// the session at it.
func TestAPaymentConfirmsAndCompletesItsSession(t *testing.T) {
	n, p := startNodeAndProgram(t)
	s, _ := p.createSession("USDC", "ethereum")
	tx := n.send(usdc, nil, encodeTransfer(s.address(), units))
	n.mine(1)
	seen := p.awaitConfirming(s)
	require.Equal(t, tx.Hash().Hex(), seen.Payments[0].TxHash)
	require.Zero(t, seen.Confirmations.Seen)
	n.mine(threshold - 2)
	p.awaitSession(s, "two of three", func(now *checkoutSession) bool { return now.Confirmations.Seen == 2 })
	n.awaitHeadPolls(3)
	require.Equal(t, "confirming", p.readSession(s).Status)
	balance, _ := p.stablecoinBalance(s)
	require.Zero(t, balance)
	n.mine(1)
	p.requireCompleted(s, tx.Hash())
	require.Equal(t, int64(0), p.readSession(s).DueUsdCents)
	require.Equal(t, n.payer(), common.HexToAddress(*p.readSession(s).PayerAddress))
}

// A reorganisation moves the payment to another block; its confirmations are counted again from
// there.
func TestAReorganisationBeforeTheThresholdRestartsTheCount(t *testing.T) {
	n, p := startNodeAndProgram(t)
	s, _ := p.createSession("USDC", "ethereum")
	tx := n.send(usdc, nil, encodeTransfer(s.address(), units))
	n.mine(9)
	p.awaitSession(s, "two of three", func(now *checkoutSession) bool { return now.Confirmations.Seen == 2 })
	before := n.blockOf(tx)
	n.fork(9)
	n.mine(2)
	require.NotEqual(t, before, n.blockOf(tx))
	p.awaitSession(s, "none of three", func(now *checkoutSession) bool { return now.Confirmations.Seen == 0 })
	p.awaitConfirming(s)
	n.mine(threshold - 3) // eleven blocks deep in its second block, seventeen after the first
	n.awaitHeadPolls(3)
	require.Equal(t, "confirming", p.readSession(s).Status)
	n.mine(1)
	p.requireCompleted(s, tx.Hash())
}

// A reorganisation beyond the threshold first moves the payment and then drops it. Neither undoes
// the credit nor makes another. The session shows that the payment is gone.
func TestAReorganisationAfterTheThresholdKeepsTheCredit(t *testing.T) {
	n, p := startNodeAndProgram(t)
	s, _ := p.createSession("USDC", "ethereum")
	tx := n.send(usdc, nil, encodeTransfer(s.address(), units))
	n.mine(threshold)
	p.requireCompleted(s, tx.Hash())
	before := n.blockOf(tx)
	n.fork(threshold)
	n.mine(threshold + 1)
	require.NotEqual(t, before, n.blockOf(tx))
	n.awaitHeadPolls(3)
	p.awaitSession(s, "paid in full", func(now *checkoutSession) bool {
		return now.ReceivedUsdCents == askedCents &&
			now.DueUsdCents == 0
	})
	p.requireCreditedOnce(s, tx.Hash())
	n.fork(threshold + 1)
	n.replaceTransaction(tx)
	n.mine(threshold + 2)
	gone := p.awaitSession(s, "the payment is gone",
		func(now *checkoutSession) bool { return now.DueUsdCents == askedCents })
	require.Equal(t, "completed", gone.Status)
	require.Zero(t, gone.ReceivedUsdCents)
	require.Equal(t, "withdrawn", gone.Payments[0].Status)
	n.awaitHeadPolls(3)
	p.requireCreditedOnce(s, tx.Hash())
}

// A payment that a reorganisation drops, because its payer reused the nonce, completes nothing. The
// next payment does.
func TestADroppedPaymentIsWithdrawn(t *testing.T) {
	n, p := startNodeAndProgram(t)
	s, _ := p.createSession("USDC", "ethereum")
	tx := n.send(usdc, nil, encodeTransfer(s.address(), units))
	n.mine(6)
	p.awaitConfirming(s)
	n.fork(6)
	n.replaceTransaction(tx)
	n.mine(threshold + 6)
	gone := p.awaitSession(s, "withdrawn",
		func(now *checkoutSession) bool { return now.Payments[0].Status == "withdrawn" })
	require.Equal(t, []int64{0, askedCents}, []int64{gone.ReceivedUsdCents, gone.DueUsdCents})
	n.awaitHeadPolls(3)
	require.Empty(t, p.webhookBodies(s.ID))
	balance, _ := p.stablecoinBalance(s)
	require.Zero(t, balance)
	again := n.send(usdc, nil, encodeTransfer(s.address(), units))
	n.mine(threshold)
	p.requireCompleted(s, again.Hash())
}

// Two transfers of one transaction are two payments; only both together complete the session.
func TestTwoTransfersOfOneTransactionAreTwoPayments(t *testing.T) {
	n, p := startNodeAndProgram(t)
	s, _ := p.createSession("USDC", "ethereum")
	tx := n.send(doublePayer, nil, encodeCall("pay(address,address,uint256,uint256)", usdc.Bytes(), s.address().Bytes(),
		big.NewInt(15_000_000).Bytes(), big.NewInt(10_000_000).Bytes()))
	n.mine(threshold)
	p.requireCompleted(s, tx.Hash())
	now := p.readSession(s)
	require.Len(t, now.Payments, 2)
	require.NotEqual(t, now.Payments[0].Index, now.Payments[1].Index)
	require.Equal(t, []string{"15000000", "10000000"}, []string{now.Payments[0].Units, now.Payments[1].Units})
	require.Equal(t, int64(askedCents), now.ReceivedUsdCents)
}

// A competing transfer moves into the block before them, which changes the log indexes of both. No
// payment is lost or counted twice.
func TestTransfersThatMoveWithinTheirBlockCountOnce(t *testing.T) {
	n, p := startNodeAndProgram(t)
	s, _ := p.createSession("USDC", "ethereum")
	tx := n.send(doublePayer, nil, encodeCall("pay(address,address,uint256,uint256)", usdc.Bytes(), s.address().Bytes(),
		big.NewInt(units/2).Bytes(), big.NewInt(units/2).Bytes()))
	n.mine(3)
	p.awaitSession(s, "both", func(now *checkoutSession) bool {
		return len(now.Payments) == 2 &&
			now.ReceivedUsdCents == askedCents
	})
	n.fork(3)
	n.sendCompeting(encodeTransfer(n.payer(), 1))
	n.mine(5)
	require.EqualValues(t, 1, n.receipt(tx).Logs[0].Index)
	n.awaitHeadPolls(3)
	require.EqualValues(t, askedCents, p.readSession(s).ReceivedUsdCents)
	n.mine(threshold)
	p.requireCompleted(s, tx.Hash())
	require.EqualValues(t, askedCents, p.readSession(s).ReceivedUsdCents)
}

// A false USDC counts for nothing: a known bridged look-alike is shown as the wrong token, an
// unknown token is ignored. Both are deeper than the later part that is paid in real USDC.
func TestABridgedLookAlikeIsTheWrongToken(t *testing.T) {
	n := startNode(t)
	p := startProgram(t, n, "ethereum", "polygon")
	s, _ := p.createSession("USDC", "polygon", "ethereum")
	n.send(unknownToken, nil, encodeTransfer(s.address(), units))
	n.send(bridged, nil, encodeTransfer(s.address(), units))
	n.mine(1)
	wrong := p.awaitSession(s, "the wrong token", func(now *checkoutSession) bool { return len(now.Payments) == 1 })
	require.Equal(t, "USDC.e", wrong.Payments[0].Asset)
	require.Equal(t, "wrong_token", *wrong.Payments[0].Reason)
	require.Equal(t, "awaiting_payment", wrong.Status)
	n.send(native, nil, encodeTransfer(s.address(), units/5))
	n.mine(50)
	short := p.awaitSession(s, "underpaid", func(now *checkoutSession) bool { return now.Status == "underpaid" })
	require.Len(t, short.Payments, 2)
	require.Equal(t, []int64{askedCents / 5, askedCents * 4 / 5}, []int64{short.ReceivedUsdCents, short.DueUsdCents})
	tx := n.send(usdc, nil, encodeTransfer(s.address(), units*4/5))
	n.mine(threshold)
	p.requireCompleted(s, tx.Hash())
}

// The node is restored from a copy older than the payment, and then follows another chain. While it
// is behind, the program concludes nothing. A payment missing on the new chain is withdrawn, and
// one found there counts once. The same holds for a copy older than the 32 blocks that the watcher
// reads again.
func TestANodeRestoredFromAnOlderHeadIsFollowed(t *testing.T) {
	for name, blocks := range map[string]int{"a little older": 2, "older than what is read anew": 40} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t)
			copied := n.copyDirectory()
			n.mine(blocks)
			p := startProgram(t, n, "ethereum")
			s, _ := p.createSession("USDC", "ethereum")
			tx := n.send(usdc, nil, encodeTransfer(s.address(), units))
			n.mine(6)
			p.awaitConfirming(s)
			n.restore(copied)
			n.awaitHeadPolls(3)
			p.awaitConfirming(s)
			n.mine(blocks + 10)
			p.awaitSession(s, "withdrawn",
				func(now *checkoutSession) bool { return now.Payments[0].Status == "withdrawn" })
			require.Empty(t, p.webhookBodies(s.ID))
			again := n.send(usdc, nil, encodeTransfer(s.address(), units))
			require.Equal(t, tx.Hash(), again.Hash(), "the customer's wallet sends the same transaction")
			n.mine(threshold)
			p.requireCompleted(s, tx.Hash())
			require.Len(t, p.readSession(s).Payments, 1)
		})
	}
}

// Ether has no log: it is found in the transactions of the blocks.
func TestEtherIsFoundInTransactions(t *testing.T) {
	n, p := startNodeAndProgram(t)
	s, wei := p.createSession("ETH", "ethereum")
	due, ok := new(big.Int).SetString(wei, 10)
	require.True(t, ok)
	tx := n.send(s.address(), due, nil)
	n.mine(threshold)
	p.requireCompleted(s, tx.Hash())
	require.Len(t, p.readSession(s).Payments, 1)
}

// For any number of open sessions, a block costs one query for logs, and no block costs none.
func TestAThousandSessionsCostOneLogQueryPerBlock(t *testing.T) {
	n, p := startNodeAndProgram(t)
	var last *checkoutSession
	for range openSessions {
		last, _ = p.createSession("USDC", "ethereum")
	}
	n.mine(1)
	await(t, "every link is looked for", func() bool { return n.watchedAddresses() == openSessions })
	n.awaitHeadPolls(3)
	for range 3 {
		before := n.callCount("eth_getLogs")
		n.mine(1)
		n.awaitHeadPolls(3)
		require.Equal(t, before+1, n.callCount("eth_getLogs"))
		n.awaitHeadPolls(2)
		require.Equal(t, before+1, n.callCount("eth_getLogs"))
	}
	tx := n.send(usdc, nil, encodeTransfer(last.address(), units))
	n.mine(threshold)
	p.requireCompleted(last, tx.Hash())
}
