package balance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"purser/actors/decision"
	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

const (
	sourceSettlement = "card_settlement"
	sourceRefund     = "card_refund"
	partnerNetwork   = "card_network"
)

// relayEntries adds a run of the authorizer's log to the balance as one event. Entries are facts,
// so no limit of the workspace refuses them. It fails with ErrGap, ErrForeign, ErrUnbalanced or an
// overflow, as plain errors, and nothing changes.
func (s *State) relayEntries(m decision.Meta, c Relay) (decision.Decision, error) {
	entries, err := s.unrelayedEntries(c.Entries)
	if err != nil {
		return decision.Decision{}, err
	}
	if len(entries) == 0 {
		return decision.Decision{Reply: Through{s.WsSeq}}, nil
	}
	after := *s
	e := Relayed{
		Workspace: entries[0].Workspace.Format(ident.Workspace), Entries: entries, Postings: []Posting{},
		At: decision.StampOf(m.At),
	}
	documents := newRelayRecords(len(entries))
	for i := range entries {
		entry := &entries[i]
		if err := after.foldEntry(entry); err != nil {
			return decision.Decision{}, fmt.Errorf("entry %d: %w", entry.WsSeq, err)
		}
		if entry.Posted != 0 {
			t := clearingTransfer(entry)
			e.Postings = append(e.Postings, t.balancedPostings()...)
			documents.records = append(documents.records, t.ledgerRecord())
		}
		documents.addEntry(entry)
	}
	return decision.Decision{Events: []decision.Event{e}, Reply: Through{after.WsSeq},
		Records: documents.allRecords()}, nil
}

// unrelayedEntries drops the leading entries that the balance already has. It fails with ErrGap for
// a gap, and with ErrForeign for entries of another workspace or more than MaxRelay. The result
// aliases the run, because entries are large and nothing modifies them after they are read from the
// log.
func (s *State) unrelayedEntries(entries []hold.Entry) ([]hold.Entry, error) {
	if len(entries) > MaxRelay {
		return nil, fmt.Errorf("%w: %d entries", ErrForeign, len(entries))
	}
	if len(entries) > 0 && s.Workspace != "" && entries[0].Workspace.Format(ident.Workspace) != s.Workspace {
		return nil, fmt.Errorf("%w: entry %d", ErrForeign, entries[0].WsSeq)
	}
	known := 0
	for i := range entries {
		e, next := &entries[i], s.WsSeq+1+uint64(i-known)
		switch {
		case e.Workspace != entries[0].Workspace:
			return nil, fmt.Errorf("%w: entry %d", ErrForeign, e.WsSeq)
		case e.WsSeq < next && known == i:
			known++
		case e.WsSeq != next:
			return nil, fmt.Errorf("%w: entry %d, expected %d", ErrGap, e.WsSeq, next)
		}
	}
	return slices.Clip(entries[known:]), nil
}

// foldEntry adds an entry to the balance and checks every sum. It fails with ErrUnbalanced, or when
// a sum overflows; the state is then invalid.
func (s *State) foldEntry(e *hold.Entry) error {
	if err := checkEntry(e); err != nil {
		return err
	}
	var err error
	if s.CardCents, err = money.Add(s.CardCents, e.CardDelta); err != nil {
		return fmt.Errorf("card cents: %w", err)
	}
	if s.HoldCents, err = money.Add(s.HoldCents, e.HoldDelta); err != nil {
		return fmt.Errorf("held cents: %w", err)
	}
	if err = s.recomputeUSD(); err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	if e.Decision == hold.Unmatched {
		if s.SuspenseCents, err = money.Add(s.SuspenseCents, -e.Posted); err != nil {
			return fmt.Errorf("suspense: %w", err)
		}
	}
	if e.Spend.Month > s.Month {
		s.Month, s.MonthSpend = e.Spend.Month, 0
	}
	if e.Spend.Month == s.Month {
		if s.MonthSpend, err = money.Add(s.MonthSpend, e.SpendDelta); err != nil {
			return fmt.Errorf("month spend: %w", err)
		}
	}
	s.WsSeq = e.WsSeq
	return nil
}

// checkEntry checks that an entry's amounts sum to zero: the dollars posted are those that leave
// the card's funds and its hold. An unmatched entry moves no funds. It fails with ErrUnbalanced,
// also for an amount above money.MaxAmount.
func checkEntry(e *hold.Entry) error {
	if e.Posted < -money.MaxAmount || e.Posted > money.MaxAmount {
		return fmt.Errorf("%w: posts %d", ErrUnbalanced, e.Posted)
	}
	posted := e.Posted
	if e.Decision == hold.Unmatched {
		posted = 0
	}
	sum, err := money.Add(e.CardDelta, e.HoldDelta, posted)
	if err != nil || sum != 0 {
		return fmt.Errorf("%w: card %d, hold %d, posted %d", ErrUnbalanced, e.CardDelta, e.HoldDelta, e.Posted)
	}
	return nil
}

// clearingTransfer is the transfer of a clearing (dollars to the network) or a refund (dollars from
// it). For an unknown card the account is AccountSuspense.
func clearingTransfer(e *hold.Entry) transfer {
	t := transfer{
		workspace: e.Workspace.Format(ident.Workspace), account: AccountUSD, counterpart: AccountNetwork,
		cents:  -e.Posted,
		source: sourceSettlement, reference: givenID(e.Workspace, e.NetworkID), card: cardOf(e), cause: causeOf(e),
		at: time.UnixMilli(e.At).UTC(),
	}
	if e.Decision == hold.Unmatched {
		t.account = AccountSuspense
	}
	if e.Posted < 0 {
		t.source = sourceRefund
	}
	return t
}

// cardOf is the id of the entry's card; nil for an unknown card.
func cardOf(e *hold.Entry) *string {
	if e.Card.IsZero() {
		return nil
	}
	card := e.Card.Format(ident.Card)
	return &card
}

func causeOf(e *hold.Entry) string {
	return e.Kind.String() + "/" + e.NetworkID + "/" + strconv.FormatUint(e.WsSeq, 10)
}

// recordsPerEntry counts the records of one entry: its authorization and its card's spend. A posted
// entry adds a ledger line, and each run adds one index record.
const recordsPerEntry = 2

// relayRecords collects the records of a run. A card's spend and an authorization are stored once,
// at their first position and as the last entry leaves them. Ledger lines and unmatched reports
// belong to one entry each. One index record lists the authorizations that the run created.
type relayRecords struct {
	records []decision.Record
	// spends and authorizations are positions in records, by card and by authorization id.
	spends, authorizations map[ident.UUID]int
	// created are the ids of the authorizations that the run created.
	created []string
	// card and cardText cache the last formatted card id: an entry and its authorization share it.
	card     ident.UUID
	cardText string
}

func newRelayRecords(entries int) relayRecords {
	return relayRecords{
		records: make([]decision.Record, 0, recordsPerEntry*entries+1),
		spends:  make(map[ident.UUID]int, entries), authorizations: make(map[ident.UUID]int, entries),
		created: make([]string, 0, entries),
	}
}

// allRecords returns the records of the run after all entries were added, the index record last.
func (d *relayRecords) allRecords() []decision.Record {
	if len(d.created) == 0 {
		return d.records
	}
	return append(d.records, decision.Record{
		Kind: RecordAuthorizationIndex, ID: d.created[0], Document: AuthorizationIndex{AuthorizationIDs: d.created},
		New: true,
	})
}

// putRecord stores a record at the first position of its id, so that a later entry replaces an
// earlier one.
func (d *relayRecords) putRecord(at map[ident.UUID]int, id ident.UUID, r decision.Record) {
	if i, there := at[id]; there {
		r.New = d.records[i].New
		d.records[i] = r
		return
	}
	at[id] = len(d.records)
	d.records = append(d.records, r)
}

// addEntry adds the records of an entry: its card's spend, its authorization and an unmatched
// report.
func (d *relayRecords) addEntry(e *hold.Entry) {
	if !e.Card.IsZero() {
		d.putRecord(d.spends, e.Card,
			decision.Record{Kind: RecordCardSpend, ID: d.cardID(e.Card), Document: spendOf(e)})
	}
	if !e.After.ID.IsZero() {
		d.addAuthorization(e)
	}
	if e.Decision == hold.Unmatched {
		d.records = append(d.records, unmatchedEntry(e))
	}
}

// addAuthorization adds the record of the authorization as the entry leaves it. A created
// authorization also joins the run's index record.
func (d *relayRecords) addAuthorization(e *hold.Entry) {
	document := authorizationOf(&e.After)
	made := createsAuthorization(e)
	if made {
		d.created = append(d.created, document.ID)
	}
	d.putRecord(d.authorizations, e.After.ID, decision.Record{
		Kind: RecordAuthorization, Parent: d.cardID(e.After.Card), ID: document.ID, Document: document, New: made,
	})
}

func spendOf(e *hold.Entry) CardSpend {
	return CardSpend{Month: uint32(e.Spend.Month), Cents: e.Spend.Cents}
}

// CardDecision is what an entry of a card changes in the records: its spend, and an authorization,
// nil for none.
type CardDecision struct {
	Spend         CardSpend
	Authorization *Authorization
	Created       bool // the entry created the authorization
}

// CardDecisionOf returns the records of an entry of a card as its relay will store them.
func CardDecisionOf(e *hold.Entry) CardDecision {
	d := CardDecision{Spend: spendOf(e), Created: createsAuthorization(e)}
	if !e.After.ID.IsZero() {
		document := authorizationOf(&e.After)
		d.Authorization = &document
	}
	return d
}

// createsAuthorization reports whether the entry created its authorization. Network ids do not
// tell: clearings have numbers of their own, and the undoing of a timeout has the number of the
// approval.
func createsAuthorization(e *hold.Entry) bool {
	return e.Kind == hold.Authorization || e.Reason == hold.ReasonForcedPost
}

func (d *relayRecords) cardID(card ident.UUID) string {
	if card != d.card || d.cardText == "" {
		d.card, d.cardText = card, card.Format(ident.Card)
	}
	return d.cardText
}

// authorizationOf converts the authorizer's form of an authorization to the stored record.
func authorizationOf(h *hold.Hold) Authorization {
	a := Authorization{
		ID: h.ID.Format(ident.Authorization), NetworkID: givenID(h.Workspace, h.NetworkID),
		Decision: h.Decision.String(), Reason: h.Reason.String(),
		ResponseCode: h.ResponseCode(), AmountCents: h.Asked, HeldCents: h.Held, ClearedCents: h.Cleared,
		RefundedCents: h.Refunded, Status: h.Status.String(), Merchant: merchantOf(h.Merchant),
		At: decision.StampOf(time.UnixMilli(h.At)),
	}
	if h.HasChecked {
		checked := h.Checked
		a.Checked = &checked
	}
	return a
}

// SimulatedID returns the network id of a workspace's simulated message: ids of the network are
// global, and without the workspace in front one tenant could use or discover another's. Documents
// have the id as it was given.
func SimulatedID(workspace, id string) string {
	return strings.TrimPrefix(workspace, ident.Workspace+"_") + simulatedMark + id
}

// simulatedMark stands between the workspace and the given id of a simulated message.
const simulatedMark = "."

// givenID returns the id of a message as it was given: it undoes SimulatedID.
func givenID(workspace ident.UUID, id string) string {
	if !strings.Contains(id, simulatedMark) { // most ids of the network; their workspace is not formatted
		return id
	}
	return strings.TrimPrefix(id, SimulatedID(workspace.Format(ident.Workspace), ""))
}

func merchantOf(m hold.Merchant) Merchant {
	return Merchant{ID: m.ID, Name: m.Name, MCC: string(hold.AppendMCC(nil, m.MCC)), Country: m.Country}
}

// unmatchedEntry is the record of a clearing or refund for an unknown card, which a person
// resolves.
func unmatchedEntry(e *hold.Entry) decision.Record {
	body, err := json.Marshal(struct {
		CardID      *string     `json:"cardId"`
		AmountCents money.Cents `json:"amountCents"`
		Currency    string      `json:"currency"`
		PostedCents money.Cents `json:"postedCents"`
		Merchant    Merchant    `json:"merchant"`
	}{cardOf(e), e.Amount, string(e.Currency[:]), e.Posted, merchantOf(e.Merchant)})
	if err != nil {
		panic("BUG: unmatched entry: " + err.Error())
	}
	at := time.UnixMilli(e.At)
	id := ident.Derive(e.Workspace.Slot(), at, "unmatched/"+causeOf(e)).Format(ident.Event)
	return decision.Record{Kind: RecordUnmatched, ID: id, Document: Unmatched{
		ID: id, Partner: partnerNetwork, EventID: givenID(e.Workspace, e.NetworkID), Type: e.Kind.String(), Body: body,
		At: decision.StampOf(at),
	}, Personal: true}
}

// applyRelayed folds the entries of the event. It panics for an entry that its decision would have
// refused.
func (s *State) applyRelayed(e Relayed) {
	s.Workspace = e.Workspace
	for i := range e.Entries {
		if err := s.foldEntry(&e.Entries[i]); err != nil {
			panic("BUG: relayed entry after its check: " + err.Error())
		}
	}
}
