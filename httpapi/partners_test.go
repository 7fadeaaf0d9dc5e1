package httpapi

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/reports"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
)

// signsBody returns a partner's signature of version 1.
func (w *world) signsBody(secret, body string) as {
	return as{"partner-signature": webhook.Sign(secret, w.clock.now(), []byte(body))}
}

// Each path accepts the secrets of its own partner alone, in both versions of a signature and while
// a secret rotates.
func TestPartnersDoNotShareSecrets(t *testing.T) {
	t.Parallel()
	secrets := map[string][]string{reports.Bank: {"bank new", "bank old"}, reports.Ramp: {"ramp new", "ramp old"},
		reports.Stablecoin: {"stablecoin"}}
	w := newWorld(t, func(c *Config) { c.PartnerSecrets, c.RateLimits = secrets, RateLimits{Off: true} })
	sent := 0
	for _, r := range w.server.reports.webhookRoutes() {
		require.NotEmpty(t, secrets[r.partner])
		for signer, signs := range secrets {
			for _, secret := range signs {
				for _, sign := range []func(body string) as{
					func(body string) as { return w.signsBody(secret, body) },
					func(body string) as { return w.signsPath(secret, r.path, body) },
				} {
					sent++
					body := fmt.Sprintf(`{"id":"e%d","type":"a.type","data":{}}`, sent)
					if reply := w.post(sign(body), r.path, body); signer == r.partner {
						w.ok(reply)
					} else {
						w.fails(reply, 401, "signature_invalid")
					}
				}
			}
		}
	}
	require.Equal(t, 4*5*2, sent)
}

// A signature of version 2 is valid for its method and path alone. Version 1 is refused where it is
// turned off, before the body is read.
func TestPathSignatureIsValidForItsPathOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.PartnerSignatures = webhook.V2 })
	body := `{"id":"e1","type":"a.type","data":{}}`
	w.ok(w.post(w.signsPath(testSecret, offrampPath, body), offrampPath, body))
	w.fails(w.post(w.signsPath(testSecret, offrampPath, body), onrampPath, body), 401, "signature_invalid")
	put := as{"partner-signature": webhook.SignRequest(testSecret, w.clock.now(),
		webhook.Request{Method: "PUT", Path: onrampPath, Body: []byte(body)})}
	w.fails(w.post(put, onrampPath, body), 401, "signature_invalid")
	w.fails(w.post(w.signsBody(testSecret, body), onrampPath, body), 401, "signature_invalid")
	head := "partner-signature: " + w.signsBody(testSecret, body)["partner-signature"] + "\r\n"
	status, _ := w.headOnly("POST", onrampPath, head, 1000)
	require.Equal(t, 401, status)
}

// besideSystem puts new workspaces with an Idempotency-Key into the shard of the system workspace,
// where unmatched reports are stored.
type besideSystem struct{ Actors }

func (besideSystem) TenantSlot(string) ident.Slot { return ident.SystemSlot + 1 }

func (w *world) tenantBesideSystem(name string) tenant {
	w.t.Helper()
	owner := session(w.newTenant(name).cookie)
	once := owner.with("Idempotency-Key", "0b9d6b52-77a1-4c70-8c8c-2f6f5d0a1c11")
	made := w.ok(w.post(once, "/api/workspaces", `{"name":"beside"}`))
	tn := tenant{workspace: made.text("workspace", "id")}
	slot, err := ident.SlotOf(tn.workspace)
	require.NoError(w.t, err)
	require.Equal(w.t, ident.SystemSlot.Shard(), slot.Shard())
	owner = owner.with("X-Workspace-Id", tn.workspace)
	tn.secret = w.ok(w.post(owner, "/api/auth/keys", `{"label":"all","scopes":`+allScopes+`}`)).text("secret")
	tn.all = key(tn.secret)
	return tn
}

// A report of version 1 that is replayed on another path, before the partner's delivery arrives, is
// refused there, and the delivery is applied. A report of version 2 that the partner itself sends
// to the wrong path does not take the place of the right one either.
func TestReplayOnAnotherPathDoesNotReplaceTheReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Actors = besideSystem{c.Actors} })
	tn := w.tenantBesideSystem("ada")
	w.fund(tn, 100_000)
	before := w.balances(tn)
	order := w.rampOrder(tn, balance.RampOn)
	body := fmt.Sprintf(`{"id":"e1","type":"onramp.completed","data":{"orderId":%q}}`, order)
	signature := w.signsBody(testSecret, body)
	for _, path := range []string{offrampPath, PathBankReports, PathStablecoinReports} {
		w.fails(w.post(signature, path, body), 401, "signature_invalid")
	}
	w.keptUnmatched(0)
	w.ok(w.post(w.signsPath(testSecret, offrampPath, body), offrampPath, body))
	w.keptUnmatched(1)
	w.ok(w.post(signature, onrampPath, body))
	w.awaitBalances(tn, before[0]-10_000, before[1]+9_950)
}

// A supported type is refused under a signature of version 1 on every path but its own.
func TestEachTypeOfAReportHasOnePath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept := 0
	for kind, path := range map[string]string{"deposit.settled": PathBankReports, "deposit.completed": PathStablecoinReports,
		"onramp.completed": PathOnrampReports, "offramp.completed": PathOfframpReports, "withdrawal.failed": PathOfframpReports} {
		for _, r := range w.server.reports.webhookRoutes() {
			body := fmt.Sprintf(`{"id":"%s on %s","type":%q,"data":{}}`, kind, r.path, kind)
			reply := w.post(w.signsBody(testSecret, body), r.path, body)
			if r.path != path {
				w.fails(reply, 401, "signature_invalid")
				continue
			}
			w.ok(reply)
			kept++ // no report names a record
			w.keptUnmatched(kept)
		}
	}
}
