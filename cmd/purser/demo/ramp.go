package demo

import (
	"context"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

	"purser/cmd/purser/apiclient"
	"purser/persistence/money"
)

// The orders of the tour and their fees, in cents. The sandbox ramp charges half a percent, and
// half of that for an amount that ends in 88, rounded down to the cent.
const (
	boughtCents    = 40_00
	boughtFee      = 20
	soldCents      = 10_88
	soldFee        = 2
	withdrawnCents = 10_00
	withdrawnFee   = 5

	rampedUSDCents  = -boughtCents + soldCents - soldFee
	rampedCoinCents = boughtCents - boughtFee - soldCents - withdrawnCents
	walletChain     = "base"
)

// evmTransaction matches a transaction hash of walletChain.
var evmTransaction = regexp.MustCompile(`^0x[0-9a-f]{64}$`)

// visitRamp links the account, proves a wallet with its key, and places an order of each direction.
// It fails when a request has no answer or a needed one is refused.
func visitRamp(ctx context.Context, t *Tour) error {
	if _, err := t.mustPost(ctx, t.API, "/api/ramp/account", jsonObject{}); err != nil {
		return err
	}
	status := func(a apiclient.Answer) string { return a.Text("account", "status") }
	if err := t.AwaitValue(ctx, t.API, "/api/ramp/account", "linked", status); err != nil {
		return err
	}
	wallet, err := ProveWallet(ctx, t)
	if err != nil {
		return err
	}
	orders := []RampOrder{
		{Direction: "onramp", Cents: boughtCents, MaxFee: 20, Fee: boughtFee},
		{Direction: "offramp", Cents: soldCents, MaxFee: 5, Fee: soldFee},
		{Direction: "withdraw", Cents: withdrawnCents, MaxFee: 5, Fee: withdrawnFee, wallet: wallet},
	}
	for i := range orders {
		if err := orders[i].Place(ctx, t); err != nil {
			return err
		}
	}
	for i := range orders {
		if err := orders[i].AwaitCompletion(ctx, t); err != nil {
			return err
		}
	}
	a, err := t.API.Send(ctx, apiclient.Request{Method: "GET", Path: "/api/treasury"})
	if err != nil {
		return err
	}
	t.expect("dollars after the ramp", apiclient.DollarBalance(a)["availableCents"], endAvailableCents+rampedUSDCents)
	t.expect("USDC after the ramp", a.At("snapshot", "stablecoinUsdCents"), linkCents+rampedCoinCents)
	return nil
}

// ProveWallet generates a key, registers its address and signs the challenge of the dashboard. It
// returns the wallet's id once the partner has approved it. It fails when a request has no answer
// or a needed one is refused.
func ProveWallet(ctx context.Context, t *Tour) (string, error) {
	key, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		return "", err
	}
	public := key.PubKey().SerializeUncompressed()
	address := "0x" + hex.EncodeToString(keccak(public[1:])[12:])
	added, err := t.mustPost(ctx, t.API, "/api/ramp/wallets", jsonObject{"chain": walletChain, "address": address, "label": "Demo"})
	if err != nil {
		return "", err
	}
	id := added.Text("wallet", "id")
	t.expect("the new wallet", added.Text("wallet", "status"), "unproven")
	const wallets = "/api/dashboard/ramp/wallets"
	shown, err := t.callExpecting(ctx, t.Session, apiclient.Request{Method: "GET", Path: wallets}, 200)
	if err != nil {
		return "", err
	}
	row := rowOf(shown, id)
	signed := personalSign(key, fmt.Sprint(row["challenge"]))
	if _, err := t.Post(ctx, t.Session, wallets+"/"+id+"/proof", jsonObject{"signature": signed}, 200); err != nil {
		return "", err
	}
	return id, t.AwaitValue(ctx, t.Session, wallets, "approved", func(a apiclient.Answer) string {
		return fmt.Sprint(rowOf(a, id)["status"])
	})
}

// rowOf returns the row with an id, nil when there is none.
func rowOf(a apiclient.Answer, id string) map[string]any {
	for _, row := range a.Rows("data") {
		if row["id"] == id {
			return row
		}
	}
	return nil
}

// personalSign signs a text as wallets do by EIP-191 (version 0x45): 65 bytes r, s, v in hex.
func personalSign(key *secp256k1.PrivateKey, text string) string {
	compactJSON := ecdsa.SignCompact(key, keccak([]byte("\x19Ethereum Signed Message:\n"+strconv.Itoa(len(text))+text)), false)
	return "0x" + hex.EncodeToString(append(compactJSON[1:], compactJSON[0]))
}

func keccak(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}

// RampOrder is an order of the tour with its amount, the quoted maximum fee and the actual fee, in
// cents.
type RampOrder struct {
	Direction, wallet, id string
	Cents, MaxFee, Fee    money.Cents
}

// Place requests a quote and orders by it. It fails when a request has no answer; a wrong answer is
// a difference.
func (r *RampOrder) Place(ctx context.Context, t *Tour) error {
	ask := jsonObject{"direction": r.Direction, "amount": money.FormatDollars(r.Cents)}
	route, name := "/api/ramp/orders", "order"
	if r.wallet != "" {
		ask["walletId"], route, name = r.wallet, "/api/ramp/withdrawals", "withdrawal"
	}
	quote, err := t.Post(ctx, t.API, "/api/ramp/quotes", ask, 200)
	if err != nil {
		return err
	}
	t.expect("maxFee", quote.Text("quote", "maxFee"), money.FormatDollars(r.MaxFee))
	t.expect("receive", quote.Text("quote", "receive"), money.FormatDollars(r.Cents-r.MaxFee))
	order, err := t.Post(ctx, t.API, route, jsonObject{"quoteId": quote.Text("quote", "id")}, 200)
	r.id = order.Text(name, "id")
	t.expect("status of the "+name, order.Text(name, "status"), "created")
	return err
}

// AwaitCompletion polls the order until the ramp has reported it, and checks its fee. It fails like
// AwaitValue.
func (r *RampOrder) AwaitCompletion(ctx context.Context, t *Tour) error {
	path := "/api/ramp/orders/" + r.id
	status := func(a apiclient.Answer) string { return a.Text("order", "status") }
	if err := t.AwaitValue(ctx, t.API, path, "completed", status); err != nil {
		return err
	}
	a, err := t.API.Send(ctx, apiclient.Request{Method: "GET", Path: path})
	if err != nil {
		return err
	}
	t.expect("fee", a.Text("order", "fee"), money.FormatDollars(r.Fee))
	if r.wallet != "" {
		t.expect("txHash is a transaction's", evmTransaction.MatchString(a.Text("order", "txHash")), true)
	}
	return nil
}
