package ramp_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/address/v2/base58"
	"github.com/cockroachdb/datadriven"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/stretchr/testify/require"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/fault"
	"purser/actors/ramp"
	"purser/actors/ramp/proof"
)

var (
	at = time.UnixMilli(1_763_640_000_123)
	// One wallet key for each kind of chain, and a key without a wallet.
	evmKey     = secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{1}, 32))
	foreignKey = secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{2}, 32))
	solanaKey  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
)

const (
	evmAddress    = "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"
	solanaAddress = "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9"
)

func signEVM(key *secp256k1.PrivateKey, text string) string {
	compact := ecdsa.SignCompact(key, proof.EVMDigest(text), false)
	return "0x" + hex.EncodeToString(append(compact[1:], compact[0]))
}

// decodeEvent decodes every version of every event of the package.
var decodeEvent = decision.NewCatalog("ramp", ramp.AccountAsked{}, ramp.AccountLinked{}, ramp.WalletAdded{},
	ramp.WalletProven{}, ramp.WalletApproved{}).Decode

func TestEventsAreReadForEver(t *testing.T) {
	stamp := decision.StampOf(at)
	decisiontest.RequireGoldens(t, decodeEvent,
		ramp.AccountAsked{Workspace: "ws_1", Account: "ramp_1", At: stamp},
		ramp.AccountLinked{Workspace: "ws_1", Account: "ramp_1", At: stamp},
		ramp.WalletAdded{Workspace: "ws_1", Wallet: ramp.Wallet{ID: "wal_1", Chain: "base", Address: evmAddress,
			Label: "Treasury", Status: ramp.Unproven, Challenge: "Purser", CreatedAt: stamp, UpdatedAt: stamp}},
		ramp.WalletProven{Workspace: "ws_1", Wallet: "wal_1", Signature: "0x00", At: stamp},
		ramp.WalletApproved{Workspace: "ws_1", Wallet: "wal_1", At: stamp},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, decodeEvent) }

// scenario is the ramp of one workspace, ws_1.
type scenario struct {
	state ramp.State
	now   time.Time
}

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step { return (&scenario{now: at}).step })
}

func (s *scenario) step(t *testing.T, d *datadriven.TestData) string {
	text := func(key string) (value string) {
		d.MaybeScanArgs(t, key, &value)
		return value
	}
	switch d.Cmd {
	case "link":
		return s.send(t, ramp.Link{Workspace: "ws_1", ID: text("id")})
	case "confirm-link":
		return s.send(t, ramp.ConfirmLink{})
	case "add":
		label := text("label")
		if d.HasArg("long-label") {
			label = strings.Repeat("ü", ramp.MaxLabel+1)
		}
		return s.send(t, ramp.AddWallet{Workspace: "ws_1", ID: text("id"), Nonce: "n-" + text("id"),
			Chain: text("chain"), Address: text("address"), Label: label})
	case "challenge":
		return s.wallet(text("id")).Challenge + "\n"
	case "prove":
		return s.send(t, ramp.ProveWallet{ID: text("id"), Signature: s.signature(text("id"), text("by"))})
	case "approve":
		return s.send(t, ramp.ApproveWallet{ID: text("id")})
	case "timer":
		return s.send(t, decision.Fire{Key: text("of")})
	case "give-up":
		return s.send(t, ramp.Refuse{ID: text("id")})
	case "many-wallets":
		return s.registerAllWallets(t)
	case "show":
		return s.show(t)
	}
	d.Fatalf(t, "no such step")
	return ""
}

func (s *scenario) wallet(id string) ramp.Wallet {
	for _, w := range s.state.Wallets {
		if w.ID == id {
			return w
		}
	}
	return ramp.Wallet{}
}

// signature signs a wallet's challenge with the key named by.
func (s *scenario) signature(id, by string) string {
	text := s.wallet(id).Challenge
	switch by {
	case "its-key":
		if s.wallet(id).Chain == "solana" {
			return base58.Encode(ed25519.Sign(solanaKey, []byte(text)))
		}
		return signEVM(evmKey, text)
	case "another-key":
		return signEVM(foreignKey, text)
	case "its-key-of-an-older-challenge":
		return signEVM(evmKey, strings.ReplaceAll(text, "n-", "m-"))
	}
	return by
}

// registerAllWallets registers MaxWallets wallets.
func (s *scenario) registerAllWallets(t *testing.T) string {
	for i := len(s.state.Wallets); i < ramp.MaxWallets; i++ {
		d, err := s.state.Decide(decision.Meta{At: s.now}, ramp.AddWallet{Workspace: "ws_1", ID: fmt.Sprint("wal_", i),
			Nonce: "n", Chain: "base", Address: fmt.Sprintf("0x%040d", i)})
		require.NoError(t, err)
		s.state.Apply(d.Events[0])
	}
	return fmt.Sprintf("%d wallets\n", len(s.state.Wallets))
}

func (s *scenario) send(t *testing.T, command any) string {
	d, err := decisiontest.Decide(t, &s.state, s.now, command)
	if err != nil {
		return decisiontest.RefusalLine(t, err)
	}
	var out strings.Builder
	out.WriteString(decisiontest.Apply(t, &s.state, decodeEvent, d.Events...))
	for _, r := range d.Records {
		fmt.Fprintf(&out, "  %s %s\n", r.Kind, r.ID)
	}
	for _, timer := range d.Timers {
		if timer.Due.IsZero() {
			fmt.Fprintf(&out, "  timer %s removed\n", timer.Key)
		} else {
			fmt.Fprintf(&out, "  timer %s in %v\n", timer.Key, timer.Due.Sub(s.now))
		}
	}
	switch reply := d.Reply.(type) {
	case ramp.Account:
		require.Equal(t, s.state.Account, reply)
		fmt.Fprintf(&out, "account %s: %s\n", reply.ID, reply.Status)
	case ramp.Wallet:
		require.Equal(t, s.wallet(reply.ID), reply)
		fmt.Fprintf(&out, "wallet %s: %s on %s, %q, %s\n", reply.ID, reply.Address, reply.Chain, reply.Label,
			reply.Status)
	case ramp.Due:
		fmt.Fprintf(&out, "ask the partner about %s %s\n", reply.Kind, reply.ID)
	}
	if out.Len() == 0 {
		return "nothing new\n"
	}
	return out.String()
}

func (s *scenario) show(t *testing.T) string {
	d, err := s.state.Decide(decision.Meta{At: s.now}, decision.Read{})
	require.NoError(t, err)
	state := d.Reply.(ramp.State)
	out := "account: " + state.Account.Status + "\n"
	for i, w := range state.Wallets {
		out += w.ID + ": " + w.Status + "\n"
		state.Wallets[i].Status = "the caller's" // the reply is a copy
	}
	return out
}

// Only signatures by the wallet's key prove it.
func FuzzProveWallet(f *testing.F) {
	var s ramp.State
	must := func(command any) {
		d, err := s.Decide(decision.Meta{At: at}, command)
		require.NoError(f, err)
		for _, e := range d.Events {
			s.Apply(e)
		}
	}
	must(ramp.Link{Workspace: "ws_1", ID: "ramp_1"})
	must(ramp.ConfirmLink{})
	must(ramp.AddWallet{Workspace: "ws_1", ID: "wal_e", Nonce: "n", Chain: "base", Address: evmAddress})
	must(ramp.AddWallet{Workspace: "ws_1", ID: "wal_s", Nonce: "n", Chain: "solana", Address: solanaAddress})
	good := []string{signEVM(evmKey, s.Wallets[0].Challenge),
		base58.Encode(ed25519.Sign(solanaKey, []byte(s.Wallets[1].Challenge)))}
	f.Add(good[0])
	f.Add(good[1])
	f.Add(strings.TrimPrefix(good[0], "0x"))
	f.Add("")
	f.Fuzz(func(t *testing.T, signature string) {
		for i, w := range s.Wallets {
			d, err := s.Decide(decision.Meta{At: at}, ramp.ProveWallet{ID: w.ID, Signature: signature})
			if err != nil {
				require.True(t, fault.Is(err, fault.SignatureInvalid), "%v", err)
				require.NotEqual(t, good[i], signature)
				continue
			}
			require.Equal(t, ramp.PendingApproval, d.Reply.(ramp.Wallet).Status)
			if w.Chain == "solana" {
				require.Equal(t, good[i], signature)
			} else {
				require.Equal(t, good[i][2:130], strings.TrimPrefix(strings.ToLower(signature), "0x")[:128])
			}
			require.Equal(t, ramp.Unproven, s.Wallets[i].Status, "Decide must not change the state")
		}
	})
}
