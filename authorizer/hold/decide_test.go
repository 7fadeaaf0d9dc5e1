package hold_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

func TestDecideDoesNotAllocate(t *testing.T) {
	rule := sampleRule()
	rule.State, rule.Merchants = hold.CardActive, []string{hold.NormalizeMerchant("CAFÉ *")}
	e := sampleEntry()
	held := e.After
	for _, kind := range []hold.Kind{hold.Authorization, hold.Incremental, hold.Reversal, hold.Clearing, hold.Refund} {
		m := message(kind, 100)
		m.Merchant = hold.Merchant{Name: "café nord", MCC: 5411}
		v := hold.View{Now: held.At, Rule: &rule, Spendable: 1000, Hold: &held, NewID: held.ID, Spend: e.Spend}
		var out hold.Entry
		require.Zero(t, testing.AllocsPerRun(100, func() { hold.Decide(&v, &m, &out) }), kind)
		require.NotEqual(t, hold.Declined, out.Decision, out.Reason)
	}
}

// An entry carries its message, card and workspace, whatever the memory held before.
func TestEntryCarriesItsMessage(t *testing.T) {
	sample, rule := sampleEntry(), sampleRule()
	rule.State, rule.MCCs, rule.Merchants = hold.CardActive, nil, nil
	for _, known := range []bool{true, false} {
		for _, kind := range []hold.Kind{hold.Authorization, hold.Incremental, hold.Reversal, hold.Clearing,
			hold.Refund} {
			m := message(kind, 100)
			m.ID, m.OriginalID, m.Fingerprint, m.Final = "net-2", "net-3", [16]byte{7}, true
			m.Merchant = hold.Merchant{ID: "acq-1", Name: "Kiosk", Country: "FR", MCC: 5999}
			v := hold.View{Now: sample.At + 5, Spendable: 1000, NewID: ident.UUID{9}}
			want := hold.Entry{Workspace: ident.System}
			if known {
				v.Rule, v.Spend = &rule, sample.Spend
				want.Workspace, want.Card = rule.Workspace, rule.Card
			}
			if kind == hold.Reversal && known {
				v.Hold = &sample.After
			}
			e := sampleEntry()
			hold.Decide(&v, &m, &e)
			got := hold.Entry{Workspace: e.Workspace, Card: e.Card, At: e.At, Kind: e.Kind, NetworkID: e.NetworkID,
				OriginalID: e.OriginalID, Fingerprint: e.Fingerprint, Amount: e.Amount, Currency: e.Currency,
				Merchant: e.Merchant, Final: e.Final}
			want.At, want.Kind, want.NetworkID, want.OriginalID, want.Fingerprint = v.Now, kind, m.ID, m.OriginalID,
				m.Fingerprint
			want.Amount, want.Currency, want.Merchant, want.Final = m.Amount, m.Currency, m.Merchant, m.Final
			require.Equal(t, want, got, "%v, known: %t", kind, known)
			require.Zero(t, e.Seq+e.WsSeq+uint64(e.Shard), "the log gives them")
			if kind == hold.Authorization && known {
				h := hold.Hold{ID: e.After.ID, Card: e.After.Card, Workspace: e.After.Workspace,
					NetworkID: e.After.NetworkID, At: e.After.At,
					Month: e.After.Month, Merchant: e.After.Merchant}
				require.Equal(t, hold.Hold{ID: v.NewID, Card: rule.Card, Workspace: rule.Workspace, NetworkID: m.ID,
					At:    v.Now,
					Month: sample.Spend.Month, Merchant: m.Merchant}, h)
			}
		}
	}
}

// For every view and message, Decide makes an entry whose deltas equal its changes, and no sum
// overflows.
func TestDecideIsTotal(t *testing.T) {
	most := int64(money.MaxAmount)
	edges := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, most, most + 1}
	edge := centsOf(rapid.OneOf(rapid.Int64(), rapid.SampledFrom(edges)))
	amount := centsBetween(0, most)
	rapid.Check(t, func(t *rapid.T) {
		m := message(hold.Kind(rapid.IntRange(int(hold.Authorization), int(hold.Refund)).Draw(t, "kind")),
			edge.Draw(t, "amount"))
		m.Final, m.PartialApproval = rapid.Bool().Draw(t, "final"), rapid.Bool().Draw(t, "partial")
		rule := hold.Rule{Card: ident.UUID{1}, Workspace: ident.UUID{2}, State: hold.CardActive,
			PerTxnCents: amount.Draw(t, "limit"), MonthCents: amount.Draw(t, "month")}
		held := hold.Hold{ID: ident.UUID{3}, Card: rule.Card, Held: amount.Draw(t, "held"),
			Cleared: max(0, edge.Draw(t, "cleared")), Refunded: max(0, edge.Draw(t, "refunded")), Month: 202611}
		v := hold.View{Now: 1_795_000_000_000, Rule: &rule, Spendable: edge.Draw(t, "funds"), Hold: &held,
			NewID: ident.UUID{4},
			Spend: hold.Spend{Month: 202611, Cents: max(0, edge.Draw(t, "spent"))}}
		held.MonthCents = min(held.Held, v.Spend.Cents)
		var e hold.Entry
		hold.Decide(&v, &m, &e)
		after, spent, moved := held, v.Spend, money.Cents(0)
		hold.Apply(&e, &spent, &after, &moved)
		require.Equal(t, e.CardDelta, moved)
		require.GreaterOrEqual(t, after.Held, money.Cents(0))
		require.GreaterOrEqual(t, after.Cleared, money.Cents(0))
		require.GreaterOrEqual(t, after.Refunded, money.Cents(0))
		require.GreaterOrEqual(t, spent.Cents, money.Cents(0))
		require.Equal(t, v.Spend.Cents+e.SpendDelta, spent.Cents)
		if e.Decision != hold.Applied && e.Decision != hold.Declined {
			_, err := money.Add(v.Spendable, e.CardDelta)
			require.NoError(t, err)
		}
		if e.Decision == hold.Approved && e.Approved > 0 {
			require.GreaterOrEqual(t, v.Spendable+e.CardDelta, money.Cents(0))
			require.LessOrEqual(t, spent.Cents, rule.MonthCents)
		}
	})
}

func TestASumBeyondEveryBoundIsKeptUnmatched(t *testing.T) {
	rule := hold.Rule{Card: ident.UUID{1}, State: hold.CardActive}
	for name, v := range map[string]hold.View{
		"funds":        {Spendable: math.MaxInt64},
		"debt":         {Spendable: math.MinInt64},
		"spend":        {Now: 1, Spend: hold.Spend{Month: 202611, Cents: math.MaxInt64}},
		"cleared":      {Hold: &hold.Hold{ID: ident.UUID{9}, Card: rule.Card, Cleared: math.MaxInt64}},
		"refunded":     {Hold: &hold.Hold{ID: ident.UUID{9}, Card: rule.Card, Refunded: math.MaxInt64}},
		"unknown card": {},
	} {
		for _, kind := range []hold.Kind{hold.Clearing, hold.Refund} {
			m := message(kind, 100)
			if name != "unknown card" {
				v.Rule = &rule
			}
			var e hold.Entry
			hold.Decide(&v, &m, &e)
			require.Equal(t, hold.Unmatched, e.Decision, name)
			require.Zero(t, e.CardDelta+e.HoldDelta+e.SpendDelta, name)
			require.Equal(t, name == "unknown card", e.Posted != 0, name)
			require.Equal(t, name == "unknown card", e.Workspace == ident.System, name)
		}
	}
}

func TestAnUnknownKindIsABug(t *testing.T) {
	require.Panics(t, func() { hold.Decide(&hold.View{}, &hold.Message{Kind: hold.Expiry}, new(hold.Entry)) })
}

func TestMerchantMatching(t *testing.T) {
	for _, c := range []struct {
		entry string
		m     hold.Merchant
		want  bool
	}{
		{"Café", hold.Merchant{Name: "CAFÉ"}, true},
		{"straße", hold.Merchant{Name: "STRAẞE"}, true},
		{"\u212aelvin", hold.Merchant{Name: "kelvin"}, true}, // the Kelvin sign
		{" a \t b ", hold.Merchant{Name: "A\u00a0B"}, true},
		{"a b", hold.Merchant{Name: "ab"}, false},
		{"*", hold.Merchant{Name: "anyone"}, true},
		{"air *", hold.Merchant{Name: "Air"}, false},
		{"air *", hold.Merchant{Name: "AIR  FRANCE"}, true},
		{"Air*", hold.Merchant{Name: "Repair"}, false},
		{"ID-7", hold.Merchant{ID: "ID-7", Name: "x"}, true},
		{"ID-7", hold.Merchant{ID: "id-7", Name: "x"}, false},
		{"id-7", hold.Merchant{ID: "id-7", Name: "x"}, true},
		{"ID*", hold.Merchant{ID: "ID-7", Name: "x"}, true},
		{"ID-*", hold.Merchant{ID: "id-7", Name: "x"}, false},
		{"id-*", hold.Merchant{ID: "id-7", Name: "x"}, true},
		{"ID-7*", hold.Merchant{ID: "ID-", Name: "x"}, false},
		{"ID*", hold.Merchant{Name: "x"}, false},
		{"x", hold.Merchant{Name: strings.Repeat("x", 100_000)}, false},
		{"x*", hold.Merchant{Name: strings.Repeat("x", 100_000)}, false},
	} {
		allowed := []string{hold.NormalizeMerchant("somebody else"), hold.NormalizeMerchant(c.entry)}
		require.Equal(t, c.want, hold.MatchMerchant(allowed, &c.m), "%q %v", c.entry, c.m)
	}
	require.True(t, hold.MatchMerchant(nil, &hold.Merchant{}))
	require.False(t, hold.MatchMerchant([]string{}, &hold.Merchant{Name: "x"}))
}

func TestNamesReadBackAndCodesAreThoseOfISO8583(t *testing.T) {
	codes := map[string]string{
		"approved": "00", "invalid_request": "30", "card_not_found": "14", "card_terminated": "46", "card_frozen": "62",
		"currency_not_supported": "12", "mcc_not_allowed": "57", "merchant_not_allowed": "57",
		"per_transaction_limit_exceeded": "61", "monthly_limit_exceeded": "61", "insufficient_funds": "51",
		"duplicate_mismatch": "94", "authorization_not_found": "25", "reversed_before_arrival": "12", "timeout": "91",
		"backlog_full": "96", "system_unavailable": "96", "forced_post": "00",
	}
	for name, code := range codes {
		var reason hold.Reason
		require.NoError(t, reason.UnmarshalText([]byte(name)))
		require.Equal(t, name, reason.String())
		require.Equal(t, code, reason.ResponseCode(false))
	}
	require.Len(t, codes, int(lastNamed[hold.Reason]())+1)
	require.Equal(t, "10", hold.ReasonApproved.ResponseCode(true))
	require.Equal(t, "51", hold.ReasonInsufficientFunds.ResponseCode(true))
	requireNamesReadBack(t, hold.Authorization)
	requireNamesReadBack(t, hold.StatusNone)
	requireNamesReadBack(t, hold.Approved)
	requireNamesReadBack(t, hold.CardActive)
	require.Error(t, new(hold.Kind).UnmarshalText(nil))
	require.Equal(t, "kind 0", hold.Kind(0).String())
}

func TestFingerprintTellsMessagesApart(t *testing.T) {
	base := message(hold.Authorization, 100)
	sum := base.Sum()
	for name, change := range map[string]func(*hold.Message){
		"kind":          func(m *hold.Message) { m.Kind = hold.Incremental },
		"card":          func(m *hold.Message) { m.Token[3] = 1 },
		"amount":        func(m *hold.Message) { m.Amount++ },
		"currency":      func(m *hold.Message) { m.Currency[0] = 'E' },
		"authorization": func(m *hold.Message) { m.AuthorizationID[0] = 1 },
		"original":      func(m *hold.Message) { m.OriginalID = "x" },
		"whole hold":    func(m *hold.Message) { m.WholeHold = true },
	} {
		m := base
		change(&m)
		require.NotEqual(t, sum, m.Sum(), name)
	}
	same := base
	same.Merchant.Name, same.PartialApproval, same.Final, same.Invalid = "shop", true, true, "x"
	require.Equal(t, sum, same.Sum())
	require.Equal(t, "444eb604b807771dc3586b0d40f442eb", hex.EncodeToString(sum[:]),
		"a stored fingerprint must stay what it is")
}

func BenchmarkDecide(b *testing.B) {
	rule := sampleRule()
	rule.State, rule.Merchants = hold.CardActive, nil
	m := message(hold.Authorization, 100)
	m.Merchant.MCC = 5411
	v := hold.View{Now: 1_795_000_000_000, Rule: &rule, Spendable: 1 << 40}
	var e hold.Entry
	for b.Loop() {
		hold.Decide(&v, &m, &e)
	}
}

func BenchmarkSum(b *testing.B) {
	m := message(hold.Authorization, 100)
	for b.Loop() {
		_ = m.Sum()
	}
}

func BenchmarkAppendEntry(b *testing.B) {
	e := sampleEntry()
	buffer := make([]byte, 0, 1024)
	for b.Loop() {
		hold.AppendEntry(buffer, &e)
	}
}

func BenchmarkJournalForm(b *testing.B) {
	e := sampleEntry()
	for b.Loop() {
		_, _ = e.MarshalJSON()
	}
}

func TestAnIncrementThatWasReversedBeforeItCameIsDeclined(t *testing.T) {
	rule := hold.Rule{Card: ident.UUID{1}, State: hold.CardActive, PerTxnCents: 1000, MonthCents: 1000}
	held := hold.Hold{ID: ident.UUID{3}, Card: rule.Card, Held: 10, Status: hold.StatusHeld}
	m := message(hold.Incremental, 5)
	var e hold.Entry
	hold.Decide(&hold.View{Rule: &rule, Hold: &held, Spendable: 100, Tombstoned: true}, &m, &e)
	require.Equal(t, hold.ReasonReversedBeforeArrival, e.Reason)
	require.Equal(t, held, e.After)
	hold.Decide(&hold.View{Rule: &rule, Hold: &held, Spendable: 100}, &m, &e)
	require.Equal(t, hold.Approved, e.Decision)
}
