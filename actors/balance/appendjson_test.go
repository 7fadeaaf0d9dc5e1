package balance_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/authorizer/hold"
	"purser/persistence/money"
)

// Package json ignores AppendJSON, so that both encodings can be compared.
func TestAppendJSONWritesTheBytesOfPackageJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(what string) string { return rapid.String().Draw(t, what) }
		cents := func(what string) money.Cents { return money.Cents(rapid.Int64().Draw(t, what)) }
		at := decision.StampOf(start)
		entry := hold.Entry{Kind: hold.Clearing, Decision: hold.Posted, Workspace: workspaceID,
			NetworkID: text("network id"),
			At:        at.UnixMilli()}
		posting := balance.Posting{Transfer: text("transfer"), Account: text("account"),
			Currency: money.Currency(text("currency")),
			Amount:   cents("cents").Minor()}
		postings := rapid.SampledFrom([][]balance.Posting{nil, {}, {posting, {Amount: 1}}}).Draw(t, "postings")
		entries := rapid.SampledFrom([][]hold.Entry{nil, {}, {entry}, {entry, entry}}).Draw(t, "entries")
		compared := &hold.Checked{LimitCents: cents("limit"), SpentCents: cents("spent"), AskedCents: 1}
		checked := rapid.SampledFrom([]*hold.Checked{nil, compared}).Draw(t, "checked")
		for _, v := range []decision.Appender{
			balance.Relayed{Workspace: text("workspace"), Entries: entries, Postings: postings, At: at},
			balance.Authorization{ID: text("id"), NetworkID: text("network"), Decision: text("decision"),
				Reason:       text("reason"),
				ResponseCode: text("code"), AmountCents: cents("amount"), HeldCents: cents("held"),
				ClearedCents: cents("cleared"), RefundedCents: cents("refunded"), Status: text("status"),
				Checked: checked,
				At:      at, Merchant: balance.Merchant{ID: text("merchant"), Name: text("name"), MCC: text("mcc"),
					Country: text("country")}},
			balance.AuthorizationIndex{AuthorizationIDs: rapid.SampledFrom([][]string{nil, {}, {text("one")}, {text("first"),
				text("second")}}).Draw(t, "run")},
			balance.CardSpend{Month: rapid.Uint32().Draw(t, "month"), Cents: cents("spend")},
		} {
			want, err := json.Marshal(v)
			require.NoError(t, err)
			got, err := decision.Encode(v)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
	})
}

// A field that a type has and its AppendJSON omits would be lost in the journal. requireFilled
// makes a new field fail here until this test gives it a value; then the comparison misses it.
func TestAppendJSONLeavesNoFieldOut(t *testing.T) {
	at := decision.StampOf(start)
	entry := hold.Entry{Kind: hold.Clearing, Decision: hold.Posted, Workspace: workspaceID, At: at.UnixMilli()}
	for _, v := range []decision.Appender{
		balance.Relayed{Workspace: "ws_1", Entries: []hold.Entry{entry}, At: at,
			Postings: []balance.Posting{{Transfer: "tg_1", Account: "usd", Currency: "EUR", Amount: 1}}},
		balance.Authorization{ID: "auth_1", NetworkID: "n-1", Decision: "approved", Reason: "approved",
			ResponseCode: "00",
			AmountCents:  1, HeldCents: 2, ClearedCents: 3, RefundedCents: 4, Status: "held", At: at,
			Checked:  &hold.Checked{LimitCents: 5, SpentCents: 6, AskedCents: 7},
			Merchant: balance.Merchant{ID: "m1", Name: "Bakery", MCC: "0742", Country: "US"}},
		balance.AuthorizationIndex{AuthorizationIDs: []string{"auth_2", "auth_3"}},
		balance.CardSpend{Month: 202511, Cents: 1},
	} {
		requireFilled(t, reflect.ValueOf(v), reflect.TypeOf(v).String())
		want, err := json.Marshal(v)
		require.NoError(t, err)
		got, err := decision.Encode(v)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

// requireFilled fails on a field without a value. Package hold checks the fields of entries.
func requireFilled(t *testing.T, v reflect.Value, path string) {
	require.False(t, v.IsZero(), "%s has no value in this test", path)
	switch v.Type() {
	case reflect.TypeFor[decision.Stamp](), reflect.TypeFor[hold.Entry]():
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		requireFilled(t, v.Elem(), path)
	case reflect.Slice:
		for i := range v.Len() {
			requireFilled(t, v.Index(i), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			requireFilled(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	}
}

func BenchmarkEncodeRelayed(b *testing.B) {
	entry := hold.Entry{Kind: hold.Authorization, Decision: hold.Approved, Workspace: workspaceID, Card: cardID,
		NetworkID: "n-1",
		At:        start.UnixMilli(), Merchant: hold.Merchant{ID: "m1", Name: "Bakery", Country: "US", MCC: 742}}
	entry.After = hold.Hold{ID: cardID, Card: cardID, Workspace: workspaceID, NetworkID: "n-1", At: entry.At,
		ExpiresAt: entry.At,
		Decision:  hold.Approved, Status: hold.StatusHeld, Merchant: entry.Merchant}
	e := balance.Relayed{Workspace: "ws_1", Entries: make([]hold.Entry, 32), At: decision.StampOf(start)}
	for i := range e.Entries {
		e.Entries[i] = entry
	}
	for _, way := range []struct {
		name   string
		encode func(any) ([]byte, error)
	}{{"hand", decision.Encode}, {"json", json.Marshal}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := way.encode(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
