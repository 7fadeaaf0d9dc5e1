package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"purser/actors"
	"purser/actors/agent"
	"purser/actors/agent/intent"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
)

// Limits of submissions.
const (
	maxSubmission  = 16 << 10 // bytes of the body; a longer one is refused, and logged without its intent
	maxLoggedText  = 200      // bytes of a logged id or signature of a malformed submission
	intentScope    = "intent" // of the claims on intents' ids
	intentAccepted = "intent recorded; not yet required for card payments"
)

// submitIntent handles POST /api/agents/{id}/intents: it checks a signed intent and logs it,
// accepted or refused. The check uses the agent's committed state at the time of the request. The
// signature is verified here, outside the actor; the actor checks again only the state that may
// have changed since. A refusal is the fault of its reason; another workspace's agent is not_found.
func (h *agentHandlers) submitIntent(c *call) (answer, error) {
	submitted, malformed := h.readSubmission(c)
	if malformed != nil && submitted == nil {
		return answer{}, malformed
	}
	state, err := h.readAgent(c)
	switch {
	case malformed != nil && fault.Is(err, fault.NotFound):
		// An unknown agent has no log.
		return answer{}, malformed
	case err != nil:
		return answer{}, err
	}
	if submitted.LogID, err = h.newID(c, ident.IntentLog); err != nil {
		return answer{}, err
	}
	reason := state.Judge(*submitted, h.actors.WallTime())
	if reason == "" {
		var accepted answer
		if accepted, reason, err = h.acceptIntent(c, *submitted); reason == "" {
			return accepted, err
		}
	}
	if _, err := h.actors.Ask(c.ctx, c.toAgent(agent.Refuse{Submission: *submitted, Reason: reason})); err != nil {
		return answer{}, err
	}
	refusal := reason.Refusal()
	if f, ok := errors.AsType[*fault.Error](malformed); ok {
		refusal.Message = f.Message
	}
	return answer{}, refusal
}

// acceptIntent logs a valid intent. The claim on its id commits with the entry and never expires,
// so concurrent submissions of one id wait for the first and are replays. The reason explains a
// refusal by the actor. The error is the store's.
func (h *agentHandlers) acceptIntent(c *call, submitted agent.Submission) (answer, agent.Reason, error) {
	e := c.toAgent(agent.Accept{Submission: submitted})
	e.Key = &actors.Key{Scope: intentScope, Key: e.Stream + "/" + submitted.IntentID}
	accepted, err := h.actors.Ask(c.ctx, e)
	switch {
	case fault.Is(err, fault.AgentFrozen):
		return answer{}, agent.AgentFrozen, nil
	case fault.Is(err, fault.AgentTerminated):
		return answer{}, agent.AgentTerminated, nil
	case err != nil:
		return answer{}, "", err
	}
	if _, taken := accepted.(actors.Replayed); taken {
		return answer{}, agent.IntentReplay, nil
	}
	shown, err := reply(map[string]any{"accepted": true, "log_id": submitted.LogID, "intent_id": submitted.IntentID,
		"next": map[string]string{"card": intentAccepted}})
	return shown, "", err
}

// readSubmission reads the submission of a request. The error is invalid_body and names the fault.
// When the body is JSON, a submission with the readable members accompanies the error, so that
// submitIntent can log the refusal.
func (h *agentHandlers) readSubmission(c *call) (*agent.Submission, error) {
	var body intent.Submission
	err := h.decode(c, &body)
	if err != nil && !fault.Is(err, fault.InvalidBody) || !utf8.Valid(c.body) || !json.Valid(c.body) {
		return nil, err
	}
	if len(c.body) > maxSubmission {
		return &agent.Submission{}, fault.New(fault.InvalidBody,
			fmt.Sprintf("the body must have at most %d bytes", maxSubmission))
	}
	if err != nil {
		return partialSubmission(c.body), err
	}
	var parsed intent.Intent
	// JSON Schema accepts 9.00 as an integer; Go reads an int64 only without a point or an
	// exponent.

	if err := json.Unmarshal(body.Intent, &parsed); err != nil {
		field := "intent"
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			field += "." + wrong.Field
		}
		return partialSubmission(c.body), fault.New(fault.InvalidBody, field+" must be written as a whole number")
	}
	return &agent.Submission{Intent: string(body.Intent), IntentID: parsed.IntentID, Signature: body.Signature,
		KeyID:  body.KeyID,
		Parsed: &parsed}, nil
}

// partialSubmission extracts the members that can be read from a malformed submission.
func partialSubmission(body []byte) *agent.Submission {
	fields := fieldsOf(body)
	raw := fields["intent"]
	return &agent.Submission{Intent: string(raw), IntentID: textOf(fieldsOf(raw)["intent_id"]),
		Signature: textOf(fields["signature"]), KeyID: textOf(fields["key_id"])}
}

// fieldsOf returns the members of a JSON object, and none for any other value.
func fieldsOf(raw []byte) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return fields
}

// textOf returns a JSON string of at most maxLoggedText bytes, and "" for any other value.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil || len(text) > maxLoggedText {
		return ""
	}
	return text
}

// shownEntry is an entry of an agent's log in the interface. Intent is null when the entry has
// none.
type shownEntry struct {
	agent.LogEntry
	Intent any `json:"intent"`
}

// showIntent shows an intent as JSON, or as text when it has no canonical form. Some JSON readers
// reject such an intent, and one bad submission must not make the log unreadable.
func showIntent(text string) any {
	if text == "" {
		return nil
	}
	if _, err := intent.Canonical([]byte(text)); err != nil {
		return text
	}
	return json.RawMessage(text)
}

// listIntents handles GET /api/agents/{id}/intents: the intents that an agent has submitted. It
// fails with not_found for another workspace's agent, and like listRecords.
func (h *agentHandlers) listIntents(c *call) (answer, error) {
	state, err := h.readAgent(c)
	if err != nil {
		return answer{}, err
	}
	return listRecords(h.edge, c, query.AgentIntents, state.ID, func(e agent.LogEntry) (any, error) {
		return shownEntry{LogEntry: e, Intent: showIntent(e.Intent)}, nil
	})
}
