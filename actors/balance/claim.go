package balance

import "purser/actors/decision"

// claimScope is where the event ids of a partner are claimed for one target. The scope of the partner's name is another: there
// the target claims the same id with its effect, so that a crash between the two leaves a claim under which a repeat still
// applies.
func claimScope(partner string) string { return partner + "_target" }

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
