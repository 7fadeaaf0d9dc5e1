package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/audit"
	"purser/persistence"
	"purser/persistence/ident"
)

const slot = 0x120 // in shard 18

func id(prefix, name string) string { return uuid(name).Format(prefix) }

func uuid(name string) ident.UUID {
	return ident.Derive(slot, time.UnixMilli(1_700_000_000_000), name)
}

var (
	workspace = id(ident.Workspace, "ws")
	card      = id(ident.Card, "card")
	auth      = id(ident.Authorization, "auth")
	first     = id(ident.Authorization, "first")
	second    = id(ident.Authorization, "second")
	deposit   = id(ident.Deposit, "deposit")
	pending   = id(ident.Deposit, "pending")
)

// auditedStores are a small sound Purser: 1,000.00 deposited, and an authorization of 50.00 of
// which 30.00 cleared and 5.00 were refunded. All is relayed except the last entry, the expiry of
// the remaining 20.00.
type auditedStores struct {
	persistence.Snapshot
	events  []persistence.Event
	records []persistence.Record
	log     []string
	follow  uint64
	synced  uint64
	funds   []audit.Funds
	holds   []audit.Hold
	rules   []audit.Rule
	spends  []audit.Spend
	debits  []audit.Reservation
	due     []audit.Due
	lost    []audit.Loss
}

func (s *auditedStores) Events(_ context.Context, shard ident.Shard, after uint64, _ int) ([]persistence.Event, error) {
	if shard != ident.Slot(slot).Shard() || after >= uint64(len(s.events)) {
		return nil, nil
	}
	return s.events[after:], nil
}

func (s *auditedStores) Records(_ context.Context, shard ident.Shard, kind, after string,
	_ int) (found []persistence.Record, _ error) {
	for _, r := range s.records {
		if shard == ident.Slot(slot).Shard() && r.Kind == kind && r.ID > after {
			found = append(found, r)
		}
	}
	return found, nil
}

func (s *auditedStores) Close() error { return nil }

func (s *auditedStores) Followed(shard ident.Shard) (uint64, error) {
	return s.atTestShard(shard, s.follow), nil
}
func (s *auditedStores) Synced(shard ident.Shard) uint64 { return s.atTestShard(shard, s.synced) }

// auditedJournal and auditedAuthorizer take snapshots of stores that do not change.
type (
	auditedJournal    struct{ *auditedStores }
	auditedAuthorizer struct{ audit.AuthorizerSnapshot }
)

func (j auditedJournal) Snapshot(context.Context) (persistence.Snapshot, error) {
	return j.auditedStores, nil
}
func (a auditedAuthorizer) Snapshot() audit.AuthorizerSnapshot { return a.AuthorizerSnapshot }

// sources are the stores as an audit reads them.
func (s *auditedStores) sources() audit.Sources {
	return audit.Sources{Journal: auditedJournal{s}, Authorizer: auditedAuthorizer{s}}
}

func (s *auditedStores) atTestShard(shard ident.Shard, n uint64) uint64 {
	if shard != ident.Slot(slot).Shard() {
		return 0
	}
	return n
}

func (s *auditedStores) Log(shard ident.Shard, after uint64, visit func([]byte) error) error {
	for _, raw := range s.log {
		var e struct{ Seq uint64 }
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			return err
		}
		if shard == ident.Slot(slot).Shard() && e.Seq > after {
			if err := visit([]byte(raw)); err != nil {
				return err
			}
		}
	}
	return nil
}

func walk[T any](all []T, visit func(T) error) error {
	for _, one := range all {
		if err := visit(one); err != nil {
			return err
		}
	}
	return nil
}

func (s *auditedStores) WalkFunds(visit func(audit.Funds) error) error  { return walk(s.funds, visit) }
func (s *auditedStores) WalkHolds(visit func(audit.Hold) error) error   { return walk(s.holds, visit) }
func (s *auditedStores) WalkRules(visit func(audit.Rule) error) error   { return walk(s.rules, visit) }
func (s *auditedStores) WalkSpends(visit func(audit.Spend) error) error { return walk(s.spends, visit) }
func (s *auditedStores) WalkDue(visit func(audit.Due) error) error      { return walk(s.due, visit) }
func (s *auditedStores) Lost(shard ident.Shard) ([]audit.Loss, error) {
	if shard != ident.Slot(slot).Shard() {
		return nil, nil
	}
	return s.lost, nil
}
func (s *auditedStores) WalkReservations(visit func(audit.Reservation) error) error {
	return walk(s.debits, visit)
}

// entry is an entry of the log: its amounts, and the authorization after it.
func entry(seq int, kind, decision string, cardDelta, holdDelta, spendDelta, posted, spend, held, cleared, refunded int,
	status string) string {
	return fmt.Sprintf(`{"seq":%d,"workspaceSeq":%d,"kind":%q,"decision":%q,"shard":18,"workspaceId":%q,"cardId":%q,
		"cardDeltaCents":%d,"holdDeltaCents":%d,"spendDeltaCents":%d,"postedCents":%d,"month":202311,"monthSpendCents":%d,
		"authorization":{"id":%q,"amountCents":5000,"cardId":%q,"workspaceId":%q,"expiresAt":"2023-11-21T00:00:00Z","month":202311,"monthCents":%d,
		"heldCents":%d,"clearedCents":%d,"refundedCents":%d,"decision":"approved","reason":"approved","status":%q}}`,
		seq, seq, kind, decision, workspace, card, cardDelta, holdDelta, spendDelta, posted, spend, auth, card,
		workspace, held,
		held, cleared, refunded, status)
}

func posting(group, account string, cents int) string {
	return fmt.Sprintf(`{"transfer":%q,"account":%q,"cents":%d}`, id(ident.TransferGroup, group), account, cents)
}

func (s *auditedStores) event(kind, stream, eventType, payload string) {
	version := uint64(1)
	for _, e := range s.events {
		if e.Kind == kind && e.Stream == stream {
			version++
		}
	}
	position := uint64(len(s.events) + 1)
	s.events = append(s.events, persistence.Event{ID: fmt.Sprintf("evt_%d", position), Workspace: workspace, Kind: kind,
		Stream: stream, Version: version, Type: eventType, Payload: json.RawMessage(payload), Position: position})
}

func (s *auditedStores) record(kind, id string, version uint64, document string) {
	s.records = append(s.records, persistence.Record{Kind: kind, Workspace: workspace, ID: id, Version: version,
		Document: json.RawMessage(document)})
}

func newAuditedStores() *auditedStores {
	s := &auditedStores{follow: 6, synced: 4}
	terms := func(state string) string {
		return fmt.Sprintf(`{"card":%q,"workspace":%q,"token":"tok_1","state":%q,"monthlyLimitUsdCents":9000,"perTxnLimitUsdCents":8000,
			"allowedMccs":["5411"],"allowedMerchants":null}`, card, workspace, state)
	}
	s.event("workspace", workspace, "workspace.created.v1", `{}`)
	s.event("balance", workspace, "balance.deposit_created.v1",
		fmt.Sprintf(`{"deposit":{"id":%q,"amountUsdCents":100000}}`, deposit))
	s.event("balance", workspace, "balance.deposit_settled.v1",
		fmt.Sprintf(`{"deposit":%q,"amountUsdCents":100000,"postings":[%s,%s]}`, deposit, posting("in", "usd", 100000),
			posting("in", "bank", -100000)))
	s.event("card", card, "card.minted.v1", terms("active"))
	s.event("balance", workspace, "balance.deposit_created.v1",
		fmt.Sprintf(`{"deposit":{"id":%q,"amountUsdCents":700}}`, pending))
	s.event("balance", workspace, "balance.relayed.v1", fmt.Sprintf(`{"entries":[%s,%s,%s],"postings":[%s,%s,%s,%s]}`,
		entry(1, "authorization", "approved", -5000, 5000, 5000, 0, 5000, 5000, 0, 0, "held"),
		entry(2, "clearing", "posted", 0, -3000, 0, 3000, 5000, 2000, 3000, 0, "partially_cleared"),
		entry(3, "refund", "posted", 500, 0, 0, -500, 5000, 2000, 3000, 500, "partially_cleared"),
		posting("out", "usd", -3000), posting("out", "network", 3000), posting("back", "usd", 500),
		posting("back", "network", -500)))
	s.event("card", card, "card.frozen.v1", terms("frozen"))
	s.log = []string{entry(4, "expiry", "applied", 2000, -2000, -2000, 0, 3000, 0, 3000, 500, "cleared")}

	s.record("workspace", workspace, 1, `{}`)
	s.record("balance", workspace, 4, `{"usdCents":97500,"holdCents":2000,"cardCents":-4500,"ledgerCents":100000,
		"suspenseCents":0,"wsSeq":3,"month":202311,"monthSpend":5000,"openDeposits":1,"incomingCents":700}`)
	s.record("card", card, 2, terms("frozen"))
	s.record("tally_card", workspace, 0, fmt.Sprintf(`{"count":1,"first":%q}`, card))
	s.record("deposit", deposit, 0, fmt.Sprintf(`{"id":%q,"status":"settled","amountUsdCents":100000}`, deposit))
	s.record("deposit", pending, 0, fmt.Sprintf(`{"id":%q,"status":"pending","amountUsdCents":700}`, pending))
	for _, line := range []struct{ group, direction, amounts string }{
		{"in", "credit", `"amountCents":100000,"balanceCents":100000`},
		{"out", "debit", `"amountCents":3000,"balanceCents":97000`},
		{"back", "credit", `"amountCents":500,"balanceCents":97500`}} {
		s.record("ledger_entry", id(ident.LedgerEntry, line.group), 0,
			fmt.Sprintf(`{"direction":%q,%s,"transferGroup":%q}`, line.direction, line.amounts,
				id(ident.TransferGroup, line.group)))
	}
	s.record("authorization", auth, 0, fmt.Sprintf(`{"id":%q,"amountCents":5000,"heldCents":2000,"clearedCents":3000,"refundedCents":500,
		"decision":"approved","reason":"approved","status":"partially_cleared"}`, auth))
	s.record("authorization_index", auth, 0, fmt.Sprintf(`{"authorizationIds":[%q]}`, auth))
	s.record("card_spend", card, 0, `{"month":202311,"cents":5000}`)

	s.funds = []audit.Funds{{Workspace: uuid("ws"), Ledger: 100000, Card: -2500, Sequence: 4}}
	expiry := time.Date(2023, 11, 21, 0, 0, 0, 0, time.UTC).UnixMilli()
	s.holds = []audit.Hold{{ID: uuid("auth"), Card: uuid("card"), Workspace: uuid("ws"), Cleared: 3000, Refunded: 500,
		Month: 202311, ExpiresAt: expiry, Status: "cleared"}}
	s.due = []audit.Due{{Hold: uuid("auth"), At: expiry}, {Hold: uuid("auth"), At: expiry - 1}}
	s.rules = []audit.Rule{{Card: uuid("card"), Workspace: uuid("ws"), Token: "tok_1", Version: 1, State: "active",
		MonthlyLimit: 9000, PerTransaction: 8000, MCCs: &[]string{"5411"}}}
	s.spends = []audit.Spend{{Card: uuid("card"), Month: 202311, Cents: 3000}}
	return s
}

func (s *auditedStores) runAudit(t *testing.T) audit.Report {
	t.Helper()
	report, err := audit.Run(t.Context(), s.sources())
	require.NoError(t, err)
	return report
}

func TestSoundStoresAreClean(t *testing.T) {
	report := newAuditedStores().runAudit(t)
	require.Empty(t, report.Findings)
	require.Equal(t, audit.Report{Events: 7, Transfers: 3, Workspaces: 1, Cards: 1, Authorizations: 1}, report)
}

// A workspace without money counts too.
func TestTheReportCountsEveryWorkspace(t *testing.T) {
	s := newAuditedStores()
	s.event("workspace", id(ident.Workspace, "new"), "workspace.created.v1", `{}`)
	s.record("workspace", id(ident.Workspace, "new"), 1, `{}`)
	report := s.runAudit(t)
	require.Empty(t, report.Findings)
	require.Equal(t, int64(2), report.Workspaces)
}

// editDocument replaces text in the documents of a kind.
func editDocument(kind, old, new string) func(*auditedStores) {
	return func(s *auditedStores) {
		for i, r := range s.records {
			if r.Kind == kind && strings.Contains(string(r.Document), old) {
				s.records[i].Document = json.RawMessage(strings.Replace(string(r.Document), old, new, 1))
				return
			}
		}
		panic("nothing to edit")
	}
}

func dropRecords(kind string) func(*auditedStores) {
	return func(s *auditedStores) {
		s.records = slices.DeleteFunc(s.records, func(r persistence.Record) bool { return r.Kind == kind })
	}
}

func editPayload(position int, old, new string) func(*auditedStores) {
	return func(s *auditedStores) {
		e := &s.events[position-1]
		if !strings.Contains(string(e.Payload), old) {
			panic("nothing to edit")
		}
		e.Payload = json.RawMessage(strings.Replace(string(e.Payload), old, new, 1))
	}
}

// version sets the stream version of the records of a kind.
func (s *auditedStores) version(kind string, version uint64) {
	for i := range s.records {
		if s.records[i].Kind == kind {
			s.records[i].Version = version
		}
	}
}

// storeDamage is one damage, with kind and what of the expected finding.
type storeDamage struct {
	damage     func(*auditedStores)
	kind, what string
}

// requireFindings applies one damage at a time to sound stores, and expects its finding.
func requireFindings(t *testing.T, sound func() *auditedStores, corruptions map[string]storeDamage) {
	require.Empty(t, sound().runAudit(t).Findings)
	for name, c := range corruptions {
		t.Run(name, func(t *testing.T) {
			s := sound()
			c.damage(s)
			report := s.runAudit(t)
			require.True(t, slices.ContainsFunc(report.Findings, func(f audit.Finding) bool {
				return f.Kind == c.kind && f.What == c.what && f.Expected != f.Actual &&
					f.Shard == ident.Slot(slot).Shard()
			}), "%+v", report.Findings)
			var table strings.Builder
			require.NoError(t, report.Print(&table))
			require.Contains(t, table.String(), c.what)
		})
	}
}

func TestEveryCorruptionIsNamed(t *testing.T) {
	requireFindings(t, newAuditedStores, map[string]storeDamage{
		"balance record": {editDocument("balance", `"usdCents":97500`, `"usdCents":97501`), "balance",
			"usd by postings"},
		"balance record's hold": {editDocument("balance", `"holdCents":2000`, `"holdCents":1999`), "balance",
			"held"},
		"balance record's sequence": {editDocument("balance", `"wsSeq":3`, `"wsSeq":2`), "balance",
			"workspace sequence"},
		"balance record's deposits": {editDocument("balance", `"incomingCents":700`, `"incomingCents":701`),
			"balance", "incoming"},
		"balance record gone":  {dropRecords("balance"), "balance", "record"},
		"card record":          {editDocument("card", "frozen", "active"), "card", "terms"},
		"tally of cards":       {editDocument("tally_card", `"count":1`, `"count":2`), "tally_card", "document"},
		"first of the cards":   {editDocument("tally_card", card, pending), "tally_card", "document"},
		"tally gone":           {dropRecords("tally_card"), "tally_card", "record"},
		"deposit record":       {editDocument("deposit", "settled", "pending"), "deposit", "document"},
		"ledger line's amount": {editDocument("ledger_entry", `3000`, `3001`), "ledger_entry", "amount"},
		"ledger line without its balance": {editDocument("ledger_entry", `"balanceCents"`, `"was"`), "ledger_entry",
			"balance after"},
		"ledger line's direction": {editDocument("ledger_entry", "debit", "credit"), "ledger_entry", "amount"},
		"ledger lines gone":       {dropRecords("ledger_entry"), "ledger_entry", "line of the transfer"},
		"authorization record": {editDocument("authorization", `"heldCents":2000`, `"heldCents":0`), "authorization",
			"document"},
		"authorization record's amount": {editDocument("authorization", `"amountCents":5000`, `"amountCents":6000`),
			"authorization", "document"},
		"balance after a ledger line": {editDocument("ledger_entry", `"balanceCents":97000`, `"balanceCents":97001`),
			"ledger_entry", "balance after"},
		"ledger line of no direction": {editDocument("ledger_entry", "credit", "credis"), "ledger_entry", "direction"},
		"authorization index gone":    {dropRecords("authorization_index"), "authorization_index", "record"},
		"card spend record":           {editDocument("card_spend", "5000", "4999"), "card_spend", "document"},
		"posting": {editPayload(3, `"cents":-100000`, `"cents":-99999`), "transfer",
			"sum of postings"},
		"posting of euros": {editPayload(3, `"account":"usd"`, `"account":"usd","currency":"EUR"`), "transfer",
			"currency of the posting to usd"},
		"postings against entries": {editPayload(6, `"cents":-3000`, `"cents":-2999`), "event", "postings to usd"},
		"entry's delta": {editPayload(6, `"cardDeltaCents":-5000`, `"cardDeltaCents":-4999`), "entry",
			"card and hold"},
		"entry's authorization": {editPayload(6, `"heldCents":2000`, `"heldCents":2001`), "entry", "held after"},
		"entry's spend": {editPayload(6, `"monthSpendCents":5000`, `"monthSpendCents":1`), "entry",
			"card's spend"},
		"entry's workspace sequence": {editPayload(6, `"workspaceSeq":2`, `"workspaceSeq":3`), "entry",
			"workspace sequence"},
		"entry relayed twice": {editPayload(6, `"seq":2`, `"seq":1`), "entry", "relayed"},
		"unreadable event": {func(s *auditedStores) { s.events[2].Payload = json.RawMessage(`{"postings":1}`) },
			"event",
			"payload"},
		"hole in the positions": {func(s *auditedStores) { s.events[4].Position++ }, "event", "position"},
		"hole in a stream":      {func(s *auditedStores) { s.events[4].Version++ }, "event", "stream version"},
		"hole in the log":       {func(s *auditedStores) { s.log = nil }, "log", "entry 4"},
		"ledger term":           {func(s *auditedStores) { s.funds[0].Ledger++ }, "funds", "ledger cents"},
		"card term":             {func(s *auditedStores) { s.funds[0].Card-- }, "funds", "card cents"},
		"workspace sequence":    {func(s *auditedStores) { s.funds[0].Sequence-- }, "funds", "workspace sequence"},
		"reserved term": {func(s *auditedStores) { s.funds[0].Reserved = 7 }, "funds",
			"reserved cents"},
		"funds gone":    {func(s *auditedStores) { s.funds = nil }, "funds", "ledger cents"},
		"hold":          {func(s *auditedStores) { s.holds[0].Held = 2000 }, "hold", "held"},
		"hold's status": {func(s *auditedStores) { s.holds[0].Status = "held" }, "hold", "status"},
		"hold of nobody": {func(s *auditedStores) { s.holds[0].ID = uuid("other") }, "hold",
			"authorization"},
		"rule older than followed": {func(s *auditedStores) { s.follow = 7 }, "rule", "state"},
		"rule's limit": {func(s *auditedStores) { s.rules[0].MonthlyLimit++ }, "rule",
			"monthly limit"},
		"rule's token": {func(s *auditedStores) { s.rules[0].Token = "tok_2" }, "rule", "token"},
		"rule's workspace": {func(s *auditedStores) { s.rules[0].Workspace = uuid("other") }, "rule",
			"workspace"},
		"another category in the rule": {func(s *auditedStores) { s.rules[0].MCCs = &[]string{"7995"} }, "rule",
			"categories"},
		"no list of categories": {func(s *auditedStores) { s.rules[0].MCCs = nil }, "rule", "categories"},
		"merchants in the rule": {func(s *auditedStores) { s.rules[0].Merchants = &[]string{} }, "rule",
			"merchants"},
		"another category in the card": {editDocument("card", "5411", "7995"), "card", "terms"},
		"token of the card's record":   {editDocument("card", "tok_1", "tok_2"), "card", "terms"},
		"hold's card":                  {func(s *auditedStores) { s.holds[0].Card = uuid("other") }, "hold", "card"},
		"hold's workspace": {func(s *auditedStores) { s.holds[0].Workspace = uuid("other") }, "hold",
			"workspace"},
		"hold's month": {func(s *auditedStores) { s.holds[0].MonthCents++ }, "hold",
			"month and cents in it"},
		"hold's expiry":          {func(s *auditedStores) { s.holds[0].ExpiresAt++ }, "hold", "expiry"},
		"hold that is never due": {func(s *auditedStores) { s.due = s.due[1:] }, "due", "line"},
		"due hold of nobody": {func(s *auditedStores) { s.due[1].Hold = uuid("other") }, "due",
			"authorization"},
		"deposit from another account": {editPayload(3, `"bank"`, `"network"`), "event", "postings to bank"},
		"clearing to another account":  {editPayload(6, `"network"`, `"bank"`), "event", "postings to network"},
		"account that nobody knows":    {editPayload(6, `"network"`, `"fees"`), "event", "postings to fees"},
		"lost and yet relayed": {func(s *auditedStores) { s.lost = []audit.Loss{{First: 2, Last: 3}} },
			"entry", "relayed"},
		"rule gone":  {func(s *auditedStores) { s.rules = nil }, "rule", "version"},
		"spend":      {func(s *auditedStores) { s.spends[0].Cents++ }, "spend", "month and cents"},
		"spend gone": {func(s *auditedStores) { s.spends = nil }, "spend", "cents"},
		"orphan reservation": {func(s *auditedStores) { s.debits = reservation() }, "reservation",
			"of " + workspace},
		"authorizer ahead of the books": {func(s *auditedStores) { s.follow = 8 }, "authorizer", "followed position"},
	})
}

// withAuthorizationIndex adds a relayed run of two declines that one index record lists.
func withAuthorizationIndex() *auditedStores {
	s := newAuditedStores()
	declined := func(seq int, id string) string {
		return strings.ReplaceAll(entry(seq, "authorization", "declined", 0, 0, 0, 0, 5000, 0, 0, 0, "declined"),
			auth, id)
	}
	s.event("balance", workspace, "balance.relayed.v1", fmt.Sprintf(`{"entries":[%s,%s],"postings":[]}`, declined(4,
		first),
		declined(5, second)))
	s.funds[0].Sequence = 6
	s.synced, s.log[0] = 6, strings.ReplaceAll(s.log[0], `eq":4`, `eq":6`)
	s.version("balance", 5)
	editDocument("balance", `"wsSeq":3`, `"wsSeq":5`)(s)
	for _, id := range []string{first, second} {
		s.record("authorization", id, 0,
			fmt.Sprintf(`{"id":%q,"amountCents":5000,"decision":"approved","reason":"approved","status":"declined"}`, id))
	}
	s.record("authorization_index", first, 0, fmt.Sprintf(`{"authorizationIds":[%q,%q]}`, first, second))
	return s
}

// Every authorization is in its workspace's index once.
func TestEveryCorruptionOfTheAuthorizationIndexIsNamed(t *testing.T) {
	index := "authorization_index"
	nobody := id(ident.Authorization, "nobody")
	requireFindings(t, withAuthorizationIndex, map[string]storeDamage{
		"left out":         {editDocument(index, `,"`+second+`"`, ""), index, "record"},
		"left out, first":  {editDocument(index, `"`+first+`",`, ""), index, "record"},
		"in the wrong run": {editDocument(index, `"`+first+`",`, ""), index, "first authorization"},
		"named twice":      {editDocument(index, second, second+`","`+first), index, "times listed"},
		"of nobody":        {editDocument(index, second, nobody), index, "authorization"},
		"names none": {editDocument(index, fmt.Sprintf(`"authorizationIds":[%q,%q]`, first, second), ""), index,
			"first authorization"},
		"unreadable": {editDocument(index, `[`, ``), index, "document"},
		"another workspace": {func(s *auditedStores) { s.records[len(s.records)-1].Workspace = "ws_other" }, index,
			"workspace"},
	})
}

// A decision known as lost is reported as lost, and its gap in the log is no finding.
func TestLostDecisionsOfARebuildAreReportedWithoutAFinding(t *testing.T) {
	s := newAuditedStores()
	s.synced, s.log[0] = 9, strings.Replace(s.log[0], `"seq":4`, `"seq":9`, 1)
	require.NotEmpty(t, s.runAudit(t).Findings)
	s.lost = []audit.Loss{{Shard: 18, First: 4, Last: 8, At: time.Date(2023, 11, 20, 9, 0, 0, 0, time.UTC)}}
	report := s.runAudit(t)
	require.Empty(t, report.Findings)
	require.Equal(t, s.lost, report.Lost)
	var text strings.Builder
	require.NoError(t, report.Print(&text))
	require.Contains(t, text.String(), "decisions 4 to 8 of shard 18: lost at the rebuild of 2023-11-20T09:00:00Z")
	require.Contains(t, text.String(), "agree to the cent")
}

func reservation() []audit.Reservation {
	return []audit.Reservation{{Workspace: uuid("ws"), ID: uuid("debit"), Cents: 900}}
}

// The first look reads the stores between two writes of one operation.
func TestADifferenceIsReportedOnlyIfItStays(t *testing.T) {
	s := &movingAuthorizer{auditedStores: newAuditedStores(), reads: 2}
	s.debits = reservation()
	report, err := audit.Run(t.Context(), audit.Sources{Journal: auditedJournal{s.auditedStores},
		Authorizer: auditedAuthorizer{s}, Pause: time.Millisecond})
	require.NoError(t, err)
	require.Empty(t, report.Findings)
}

// movingAuthorizer shows a reservation in progress to its first walks.
type movingAuthorizer struct {
	*auditedStores
	reads int
}

func (m *movingAuthorizer) WalkReservations(visit func(audit.Reservation) error) error {
	if m.reads--; m.reads >= 0 {
		return m.auditedStores.WalkReservations(visit)
	}
	return nil
}
