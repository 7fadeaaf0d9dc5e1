package agent

import (
	"slices"
	"time"

	"purser/actors/agent/intent"
	"purser/actors/fault"
)

// maxAhead is how far the clock that issued an intent may be ahead of ours.
const maxAhead = 60 * time.Second

// Reason is why an intent was refused, as the log has it.
type Reason string

// Reasons of a refusal, in the order in which they are looked for.
const (
	InvalidBody     Reason = "invalid_body"
	AgentFrozen     Reason = "agent_frozen"
	AgentTerminated Reason = "agent_terminated"
	KIDMismatch     Reason = "kid_mismatch"
	BadSignature    Reason = "bad_signature"
	IntentExpired   Reason = "intent_expired"
	// NeverValid: the intent ends no later than it was issued. The log and the submitter read
	// intent_expired.
	NeverValid      Reason = "never_valid"
	IntentIatFuture Reason = "intent_iat_future"
	// ProtocolNotRegistered: the agent was registered without the intent's protocol.
	ProtocolNotRegistered Reason = "protocol_not_registered"
	IntentReplay          Reason = "intent_replay"
)

// Judge says why the submission may not be accepted at a moment: the first reason of the list that applies, but for IntentReplay,
// or "" when none does. The state is not changed, and must be one that is committed.
func (s *State) Judge(c Submission, at time.Time) Reason {
	switch {
	case c.Parsed == nil || c.Parsed.AgentID != s.ID:
		return InvalidBody
	case s.State != StateActive:
		return s.inactive()
	case !intent.SameKeyID(c.KeyID, intent.KeyID(s.PublicKey)):
		return KIDMismatch
	case intent.Verify(s.PublicKey, []byte(c.Intent), c.Signature) != nil:
		return BadSignature
	case c.Parsed.ExpiresAt <= at.Unix():
		return IntentExpired
	case c.Parsed.ExpiresAt <= c.Parsed.IssuedAt:
		return NeverValid
	case c.Parsed.IssuedAt > at.Add(maxAhead).Unix():
		return IntentIatFuture
	case !slices.Contains(s.Protocols, c.Parsed.Protocol):
		return ProtocolNotRegistered
	}
	return ""
}

// inactive is the reason why an agent that is not active may do nothing.
func (s *State) inactive() Reason {
	if s.State == StateTerminated {
		return AgentTerminated
	}
	return AgentFrozen
}

// shown is the reason as the log and the submitter have it.
func (r Reason) shown() Reason {
	if r == NeverValid {
		return IntentExpired
	}
	return r
}

// Refusal is what the submitter of an intent is told.
func (r Reason) Refusal() *fault.Error {
	f := fault.New(fault.Code(r), "")
	switch r {
	case InvalidBody:
		f.Message = "intent.agent_id must be the agent of the path"
	case AgentFrozen:
		f.Message = "the agent is frozen"
	case AgentTerminated:
		f.Message = "the agent is terminated"
	case KIDMismatch:
		f.Code, f.Message = fault.SignatureInvalid, "key_id must be the agent's keyId"
	case BadSignature:
		f.Code, f.Message = fault.SignatureInvalid, "signature must be the agent's over the canonical JSON of the intent"
	case IntentExpired:
		f.Message = "intent.exp is in the past"
	case NeverValid:
		f.Code, f.Message = fault.SignatureInvalid, "intent.exp must be after intent.iat"
	case IntentIatFuture:
		f.Message = "intent.iat is too far ahead"
	case ProtocolNotRegistered:
		f.Message = "intent.protocol must be one that the agent was registered with"
	case IntentReplay:
		f.Message = "intent.intent_id was accepted before"
	}
	f.Reason = string(r.shown())
	return f
}
