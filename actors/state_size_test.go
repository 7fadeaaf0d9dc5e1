package actors_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/agent"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/checkout"
	"purser/actors/decision"
	"purser/actors/derivation"
	"purser/actors/processes"
	"purser/actors/ramp"
	"purser/actors/user"
	"purser/actors/webhook"
	"purser/actors/workspace"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// maxStateBytes is the most that any state's document may take: half of a record.
const maxStateBytes = persistence.MaxPayload / 2

// generatedTextBytes is the assumed length of strings that the program generates: ids, statuses,
// hashes.
const generatedTextBytes = 128

// maxChars bounds a string of a caller, in characters of six bytes each in JSON.
type maxChars int

// stateBounds are, by kind and field, the most elements of each list and map of the states, and the
// most characters of each string of a caller. A list without a bound fails the test.
var stateBounds = map[string]map[string]any{
	"user": {"Sessions": user.MaxSessions, "Resets": user.MaxResets, "Factor.Recovery": user.RecoveryCodes,
		"Workspaces":      user.MaxOwn + user.MaxForeign,
		"Workspaces.Name": maxChars(workspace.MaxName)},
	"workspace": {"Name": maxChars(workspace.MaxName), "Members": workspace.MaxMembers, "Keys": workspace.MaxLiveKeys,
		"Keys.Label": maxChars(workspace.MaxLabel), "Keys.Scopes": 16, "Keys.Scopes.": maxChars(6),
		"RevokedKeys": workspace.MaxRevoked,
		"Invitations": workspace.MaxInvitations},
	"cardholder":   {"Account": maxChars(generatedTextBytes)},
	"counterparty": {"Token": maxChars(generatedTextBytes)},
	"agent": {"AgentName": maxChars(agent.MaxName), "Description": maxChars(agent.MaxDescription), "Protocols": 8,
		"PublicKeyPem": maxChars(agent.MaxPEM), "PublicKey": 32},
	"card": {"Terms.AllowedMccs": 10_000, "Terms.AllowedMerchants": card.MaxAllowlist,
		"Terms.AllowedMerchants.": maxChars(card.MaxMerchant)},
	"balance": {"PaidOut.Keys": balance.MaxPayoutKeys, "QuoteLocks": balance.MaxOpenQuotes, "Currencies": 13,
		"PendingMinor": 13,
		"BuyingMinor":  13, "PaidIn": 13, "ConversionQuoteLocks": balance.MaxConversionQuotes,
		"RampQuoteLocks": balance.MaxRampQuotes},
	"checkout": {"Assets": checkout.MaxListed, "Chains": checkout.MaxListed,
		"Pairs":  checkout.MaxListed * checkout.MaxListed,
		"Prices": checkout.MaxListed, "Payments": checkout.MaxPayments + checkout.MaxStrays,
		"Payments.Sightings": checkout.MaxSightings, "Payments.Address": maxChars(256),
		"Payments.TxHash": maxChars(256),
		"Payments.From":   maxChars(256), "Payments.Sightings.BlockHash": maxChars(256), "TxHash": maxChars(256),
		"PayerAddress": maxChars(256)},
	"ramp": {"Wallets": ramp.MaxWallets, "Wallets.Label": maxChars(ramp.MaxLabel),
		"Wallets.Challenge": maxChars(1024)},
	"derivation": {"Next": derivation.MaxFamilies},
	"webhook":    {"Events": webhook.MaxSubscribed, "Pending": webhook.MaxPending},
}

// TestEveryStateFitsItsRecord fills every state to its limits and compares the document's size.
func TestEveryStateFitsItsRecord(t *testing.T) {
	for _, kind := range processes.Kinds() {
		full := kind.New()
		used := map[string]bool{}
		fillState(t, kind.Name, "", reflect.ValueOf(full).Elem(), used)
		document, err := json.Marshal(full)
		require.NoError(t, err, kind.Name)
		require.Less(t, len(document), maxStateBytes, kind.Name)
		for field := range maps.Keys(stateBounds[kind.Name]) {
			require.True(t, used[field], "%s has no field %s", kind.Name, field)
		}
		t.Logf("%-12s %8d bytes", kind.Name, len(document))
	}
}

// fillState sets every exported field of a state to its longest value.
func fillState(t *testing.T, kind, path string, v reflect.Value, used map[string]bool) {
	t.Helper()
	bound, bounded := stateBounds[kind][path]
	used[path] = bounded
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[decision.Stamp]() {
			v.Set(reflect.ValueOf(decision.StampOf(time.Date(2026, 12, 31, 23, 59, 59, 999e6, time.UTC))))
			return
		}
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				fillState(t, kind, strings.TrimPrefix(path+"."+field.Name, "."), v.Field(i), used)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillState(t, kind, path, v.Elem(), used)
	case reflect.String:
		if most, is := bound.(maxChars); is {
			v.SetString(strings.Repeat("<", int(most)))
		} else {
			v.SetString(strings.Repeat("x", generatedTextBytes))
		}
	case reflect.Slice:
		require.True(t, bounded, "%s: the list %s has no bound", kind, path)
		v.Set(reflect.MakeSlice(v.Type(), bound.(int), bound.(int)))
		for i := range v.Len() {
			fillState(t, kind, elementPath(path, v.Type().Elem()), v.Index(i), used)
		}
	case reflect.Map:
		require.True(t, bounded, "%s: the map %s has no bound", kind, path)
		v.Set(reflect.MakeMap(v.Type()))
		for i := range bound.(int) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			if key.CanInt() {
				key.SetInt(1<<62 + int64(i))
			} else {
				key.SetString(strings.Repeat("x",
					generatedTextBytes-4) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) +
					string(rune('a'+i/676)))
			}
			fillState(t, kind, elementPath(path, v.Type().Elem()), value, used)
			v.SetMapIndex(key, value)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(255)
	default:
		switch {
		case v.CanInt():
			v.SetInt(-1 << (v.Type().Bits() - 1))
		case v.CanUint():
			v.SetUint(1<<(v.Type().Bits()-1) - 1)
		default:
			require.FailNow(t, "a state has a field that this test cannot fill", "%s: %s", kind, path)
		}
	}
}

// elementPath returns the path of a list's elements: the list's own for structs, else the list's
// with a dot.
func elementPath(path string, element reflect.Type) string {
	if element.Kind() == reflect.Struct {
		return path
	}
	return path + "."
}

// TestTheLongestRunOfTheRelayFitsTheJournal: the longest run of the relay makes one event and
// records that the journal accepts, whatever their text.
func TestTheLongestRunOfTheRelayFitsTheJournal(t *testing.T) {
	id := counterID(3)
	workspaceID, err := ident.Parse(ident.Workspace, id)
	require.NoError(t, err)
	longest := func(seq uint64) hold.Entry {
		now := newClock().now()
		name := func(what string) ident.UUID {
			return ident.Derive(workspaceID.Slot(), now, what+strings.Repeat("i", int(seq)%7)+
				string(rune('a'+seq%26))+string(rune('a'+seq/26)))
		}
		merchant := hold.Merchant{ID: strings.Repeat("<", hold.MaxMerchantID),
			Name:    strings.Repeat("<", hold.MaxMerchantName),
			Country: "USA", MCC: 9999}
		h := hold.Hold{ID: name("authorization"), Card: name("card"), Workspace: workspaceID,
			NetworkID: strings.Repeat("<", hold.MaxNetworkID), Merchant: merchant, HasChecked: true,
			Decision: hold.Declined,
			Reason:   hold.ReasonPerTransactionLimitExceeded, Status: hold.StatusPartiallyCleared,
			Checked: hold.Checked{LimitCents: money.MaxAmount, SpentCents: money.MaxAmount,
				AskedCents: money.MaxAmount},
			Asked: money.MaxAmount, Held: money.MaxAmount, Cleared: money.MaxAmount, Refunded: money.MaxAmount,
			At: now.UnixMilli(), ExpiresAt: now.UnixMilli()}
		return hold.Entry{Shard: workspaceID.Slot().Shard(), Seq: 1<<62 + seq, WsSeq: seq, At: now.UnixMilli(),
			Workspace: workspaceID,
			Kind:      hold.Clearing, Reason: hold.ReasonForcedPost, Card: name("card"),
			NetworkID: strings.Repeat("<", hold.MaxNetworkID),
			Merchant:  merchant, Decision: hold.Unmatched,
			Amount: money.MaxAmount, Posted: 1, After: h, Spend: hold.Spend{Month: 202611, Cents: money.MaxAmount}}
	}
	entries := make([]hold.Entry, balance.MaxRelay)
	for i := range entries {
		entries[i] = longest(uint64(i) + 1)
	}
	var s balance.State
	d, err := s.Decide(decision.Meta{At: newClock().now()}, balance.Relay{Entries: entries})
	require.NoError(t, err)
	payload, err := decision.Encode(d.Events[0])
	require.NoError(t, err)
	batch := persistence.Batch{Workspace: id, Slot: workspaceID.Slot(),
		Events:  []persistence.Event{{ID: id, Payload: payload}},
		Records: make([]persistence.Record, 0, len(d.Records))}
	for _, r := range d.Records {
		document, err := decision.Encode(r.Document)
		require.NoError(t, err)
		batch.Records = append(batch.Records, persistence.Record{Kind: r.Kind, ID: r.ID, Document: document})
	}
	batch.Records = append(batch.Records,
		persistence.Record{Kind: "balance", ID: id, Document: make([]byte, maxStateBytes)})
	require.NoError(t, batch.Check(workspaceID.Slot().Shard()))
	require.Less(t, len(payload), maxStateBytes)
	require.GreaterOrEqual(t, len(batch.Records), 4*balance.MaxRelay,
		"each entry has a swipe's records, a line and a report")
}
