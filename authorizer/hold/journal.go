package hold

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// The journal keeps the JSON of an entry for good: relayed entries are events, and the authorizer
// is rebuilt from them. It decodes to exactly the same entry.

const journalTime = "2006-01-02T15:04:05.000Z"

type entryJSON struct {
	Seq           uint64        `json:"seq"`
	WsSeq         uint64        `json:"workspaceSeq"`
	At            string        `json:"at"`
	Kind          Kind          `json:"kind"`
	Decision      Decision      `json:"decision"`
	Reason        Reason        `json:"reason"`
	Shard         ident.Shard   `json:"shard"`
	Workspace     string        `json:"workspaceId,omitempty"`
	Card          string        `json:"cardId,omitempty"`
	NetworkID     string        `json:"networkId,omitempty"`
	OriginalID    string        `json:"originalId,omitempty"`
	Fingerprint   string        `json:"fingerprint"`
	Amount        money.Cents   `json:"amountCents"`
	Approved      money.Cents   `json:"approvedCents,omitempty"`
	Currency      string        `json:"currency,omitempty"`
	Merchant      *merchantJSON `json:"merchant,omitempty"`
	Final         bool          `json:"final,omitempty"`
	Tombstone     bool          `json:"tombstone,omitempty"`
	CardDelta     money.Cents   `json:"cardDeltaCents"`
	HoldDelta     money.Cents   `json:"holdDeltaCents"`
	SpendDelta    money.Cents   `json:"spendDeltaCents"`
	Posted        money.Cents   `json:"postedCents,omitempty"`
	Month         money.Month   `json:"month,omitempty"`
	SpendCents    money.Cents   `json:"monthSpendCents"`
	Checked       *Checked      `json:"checked,omitempty"`
	Authorization *holdJSON     `json:"authorization,omitempty"`
}

type holdJSON struct {
	ID         string        `json:"id"`
	Card       string        `json:"cardId,omitempty"`
	Workspace  string        `json:"workspaceId,omitempty"`
	NetworkID  string        `json:"networkId,omitempty"`
	At         string        `json:"at"`
	ExpiresAt  string        `json:"expiresAt,omitempty"`
	Asked      money.Cents   `json:"amountCents"`
	Approved   money.Cents   `json:"approvedCents"`
	Held       money.Cents   `json:"heldCents"`
	Cleared    money.Cents   `json:"clearedCents"`
	Refunded   money.Cents   `json:"refundedCents"`
	Month      money.Month   `json:"month"`
	MonthCents money.Cents   `json:"monthCents"`
	Decision   Decision      `json:"decision"`
	Reason     Reason        `json:"reason"`
	Status     Status        `json:"status"`
	Checked    *Checked      `json:"checked,omitempty"`
	Merchant   *merchantJSON `json:"merchant,omitempty"`
}

type merchantJSON struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	MCC     string `json:"mcc"`
	Country string `json:"country,omitempty"`
}

// MarshalJSON encodes the entry for the journal, as the relay sends it. A time that RFC 3339 cannot
// represent and a value without a name are errors.
func (e Entry) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON decodes the output of MarshalJSON. It fails for bad JSON, a value that does not
// parse, and an unknown field, because dropping that would change the entry. Readers of the journal
// call it: rebuilds, audits and the balance.
func (e *Entry) UnmarshalJSON(b []byte) error {
	var j entryJSON
	strict := json.NewDecoder(bytes.NewReader(b))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&j); err != nil {
		return fmt.Errorf("entry: %w", err)
	}
	r := reader{}
	*e = Entry{
		Seq: j.Seq, WsSeq: j.WsSeq, At: r.readTime(j.At), Kind: j.Kind, Decision: j.Decision, Reason: j.Reason,
		Shard:     j.Shard,
		Workspace: r.readID(ident.Workspace, j.Workspace), Card: r.readID(ident.Card, j.Card),
		NetworkID: j.NetworkID, OriginalID: j.OriginalID, Fingerprint: r.readFingerprint(j.Fingerprint),
		Amount: j.Amount, Approved: j.Approved, Currency: r.readCurrency(j.Currency),
		Merchant: r.readMerchant(j.Merchant),
		Final:    j.Final, Tombstone: j.Tombstone, CardDelta: j.CardDelta, HoldDelta: j.HoldDelta,
		SpendDelta: j.SpendDelta,
		Posted:     j.Posted, Spend: Spend{Month: j.Month, Cents: j.SpendCents},
	}
	e.HasChecked, e.Checked = readChecked(j.Checked)
	if j.Authorization != nil {
		e.After = r.readHold(j.Authorization)
	}
	return r.err
}

func readChecked(c *Checked) (bool, Checked) {
	if c == nil {
		return false, Checked{}
	}
	return true, *c
}

// reader decodes the journal's strings and keeps the first error.
type reader struct{ err error }

// failAt records the first fault: the field, its text and the cause. A nil cause is no fault.
func (r *reader) failAt(what, s string, err error) {
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("entry: %s %q: %w", what, s, err)
	}
}

func (r *reader) readTime(s string) int64 {
	at, err := time.Parse(journalTime, s)
	r.failAt("time", s, err)
	return at.UnixMilli()
}

func (r *reader) readID(prefix, s string) ident.UUID {
	if s == "" {
		return ident.UUID{}
	}
	id, err := ident.Parse(prefix, s)
	r.failAt(prefix, s, err)
	return id
}

// readFingerprint reads 16 bytes of hexadecimal; anything else is a fault.
func (r *reader) readFingerprint(s string) (f [16]byte) {
	b, err := hex.DecodeString(s)
	if err == nil && len(b) != len(f) {
		err = ErrCorrupt
	}
	r.failAt("fingerprint", s, err)
	copy(f[:], b)
	return f
}

func (r *reader) readCurrency(s string) (c [3]byte) {
	if s != "" && len(s) != len(c) {
		r.failAt("currency", s, ErrCorrupt)
	}
	copy(c[:], s)
	return c
}

// readMerchant reads a merchant, none for nil. A code that is not four digits is a fault.
func (r *reader) readMerchant(j *merchantJSON) Merchant {
	if j == nil {
		return Merchant{}
	}
	mcc, ok := ParseMCC(j.MCC)
	if !ok {
		r.failAt("mcc", j.MCC, ErrCorrupt)
	}
	return Merchant{ID: j.ID, Name: j.Name, Country: j.Country, MCC: mcc}
}

// readHold reads an authorization. The first value that does not parse becomes the reader's fault.
func (r *reader) readHold(j *holdJSON) Hold {
	h := Hold{
		ID: r.readID(ident.Authorization, j.ID), Card: r.readID(ident.Card, j.Card),
		Workspace: r.readID(ident.Workspace, j.Workspace),
		NetworkID: j.NetworkID, At: r.readTime(j.At),
		Asked: j.Asked, Approved: j.Approved, Held: j.Held, Cleared: j.Cleared, Refunded: j.Refunded,
		Month: j.Month, MonthCents: j.MonthCents, Decision: j.Decision, Reason: j.Reason, Status: j.Status,
		Merchant: r.readMerchant(j.Merchant),
	}
	if j.ExpiresAt != "" {
		h.ExpiresAt = r.readTime(j.ExpiresAt)
	}
	h.HasChecked, h.Checked = readChecked(j.Checked)
	return h
}
