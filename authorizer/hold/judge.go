package hold

import (
	"slices"

	"purser/persistence/money"
)

// judge decides an authorization or an increment of h, and records the compared amounts. h is nil
// for a new or an unknown authorization. It never fails: a refusal is e.Reason.
func (e *Entry) judge(v *View, m *Message, h *Hold) {
	e.Reason = refusalReason(v, m, h)
	if e.Reason == ReasonApproved {
		e.Reason, e.Approved = e.judgeAmount(v, m, h)
	}
	e.Decision = Declined
	if e.Reason == ReasonApproved {
		e.Decision = Approved
	}
}

// refusalReason returns the first reason to refuse at any amount, in the order of precedence: the
// request, the card, its restrictions, and the message's authorization. ReasonApproved means none:
// judgeAmount may still refuse the amount.
func refusalReason(v *View, m *Message, h *Hold) Reason {
	switch r := v.Rule; {
	case m.Invalid != "" || m.Amount < 0 || m.Amount > money.MaxAmount:
		return ReasonInvalidRequest
	case r == nil:
		return ReasonCardNotFound
	case r.State == CardTerminated:
		return ReasonCardTerminated
	case r.State != CardActive: // an unknown state permits nothing
		return ReasonCardFrozen
	case m.Currency != usd:
		return ReasonCurrencyNotSupported
	case r.MCCs != nil && !slices.Contains(r.MCCs, m.Merchant.MCC):
		return ReasonMCCNotAllowed
	case !MatchMerchant(r.Merchants, &m.Merchant):
		return ReasonMerchantNotAllowed
	case v.Tombstoned:
		return ReasonReversedBeforeArrival
	case m.Kind == Incremental && (h == nil || h.Held == 0):
		return ReasonAuthorizationNotFound
	}
	return ReasonApproved
}

// judgeAmount compares the amount with the limits and the funds, in this order, and returns the
// approved amount. It compares differences instead of sums: limits and spends are never negative,
// so no difference overflows. The approved amount is below the requested one only for an
// authorization that permits a partial approval.
func (e *Entry) judgeAmount(v *View, m *Message, h *Hold) (Reason, money.Cents) {
	asked, before := m.Amount, money.Cents(0)
	if h != nil {
		before = h.Held + min(h.Cleared, maxBalance)
	}
	e.recordCheck(v.Rule.PerTxnCents, before, asked)
	if asked > v.Rule.PerTxnCents-before {
		return ReasonPerTransactionLimitExceeded, 0
	}
	e.recordCheck(v.Rule.MonthCents, e.Spend.Cents, asked)
	if asked == 0 {
		return ReasonApproved, 0 // an account check requests no money
	}
	least := asked
	if m.PartialApproval && m.Kind == Authorization {
		least = 1
	}
	room := min(asked, v.Rule.MonthCents-e.Spend.Cents)
	if room < least {
		return ReasonMonthlyLimitExceeded, 0
	}
	if room = min(room, v.Spendable); room < least {
		e.recordCheck(v.Spendable, 0, asked)
		return ReasonInsufficientFunds, 0
	}
	return ReasonApproved, room
}

func (e *Entry) recordCheck(limit, spent, asked money.Cents) {
	e.HasChecked = true
	e.Checked = Checked{LimitCents: limit, SpentCents: spent, AskedCents: asked}
}
