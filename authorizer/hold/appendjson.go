package hold

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"purser/persistence/ident"
)

// The journal takes thousands of entries a second. They are written by hand, byte for byte as package json writes entryJSON,
// which stays the description and is what they are read by.

// AppendJSON appends the entry for the journal to dst. A time that RFC 3339 cannot write and a value without a name are errors.
func (e *Entry) AppendJSON(dst []byte) ([]byte, error) {
	w := writer{dst: dst}
	w.count(`{"seq":`, e.Seq)
	w.count(`,"workspaceSeq":`, e.WsSeq)
	w.time(`,"at":`, e.At)
	w.name(`,"kind":`, kindNames, uint8(e.Kind))
	w.name(`,"decision":`, decisionNames, uint8(e.Decision))
	w.name(`,"reason":`, reasonNames, uint8(e.Reason))
	w.number(`,"shard":`, int64(e.Shard))
	w.id(`,"workspaceId":`, ident.Workspace, e.Workspace)
	w.id(`,"cardId":`, ident.Card, e.Card)
	w.textUnlessEmpty(`,"networkId":`, e.NetworkID)
	w.textUnlessEmpty(`,"originalId":`, e.OriginalID)
	w.dst = append(w.dst, `,"fingerprint":"`...)
	w.dst = append(hex.AppendEncode(w.dst, e.Fingerprint[:]), '"')
	w.number(`,"amountCents":`, e.Amount)
	w.unlessZero(`,"approvedCents":`, e.Approved)
	if e.Currency != ([3]byte{}) {
		w.textUnlessEmpty(`,"currency":`, string(e.Currency[:]))
	}
	w.merchant(&e.Merchant)
	w.unlessFalse(`,"final":true`, e.Final)
	w.unlessFalse(`,"tombstone":true`, e.Tombstone)
	w.number(`,"cardDeltaCents":`, e.CardDelta)
	w.number(`,"holdDeltaCents":`, e.HoldDelta)
	w.number(`,"spendDeltaCents":`, e.SpendDelta)
	w.unlessZero(`,"postedCents":`, e.Posted)
	w.unlessZero(`,"month":`, int64(e.Spend.Month))
	w.number(`,"monthSpendCents":`, e.Spend.Cents)
	w.checked(e.HasChecked, e.Checked)
	if !e.After.ID.IsZero() {
		w.hold(&e.After)
	}
	return append(w.dst, '}'), w.err
}

// writer appends members; the first fault stays.
type writer struct {
	dst []byte
	err error
}

func (w *writer) number(member string, n int64) {
	w.dst = strconv.AppendInt(append(w.dst, member...), n, 10)
}

func (w *writer) count(member string, n uint64) {
	w.dst = strconv.AppendUint(append(w.dst, member...), n, 10)
}

func (w *writer) unlessZero(member string, n int64) {
	if n != 0 {
		w.number(member, n)
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

func (w *writer) id(member, prefix string, id ident.UUID) {
	if !id.IsZero() {
		w.dst = append(append(w.dst, member...), '"')
		w.dst = append(id.Append(w.dst, prefix), '"')
	}
}

func (w *writer) name(member string, names []string, v uint8) {
	if !named(names, v) {
		w.fail(fmt.Errorf("entry: %s%d has no name", member, v))
		return
	}
	w.dst = append(append(append(append(w.dst, member...), '"'), names[v]...), '"')
}

func (w *writer) time(member string, ms int64) {
	at := time.UnixMilli(ms).UTC()
	if year := at.Year(); year < 0 || year > 9999 {
		w.fail(fmt.Errorf("time %d ms is beyond RFC 3339", ms))
		return
	}
	w.dst = append(append(w.dst, member...), '"')
	w.dst = append(at.AppendFormat(w.dst, journalTime), '"')
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) merchant(m *Merchant) {
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

func (w *writer) checked(has bool, c Checked) {
	if has {
		w.dst = c.AppendJSON(append(w.dst, `,"checked":`...))
	}
}

func (w *writer) hold(h *Hold) {
	w.dst = append(w.dst, `,"authorization":{"id":"`...)
	w.dst = append(h.ID.Append(w.dst, ident.Authorization), '"')
	w.id(`,"cardId":`, ident.Card, h.Card)
	w.id(`,"workspaceId":`, ident.Workspace, h.Workspace)
	w.textUnlessEmpty(`,"networkId":`, h.NetworkID)
	w.time(`,"at":`, h.At)
	if h.ExpiresAt != 0 {
		w.time(`,"expiresAt":`, h.ExpiresAt)
	}
	w.number(`,"amountCents":`, h.Asked)
	w.number(`,"approvedCents":`, h.Approved)
	w.number(`,"heldCents":`, h.Held)
	w.number(`,"clearedCents":`, h.Cleared)
	w.number(`,"refundedCents":`, h.Refunded)
	w.number(`,"month":`, int64(h.Month))
	w.number(`,"monthCents":`, h.MonthCents)
	w.name(`,"decision":`, decisionNames, uint8(h.Decision))
	w.name(`,"reason":`, reasonNames, uint8(h.Reason))
	w.name(`,"status":`, statusNames, uint8(h.Status))
	w.checked(h.HasChecked, h.Checked)
	w.merchant(&h.Merchant)
	w.dst = append(w.dst, '}')
}

// AppendJSON appends what was compared, as package json writes it.
func (c Checked) AppendJSON(dst []byte) []byte {
	w := writer{dst: dst}
	w.number(`{"limitCents":`, c.LimitCents)
	w.number(`,"spentCents":`, c.SpentCents)
	w.number(`,"askedCents":`, c.AskedCents)
	return append(w.dst, '}')
}

// AppendMCC appends the four digits of a merchant category.
func AppendMCC(dst []byte, mcc uint16) []byte {
	for least := uint16(1000); least > 1 && mcc < least; least /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, uint64(mcc), 10)
}

// AppendString appends a string as package json writes it.
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
