package httpapi

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"github.com/btcsuite/btcd/address/v2/base58"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/sha3"

	"purser/actors/balance"
	"purser/actors/checkout/address"
	"purser/actors/partner"
	"purser/actors/ramp/proof"
	"purser/httpapi/webhook"
	"purser/persistence/money"
)

// quietRamp accepts every order and reports nothing: the tests report. It may keep a hundredth of
// an order. It refuses a wallet whose address ends in dead.
type quietRamp struct {
	mu          sync.Mutex
	fee, orders error // returned by Fee and Order
	asked       int   // calls of Fee
	given       []partner.RampOrder
}

func (r *quietRamp) answer(fee, orders error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fee, r.orders = fee, orders
}

func (r *quietRamp) Fee(_ context.Context, _ string, cents money.Cents) (money.Cents, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return cents / 100, r.fee
}

func (r *quietRamp) Link(context.Context, string, string) error { return nil }

func (r *quietRamp) Approve(_ context.Context, w partner.RampWallet) error {
	if strings.HasSuffix(strings.ToLower(w.Address), "dead") {
		return partner.ErrRefused
	}
	return nil
}

func (r *quietRamp) Order(_ context.Context, o partner.RampOrder) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given = append(r.given, o)
	return r.orders
}

// walletKey is the key of a wallet: its address and its signatures.
type walletKey struct {
	chain, address string
	sign           func(challenge string) string
}

// evmKey returns a wallet on an EVM network, the same for the same name.
func evmKey(chain, name string) walletKey {
	key := secp256k1.PrivKeyFromBytes(keccak([]byte(name)))
	return walletKey{chain: chain, address: address.Checksummed(keccak(key.PubKey().SerializeUncompressed()[1:])[12:]),
		sign: func(challenge string) string {
			signed := ecdsa.SignCompact(key, proof.EVMDigest(challenge), false) // v, r, s
			return "0x" + hex.EncodeToString(append(signed[1:], signed[0]))
		}}
}

func keccak(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}

func solanaKey(name string) walletKey {
	key := ed25519.NewKeyFromSeed(keccak([]byte(name)))
	return walletKey{chain: "solana", address: base58.Encode(key[ed25519.SeedSize:]),
		sign: func(challenge string) string {
			return base58.Encode(ed25519.Sign(key, []byte(challenge)))
		}}
}

// link links a tenant's ramp account.
func (w *world) link(tn tenant) {
	w.t.Helper()
	status := func() string { return w.ok(w.get(tn.all, "/api/ramp/account")).text("account", "status") }
	if status() == "none" {
		w.ok(w.post(tn.all, "/api/ramp/account", ""))
	}
	w.awaitCondition(func() bool { return status() == "linked" })
}

// addWallet registers a wallet and returns its id.
func (w *world) addWallet(tn tenant, k walletKey) string {
	w.t.Helper()
	return w.ok(w.post(tn.all, "/api/ramp/wallets",
		fmt.Sprintf(`{"chain":%q,"address":%q}`, k.chain, k.address))).text("wallet",
		"id")
}

// wallet returns a tenant's wallet as the dashboard shows it.
func (w *world) wallet(tn tenant, id string) map[string]any {
	w.t.Helper()
	for _, shown := range w.ok(w.get(tn.owner(), "/api/dashboard/ramp/wallets?limit=100")).at("data").([]any) {
		if wallet := shown.(map[string]any); wallet["id"] == id {
			return wallet
		}
	}
	require.FailNow(w.t, "no such wallet")
	return nil
}

// proofOf returns the body with which a key proves a wallet.
func (w *world) proofOf(tn tenant, id string, k walletKey) string {
	w.t.Helper()
	return fmt.Sprintf(`{"signature":%q}`, k.sign(w.wallet(tn, id)["challenge"].(string)))
}

func (w *world) prove(who as, id, body string) testReply {
	w.t.Helper()
	return w.post(who, "/api/dashboard/ramp/wallets/"+id+"/proof", body)
}

// approvedWallet returns a tenant's wallet for withdrawals, the same on each call.
func (w *world) approvedWallet(tn tenant) string {
	w.t.Helper()
	w.link(tn)
	k := evmKey("base", "cold")
	id := w.addWallet(tn, k)
	if w.wallet(tn, id)["status"] == "unproven" {
		w.ok(w.prove(tn.owner(), id, w.proofOf(tn, id, k)))
	}
	w.awaitCondition(func() bool { return w.wallet(tn, id)["status"] == "approved" })
	return id
}

// coins reports a deposit of USDC.
func (w *world) coins(tn tenant, cents int) {
	w.t.Helper()
	w.n++
	body := fmt.Sprintf(`{"id":"coins-%d","type":"deposit.completed","data":{"workspaceId":%q,"asset":"USDC","chain":"polygon",`+
		`"amountUsdCents":%d,"txHash":"0x%d"}}`, w.n, tn.workspace, cents, w.n)
	w.ok(w.sendReport("/api/webhooks/partner-stablecoin-deposit", body))
}

// sendReport sends a partner's signed report.
func (w *world) sendReport(path, body string) testReply {
	w.t.Helper()
	return w.post(as{"partner-signature": webhook.Sign(testSecret, w.clock.now(), []byte(body))}, path, body)
}

// rampBody returns the body of a quote request, with the wallet of a withdrawal.
func rampBody(direction, amount, wallet string) string {
	if wallet == "" {
		return fmt.Sprintf(`{"direction":%q,"amount":%q}`, direction, amount)
	}
	return fmt.Sprintf(`{"direction":%q,"amount":%q,"walletId":%q}`, direction, amount, wallet)
}

// quoteRamp quotes an order, or a withdrawal to the approved wallet, and returns the quote's id.
func (w *world) quoteRamp(tn tenant, direction, amount string) string {
	w.t.Helper()
	wallet := ""
	if direction == balance.RampWithdraw {
		wallet = w.approvedWallet(tn)
	}
	r := w.post(tn.all.once(), "/api/ramp/quotes", rampBody(direction, amount, wallet))
	require.Equal(w.t, 200, r.status, r.raw)
	return r.text("quote", "id")
}

// orderRamp uses a quote on the route of orders or of withdrawals.
func (w *world) orderRamp(tn tenant, route, quote string) testReply {
	w.t.Helper()
	return w.post(tn.all.once(), "/api/ramp/"+route, fmt.Sprintf(`{"quoteId":%q}`, quote))
}

// orderedRamp orders with a new quote and returns the order's id.
func (w *world) orderedRamp(tn tenant, direction, amount string) string {
	w.t.Helper()
	route, name := "orders", "order"
	if direction == balance.RampWithdraw {
		route, name = "withdrawals", "withdrawal"
	}
	return w.ok(w.orderRamp(tn, route, w.quoteRamp(tn, direction, amount))).text(name, "id")
}
