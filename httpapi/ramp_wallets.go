package httpapi

import (
	"encoding/hex"
	"fmt"
	"io"

	"purser/actors/query"
	"purser/actors/ramp"
	"purser/actors/workspace"
	"purser/persistence/ident"
)

// rampWalletRoutes returns the routes of wallets for withdrawals.
func (h *rampHandlers) rampWalletRoutes() []route {
	const dashboard = "/api/dashboard/ramp/wallets"
	return []route{
		{method: "POST", path: "/api/ramp/wallets", auth: authKey, scope: workspace.WriteRamps, sandboxOnly: true,
			ramp:        true,
			idempotency: keyOptional, handle: h.addWallet},
		{method: "GET", path: dashboard, auth: authSession, roles: anyMember, query: pageQuery, handle: h.listWallets},
		{method: "GET", path: dashboard + "/{id}", auth: authSession, roles: anyMember, handle: h.getWallet},
		{method: "POST", path: dashboard + "/{id}/proof", auth: authSession, roles: managers, sandboxOnly: true,
			ramp:        true,
			idempotency: keyOptional, handle: h.proveWallet},
	}
}

// walletDocument is a wallet in the interface.
type walletDocument struct {
	ID      string `json:"id"`
	Chain   string `json:"chain"`
	Address string `json:"address"`
	Label   string `json:"label"`
	Status  string `json:"status"`
}

// challengeDocument is a wallet in the dashboard.
type challengeDocument struct {
	walletDocument
	Challenge string `json:"challenge"`
}

func showWallet(w ramp.Wallet) walletDocument {
	return walletDocument{ID: w.ID, Chain: w.Chain, Address: w.Address, Label: w.Label, Status: w.Status}
}

func replyWallet(w ramp.Wallet) (answer, error) {
	return reply(map[string]any{"wallet": showWallet(w)})
}

// nonceBytes of randomness make a challenge that has not been signed before.
const nonceBytes = 16

// addWallet handles POST /api/ramp/wallets: it registers a wallet, whose owner proves control of it
// in the dashboard. It fails with invalid_body, and with the ramp's refusal of a bad address.
func (h *rampHandlers) addWallet(c *call) (answer, error) {
	var body struct {
		Chain   string `json:"chain"`
		Address string `json:"address"`
		Label   string `json:"label"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	add := ramp.AddWallet{Workspace: c.who.workspace(), Chain: body.Chain, Address: body.Address, Label: body.Label}
	var err error
	if add.ID, err = h.newID(c, ident.RampWallet); err != nil {
		return answer{}, err
	}
	var nonce [nonceBytes]byte
	if _, err := io.ReadFull(h.actors.Entropy(), nonce[:]); err != nil {
		return answer{}, fmt.Errorf("nonce of a wallet: %w", err)
	}
	add.Nonce = hex.EncodeToString(nonce[:])
	return askIdempotent(h.edge, c, toRamp(add.Workspace, add), replyWallet)
}

func showChallenge(w ramp.Wallet) (any, error) {
	return challengeDocument{walletDocument: showWallet(w), Challenge: w.Challenge}, nil
}

func (h *rampHandlers) listWallets(c *call) (answer, error) {
	return listRecords(h.edge, c, query.RampWallets, "", showChallenge)
}

// getWallet handles GET /api/dashboard/ramp/wallets/{id}. Another workspace's wallet is not_found.
func (h *rampHandlers) getWallet(c *call) (answer, error) {
	w, err := readOwn(h.edge, c, query.RampWallets, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	shown, err := showChallenge(w)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"wallet": shown})
}

// proveWallet handles POST /api/dashboard/ramp/wallets/{id}/proof: it takes the signed challenge of
// a wallet. It requires a session: a key that creates orders must not also choose the destination
// of the USDC. It fails with the ramp's refusal of an unknown wallet or a signature that does not
// verify.
func (h *rampHandlers) proveWallet(c *call) (answer, error) {
	var body struct {
		Signature string `json:"signature"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	return askIdempotent(h.edge, c, toRamp(id, ramp.ProveWallet{ID: c.params["id"], Signature: body.Signature}),
		replyWallet)
}
