package balance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
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

// relay takes what the authorizer decided into the balance, as one event whatever the number of entries. Entries are facts: no
// limit of the workspace refuses them. What would break the books does, with a plain error and nothing changed.
func (s *State) relay(m decision.Meta, c Relay) (decision.Decision, error) {
	entries, err := s.fresh(c.Entries)
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
	documents := newDocuments(len(entries))
	for i := range entries {
		entry := &entries[i]
		if err := after.fold(entry); err != nil {
			return decision.Decision{}, fmt.Errorf("entry %d: %w", entry.WsSeq, err)
		}
		if entry.Posted != 0 {
			t := posting(entry)
			e.Postings = append(e.Postings, t.postings()...)
			documents.records = append(documents.records, t.record())
		}
		documents.entry(entry)
	}
	return decision.Decision{Events: []decision.Event{e}, Reply: Through{after.WsSeq}, Records: documents.all()}, nil
}

// fresh drops the entries at the start that are in the balance already and refuses a run with a hole, or of somebody else. What
// it returns is a part of the run, no copy: entries are long, and who has read them from the log changes none of them.
func (s *State) fresh(entries []hold.Entry) ([]hold.Entry, error) {
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

// fold adds an entry to the balance, every sum checked. After an error the state is not to be used.
func (s *State) fold(e *hold.Entry) error {
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
	if err = s.total(); err != nil {
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

// checkEntry holds the amounts of an entry against each other: dollars leave the card's funds and its hold exactly as they are
// posted. What is unmatched moves no funds.
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

// posting is the transfer of a clearing (dollars to the network) or a refund (dollars from it). For a card that nobody knows the
// dollars are suspense.
func posting(e *hold.Entry) transfer {
	t := transfer{
		workspace: e.Workspace.Format(ident.Workspace), account: AccountUSD, counterpart: AccountNetwork, cents: -e.Posted,
		source: sourceSettlement, reference: e.NetworkID, card: cardOf(e), cause: causeOf(e), at: time.UnixMilli(e.At).UTC(),
	}
	if e.Decision == hold.Unmatched {
		t.account = AccountSuspense
	}
	if e.Posted < 0 {
		t.source = sourceRefund
	}
	return t
}

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

// recordsPerEntry is how many a swipe has: the authorization and its card's spend. What is posted has a ledger line besides, and
// a run its place in the list of the workspace.
const recordsPerEntry = 2

// documents gathers the records of a run. Of a card or an authorization that several entries tell of the last document stands, at
// its first place; ledger lines and unmatched reports are of one entry each; one record names the authorizations that were made.
type documents struct {
	records []decision.Record
	// where the records of an id are
	spends, authorizations map[ident.UUID]int
	// the authorizations that the run made
	made []string
	// the card that was written last, for that is an entry's and its authorization's
	card     ident.UUID
	cardText string
}

func newDocuments(entries int) documents {
	return documents{
		records: make([]decision.Record, 0, recordsPerEntry*entries+1),
		spends:  make(map[ident.UUID]int, entries), authorizations: make(map[ident.UUID]int, entries),
		made: make([]string, 0, entries),
	}
}

// all are the records of the run once every entry was told.
func (d *documents) all() []decision.Record {
	if len(d.made) == 0 {
		return d.records
	}
	return append(d.records, decision.Record{
		Kind: RecordAuthorizationIndex, ID: d.made[0], Document: AuthorizationIndex{AuthorizationIDs: d.made}, New: true,
	})
}

func (d *documents) put(at map[ident.UUID]int, id ident.UUID, r decision.Record) {
	if i, there := at[id]; there {
		r.New = d.records[i].New
		d.records[i] = r
		return
	}
	at[id] = len(d.records)
	d.records = append(d.records, r)
}

// entry writes what an entry leaves to be shown: the authorization as it stands, the card's spend, an unmatched report.
func (d *documents) entry(e *hold.Entry) {
	if !e.Card.IsZero() {
		spend := CardSpend{Month: uint32(e.Spend.Month), Cents: e.Spend.Cents}
		d.put(d.spends, e.Card, decision.Record{Kind: RecordCardSpend, ID: d.cardID(e.Card), Document: spend})
	}
	if !e.After.ID.IsZero() {
		d.authorization(e)
	}
	if e.Decision == hold.Unmatched {
		d.records = append(d.records, unmatchedEntry(e))
	}
}

func (d *documents) authorization(e *hold.Entry) {
	document := authorizationOf(&e.After)
	made := makesOne(e)
	if made {
		d.made = append(d.made, document.ID)
	}
	d.put(d.authorizations, e.After.ID, decision.Record{
		Kind: RecordAuthorization, Parent: d.cardID(e.After.Card), ID: document.ID, Document: document, New: made,
	})
}

// makesOne says whether the entry made the authorization that it has. The network id does not: clearings are numbered by
// themselves, and what takes an approval back has the number of the approval.
func makesOne(e *hold.Entry) bool {
	return e.Kind == hold.Authorization || e.Reason == hold.ReasonForcedPost
}

func (d *documents) cardID(card ident.UUID) string {
	if card != d.card || d.cardText == "" {
		d.card, d.cardText = card, card.Format(ident.Card)
	}
	return d.cardText
}

func authorizationOf(h *hold.Hold) Authorization {
	a := Authorization{
		ID: h.ID.Format(ident.Authorization), NetworkID: h.NetworkID, Decision: h.Decision.String(), Reason: h.Reason.String(),
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

func merchantOf(m hold.Merchant) Merchant {
	return Merchant{ID: m.ID, Name: m.Name, MCC: string(hold.AppendMCC(nil, m.MCC)), Country: m.Country}
}

// unmatchedEntry keeps a clearing or refund that no card's balance took.
func unmatchedEntry(e *hold.Entry) decision.Record {
	body, err := json.Marshal(struct {
		CardID      *string  `json:"cardId"`
		AmountCents int64    `json:"amountCents"`
		Currency    string   `json:"currency"`
		PostedCents int64    `json:"postedCents"`
		Merchant    Merchant `json:"merchant"`
	}{cardOf(e), e.Amount, string(e.Currency[:]), e.Posted, merchantOf(e.Merchant)})
	if err != nil {
		panic("BUG: unmatched entry: " + err.Error())
	}
	at := time.UnixMilli(e.At)
	id := ident.Derive(e.Workspace.Slot(), at, "unmatched/"+causeOf(e)).Format(ident.Event)
	return decision.Record{Kind: RecordUnmatched, ID: id, Document: Unmatched{
		ID: id, Partner: partnerNetwork, EventID: e.NetworkID, Type: e.Kind.String(), Body: body, At: decision.StampOf(at),
	}, Personal: true}
}

func (s *State) applyRelayed(e Relayed) {
	s.Workspace = e.Workspace
	for i := range e.Entries {
		if err := s.fold(&e.Entries[i]); err != nil {
			panic("BUG: relayed entry after its check: " + err.Error())
		}
	}
}
