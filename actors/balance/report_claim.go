package balance

import "purser/actors/decision"

// claimScope is the scope in which a partner's event ids are claimed for a target. The target
// claims the same id together with its effect, in the scope of the partner's name. After a crash
// between the two claims a repeat of the report is therefore still applied.
func claimScope(partner string) string { return partner + "_target" }

// claimReport binds the event id to the target. It fails with invalid_body for an EventID of a
// wrong length. An empty Partner or Target panics.
func claimReport(m decision.Meta, c ClaimReport) (decision.Decision, error) {
	if c.Partner == "" || c.Target == "" {
		panic("BUG: a claim of no partner or for no target")
	}
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	return decision.Decision{Onces: []decision.Once{
		{Scope: claimScope(c.Partner), Key: c.EventID, Expires: m.At.Add(BankRetention), Answer: []byte(c.Target)},
	}}, nil
}
