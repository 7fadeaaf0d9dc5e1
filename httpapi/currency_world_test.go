package httpapi

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
)

// legacy writes a record of an older version.
func (w *world) legacy(kind string, tn tenant, id, document string) {
	w.t.Helper()
	slot, err := ident.SlotOf(tn.workspace)
	require.NoError(w.t, err)
	outcomes, err := w.journal.Append(context.Background(), slot.Shard(), w.journal.Head(slot.Shard()).Epoch,
		w.clock.now(),
		[]*persistence.Batch{{
			Workspace: tn.workspace, Slot: slot,
			Records: []persistence.Record{{Kind: kind, Workspace: tn.workspace, ID: id, Slot: slot,
				Document: []byte(document)}},
		}})
	require.NoError(w.t, err)
	require.NoError(w.t, outcomes[0].Err)
}

// owner returns the session of a tenant's owner.
func (tn tenant) owner() as { return session(tn.cookie).with("X-Workspace-Id", tn.workspace) }

func (a as) once() as { return a.with("Idempotency-Key", uuid.NewString()) }

// currencies returns a tenant's accounts, by currency.
func (w *world) currencies(tn tenant) map[string]map[string]any {
	w.t.Helper()
	accounts, all := w.ok(w.get(tn.all, "/api/mca/accounts")).at("accounts").([]any), map[string]map[string]any{}
	for _, account := range accounts {
		a := account.(map[string]any)
		all[a["currency"].(string)] = a
	}
	return all
}

// open opens balances and waits until they are active.
func (w *world) open(tn tenant, currencies ...string) {
	w.t.Helper()
	for _, currency := range currencies {
		w.ok(w.post(tn.owner().once(), "/api/mca/accounts/"+currency, ""))
	}
	w.clock.turn(3 * time.Second)
	w.opened(tn, currencies...)
}

// opened waits until balances whose delay is over are active.
func (w *world) opened(tn tenant, currencies ...string) {
	w.t.Helper()
	w.awaitCondition(func() bool {
		held := w.currencies(tn)
		for _, currency := range currencies {
			if held[currency]["status"] != "active" {
				return false
			}
		}
		return true
	})
}

func (w *world) awaitCondition(condition func() bool) {
	w.t.Helper()
	require.Eventually(w.t, condition, time.Minute, 5*time.Millisecond)
}

// payIn announces a payment and waits for its arrival.
func (w *world) payIn(tn tenant, currency, minor string) {
	w.t.Helper()
	r := w.post(tn.owner(), "/api/dev/mca/simulate-payin",
		fmt.Sprintf(`{"currency":%q,"amountMinor":%q,"reference":"Invoice 7"}`,
			currency, minor))
	require.Equal(w.t, 202, r.status, r.raw)
	w.clock.turn(3 * time.Second)
	w.awaitCondition(func() bool { return w.balanceOf(tn, currency)["pendingMinor"] == "0" })
}

func (w *world) balanceOf(tn tenant, currency string) map[string]any {
	w.t.Helper()
	return w.currencies(tn)[currency]["balance"].(map[string]any)
}

// currencyFor returns the currency for an operation of the estate: one to open, or one with money
// in it.
func (e *estate) currencyFor(op operation) string {
	e.t.Helper()
	held := e.currencies(e.tn)
	if op.doc.OperationID == "openCurrencyAccount" {
		for _, free := range []string{"KWD", "AUD", "CAD", "CHF", "SGD", "MXN", "USD", "GBP"} {
			if held[free] == nil {
				return free
			}
		}
		require.FailNow(e.t, "every currency is open")
	}
	if held["EUR"] == nil {
		e.ok(e.post(e.tn.owner(), "/api/mca/onboarding", ""))
		e.open(e.tn, "EUR", "JPY")
		e.payIn(e.tn, "EUR", "100000000")
	}
	return "EUR"
}

// quoteConversion locks a rate for an amount to sell.
func (w *world) quoteConversion(tn tenant, sell, buy, minor string) testReply {
	w.t.Helper()
	r := w.post(tn.all.once(), "/api/mca/quotes", fmt.Sprintf(`{"sellCurrency":%q,"buyCurrency":%q,"amountMinor":%q}`,
		sell, buy,
		minor))
	require.Equal(w.t, 201, r.status, r.raw)
	return r
}

// convert creates a conversion from a quote.
func (w *world) convert(tn tenant, quote string) testReply {
	w.t.Helper()
	r := w.convertNow(tn, quote)
	require.Equal(w.t, 202, r.status, r.raw)
	return r
}

func (w *world) convertNow(tn tenant, quote string) testReply {
	w.t.Helper()
	return w.post(tn.all.once(), "/api/mca/conversions", fmt.Sprintf(`{"quoteId":%q}`, quote))
}
