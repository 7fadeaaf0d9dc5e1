package hold

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// marshalEntry and its helpers are the reference of AppendJSON: the encoding of package json.

// marshalEntry encodes the entry through entryJSON and package json.
func marshalEntry(e *Entry) ([]byte, error) {
	at, err := formatTime(e.At)
	if err != nil {
		return nil, err
	}
	j := entryJSON{
		Seq: e.Seq, WsSeq: e.WsSeq, At: at, Kind: e.Kind, Decision: e.Decision, Reason: e.Reason, Shard: e.Shard,
		Workspace: formatID(ident.Workspace, e.Workspace), Card: formatID(ident.Card, e.Card),
		NetworkID: e.NetworkID, OriginalID: e.OriginalID, Fingerprint: hex.EncodeToString(e.Fingerprint[:]),
		Amount: e.Amount, Approved: e.Approved, Currency: formatCurrency(e.Currency),
		Merchant: writeMerchant(&e.Merchant),
		Final:    e.Final, Tombstone: e.Tombstone, CardDelta: e.CardDelta, HoldDelta: e.HoldDelta,
		SpendDelta: e.SpendDelta,
		Posted:     e.Posted, Month: e.Spend.Month, SpendCents: e.Spend.Cents,
		Checked: writeChecked(e.HasChecked, e.Checked),
	}
	if !e.After.ID.IsZero() {
		if j.Authorization, err = writeHold(&e.After); err != nil {
			return nil, err
		}
	}
	return json.Marshal(&j)
}

func writeHold(h *Hold) (*holdJSON, error) {
	at, err := formatTime(h.At)
	if err != nil {
		return nil, err
	}
	j := &holdJSON{
		ID: formatID(ident.Authorization, h.ID), Card: formatID(ident.Card, h.Card),
		Workspace: formatID(ident.Workspace, h.Workspace), NetworkID: h.NetworkID, At: at,
		Asked: h.Asked, Approved: h.Approved, Held: h.Held, Cleared: h.Cleared, Refunded: h.Refunded,
		Month: h.Month, MonthCents: h.MonthCents, Decision: h.Decision, Reason: h.Reason, Status: h.Status,
		Checked: writeChecked(h.HasChecked, h.Checked), Merchant: writeMerchant(&h.Merchant),
	}
	if h.ExpiresAt != 0 {
		j.ExpiresAt, err = formatTime(h.ExpiresAt)
	}
	return j, err
}

func writeMerchant(m *Merchant) *merchantJSON {
	if *m == (Merchant{}) {
		return nil
	}
	return &merchantJSON{ID: m.ID, Name: m.Name, MCC: fmt.Sprintf("%04d", m.MCC), Country: m.Country}
}

func writeChecked(has bool, c Checked) *Checked {
	if !has {
		return nil
	}
	return &c
}

func formatID(prefix string, id ident.UUID) string {
	if id.IsZero() {
		return ""
	}
	return id.Format(prefix)
}

func formatCurrency(c [3]byte) string {
	if c == ([3]byte{}) {
		return ""
	}
	return string(c[:])
}

func formatTime(ms int64) (string, error) {
	at := time.UnixMilli(ms).UTC()
	if year := at.Year(); year < 0 || year > 9999 {
		return "", fmt.Errorf("time %d ms is beyond RFC 3339", ms)
	}
	return at.Format(journalTime), nil
}

func TestAnEntryIsWrittenByHandAsPackageJSONWritesIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		want, errWant := marshalEntry(&e)
		got, err := e.AppendJSON([]byte("before"))
		require.Equal(t, errWant == nil, err == nil, "%v, %v", errWant, err)
		if err == nil {
			require.Equal(t, "before"+string(want), string(got))
		}
	})
}

func drawEntry(t *rapid.T) Entry {
	cents := func(what string) money.Cents {
		return money.Cents(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, what))
	}
	id := func(what string) (id ident.UUID) {
		copy(id[:], rapid.OneOf(rapid.Just(make([]byte, len(id))),
			rapid.SliceOfN(rapid.Byte(), len(id), len(id))).Draw(t, what))
		return id
	}
	merchant := func() Merchant {
		if rapid.Bool().Draw(t, "no merchant") {
			return Merchant{}
		}
		return Merchant{ID: rapid.String().Draw(t, "merchant"), Name: rapid.String().Draw(t, "name"),
			Country: rapid.String().Draw(t, "country"), MCC: rapid.Uint16().Draw(t, "mcc")}
	}
	// Some times are beyond RFC 3339 and some names do not exist. Both encodings report them as
	// errors.
	moment := func(what string) int64 {
		return rapid.Int64Range(-62_200_000_000_000, 253_500_000_000_000).Draw(t, what)
	}
	small := func(what string, least, most uint8) uint8 { return rapid.Uint8Range(least, most).Draw(t, what) }
	checked := Checked{LimitCents: cents("limit"), SpentCents: cents("spent"), AskedCents: cents("asked")}
	e := Entry{
		Seq: rapid.Uint64().Draw(t, "seq"), WsSeq: rapid.Uint64().Draw(t, "wsSeq"), At: moment("at"),
		Kind: Kind(small("kind", 1, 8)), Decision: Decision(small("decision", 1, 5)),
		Reason: Reason(small("reason", 0, uint8(reasons)-1)),
		Shard:  ident.Shard(small("shard", 0, 255)), Workspace: id("workspace"), Card: id("card"),
		NetworkID: rapid.String().Draw(t, "network id"), OriginalID: rapid.String().Draw(t, "original id"),
		Amount: cents("amount"), Approved: cents("approved"), Merchant: merchant(),
		Final:     rapid.Bool().Draw(t, "final"),
		Tombstone: rapid.Bool().Draw(t, "tombstone"), CardDelta: cents("card delta"), HoldDelta: cents("hold delta"),
		SpendDelta: cents("spend delta"), Posted: cents("posted"),
		Spend: Spend{Month: money.Month(rapid.Uint32().Draw(t, "month")), Cents: cents("spend")},
		After: Hold{ID: id("hold"), Card: id("card of hold"), Workspace: id("workspace of hold"),
			NetworkID: rapid.String().Draw(t, "network id of hold"), At: moment("at of hold"),
			ExpiresAt: moment("expires"),
			Asked:     cents("asked"), Approved: cents("approved of hold"), Held: cents("held"), Cleared: cents("cleared"),
			Refunded: cents("refunded"), Month: money.Month(rapid.Uint32().Draw(t, "month of hold")),
			MonthCents: cents("month cents"), Decision: Decision(small("decision of hold", 1, 5)),
			Reason: Reason(small("reason of hold", 0, uint8(reasons)-1)), Status: Status(small("status", 0, 7)),
			HasChecked: rapid.Bool().Draw(t, "hold checked"), Checked: checked,
			Merchant: merchant()},
		HasChecked: rapid.Bool().Draw(t, "checked"), Checked: checked,
	}
	copy(e.Currency[:], rapid.SampledFrom([]string{"", "USD", "<&>"}).Draw(t, "currency"))
	copy(e.Fingerprint[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "fingerprint"))
	return e
}
