package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/ramp"
	"purser/actors/workspace"
)

// A wallet is registered with a key, proven by a person with the wallet's own key, approved by the
// partner, and then receives a withdrawal.
func TestAWalletIsProven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	w.link(tn)
	for _, k := range []walletKey{evmKey("ethereum", "a"), evmKey("polygon", "b"), evmKey("arbitrum", "c"),
		evmKey("base", "d"),
		evmKey("optimism", "e"), solanaKey("f")} {
		made := w.ok(w.post(tn.all, "/api/ramp/wallets",
			fmt.Sprintf(`{"chain":%q,"address":%q,"label":"Cold"}`, k.chain, k.address)))
		id := made.text("wallet", "id")
		require.JSONEq(t, fmt.Sprintf(`{"wallet":{"id":%q,"chain":%q,"address":%q,"label":"Cold","status":"unproven"}}`,
			id, k.chain,
			k.address), made.raw)
		challenge := w.wallet(tn, id)["challenge"].(string)
		for _, named := range []string{"Purser", tn.workspace, id, k.chain, k.address} {
			require.Contains(t, challenge, named)
		}
		body := w.proofOf(tn, id, k)
		proven := w.ok(w.prove(tn.owner(), id, body))
		require.Equal(t, "pending_approval", proven.text("wallet", "status"))
		w.awaitCondition(func() bool { return w.wallet(tn, id)["status"] == "approved" })
		require.Equal(t, "approved", w.ok(w.prove(tn.owner(), id, body)).text("wallet", "status"), "again")
		r := w.post(tn.all.once(), "/api/ramp/quotes", rampBody("withdraw", "1", id))
		require.Equal(t, 200, r.status, r.raw)
	}
}

// Wallets also write a signature without 0x, in capitals, or with v as 0 or 1.
func TestAProofAsWalletsWriteIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.link(tn)
	for i, written := range []func(string) string{
		func(s string) string { return s[2:] },
		func(s string) string { return "0x" + strings.ToUpper(s[2:]) },
		func(s string) string {
			return s[:len(s)-2] + map[string]string{"1b": "00", "1c": "01"}[s[len(s)-2:]]
		},
	} {
		k := evmKey("base", fmt.Sprint("written ", i))
		id := w.addWallet(tn, k)
		signature := written(k.sign(w.wallet(tn, id)["challenge"].(string)))
		w.ok(w.prove(tn.owner(), id, fmt.Sprintf(`{"signature":%q}`, signature)))
	}
}

// Only a signature of the wallet's challenge by the wallet's key proves it.
func TestInvalidProofsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.newTenant("ada"), w.newTenant("eve")
	w.link(tn)
	w.link(other)
	for _, keys := range [][2]walletKey{{evmKey("base", "mine"), evmKey("base", "thine")},
		{solanaKey("mine"), solanaKey("thine")}} {
		mine, thine := keys[0], keys[1]
		id, second, anothers := w.addWallet(tn, mine), w.addWallet(tn, thine), w.addWallet(other, mine)
		challenge := func(tn tenant, id string) string { return w.wallet(tn, id)["challenge"].(string) }
		before := w.settled()
		for what, signature := range map[string]string{
			"another key":                thine.sign(challenge(tn, id)),
			"another wallet's challenge": mine.sign(challenge(tn, second)),
			"another workspace's challenge of the same address": mine.sign(challenge(other, anothers)),
			"another text": mine.sign(challenge(tn, id) + " "), "the address": mine.sign(mine.address),
			"of another curve": evmOrSolana(mine).sign(challenge(tn, id)),
		} {
			r := w.prove(tn.owner(), id, fmt.Sprintf(`{"signature":%q}`, signature))
			require.Equal(t, "401 signature_invalid", fmt.Sprint(r.status, " ", r.code()), what)
		}
		good := mine.sign(challenge(tn, id))
		for _, bad := range []string{"", "0x", good[:len(good)-2], good + "00", strings.Repeat("z", len(good)),
			good + "\n"} {
			r := w.prove(tn.owner(), id, fmt.Sprintf(`{"signature":%q}`, bad))
			require.Contains(t, []string{"400 invalid_body", "401 signature_invalid"},
				fmt.Sprint(r.status, " ", r.code()), bad)
		}
		w.fails(w.prove(tn.owner(), anothers, fmt.Sprintf(`{"signature":%q}`, good)), 404, "not_found")
		require.Equal(t, before, w.settled(), "a refused proof changed something")
		require.Equal(t, "unproven", w.wallet(tn, id)["status"])
	}
}

// evmOrSolana returns a wallet of the other kind.
func evmOrSolana(k walletKey) walletKey {
	if k.chain == "solana" {
		return evmKey("base", "mine")
	}
	return solanaKey("mine")
}

// A proof requires the session of an owner or an admin; a key is refused.
func TestOnlyASessionProvesAWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.link(tn)
	k := evmKey("base", "cold")
	id := w.addWallet(tn, k)
	body := w.proofOf(tn, id, k)
	_, member := w.person(tn, workspace.Member)
	_, admin := w.person(tn, workspace.Admin)
	_, stranger := w.person(tn, "")
	in := func(cookie string) as { return session(cookie).with("X-Workspace-Id", tn.workspace) }
	w.fails(w.prove(nil, id, body), 401, "unauthorized")
	w.fails(w.prove(tn.all, id, body), 403, "session_required")
	w.fails(w.prove(in(member), id, body), 403, "role_required")
	w.fails(w.prove(in(stranger), id, body), 404, "not_found")
	w.fails(w.prove(in(admin).with("Origin", "https://evil.example"), id, body), 403, "origin_refused")
	w.fails(w.get(tn.all, "/api/dashboard/ramp/wallets"), 403, "session_required")
	require.Equal(t, "unproven", w.ok(w.get(in(member), "/api/dashboard/ramp/wallets")).text("data", 0, "status"))
	w.fails(w.get(session(tn.cookie), "/api/ramp/account"), 401, "unauthorized")
	w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Live})
	w.fails(w.prove(in(admin), id, body), 403, "sandbox_only")
	w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Sandbox})
	w.ok(w.prove(in(admin), id, body))
}

// An invalid wallet is refused. The same wallet again is the same record.
func TestAddingWallets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	k := evmKey("base", "cold")
	add := func(chain, address, label string) testReply {
		return w.post(tn.all, "/api/ramp/wallets",
			fmt.Sprintf(`{"chain":%q,"address":%q,"label":%q}`, chain, address, label))
	}
	w.fails(add("base", k.address, ""), 422, "capability_unavailable")
	w.link(tn)
	before := w.settled()
	wrong := strings.ToLower(k.address[:20]) + strings.ToUpper(k.address[20:])
	for field, bad := range map[string][3]string{"chain": {"bitcoin", k.address, ""}, "address": {"base", wrong, ""},
		"address ": {"base", solanaKey("a").address, ""}, "address  ": {"solana", k.address, ""},
		"address   ": {"base", k.address[2:], ""}, "address    ": {"solana", "11111111111111111111111111111111", ""},
		"address     ": {"base", "0X" + k.address[2:], ""},
		"label":        {"base", k.address, strings.Repeat("ü", ramp.MaxLabel+1)}} {
		r := add(bad[0], bad[1], bad[2])
		w.fails(r, 400, "invalid_body")
		require.Contains(t, r.text("message"), strings.TrimSpace(field))
	}
	require.Equal(t, before, w.settled())
	first := w.ok(add("base", strings.ToLower(k.address), "Cold"))
	require.Equal(t, k.address, first.text("wallet", "address"), "shown with its checksum")
	require.Equal(t, first.raw, w.ok(add("base", k.address, "Hot")).raw)
	require.NotEqual(t, first.text("wallet", "id"), w.ok(add("polygon", k.address, "")).text("wallet", "id"),
		"on another chain")
	for i := 2; i < ramp.MaxWallets; i++ {
		w.addWallet(tn, evmKey("base", fmt.Sprint("many ", i)))
	}
	w.fails(add("base", evmKey("base", "too many").address, ""), 422, "limit_exceeded")
	require.Equal(t, first.raw, w.ok(add("base", k.address, "")).raw)
}

// A wallet that the partner refuses keeps its status, and nothing is withdrawn to it.
func TestRefusedWalletGetsNoWithdrawals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	w.link(tn)
	k := evmKey("base", "")
	for i := 0; !strings.HasSuffix(strings.ToLower(k.address), "dead"); i++ {
		k = evmKey("base", fmt.Sprint("vanity ", i))
	}
	id := w.addWallet(tn, k)
	w.ok(w.prove(tn.owner(), id, w.proofOf(tn, id, k)))
	w.settled()
	require.Equal(t, "pending_approval", w.wallet(tn, id)["status"])
	w.fails(w.post(tn.all.once(), "/api/ramp/quotes", rampBody("withdraw", "1", id)), 422, "capability_unavailable")
}
