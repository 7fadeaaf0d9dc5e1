package checkout

import (
	"fmt"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Statuses of a session. Completed and failed are final; expired and underpaid are final once the
// watch has ended.
const (
	Pending    = "pending"          // no pair is selected
	Awaiting   = "awaiting_payment" // a pair is selected
	Confirming = "confirming"       // a payment was observed
	Completed  = "completed"
	Underpaid  = "underpaid" // every observed payment is confirmed, and the sum is too little
	Failed     = "failed"    // the chains withdrew every observed payment
	Expired    = "expired"   // ended or cancelled without a payment
)

// trigger is an action that can move a session to another status. Its text completes "a link that
// is … cannot be …".
type trigger string

const (
	onSelect   trigger = "picked"
	onCancel   trigger = "cancelled"
	onSimulate trigger = "completed by a simulation"
	onExpire   trigger = "ended"
	onPayment  trigger = "paid"
	onComplete trigger = "completed by a payment"
	onUnderpay trigger = "found underpaid"
	onGiveUp   trigger = "given up" // StaleAfter past the time to live, with an unconfirmed payment
	onFail     trigger = "failed"   // the same, with no payment left
)

// outcome is the status that a trigger leads to, or the code of its refusal.
type outcome struct {
	to      string
	refused fault.Code
}

// transitions is the life of a session: the outcome of each trigger in each status. The table is
// complete. An action of a customer, a merchant or a test is refused with a code of the interface.
// CheckoutConflict refuses a trigger that only this package itself fires; no caller sees it.
//
// A cancelled link is expired. An expired link continues when a payment sent before its end
// appears. An underpaid link continues when the rest is paid, or when a payment changes.
var transitions = map[string]map[trigger]outcome{
	Pending: {
		onSelect: {to: Awaiting}, onCancel: {to: Expired},
		onSimulate: {refused: fault.AssetChainNotSelected}, onExpire: {to: Expired}, onPayment: impossible,
		onComplete: impossible, onUnderpay: impossible, onGiveUp: impossible, onFail: impossible,
	},
	Awaiting: {
		onSelect: {to: Awaiting}, onCancel: {to: Awaiting}, onSimulate: {to: Completed},
		onExpire: {to: Expired}, onPayment: {to: Confirming}, onComplete: impossible,
		onUnderpay: impossible, onGiveUp: impossible, onFail: impossible,
	},
	Confirming: {
		onSelect: paymentSeen, onCancel: paymentSeen, onSimulate: {to: Completed}, onExpire: impossible,
		onPayment: impossible, onComplete: {to: Completed}, onUnderpay: {to: Underpaid},
		onGiveUp: {to: Expired}, onFail: {to: Failed},
	},
	Underpaid: {
		onSelect: paymentSeen, onCancel: paymentSeen, onSimulate: {to: Completed}, onExpire: impossible,
		onPayment: {to: Confirming}, onComplete: impossible, onUnderpay: impossible,
		onGiveUp: impossible, onFail: impossible,
	},
	Expired: {
		onSelect: {refused: fault.LinkEnded}, onCancel: {refused: fault.LinkExpired},
		onSimulate: {refused: fault.LinkExpired}, onExpire: impossible, onPayment: {to: Confirming},
		onComplete: impossible, onUnderpay: impossible, onGiveUp: impossible, onFail: impossible,
	},
	Completed: {
		onSelect: paymentSeen, onCancel: paymentSeen, onSimulate: {to: Completed}, onExpire: impossible,
		onPayment: impossible, onComplete: impossible, onUnderpay: impossible, onGiveUp: impossible,
		onFail: impossible,
	},
	Failed: {
		onSelect: paymentSeen, onCancel: paymentSeen, onSimulate: {refused: fault.LinkExpired},
		onExpire: impossible, onPayment: impossible, onComplete: impossible, onUnderpay: impossible,
		onGiveUp: impossible, onFail: impossible,
	},
}

var (
	impossible  = outcome{refused: fault.CheckoutConflict}
	paymentSeen = outcome{refused: fault.PaymentSeen}
)

// nextStatus returns the status that a trigger leads to. It fails with the table's code for a
// refused step: payment_seen, link_ended, link_expired, asset_chain_not_selected or
// checkout_conflict. A status or trigger outside the table panics.
func nextStatus(status string, st trigger) (string, error) {
	m, known := transitions[status][st]
	switch {
	case !known:
		panic(fmt.Sprintf("BUG: a session that is %q, to be %s", status, st))
	case m.refused != "":
		return "", fault.New(m.refused, fmt.Sprintf("a link that is %s cannot be %s", status, st))
	}
	return m.to, nil
}

// mustMove is nextStatus for a trigger that this package chose; a refusal is a bug.
func mustMove(status string, st trigger) string {
	to, err := nextStatus(status, st)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return to
}

// isOpen reports whether a link of a status is open: it waits for a payment or for confirmations.
func isOpen(status string) bool {
	return status == Pending || status == Awaiting || status == Confirming
}

// tallyChanges returns the change that events make to the workspace's count of open links. A new
// link is refused at the limit. An ended link that a payment opens again is counted without one,
// because the payment is a fact.
func (s *State) tallyChanges(events []decision.Event) []decision.Tally {
	after := State{ID: s.ID, Status: s.Status}
	var limit int64
	for _, e := range events {
		switch e := e.(type) {
		case Created:
			after.ID, after.Status, limit = e.ID, Pending, MaxOpen
		case Selected:
			after.Status = Awaiting
		case Moved:
			after.Status = e.To
		case SessionCompleted:
			after.Status = Completed
		}
	}
	was, is := isOpen(s.Status), isOpen(after.Status)
	if was == is {
		return nil
	}
	return []decision.Tally{{Name: Tally, ID: after.ID, Max: limit, Less: was}}
}
