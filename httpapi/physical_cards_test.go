package httpapi

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"purser/actors/card"
	"purser/actors/fault"
	"purser/actors/processes"
	"purser/persistence/money"
)

const physicalOrder = `{"holderLabel":"Ada","unlockMethod":"premium_99","monthlyLimitUsdCents":500000,"perTxnLimitUsdCents":50000,
	"shipping":{"line1":"1 Main St","city":"Oakland","region":"CA","postalCode":"94607","country":"US"}}`

func (w *world) orderPhysical(who as, body string) testReply {
	w.t.Helper()
	return w.post(who, "/api/physical-cards", body)
}

func TestAPhysicalCardCosts99Dollars(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("acme")
	w.fails(w.orderPhysical(tn.all, physicalOrder), 422, "insufficient_funds")
	w.fund(tn, 9_900+9_899)
	who := w.keyed(tn)
	made := w.ok(w.orderPhysical(who, physicalOrder))
	require.Equal(t, "metal", made.text("order", "finish"))
	require.Equal(t, "2026-11-30", made.text("eta", "from"), "a Friday; Thursday is Thanksgiving")
	require.Equal(t, "2026-12-02", made.text("eta", "to"))
	require.Equal(t, made.text("order", "cardId"), made.text("card", "id"))
	require.Equal(t, "approved", w.swipe(tn, made.text("card", "id"), "at-once", 500).text("decision"))

	require.Equal(t, made.raw, w.ok(w.orderPhysical(who, physicalOrder)).raw)
	w.fails(w.orderPhysical(who, strings.Replace(physicalOrder, "Ada", "Eve", 1)), 422, "idempotency_key_mismatch")
	w.fails(w.orderPhysical(tn.all, physicalOrder), 422, "insufficient_funds")
	available, _ := w.dollars(tn)
	require.Equal(t, money.Cents(9_899-500), available)
	require.Contains(t, w.ok(w.get(tn.all, "/api/treasury")).raw,
		`"source":"physical_card_fee","direction":"debit","amountCents":9900`)

	listed := w.ok(w.get(tn.all, "/api/physical-cards"))
	require.Equal(t, 1, strings.Count(listed.raw, `"pco_`))
	require.Contains(t, listed.raw, `"monthSpendUsdCents":500`)
	shown := w.ok(w.get(tn.all, "/api/cards/"+made.text("card", "id")))
	require.Equal(t, made.text("card", "createdAt"), shown.text("card", "createdAt"))
	require.NotContains(t, w.ok(w.get(w.newTenant("other").all, "/api/physical-cards")).raw, "pco_")
}

func TestAPhysicalCardForABalanceOf5000Dollars(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("acme")
	order := strings.Replace(physicalOrder, "premium_99", "balance_commit_5000", 1)
	w.fund(tn, 499_999)
	w.fails(w.orderPhysical(tn.all, order), 422, "insufficient_funds")
	w.fund(tn, 1)
	w.ok(w.orderPhysical(tn.all, strings.Replace(order, `"unlock`, `"finish":"standard","unlock`, 1)))
	available, _ := w.dollars(tn)
	require.Equal(t, money.Cents(500_000), available, "it stays the workspace's")
	w.swipe(tn, w.mint(tn, "").text("card", "id"), "one", 100)
	w.relayed()
	w.fails(w.orderPhysical(tn.all, order), 422, "insufficient_funds")
}

func TestPhysicalCardRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Issuer = IssuerConnected })
	tn := w.newTenant("acme")
	w.fund(tn, 100_000)
	w.fails(w.orderPhysical(tn.all, physicalOrder), 409, "cardholder_required")
	for _, change := range [][2]string{{"premium_99", "premium_100"}, {`"1 Main St"`, `"1"`}, {`"US"`, `"USA"`},
		{`"line1":"1 Main St",`, ""}, {`"unlock`, `"finish":"gold","unlock`}, {`500000`, `0`}} {
		w.fails(w.orderPhysical(tn.all, strings.Replace(physicalOrder, change[0], change[1], 1)), 400, "invalid_body")
	}
	available, _ := w.dollars(tn)
	require.Equal(t, money.Cents(100_000), available)

	w = newWorld(t, func(c *Config) { c.NoPhysical = true })
	tn = w.newTenant("acme")
	w.fails(w.orderPhysical(tn.all.with("Idempotency-Key", "no uuid"), "{}"), 422, "capability_unavailable")
	w.ok(w.get(tn.all, "/api/physical-cards"))
}

// An order is charged at once. While the card cannot be minted the outcome is unknown, and a repeat
// returns the card. An order that can never be minted is not charged.
func TestPhysicalCardWithDelayedMinting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("acme")
	w.fund(tn, 2*9_900)
	refusal := fault.New(fault.Unavailable, "")
	w.actors.refuseMint = func() error { return refusal }
	who := tn.all.with("Idempotency-Key", uuid.NewString())
	w.fails(w.orderPhysical(who, physicalOrder), 500, "outcome_unknown")
	listed := w.ok(w.get(tn.all, "/api/physical-cards"))
	w.actors.refuseMint = nil
	made := w.ok(w.orderPhysical(who, physicalOrder))
	var page struct{ Data []json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(listed.raw), &page))
	require.JSONEq(t, made.raw, string(page.Data[0]))

	refusal = fault.New(fault.LimitExceeded, "")
	w.actors.refuseMint = func() error { return refusal }
	w.fails(w.orderPhysical(tn.all, physicalOrder), 422, "limit_exceeded")
}

// MintOrdered lets a test fail the minting of an order.
func (h *hooked) MintOrdered(ctx context.Context, workspace, order string) (card.View, error) {
	if h.refuseMint != nil {
		return card.View{}, h.refuseMint()
	}
	return h.Actors.MintOrdered(ctx, workspace, order)
}

var _ Actors = (*processes.Product)(nil)
