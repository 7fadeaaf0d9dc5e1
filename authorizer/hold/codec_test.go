package hold_test

import (
	"encoding"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

var update = flag.Bool("update", false, "write the golden files of this version")

var (
	anyUUID = rapid.Custom(func(t *rapid.T) ident.UUID {
		slot := ident.Slot(rapid.IntRange(0, ident.Slots-1).Draw(t, "slot"))
		return ident.Derive(slot, time.UnixMilli(rapid.Int64Range(1, 1<<45).Draw(t, "ms")),
			rapid.String().Draw(t, "cause"))
	})
	maybeUUID = rapid.OneOf(rapid.Just(ident.UUID{}), anyUUID)
	anyTime   = rapid.Int64Range(-1<<40, 1<<45)
	anyCents  = centsOf(rapid.Int64())
	anySpend  = rapid.Custom(func(t *rapid.T) hold.Spend {
		return hold.Spend{Month: money.Month(rapid.Uint32().Draw(t, "month")), Cents: anyCents.Draw(t, "cents")}
	})
	anyMerchant = rapid.Custom(func(t *rapid.T) hold.Merchant {
		s := rapid.String()
		return hold.Merchant{ID: s.Draw(t, "id"), Name: s.Draw(t, "name"), Country: s.Draw(t, "country"),
			MCC: rapid.Uint16Range(0, 9999).Draw(t, "mcc")}
	})
	anyChecked = rapid.Custom(func(t *rapid.T) hold.Checked {
		return hold.Checked{
			LimitCents: anyCents.Draw(t, "limit"), SpentCents: anyCents.Draw(t, "spent"),
			AskedCents: anyCents.Draw(t, "asked"),
		}
	})
	anyDecision = rapid.SampledFrom([]hold.Decision{hold.Approved, hold.Declined, hold.Posted, hold.Unmatched,
		hold.Applied})
	anyReason = rapid.Custom(func(t *rapid.T) hold.Reason {
		return hold.Reason(rapid.IntRange(0, int(lastNamed[hold.Reason]())).Draw(t, "reason"))
	})
	anyHold = rapid.Custom(func(t *rapid.T) hold.Hold {
		h := hold.Hold{
			ID: anyUUID.Draw(t, "id"), Card: maybeUUID.Draw(t, "card"), Workspace: maybeUUID.Draw(t, "ws"),
			NetworkID: rapid.String().Draw(t, "network"), At: anyTime.Draw(t, "at"),
			ExpiresAt: anyTime.Draw(t, "expires"),
			Asked:     anyCents.Draw(t, "asked"), Approved: anyCents.Draw(t, "approved"), Held: anyCents.Draw(t, "held"),
			Cleared: anyCents.Draw(t, "cleared"), Refunded: anyCents.Draw(t, "refunded"),
			Month: money.Month(rapid.Uint32().Draw(t, "month")), MonthCents: anyCents.Draw(t, "monthCents"),
			Decision: anyDecision.Draw(t, "decision"), Reason: anyReason.Draw(t, "reason"),
			Status:     hold.Status(rapid.IntRange(0, int(lastNamed[hold.Status]())).Draw(t, "status")),
			HasChecked: rapid.Bool().Draw(t, "has"), Merchant: anyMerchant.Draw(t, "merchant"),
		}
		if h.HasChecked {
			h.Checked = anyChecked.Draw(t, "checked")
		}
		return h
	})
	anyEntry = rapid.Custom(func(t *rapid.T) hold.Entry {
		e := hold.Entry{
			Seq: rapid.Uint64().Draw(t, "seq"), WsSeq: rapid.Uint64().Draw(t, "wsseq"), At: anyTime.Draw(t, "at"),
			Kind:     hold.Kind(rapid.IntRange(1, int(lastNamed[hold.Kind]())).Draw(t, "kind")),
			Decision: anyDecision.Draw(t, "decision"), Reason: anyReason.Draw(t, "reason"),
			Shard: ident.Shard(rapid.Byte().Draw(t, "shard")), Workspace: maybeUUID.Draw(t, "ws"),
			Card: maybeUUID.Draw(t, "card"), NetworkID: rapid.String().Draw(t, "network"),
			OriginalID:  rapid.String().Draw(t, "original"),
			Fingerprint: [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "fingerprint")),
			Amount:      anyCents.Draw(t, "amount"), Approved: anyCents.Draw(t, "approved"),
			Merchant: anyMerchant.Draw(t, "merchant"), Final: rapid.Bool().Draw(t, "final"),
			Tombstone: rapid.Bool().Draw(t, "tombstone"), CardDelta: anyCents.Draw(t, "c"),
			HoldDelta:  anyCents.Draw(t, "h"),
			SpendDelta: anyCents.Draw(t, "s"), Posted: anyCents.Draw(t, "p"), Spend: anySpend.Draw(t, "spend"),
			HasChecked: rapid.Bool().Draw(t, "has"),
		}
		if rapid.Bool().Draw(t, "currency") {
			copy(e.Currency[:], rapid.StringMatching("[A-Za-z]{3}").Draw(t, "iso"))
		}
		if e.HasChecked {
			e.Checked = anyChecked.Draw(t, "checked")
		}
		if rapid.Bool().Draw(t, "known") {
			e.After = anyHold.Draw(t, "after")
		}
		return e
	})
	anyRule = rapid.Custom(func(t *rapid.T) hold.Rule {
		r := hold.Rule{
			Token: ident.Token(rapid.SliceOfN(rapid.Byte(), 18, 18).Draw(t, "token")), Card: maybeUUID.Draw(t, "card"),
			Workspace: maybeUUID.Draw(t, "ws"), Version: rapid.Uint64().Draw(t, "version"),
			State: rapid.SampledFrom(
				[]hold.CardState{hold.CardActive, hold.CardFrozen, hold.CardTerminated}).Draw(t, "state"),
			PerTxnCents: anyCents.Draw(t, "txn"), MonthCents: anyCents.Draw(t, "month"),
		}
		if rapid.Bool().Draw(t, "mccs") {
			r.MCCs = append([]uint16{}, rapid.SliceOf(rapid.Uint16()).Draw(t, "mcc")...)
		}
		if rapid.Bool().Draw(t, "merchants") {
			r.Merchants = append([]string{}, rapid.SliceOf(rapid.String()).Draw(t, "merchant")...)
		}
		return r
	})
)

// lastNamed returns the last value of an enumeration that has a name.
func lastNamed[E interface {
	~uint8
	encoding.TextMarshaler
}]() (last E) {
	for v := range math.MaxUint8 + 1 {
		if _, err := E(v).MarshalText(); err == nil {
			last = E(v)
		}
	}
	return last
}

// centsOf draws amounts from a generator of numbers.
func centsOf(numbers *rapid.Generator[int64]) *rapid.Generator[money.Cents] {
	return rapid.Map(numbers, func(n int64) money.Cents { return money.Cents(n) })
}

func centsBetween(low, high int64) *rapid.Generator[money.Cents] {
	return centsOf(rapid.Int64Range(low, high))
}

func TestBinaryFormsReadBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, h, r, s := anyEntry.Draw(t, "e"), anyHold.Draw(t, "h"), anyRule.Draw(t, "r"), anySpend.Draw(t, "s")
		var e2 hold.Entry
		require.NoError(t, hold.DecodeEntry(hold.AppendEntry(nil, &e), &e2))
		require.Equal(t, e, e2)
		var h2 hold.Hold
		require.NoError(t, hold.DecodeHold(hold.AppendHold(nil, &h), &h2))
		require.Equal(t, h, h2)
		var r2 hold.Rule
		require.NoError(t, hold.DecodeRule(hold.AppendRule(nil, &r), &r2))
		require.Equal(t, r, r2)
		var s2 hold.Spend
		require.NoError(t, hold.DecodeSpend(hold.AppendSpend(nil, &s), &s2))
		require.Equal(t, s, s2)
	})
}

func TestJournalFormReadsBackExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEntry.Draw(t, "e")
		text, err := json.Marshal(e)
		require.NoError(t, err)
		var back hold.Entry
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, e, back)
	})
}

func TestJournalFormRefusesWhatItCannotKeep(t *testing.T) {
	e := sampleEntry()
	good, err := json.Marshal(e)
	require.NoError(t, err)
	for from, to := range map[string]string{
		`"seq":`: `"sequence":`, `"approved"`: `"granted"`, `"fingerprint":"01`: `"fingerprint":"x1`, `"USD"`: `"US"`,
		`"ws_`: `"wx_`, `"5411"`: `"541"`, `T10:00`: `T10-00`,
	} {
		bad := strings.Replace(string(good), from, to, 1)
		require.NotEqual(t, string(good), bad, from)
		require.Error(t, json.Unmarshal([]byte(bad), new(hold.Entry)), from)
	}
	e.At = math.MaxInt64
	_, err = json.Marshal(e)
	require.Error(t, err)
	e.At, e.Decision = 0, 0
	_, err = json.Marshal(e)
	require.Error(t, err)
}

func TestEveryCutAndEveryTrailingByteIsCorrupt(t *testing.T) {
	e, r := sampleEntry(), sampleRule()
	for name, c := range map[string]struct {
		b      []byte
		decode func([]byte) error
	}{
		"entry": {hold.AppendEntry(nil, &e), func(b []byte) error { return hold.DecodeEntry(b, new(hold.Entry)) }},
		"hold":  {hold.AppendHold(nil, &e.After), func(b []byte) error { return hold.DecodeHold(b, new(hold.Hold)) }},
		"rule":  {hold.AppendRule(nil, &r), func(b []byte) error { return hold.DecodeRule(b, new(hold.Rule)) }},
		"spend": {hold.AppendSpend(nil, &e.Spend),
			func(b []byte) error { return hold.DecodeSpend(b, new(hold.Spend)) }},
	} {
		require.NoError(t, c.decode(c.b), name)
		for n := range c.b {
			require.ErrorIs(t, c.decode(c.b[:n]), hold.ErrCorrupt, "%s cut at %d", name, n)
		}
		require.ErrorIs(t, c.decode(append(c.b, 0)), hold.ErrCorrupt, name)
		c.b[0]++
		require.ErrorIs(t, c.decode(c.b), hold.ErrCorrupt, "%s of another version", name)
	}
}

// Stored bytes outlive the program: every later version must read these files.
func TestGoldenForms(t *testing.T) {
	e, r := sampleEntry(), sampleRule()
	text, err := json.MarshalIndent(e, "", "  ")
	require.NoError(t, err)
	for name, b := range map[string]string{
		"entry.v1.hex":  hex.EncodeToString(hold.AppendEntry(nil, &e)),
		"hold.v1.hex":   hex.EncodeToString(hold.AppendHold(nil, &e.After)),
		"rule.v1.hex":   hex.EncodeToString(hold.AppendRule(nil, &r)),
		"spend.v1.hex":  hex.EncodeToString(hold.AppendSpend(nil, &e.Spend)),
		"entry.v1.json": string(text),
	} {
		path := filepath.Join("testdata", "golden", name)
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(b+"\n"), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(want)), b, name)
	}
}

func sampleEntry() hold.Entry {
	at := time.Date(2026, 11, 20, 10, 0, 0, 123e6, time.UTC)
	id := func(cause string) ident.UUID { return ident.Derive(77, at, cause) }
	merchant := hold.Merchant{ID: "acq-77", Name: "Café \"Nord\"", Country: "DE", MCC: 5411}
	checked := hold.Checked{LimitCents: 100_000, SpentCents: 2_500, AskedCents: 12_000}
	return hold.Entry{
		Seq: 300, WsSeq: 5, At: at.UnixMilli(), Kind: hold.Authorization, Decision: hold.Approved, Shard: 4,
		Workspace: id("ws"),
		Card:      id("card"), NetworkID: "net-1", OriginalID: "net-0", Fingerprint: [16]byte{1, 2, 15: 0xff},
		Amount:   12_000,
		Approved: 9_000, Currency: [3]byte([]byte("USD")), Merchant: merchant, Final: true, CardDelta: -9_000,
		HoldDelta:  9_000,
		SpendDelta: 9_000, Posted: -1, Spend: hold.Spend{Month: 202611, Cents: 11_500}, HasChecked: true,
		Checked: checked,
		After: hold.Hold{
			ID: id("auth"), Card: id("card"), Workspace: id("ws"), NetworkID: "net-1", At: at.UnixMilli(),
			ExpiresAt: at.Add(hold.DefaultHoldLife).UnixMilli(), Asked: 12_000, Approved: 9_000, Held: 9_000,
			Cleared:  1,
			Refunded: 2, Month: 202611, MonthCents: 9_000, Decision: hold.Approved, Status: hold.StatusHeld,
			HasChecked: true,
			Checked:    checked, Merchant: merchant,
		},
	}
}

func sampleRule() hold.Rule {
	e := sampleEntry()
	return hold.Rule{
		Token: ident.Token{0, 77, 17: 9}, Card: e.Card, Workspace: e.Workspace, Version: 3, State: hold.CardFrozen,
		PerTxnCents: 50_000, MonthCents: 100_000, MCCs: []uint16{5411, 742},
		Merchants: []string{hold.NormalizeMerchant("Air *"), "acq-77"},
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	e, r := sampleEntry(), sampleRule()
	buffer := make([]byte, 0, 4096)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b := hold.AppendEntry(buffer, &e)
		b = hold.AppendHold(b, &e.After)
		b = hold.AppendRule(b, &r)
		hold.AppendSpend(b, &e.Spend)
	}))
}

func FuzzDecode(f *testing.F) {
	e, r := sampleEntry(), sampleRule()
	f.Add(hold.AppendEntry(nil, &e))
	f.Add(hold.AppendHold(nil, &e.After))
	f.Add(hold.AppendRule(nil, &r))
	f.Add(hold.AppendSpend(nil, &e.Spend))
	f.Fuzz(func(t *testing.T, b []byte) {
		var (
			entry hold.Entry
			held  hold.Hold
			rule  hold.Rule
			spend hold.Spend
		)
		if hold.DecodeEntry(b, &entry) == nil {
			require.Equal(t, b, hold.AppendEntry(nil, &entry))
		}
		if hold.DecodeHold(b, &held) == nil {
			require.Equal(t, b, hold.AppendHold(nil, &held))
		}
		if hold.DecodeRule(b, &rule) == nil {
			require.Equal(t, b, hold.AppendRule(nil, &rule))
		}
		if hold.DecodeSpend(b, &spend) == nil {
			require.Equal(t, b, hold.AppendSpend(nil, &spend))
		}
	})
}

func FuzzJournalForm(f *testing.F) {
	e := sampleEntry()
	text, err := json.Marshal(e)
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second hold.Entry
		if json.Unmarshal(b, &first) != nil {
			return
		}
		text, err := json.Marshal(first)
		if err != nil {
			return // a zero decision can be decoded but not encoded
		}
		require.NoError(t, json.Unmarshal(text, &second))
		require.Equal(t, first, second)
	})
}

// requireNamesReadBack requires that the name of each value from first on is read as that value.
func requireNamesReadBack[E interface {
	~uint8
	encoding.TextMarshaler
	fmt.Stringer
}, P interface {
	*E
	encoding.TextUnmarshaler
}](t *testing.T, first E) {
	for v := first; v <= lastNamed[E](); v++ {
		var back E
		require.NoError(t, P(&back).UnmarshalText([]byte(v.String())))
		require.Equal(t, v, back)
	}
}
