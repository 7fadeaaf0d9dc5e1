package hold

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// The journal takes thousands of entries per second. AppendJSON writes them by hand, byte for byte
// like package json with entryJSON, which documents and decodes them.

// AppendJSON appends the entry for the journal to dst, in the form of MarshalJSON and without
// reflection. A time that RFC 3339 cannot represent and a value without a name are errors.
func (e *Entry) AppendJSON(dst []byte) ([]byte, error) {
	w := writer{dst: dst}
	w.writeCount(`{"seq":`, e.Seq)
	w.writeCount(`,"workspaceSeq":`, e.WsSeq)
	w.writeTime(`,"at":`, e.At)
	w.writeName(`,"kind":`, kindNames, uint8(e.Kind))
	w.writeName(`,"decision":`, decisionNames, uint8(e.Decision))
	w.writeName(`,"reason":`, reasonNames, uint8(e.Reason))
	w.writeNumber(`,"shard":`, int64(e.Shard))
	w.writeID(`,"workspaceId":`, ident.Workspace, e.Workspace)
	w.writeID(`,"cardId":`, ident.Card, e.Card)
	w.textUnlessEmpty(`,"networkId":`, e.NetworkID)
	w.textUnlessEmpty(`,"originalId":`, e.OriginalID)
	w.dst = append(w.dst, `,"fingerprint":"`...)
	w.dst = append(hex.AppendEncode(w.dst, e.Fingerprint[:]), '"')
	w.writeCents(`,"amountCents":`, e.Amount)
	w.centsUnlessZero(`,"approvedCents":`, e.Approved)
	if e.Currency != ([3]byte{}) {
		w.textUnlessEmpty(`,"currency":`, string(e.Currency[:]))
	}
	w.writeMerchant(&e.Merchant)
	w.unlessFalse(`,"final":true`, e.Final)
	w.unlessFalse(`,"tombstone":true`, e.Tombstone)
	w.writeCents(`,"cardDeltaCents":`, e.CardDelta)
	w.writeCents(`,"holdDeltaCents":`, e.HoldDelta)
	w.writeCents(`,"spendDeltaCents":`, e.SpendDelta)
	w.centsUnlessZero(`,"postedCents":`, e.Posted)
	if e.Spend.Month != 0 {
		w.writeNumber(`,"month":`, int64(e.Spend.Month))
	}
	w.writeCents(`,"monthSpendCents":`, e.Spend.Cents)
	w.writeChecked(e.HasChecked, e.Checked)
	if !e.After.ID.IsZero() {
		w.writeHold(&e.After)
	}
	return append(w.dst, '}'), w.err
}

// writer appends members and keeps the first error.
type writer struct {
	dst []byte
	err error
}

func (w *writer) writeNumber(member string, n int64) {
	w.dst = strconv.AppendInt(append(w.dst, member...), n, 10)
}

func (w *writer) writeCount(member string, n uint64) {
	w.dst = strconv.AppendUint(append(w.dst, member...), n, 10)
}

func (w *writer) writeCents(member string, c money.Cents) { w.writeNumber(member, int64(c)) }

func (w *writer) centsUnlessZero(member string, c money.Cents) {
	if c != 0 {
		w.writeCents(member, c)
	}
}

func (w *writer) unlessFalse(member string, is bool) {
	if is {
		w.dst = append(w.dst, member...)
	}
}

func (w *writer) textUnlessEmpty(member, s string) {
	if s != "" {
		w.dst = AppendString(append(w.dst, member...), s)
	}
}

func (w *writer) writeID(member, prefix string, id ident.UUID) {
	if !id.IsZero() {
		w.dst = append(append(w.dst, member...), '"')
		w.dst = append(id.Append(w.dst, prefix), '"')
	}
}

func (w *writer) writeName(member string, names []string, v uint8) {
	if !isNamed(names, v) {
		w.failWith(fmt.Errorf("entry: %s%d has no name", member, v))
		return
	}
	w.dst = append(append(append(append(w.dst, member...), '"'), names[v]...), '"')
}

// writeTime appends a member's name and a time in milliseconds of Unix time, as RFC 3339. A year
// outside 0 to 9999 fails the writer.
func (w *writer) writeTime(member string, ms int64) {
	at := time.UnixMilli(ms).UTC()
	if year := at.Year(); year < 0 || year > 9999 {
		w.failWith(fmt.Errorf("time %d ms is beyond RFC 3339", ms))
		return
	}
	w.dst = append(append(w.dst, member...), '"')
	w.dst = append(at.AppendFormat(w.dst, journalTime), '"')
}

func (w *writer) failWith(err error) {
	if w.err == nil {
		w.err = err
	}
}

// writeMerchant writes a merchant as a member of the entry, and nothing for none.
func (w *writer) writeMerchant(m *Merchant) {
	if *m == (Merchant{}) {
		return
	}
	w.dst = append(w.dst, `,"merchant":{`...)
	if m.ID != "" {
		w.dst = append(AppendString(append(w.dst, `"id":`...), m.ID), ',')
	}
	if m.Name != "" {
		w.dst = append(AppendString(append(w.dst, `"name":`...), m.Name), ',')
	}
	w.dst = append(AppendMCC(append(w.dst, `"mcc":"`...), m.MCC), '"')
	w.textUnlessEmpty(`,"country":`, m.Country)
	w.dst = append(w.dst, '}')
}

func (w *writer) writeChecked(has bool, c Checked) {
	if has {
		w.dst = c.AppendJSON(append(w.dst, `,"checked":`...))
	}
}

// writeHold writes the authorization as a member of the entry. It records an error for a value
// without a name or a time beyond RFC 3339.
func (w *writer) writeHold(h *Hold) {
	w.dst = append(w.dst, `,"authorization":{"id":"`...)
	w.dst = append(h.ID.Append(w.dst, ident.Authorization), '"')
	w.writeID(`,"cardId":`, ident.Card, h.Card)
	w.writeID(`,"workspaceId":`, ident.Workspace, h.Workspace)
	w.textUnlessEmpty(`,"networkId":`, h.NetworkID)
	w.writeTime(`,"at":`, h.At)
	if h.ExpiresAt != 0 {
		w.writeTime(`,"expiresAt":`, h.ExpiresAt)
	}
	w.writeCents(`,"amountCents":`, h.Asked)
	w.writeCents(`,"approvedCents":`, h.Approved)
	w.writeCents(`,"heldCents":`, h.Held)
	w.writeCents(`,"clearedCents":`, h.Cleared)
	w.writeCents(`,"refundedCents":`, h.Refunded)
	w.writeNumber(`,"month":`, int64(h.Month))
	w.writeCents(`,"monthCents":`, h.MonthCents)
	w.writeName(`,"decision":`, decisionNames, uint8(h.Decision))
	w.writeName(`,"reason":`, reasonNames, uint8(h.Reason))
	w.writeName(`,"status":`, statusNames, uint8(h.Status))
	w.writeChecked(h.HasChecked, h.Checked)
	w.writeMerchant(&h.Merchant)
	w.dst = append(w.dst, '}')
}

// AppendJSON appends the compared amounts, in the encoding of package json. The journal's entries
// and the authorizations of the API contain it.
func (c Checked) AppendJSON(dst []byte) []byte {
	w := writer{dst: dst}
	w.writeCents(`{"limitCents":`, c.LimitCents)
	w.writeCents(`,"spentCents":`, c.SpentCents)
	w.writeCents(`,"askedCents":`, c.AskedCents)
	return append(w.dst, '}')
}

// AppendMCC appends the four digits of a merchant category code below 10,000.
func AppendMCC(dst []byte, mcc uint16) []byte {
	for least := uint16(1000); least > 1 && mcc < least; least /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, uint64(mcc), 10)
}

// AppendString appends a string in the encoding of package json. It never fails: invalid UTF-8
// becomes U+FFFD, as there.
func AppendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return appendEscaped(dst, s)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

func appendEscaped(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic("BUG: a string has no JSON: " + err.Error())
	}
	return append(dst, text...)
}
