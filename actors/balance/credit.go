package balance

import "purser/actors/decision"

// Credit says what an event adds to the authorizer's ledgerCents and which reservation it settles (none: ""). Relayed entries are
// not in it: the authorizer made them and has counted them already.
func Credit(e decision.Event) (workspace string, cents int64, settles string, ok bool) {
	switch e := e.(type) {
	case DepositSettled:
		return e.Workspace, e.AmountUsdCents, "", true
	case DepositReceived:
		return e.Workspace, e.Deposit.AmountUsdCents, "", true
	}
	return "", 0, "", false
}
