package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

	"purser/persistence/money"
)

// What the tour changes into USDC, what of it back, and what it withdraws, in cents. The sandbox's ramp keeps half a percent; of
// what ends in 88 half of that.
const (
	boughtCents    = 40_00
	boughtFee      = 20
	soldCents      = 10_88
	soldFee        = 3
	withdrawnCents = 10_00
	withdrawnFee   = 5

	rampedUSDCents  = -boughtCents + soldCents - soldFee
	rampedCoinCents = boughtCents - boughtFee - soldCents - withdrawnCents
	walletChain     = "base"
)

// evmTransaction is what a transaction is called on the chain that is withdrawn to.
var evmTransaction = regexp.MustCompile(`^0x[0-9a-f]{64}$`)

// visitRamp links the account, proves a wallet with its key, and gives an order of each direction.
func visitRamp(ctx context.Context, t *tour) error {
	if _, err := t.create(ctx, t.api, "/api/ramp/account", fields{}); err != nil {
		return err
	}
	status := func(a answer) string { return a.text("account", "status") }
	if err := t.awaitValue(ctx, t.api, "/api/ramp/account", "linked", status); err != nil {
		return err
	}
	wallet, err := proveWallet(ctx, t)
	if err != nil {
		return err
	}
	orders := []rampDemo{
		{direction: "onramp", cents: boughtCents, most: 20, fee: boughtFee},
		{direction: "offramp", cents: soldCents, most: 5, fee: soldFee},
		{direction: "withdraw", cents: withdrawnCents, most: 5, fee: withdrawnFee, wallet: wallet},
	}
	for i := range orders {
		if err := orders[i].give(ctx, t); err != nil {
			return err
		}
	}
	for i := range orders {
		if err := orders[i].arrives(ctx, t); err != nil {
			return err
		}
	}
	a, err := t.api.send(ctx, request{method: "GET", path: "/api/treasury"})
	if err != nil {
		return err
	}
	t.expect("dollars after the ramp", dollars(a)["availableCents"], endAvailableCents+rampedUSDCents)
	t.expect("USDC after the ramp", a.at("snapshot", "stablecoinUsdCents"), linkCents+rampedCoinCents)
	return nil
}

// proveWallet makes a key, registers its address, and answers the challenge as a person in the dashboard would. It returns the
// wallet's id once the partner has approved it.
func proveWallet(ctx context.Context, t *tour) (string, error) {
	key, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		return "", err
	}
	public := key.PubKey().SerializeUncompressed()
	address := "0x" + hex.EncodeToString(keccak(public[1:])[12:])
	added, err := t.create(ctx, t.api, "/api/ramp/wallets", fields{"chain": walletChain, "address": address, "label": "Demo"})
	if err != nil {
		return "", err
	}
	id := added.text("wallet", "id")
	t.expect("the new wallet", added.text("wallet", "status"), "unproven")
	const wallets = "/api/dashboard/ramp/wallets"
	shown, err := t.call(ctx, t.session, request{method: "GET", path: wallets}, 200)
	if err != nil {
		return "", err
	}
	row := rowOf(shown, id)
	signed := personalSign(key, fmt.Sprint(row["challenge"]))
	if _, err := t.post(ctx, t.session, wallets+"/"+id+"/proof", fields{"signature": signed}, 200); err != nil {
		return "", err
	}
	return id, t.awaitValue(ctx, t.session, wallets, "approved", func(a answer) string {
		return fmt.Sprint(rowOf(a, id)["status"])
	})
}

// rowOf is the row of a list that has an id.
func rowOf(a answer, id string) map[string]any {
	for _, row := range a.rows("data") {
		if row["id"] == id {
			return row
		}
	}
	return nil
}

// personalSign signs a text as wallets do by EIP-191 (version 0x45): 65 bytes r, s, v in hex.
func personalSign(key *secp256k1.PrivateKey, text string) string {
	compact := ecdsa.SignCompact(key, keccak([]byte("\x19Ethereum Signed Message:\n"+strconv.Itoa(len(text))+text)), false)
	return "0x" + hex.EncodeToString(append(compact[1:], compact[0]))
}

func keccak(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}

// rampDemo is an order of the tour: what is given, the most that it may cost and what it does.
type rampDemo struct {
	direction, wallet, id string
	cents, most, fee      int64
}

// give asks for a quote and uses it.
func (r *rampDemo) give(ctx context.Context, t *tour) error {
	ask := fields{"direction": r.direction, "amount": money.FormatDollars(r.cents)}
	route, name := "/api/ramp/orders", "order"
	if r.wallet != "" {
		ask["walletId"], route, name = r.wallet, "/api/ramp/withdrawals", "withdrawal"
	}
	quote, err := t.post(ctx, t.api, "/api/ramp/quotes", ask, 200)
	if err != nil {
		return err
	}
	t.expect("maxFee", quote.text("quote", "maxFee"), money.FormatDollars(r.most))
	t.expect("receive", quote.text("quote", "receive"), money.FormatDollars(r.cents-r.most))
	order, err := t.post(ctx, t.api, route, fields{"quoteId": quote.text("quote", "id")}, 200)
	r.id = order.text(name, "id")
	t.expect("status of the "+name, order.text(name, "status"), "created")
	return err
}

// arrives follows the order until the ramp has reported it.
func (r *rampDemo) arrives(ctx context.Context, t *tour) error {
	path := "/api/ramp/orders/" + r.id
	status := func(a answer) string { return a.text("order", "status") }
	if err := t.awaitValue(ctx, t.api, path, "completed", status); err != nil {
		return err
	}
	a, err := t.api.send(ctx, request{method: "GET", path: path})
	if err != nil {
		return err
	}
	t.expect("fee", a.text("order", "fee"), money.FormatDollars(r.fee))
	if r.wallet != "" {
		t.expect("txHash is a transaction's", evmTransaction.MatchString(a.text("order", "txHash")), true)
	}
	return nil
}
