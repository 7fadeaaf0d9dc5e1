package agent

import (
	"slices"
	"time"

	"purser/actors/agent/intent"
	"purser/actors/fault"
)

// maxClockSkew is how far ahead the clock that issued an intent may be.
const maxClockSkew = 60 * time.Second

// Reason is the cause of a refused intent, as logged.
type Reason string

// Reasons of a refusal, in the order of the checks.
const (
	InvalidBody     Reason = "invalid_body"
	AgentFrozen     Reason = "agent_frozen"
	AgentTerminated Reason = "agent_terminated"
	KIDMismatch     Reason = "kid_mismatch"
	BadSignature    Reason = "bad_signature"
	IntentExpired   Reason = "intent_expired"
	// NeverValid marks an intent that expires no later than it was issued. The log and the
	// submitter see intent_expired.
	NeverValid      Reason = "never_valid"
	IntentIatFuture Reason = "intent_iat_future"
	// ProtocolNotRegistered marks an intent of a protocol that the agent was not registered for.
	ProtocolNotRegistered Reason = "protocol_not_registered"
	IntentReplay          Reason = "intent_replay"
)

// Judge returns the first reason against accepting the submission at a time, or "" when there is
// none. It never returns IntentReplay. It does not change the state, which must be a committed one.
func (s *State) Judge(c Submission, at time.Time) Reason {
	switch {
	case c.Parsed == nil || c.Parsed.AgentID != s.ID:
		return InvalidBody
	case s.State != StateActive:
		return s.inactiveReason()
	case !intent.SameKeyID(c.KeyID, intent.KeyID(s.PublicKey)):
		return KIDMismatch
	case intent.Verify(s.PublicKey, []byte(c.Intent), c.Signature) != nil:
		return BadSignature
	case c.Parsed.ExpiresAt <= at.Unix():
		return IntentExpired
	case c.Parsed.ExpiresAt <= c.Parsed.IssuedAt:
		return NeverValid
	case c.Parsed.IssuedAt > at.Add(maxClockSkew).Unix():
		return IntentIatFuture
	case !slices.Contains(s.Protocols, c.Parsed.Protocol):
		return ProtocolNotRegistered
	}
	return ""
}

// inactiveReason returns the reason for refusing an agent that is not active.
func (s *State) inactiveReason() Reason {
	if s.State == StateTerminated {
		return AgentTerminated
	}
	return AgentFrozen
}

// publicReason returns the reason that the log and the submitter see.
func (r Reason) publicReason() Reason {
	if r == NeverValid {
		return IntentExpired
	}
	return r
}

// Refusal returns the fault that the submitter of a refused intent gets. It never returns nil.
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
		f.Code = fault.SignatureInvalid
		f.Message = "signature must be the agent's over the canonical JSON of the intent"
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
	f.Reason = string(r.publicReason())
	return f
}
