package balance_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/authorizer/hold"
)

// TestWhatIsWrittenByHandIsWhatPackageJSONWrites: package json does not look at AppendJSON, so both ways are there to compare.
func TestWhatIsWrittenByHandIsWhatPackageJSONWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(what string) string { return rapid.String().Draw(t, what) }
		cents := func(what string) int64 { return rapid.Int64().Draw(t, what) }
		at := decision.StampOf(start)
		entry := hold.Entry{Kind: hold.Clearing, Decision: hold.Posted, Workspace: workspaceID, NetworkID: text("network id"),
			At: at.UnixMilli()}
		posting := balance.Posting{Transfer: text("transfer"), Account: text("account"), Cents: cents("cents")}
		postings := rapid.SampledFrom([][]balance.Posting{nil, {}, {posting, {Cents: 1}}}).Draw(t, "postings")
		entries := rapid.SampledFrom([][]hold.Entry{nil, {}, {entry}, {entry, entry}}).Draw(t, "entries")
		compared := &hold.Checked{LimitCents: cents("limit"), SpentCents: cents("spent"), AskedCents: 1}
		checked := rapid.SampledFrom([]*hold.Checked{nil, compared}).Draw(t, "checked")
		for _, v := range []decision.Appender{
			balance.Relayed{Workspace: text("workspace"), Entries: entries, Postings: postings, At: at},
			balance.Authorization{ID: text("id"), NetworkID: text("network"), Decision: text("decision"), Reason: text("reason"),
				ResponseCode: text("code"), AmountCents: cents("amount"), HeldCents: cents("held"),
				ClearedCents: cents("cleared"), RefundedCents: cents("refunded"), Status: text("status"), Checked: checked,
				At: at, Merchant: balance.Merchant{ID: text("merchant"), Name: text("name"), MCC: text("mcc"),
					Country: text("country")}},
			balance.AuthorizationIndex{AuthorizationID: text("authorization")},
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

func BenchmarkEncodeRelayed(b *testing.B) {
	entry := hold.Entry{Kind: hold.Authorization, Decision: hold.Approved, Workspace: workspaceID, Card: cardID, NetworkID: "n-1",
		At: start.UnixMilli(), Merchant: hold.Merchant{ID: "m1", Name: "Bakery", Country: "US", MCC: 742}}
	entry.After = hold.Hold{ID: cardID, Card: cardID, Workspace: workspaceID, NetworkID: "n-1", At: entry.At, ExpiresAt: entry.At,
		Decision: hold.Approved, Status: hold.StatusHeld, Merchant: entry.Merchant}
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
