package authorizer

import "purser/authorizer/hold"

// answer returns the answer of an entry. The caller adds the message's own fields.
func answer(e *hold.Entry) hold.Answer {
	return hold.Answer{
		Status: hold.StatusOK, Authorization: e.After.ID, Decision: e.Decision, Reason: e.Reason, Approved: e.Approved,
		Held: e.After.Held,
	}
}

// repeat returns the first answer, or the mismatch of another message under the same id.
func repeat(m *hold.Message, first *remembered) hold.Answer {
	if first.fingerprint != m.Fingerprint {
		a := refuse(m, hold.ReasonDuplicateMismatch)
		if !asksForAmount(m.Kind) {
			a.Status = hold.StatusConflict
		}
		return a
	}
	if first.reason == hold.ReasonTimeout {
		return refuse(m, hold.ReasonTimeout)
	}
	return hold.Answer{
		Status: hold.StatusOK, Authorization: first.authorization, Decision: first.decision, Reason: first.reason,
		Approved: first.approved, Held: first.held,
	}
}

// refuse returns the answer without an effect: a decline of an authorization, 503 for a fact.
func refuse(m *hold.Message, r hold.Reason) hold.Answer {
	a := hold.Answer{Status: hold.StatusOK, ID: m.ID, Decision: hold.Declined, Reason: r}
	if !asksForAmount(m.Kind) {
		a.Status, a.Decision = hold.StatusFull, 0
	}
	return a
}

// asksForAmount reports whether a kind requests money; other kinds report a fact.
func asksForAmount(k hold.Kind) bool { return k == hold.Authorization || k == hold.Incremental }
