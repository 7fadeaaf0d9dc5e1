package balance

import (
	"encoding/json"
	"fmt"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
)

// keepUnmatched stores a partner's report. The event leaves its body out, because the partner's
// text may name people. It fails with invalid_body for an EventID of a wrong length, and with
// limit_exceeded for a body above MaxUnmatchedBody bytes. An empty Partner panics.
func (s *State) keepUnmatched(m decision.Meta, c KeepUnmatched) (decision.Decision, error) {
	if c.Partner == "" {
		panic("BUG: a report of no partner")
	}
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	if len(c.Body) > MaxUnmatchedBody {
		return decision.Decision{}, fault.New(fault.LimitExceeded, fmt.Sprintf("a report has at most %d bytes",
			MaxUnmatchedBody))
	}
	at := decision.StampOf(m.At)
	id := ident.Derive(ident.SystemSlot, m.At, "unmatched/"+c.Partner+"/"+c.EventID).Format(ident.Event)
	report := Unmatched{ID: id, Partner: c.Partner, EventID: c.EventID, Type: c.Type, Body: bodyOf(c.Body), At: at}
	return decision.Decision{
		Events:  []decision.Event{UnmatchedKept{ID: id, Partner: c.Partner, EventID: c.EventID, Type: c.Type, At: at}},
		Reply:   report,
		Records: []decision.Record{{Kind: RecordUnmatched, ID: id, Document: report, Personal: true}},
		Onces:   []decision.Once{{Scope: unmatchedScope(c.Partner), Key: c.EventID, Expires: m.At.Add(BankRetention)}},
	}, nil
}

// unmatchedScope is the scope of the event ids of unmatched reports. The effects of reports are
// claimed in the scope of the partner's name. With one scope for both, an unmatched report blocked
// its own repeat for every tenant of the system workspace's shard.
func unmatchedScope(partner string) string { return partner + "_unmatched" }

// bodyOf copies a body for a document. A body that is not JSON becomes a JSON string.
func bodyOf(body []byte) json.RawMessage {
	if json.Valid(body) {
		return append(json.RawMessage{}, body...)
	}
	quoted, err := json.Marshal(string(body))
	if err != nil {
		panic("BUG: a string that is not JSON: " + err.Error())
	}
	return quoted
}
