package balance_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/fault"
	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// apply decides a command, which must be accepted, and folds its events as decoded from the
// journal.
func apply(t require.TestingT, s *balance.State, at time.Time, command any) decision.Decision {
	d, err := s.Decide(decision.Meta{At: at}, command)
	require.NoError(t, err)
	decisiontest.Apply(t, s, balance.DecodeEvent, d.Events...)
	return d
}

// postingSums are the sums of a workspace's accounts, from the postings of its events alone.
type postingSums map[string]money.Cents

func (b postingSums) add(t require.TestingT, events []decision.Event) {
	sums := map[string]money.Minor{}
	for _, e := range events {
		var postings []balance.Posting
		switch e := e.(type) {
		case balance.DepositSettled:
			postings = e.Postings
		case balance.DepositReceived:
			postings = e.Postings
		case balance.CheckoutCredited:
			postings = e.Postings
		case balance.StablecoinReceived:
			postings = e.Postings
		case balance.Relayed:
			postings = e.Postings
		}
		for _, p := range postings {
			b[p.Account] += p.Amount.Cents()
			sums[p.Transfer] += p.Amount
		}
	}
	for group, sum := range sums {
		require.Zero(t, sum, group)
	}
}

func TestBalanceAgreesWithTheAuthorizerAndWithItsPostings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, b := newAuthorizerModel(), postingSums{}
		var s balance.State
		relayed, deposits := 0, 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			n.now = n.now.Add(time.Duration(rapid.IntRange(0, 10*24).Draw(t, "hours")) * time.Hour)
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				deposits++
				cents := money.Cents(rapid.Int64Range(1, 3_000_000).Draw(t, "cents"))
				d := apply(t, &s, n.now, balance.ReceiveDeposit{
					Workspace: workspaceID.Format(ident.Workspace), EventID: fmt.Sprint("b", deposits),
					AmountUsdCents: cents,
					Rail:           "wire",
				})
				b.add(t, d.Events)
				_, credited, _, ok := balance.Credit(d.Events[0])
				require.True(t, ok)
				n.ledger += credited
			case 1, 2:
				drawCardMessage(t, n)
			case 3:
				relayed = relaySome(t, n, &s, b, relayed)
			}
			require.Equal(t, money.Cents(b["usd"]), s.UsdCents)
			require.Equal(t, s.LedgerCents+s.CardCents+s.HoldCents, s.UsdCents)
			require.Equal(t, n.ledger, s.LedgerCents)
			require.Zero(t, b["usd"]+b["bank"]+b["network"]+b["suspense"])
		}
		apply(t, &s, n.now, balance.Relay{Entries: n.entries[relayed:]})
		require.Equal(t, n.card, s.CardCents)
		require.Equal(t, n.held(), s.HoldCents)
		var loaded balance.State
		require.NoError(t, json.Unmarshal([]byte(decisiontest.JSON(t, s)), &loaded))
		require.Equal(t, decisiontest.JSON(t, s), decisiontest.JSON(t, loaded))
	})
}

func drawCardMessage(t *rapid.T, n *authorizerModel) {
	card := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "card")
	of := card + fmt.Sprint(rapid.IntRange(0, len(n.entries)).Draw(t, "of"))
	kind := rapid.SampledFrom([]hold.Kind{
		hold.Authorization, hold.Authorization, hold.Incremental, hold.Reversal, hold.Clearing, hold.Refund,
		hold.Expiry,
		hold.TimeoutReturn,
	}).Draw(t, "kind")
	m := hold.Message{
		Kind: kind, ID: card + fmt.Sprint(len(n.entries)),
		Amount:          money.Cents(rapid.Int64Range(0, 1_200_000).Draw(t, "amount")),
		PartialApproval: rapid.Bool().Draw(t, "partial"), Final: rapid.Bool().Draw(t, "final"),
	}
	switch {
	case kind == hold.TimeoutReturn:
		approved := func(e hold.Entry) bool {
			return e.Kind == hold.Authorization && e.Decision == hold.Approved && e.NetworkID == of
		}
		if i := slices.IndexFunc(n.entries, approved); i >= 0 {
			n.undoTimeout(card, &n.entries[i])
		}
	case kind == hold.Expiry && n.holds[of] != nil:
		n.expire(card, of)
	case kind == hold.Reversal && n.holds[of] == nil || kind == hold.Expiry:
		// An entry without an authorization of this workspace is not relayed.
	case kind == hold.Authorization:
		n.send(m, card, "")
	default:
		n.send(m, card, of)
	}
}

// relaySome relays a run that may begin with relayed entries. A following run with a gap must be
// refused whole.
func relaySome(t *rapid.T, n *authorizerModel, s *balance.State, b postingSums, relayed int) int {
	from := rapid.IntRange(0, relayed).Draw(t, "from")
	to := rapid.IntRange(relayed, len(n.entries)).Draw(t, "to")
	d := apply(t, s, n.now, balance.Relay{Entries: n.entries[from:to]})
	b.add(t, d.Events)
	require.Equal(t, to > relayed, len(d.Events) == 1, "one event for what is new, none for repeats")
	require.Equal(t, uint64(to), d.Reply.(balance.Through).WsSeq)
	if to+1 < len(n.entries) {
		before := decisiontest.JSON(t, s)
		_, err := s.Decide(decision.Meta{At: n.now}, balance.Relay{Entries: n.entries[to+1:]})
		require.ErrorIs(t, err, balance.ErrGap)
		require.Equal(t, before, decisiontest.JSON(t, s))
	}
	return to
}

func TestIDsOfARelayedRunAreDeterministic(t *testing.T) {
	n := newAuthorizerModel()
	n.send(hold.Message{Kind: hold.Clearing, ID: "n1", Amount: 100}, "a", "")
	var one, two balance.State
	first := apply(t, &one, start, balance.Relay{Entries: n.entries})
	again := apply(t, &two, start.Add(time.Hour), balance.Relay{Entries: n.entries})
	line := again.Records[0].Document.(balance.LedgerEntry)
	require.Equal(t, decision.StampOf(start.Add(time.Hour)), line.BookedAt)
	line.BookedAt = first.Records[0].Document.(balance.LedgerEntry).BookedAt // the only difference
	again.Records[0].Document = line
	require.Equal(t, first.Records, again.Records)
	require.Equal(t, first.Events[0].(balance.Relayed).Postings, again.Events[0].(balance.Relayed).Postings)
}

// The relay repeats a run when its outcome is unknown, and after a crash with earlier entries
// before it. The event aliases the given entries, so deciding must not modify them.
func TestRelayingARunAgainGivesTheSameEvent(t *testing.T) {
	n := newAuthorizerModel()
	for i := range 6 {
		n.send(hold.Message{Kind: hold.Authorization, ID: fmt.Sprint("n", i), Amount: 100}, fmt.Sprint("card", i%2), "")
	}
	n.send(hold.Message{Kind: hold.Clearing, ID: "c", Amount: 100}, "card0", "n0")
	read := slices.Clone(n.entries)
	relay := balance.Relay{Entries: n.entries}
	var s balance.State
	first, err := s.Decide(decision.Meta{At: start}, relay)
	require.NoError(t, err)
	written := encodeAll(t, first)
	second, err := s.Decide(decision.Meta{At: start}, relay)
	require.NoError(t, err)
	require.Equal(t, first, second)

	before := s
	apply(t, &before, start, balance.Relay{Entries: n.entries[:4]})
	tail, err := before.Decide(decision.Meta{At: start}, relay)
	require.NoError(t, err)
	require.Equal(t, read[4:], tail.Events[0].(balance.Relayed).Entries)
	s.Apply(first.Events[0])
	before.Apply(tail.Events[0])
	require.Equal(t, s, before)
	again, err := s.Decide(decision.Meta{At: start}, relay)
	require.NoError(t, err)
	require.Equal(t, decision.Decision{Reply: balance.Through{WsSeq: 7}}, again)
	require.Equal(t, read, n.entries)
	require.Equal(t, written, encodeAll(t, first))
}

// A run stores one document per authorization and per card's spend, as the last entry leaves it,
// and one ledger line per clearing.
func TestARelayedRunWritesEachDocumentOnce(t *testing.T) {
	n := newAuthorizerModel()
	n.ledger = 1_000
	n.send(hold.Message{Kind: hold.Authorization, ID: "a", Amount: 100}, "one", "")
	n.send(hold.Message{Kind: hold.Authorization, ID: "b", Amount: 100}, "two", "")
	n.send(hold.Message{Kind: hold.Clearing, ID: "a", Amount: 30}, "one", "a") // clearings have ids of their own
	n.send(hold.Message{Kind: hold.Clearing, ID: "a2", Amount: 30}, "one", "a")
	var s balance.State
	d, err := s.Decide(decision.Meta{At: start}, balance.Relay{Entries: n.entries})
	require.NoError(t, err)
	type place struct{ kind, parent, id string }
	id := func(prefix, cause string) string { return ident.Derive(77, start, cause).Format(prefix) }
	one, two := id(ident.Card, "card/one"), id(ident.Card, "card/two")
	a, b := id(ident.Authorization, "auth/a"), id(ident.Authorization, "auth/b")
	want := []place{
		{balance.RecordCardSpend, "", one}, {balance.RecordAuthorization, one, a},
		{balance.RecordCardSpend, "", two}, {balance.RecordAuthorization, two, b},
	}
	for i, w := range want {
		require.Equal(t, w, place{d.Records[i].Kind, d.Records[i].Parent, d.Records[i].ID})
	}
	require.Len(t, d.Records, len(want)+3)
	require.Equal(t, balance.RecordLedgerEntry, d.Records[4].Kind)
	require.Equal(t, balance.RecordLedgerEntry, d.Records[5].Kind)
	require.NotEqual(t, d.Records[4].ID, d.Records[5].ID)
	require.Equal(t, decision.Record{Kind: balance.RecordAuthorizationIndex, ID: a,
		Document: balance.AuthorizationIndex{AuthorizationIDs: []string{a, b}}, New: true}, d.Records[6])
	require.True(t, d.Records[1].New, "made and cleared in one run")
	require.True(t, d.Records[3].New)
	require.EqualValues(t, 60, d.Records[1].Document.(balance.Authorization).ClearedCents)
	require.EqualValues(t, 100, d.Records[0].Document.(balance.CardSpend).Cents)
}

// However the entries are cut into runs, the index lists every authorization once, in the order of
// first appearance. Each run stores at most one index record.
func TestTheIndexListsEveryAuthorizationOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newAuthorizerModel()
		n.ledger = 1_000_000
		for range rapid.IntRange(0, 40).Draw(t, "swipes") {
			drawCardMessage(t, n)
		}
		want := []string{}
		for _, e := range n.entries {
			if id := e.After.ID.Format(ident.Authorization); !e.After.ID.IsZero() && !slices.Contains(want, id) {
				want = append(want, id)
			}
		}
		var s balance.State
		listed, places, written := []string{}, map[string]bool{}, map[string]bool{}
		for relayed := 0; relayed < len(n.entries); relayed = int(s.WsSeq) {
			from, to := rapid.IntRange(0, relayed).Draw(t, "from"), rapid.IntRange(relayed+1, len(n.entries)).Draw(t,
				"to")
			d := apply(t, &s, start, balance.Relay{Entries: n.entries[from:to]})
			for _, r := range d.Records {
				require.False(t, r.New && written[r.Kind+r.ID], "what is said to be new is")
				written[r.Kind+r.ID] = true
			}
			of := slices.DeleteFunc(d.Records,
				func(r decision.Record) bool { return r.Kind != balance.RecordAuthorizationIndex })
			require.LessOrEqual(t, len(of), 1)
			for _, r := range of {
				require.False(t, places[r.ID], r.ID)
				places[r.ID] = true
				listed = append(listed, r.Document.(balance.AuthorizationIndex).AuthorizationIDs...)
			}
		}
		require.Equal(t, want, listed)
	})
}

func TestEntriesThatWouldBreakTheBooksAreRefused(t *testing.T) {
	good := hold.Entry{WsSeq: 1, At: start.UnixMilli(), Workspace: workspaceID, Card: cardID, NetworkID: "n",
		Kind: hold.Clearing}
	foreign := good
	foreign.WsSeq, foreign.Workspace = 2, ident.Derive(9, start, "another")
	const least = math.MinInt64
	unbalanced := func(card, held money.Cents) []hold.Entry {
		return with(good, func(e *hold.Entry) { e.CardDelta, e.HoldDelta = card, held })
	}
	for name, c := range map[string]struct {
		state   balance.State
		entries []hold.Entry
		err     string
	}{
		"does not add up": {entries: unbalanced(-5, 0), err: "does not balance"},
		"posts too much": {entries: with(good, func(e *hold.Entry) { e.Posted = math.MinInt64 }),
			err: "does not balance"},
		"deltas overflow": {entries: unbalanced(math.MaxInt64, 1), err: "does not balance"},
		"card overflows": {balance.State{CardCents: least + 1, LedgerCents: 9}, clearing(good, 5),
			"card cents: amount overflow"},
		"dollars overflow": {balance.State{LedgerCents: least + 2, UsdCents: least + 2}, clearing(good, 5),
			"balance: amount overflow"},
		"spend overflows": {balance.State{Month: 202511, MonthSpend: math.MaxInt64}, clearing(good, 5),
			"month spend: amount overflow"},
		"two workspaces":              {entries: []hold.Entry{good, foreign}, err: "not one run"},
		"a repeat behind what is new": {entries: []hold.Entry{good, good}, err: "gap"},
		"another workspace":           {balance.State{Workspace: "ws_other"}, []hold.Entry{good}, "not one run"},
		"too many":                    {entries: make([]hold.Entry, balance.MaxRelay+1), err: "not one run"},
	} {
		before := decisiontest.JSON(t, c.state)
		_, err := c.state.Decide(decision.Meta{At: start}, balance.Relay{Entries: c.entries})
		require.ErrorContains(t, err, c.err, name)
		require.Equal(t, before, decisiontest.JSON(t, c.state), name)
	}
}

func with(e hold.Entry, change func(*hold.Entry)) []hold.Entry {
	change(&e)
	return []hold.Entry{e}
}

func clearing(e hold.Entry, cents money.Cents) []hold.Entry {
	e.CardDelta, e.Posted, e.SpendDelta, e.Decision = -cents, cents, cents, hold.Posted
	e.Spend = hold.Spend{Month: 202511, Cents: cents}
	return []hold.Entry{e}
}

func TestDepositsAreBounded(t *testing.T) {
	s := balance.State{OpenDeposits: balance.MaxOpenDeposits}
	create := balance.CreateDeposit{
		Workspace: workspaceID.Format(ident.Workspace), ID: "dep_1", Rail: "ach", AmountUsdCents: 1, ExpectedAt: start,
	}
	_, err := s.Decide(decision.Meta{At: start}, create)
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)

	s = balance.State{LedgerCents: math.MaxInt64, UsdCents: math.MaxInt64}
	for _, command := range []any{
		create, balance.ReceiveDeposit{Workspace: create.Workspace, EventID: "b", AmountUsdCents: 1, Rail: "ach"},
	} {
		_, err = s.Decide(decision.Meta{At: start}, command)
		require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
	}
}

func TestReportsOfPartnersStayOutOfEvents(t *testing.T) {
	var s balance.State
	d := apply(t, &s, start, balance.KeepUnmatched{
		EventID: "b1", Partner: "bank", Type: "deposit.settled", Body: []byte(`{"from": "Ada"}`),
	})
	require.NotContains(t, decisiontest.JSON(t, d.Events), "Ada")
	require.JSONEq(t, `{"from": "Ada"}`, string(d.Reply.(balance.Unmatched).Body))

	d, err := s.Decide(decision.Meta{At: start}, balance.KeepUnmatched{EventID: "b2", Partner: "bank",
		Body: []byte("not json \xff")})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(d.Reply.(balance.Unmatched).Body), `"not json`))

	_, err = s.Decide(decision.Meta{At: start}, balance.KeepUnmatched{
		EventID: "b3", Partner: "bank", Body: make([]byte, balance.MaxUnmatchedBody+1),
	})
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)

	var received balance.State
	d = apply(t, &received, start, balance.ReceiveDeposit{
		Workspace: workspaceID.Format(ident.Workspace), EventID: "b4", AmountUsdCents: 1, Rail: "wire",
		Reference: "rent of Ada",
	})
	require.NotContains(t, decisiontest.JSON(t, d.Events), "Ada")
	require.Contains(t, decisiontest.JSON(t, d.Records), "rent of Ada")
}

func TestMisuseIsABug(t *testing.T) {
	system := balance.State{Workspace: workspaceID.Format(ident.Workspace)}
	for _, command := range []any{
		7, balance.KeepUnmatched{EventID: "b", Partner: "bank"}, balance.CreateDeposit{Workspace: "ws_other"},
	} {
		require.Panics(t, func() { _, _ = system.Decide(decision.Meta{At: start}, command) })
	}
	require.Panics(t, func() { system.Apply(nil) })
	require.Panics(t, func() { system.Apply(balance.DepositSettled{Deposit: "dep_unknown"}) })
}

// Partners do not share event ids, and an unmatched report does not share the claim of an applied
// one.
func TestPartnersDoNotShareEventIDs(t *testing.T) {
	var s balance.State
	for _, partner := range []string{balance.ScopeBank, balance.ScopeRamp, balance.ScopeStablecoin} {
		d := apply(t, &s, start, balance.KeepUnmatched{EventID: "1", Partner: partner, Type: "x", Body: []byte("{}")})
		require.Equal(t, partner+"_unmatched", d.Onces[0].Scope)
	}
}

// BenchmarkRelay decides runs of card messages and encodes the result, as the actor does.
func BenchmarkRelay(b *testing.B) {
	n := newAuthorizerModel()
	n.ledger = 1 << 40
	at := hold.Merchant{ID: "m-4711", Name: "Corner Bakery", Country: "US", MCC: 5462}
	for i := range balance.MaxRelay {
		n.send(hold.Message{Kind: hold.Authorization, ID: fmt.Sprintf("network-%012d", i), Amount: 1, Merchant: at},
			fmt.Sprint("card", i), "")
	}
	for _, entries := range []int{5, 40, balance.MaxRelay} {
		b.Run(fmt.Sprint("entries=", entries), func(b *testing.B) {
			b.ReportAllocs()
			var s balance.State
			for b.Loop() {
				d, err := s.Decide(decision.Meta{At: start}, balance.Relay{Entries: n.entries[:entries]})
				require.NoError(b, err)
				encodeAll(b, d)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*entries), "ns/entry")
		})
	}
}

// encodeAll encodes the events and documents of a decision.
func encodeAll(t require.TestingT, d decision.Decision) [][]byte {
	written := make([][]byte, 0, len(d.Events)+len(d.Records))
	write := func(v any) {
		text, err := decision.Encode(v)
		require.NoError(t, err)
		written = append(written, text)
	}
	for _, e := range d.Events {
		write(e)
	}
	for _, r := range d.Records {
		write(r.Document)
	}
	return written
}
