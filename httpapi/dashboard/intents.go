package dashboard

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"purser/httpapi/web"
	"purser/persistence/money"
)

// loggedIntent is an entry of an agent's log in the interface.
type loggedIntent struct {
	LogID           string    `json:"log_id"`
	IntentID        string    `json:"intent_id"`
	Accepted        bool      `json:"accepted"`
	RejectionReason string    `json:"rejection_reason"`
	ReceivedAt      time.Time `json:"received_at"`
	Intent          json.RawMessage
}

// intentReasons are the reasons for which an intent is refused, with their names and with what its
// sender can do.
var intentReasons = []struct{ name, words, advice string }{
	{"invalid_body", "Malformed", "Send the members that the reference lists, with this agent's id as agent_id."},
	{"agent_frozen", "Agent is frozen", "Unfreeze the agent, and send an intent again."},
	{"agent_terminated", "Agent is terminated", "Register another agent."},
	{"kid_mismatch", "Another key", "Send the fingerprint of this agent's key as key_id."},
	{"bad_signature", "Wrong signature",
		"Sign the canonical JSON of the intent, its names sorted, with this agent's private key."},
	{"intent_expired", "Expired", "Set exp to a later time than iat and than the time of the submission."},
	{"intent_iat_future", "Issued in the future", "Set the sender's clock, and iat to the present time in seconds."},
	{"protocol_not_registered", "Protocol not registered", "Use a protocol that the agent was registered with."},
	{"intent_replay", "Sent before", "Give each intent an intent_id of its own."},
}

// intentReason returns the name of a reason and what to do about it.
func intentReason(name string) (words, advice string) {
	for _, r := range intentReasons {
		if r.name == name {
			return r.words, r.advice
		}
	}
	return inWords(name), ""
}

// intentBlocks show how to sign an intent, why the newest was refused, and a page of the log. Until
// the first intent they begin with the program, and afterwards they end with it, folded.
func intentBlocks(v *visit, a *agent) ([]Block, error) {
	var log struct {
		Data       []loggedIntent
		NextCursor *string
	}
	isFirst := v.Query.Get("cursor") == ""
	if err := v.readInto(&log, intentsPath, "id", v.recordID(), "cursor", v.Query.Get("cursor"),
		"limit", "50"); err != nil {
		return nil, err
	}
	table := Block{Table: v.addPaging(intentTable(v, log.Data), log.NextCursor)}
	switch {
	case a.State == "terminated":
		return []Block{table}, nil
	case len(log.Data) == 0 && isFirst:
		return []Block{v.signBlock(a, false), table}, nil
	case isFirst && !log.Data[0].Accepted:
		words, advice := intentReason(log.Data[0].RejectionReason)
		return []Block{{Notice: &Notice{Refused: true, Fact: "The newest intent was refused: " +
			strings.ToLower(words) +
			".", Text: advice}}, table, v.signBlock(a, true)}, nil
	}
	return []Block{table, v.signBlock(a, true)}, nil
}

// intentTable draws intents with their results, under headings of their days.
func intentTable(v *visit, intents []loggedIntent) *Table {
	t := &Table{Caption: "Intents, newest first", Empty: "The agent has sent no intent yet.",
		Columns: []Column{{Name: "Time (UTC)", Role: roleSecond}, {Name: "Merchant", Role: rolePrimary},
			{Name: "Intent"}, {Name: "Protocol"}, {Name: "Result", Role: roleStatus},
			{Name: "Amount", Number: true, Role: roleAmount}}}
	for i := range intents {
		e := &intents[i]
		merchant, amount, protocol, result := "No merchant", Cell{}, "", stateCell("accepted")
		if signed := e.parseIntent(); signed != nil {
			merchant, protocol = cmp.Or(signed.Merchant.Name, merchant), signed.Protocol
			amount = plainCell(signed.amountText())
		}
		if !e.Accepted {
			words, _ := intentReason(e.RejectionReason)
			result, amount.Mark = namedState("refused", words), "soft"
		}
		t.Rows = append(t.Rows, []Cell{t.addDay(v.Now, e.ReceivedAt), plainCell(merchant),
			codeCell(e.IntentID), plainCell(protocol), result, amount})
	}
	return t
}

// signedIntent is an intent as far as the log shows it.
type signedIntent struct {
	Merchant struct{ Name string }
	Amount   struct {
		Currency string
		Cents    money.Cents
	}
	Protocol string
}

// parseIntent reads the intent of an entry. It is nil for a malformed one, which the log may hold.
func (e *loggedIntent) parseIntent() *signedIntent {
	var signed signedIntent
	if len(e.Intent) == 0 || json.Unmarshal(e.Intent, &signed) != nil {
		return nil
	}
	return &signed
}

// amountText writes the amount of an intent. Another currency than dollars has its code and cents.
func (s *signedIntent) amountText() string {
	switch s.Amount.Currency {
	case "":
		return ""
	case "USD":
		return web.Dollars(s.Amount.Cents)
	}
	return s.Amount.Currency + " " + centsText(s.Amount.Cents) + " cents"
}
