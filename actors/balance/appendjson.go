package balance

import (
	"strconv"

	"purser/authorizer/hold"
	"purser/persistence/money"
)

// The events and documents of each card message are encoded by hand, because package json took more
// time than the rest of the journal's work on the message. The bytes are those of package json, and
// the structs decode them.

// AppendJSON appends the event as package json encodes it, and implements decision.Appender. It
// fails when an entry cannot be encoded.
func (e Relayed) AppendJSON(dst []byte) (_ []byte, err error) {
	dst = hold.AppendString(append(dst, `{"workspace":`...), e.Workspace)
	dst = append(dst, `,"entries":`...)
	if dst, err = appendEntries(dst, e.Entries); err != nil {
		return nil, err
	}
	dst = appendPostings(append(dst, `,"postings":`...), e.Postings)
	return append(e.At.Append(append(dst, `,"at":`...)), '}'), nil
}

// appendEntries appends the entries as package json would, null for a nil list. It fails when an
// entry cannot be encoded.
func appendEntries(dst []byte, entries []hold.Entry) (_ []byte, err error) {
	if entries == nil {
		return append(dst, "null"...), nil
	}
	dst = append(dst, '[')
	for i := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = entries[i].AppendJSON(dst); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// appendPostings appends the postings as package json would, null for a nil list.
func appendPostings(dst []byte, postings []Posting) []byte {
	if postings == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i := range postings {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = hold.AppendString(append(dst, `{"transfer":`...), postings[i].Transfer)
		dst = hold.AppendString(append(dst, `,"account":`...), postings[i].Account)
		if postings[i].Currency != "" {
			dst = hold.AppendString(append(dst, `,"currency":`...), string(postings[i].Currency))
		}
		dst = append(appendAmount(dst, `,"cents":`, postings[i].Amount), '}')
	}
	return append(dst, ']')
}

// appendAmount appends the text of a member up to its value, such as `,"cents":`, and the amount.
func appendAmount[A money.Amount](dst []byte, member string, a A) []byte {
	return strconv.AppendInt(append(dst, member...), int64(a), 10)
}

// AppendJSON appends the record as package json encodes it, and implements decision.Appender. Its
// error is always nil.
func (a Authorization) AppendJSON(dst []byte) ([]byte, error) {
	dst = hold.AppendString(append(dst, `{"id":`...), a.ID)
	dst = hold.AppendString(append(dst, `,"networkId":`...), a.NetworkID)
	dst = hold.AppendString(append(dst, `,"decision":`...), a.Decision)
	dst = hold.AppendString(append(dst, `,"reason":`...), a.Reason)
	dst = hold.AppendString(append(dst, `,"responseCode":`...), a.ResponseCode)
	dst = appendAmount(dst, `,"amountCents":`, a.AmountCents)
	dst = appendAmount(dst, `,"heldCents":`, a.HeldCents)
	dst = appendAmount(dst, `,"clearedCents":`, a.ClearedCents)
	dst = appendAmount(dst, `,"refundedCents":`, a.RefundedCents)
	dst = hold.AppendString(append(dst, `,"status":`...), a.Status)
	dst = append(dst, `,"checked":`...)
	if a.Checked != nil {
		dst = a.Checked.AppendJSON(dst)
	} else {
		dst = append(dst, "null"...)
	}
	dst = a.Merchant.appendJSON(append(dst, `,"merchant":`...))
	return append(a.At.Append(append(dst, `,"at":`...)), '}'), nil
}

// appendJSON appends the merchant as package json would.
func (m Merchant) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	if m.ID != "" {
		dst = append(hold.AppendString(append(dst, `"id":`...), m.ID), ',')
	}
	dst = hold.AppendString(append(dst, `"name":`...), m.Name)
	dst = hold.AppendString(append(dst, `,"mcc":`...), m.MCC)
	if m.Country != "" {
		dst = hold.AppendString(append(dst, `,"country":`...), m.Country)
	}
	return append(dst, '}')
}

// AppendJSON appends the record as package json encodes it, and implements decision.Appender. Its
// error is always nil.
func (x AuthorizationIndex) AppendJSON(dst []byte) ([]byte, error) {
	return append(appendTexts(append(dst, `{"authorizationIds":`...), x.AuthorizationIDs), '}'), nil
}

// appendTexts appends the strings as package json would, null for a nil list.
func appendTexts(dst []byte, texts []string) []byte {
	if texts == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = hold.AppendString(dst, text)
	}
	return append(dst, ']')
}

// AppendJSON appends the record as package json encodes it, and implements decision.Appender. Its
// error is always nil.
func (s CardSpend) AppendJSON(dst []byte) ([]byte, error) {
	dst = strconv.AppendUint(append(dst, `{"month":`...), uint64(s.Month), 10)
	return append(appendAmount(dst, `,"cents":`, s.Cents), '}'), nil
}
