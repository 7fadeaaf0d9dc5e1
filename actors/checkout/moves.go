package checkout

import (
	"fmt"

	"purser/actors/fault"
)

// Statuses of a session. Completed and failed are final; expired and underpaid are once nothing is watched any more.
const (
	Pending    = "pending"          // nobody has picked a way to pay
	Awaiting   = "awaiting_payment" // picked
	Confirming = "confirming"       // a payment was seen
	Completed  = "completed"
	Underpaid  = "underpaid" // all that was seen is confirmed, and is too little
	Failed     = "failed"    // the chains have taken back what was seen
	Expired    = "expired"   // ended, or cancelled, without a payment
)

// step is what can happen to a session. It reads after "a link that is … cannot be …".
type step string

const (
	stepSelect   step = "picked"
	stepCancel   step = "cancelled"
	stepSimulate step = "completed by a simulation"
	stepEnd      step = "ended"
	stepSee      step = "paid"
	stepFill     step = "completed by a payment"
	stepFall     step = "found underpaid"
	stepStale    step = "given up" // a day after the time to live, with a payment that has not confirmed
	stepLose     step = "failed"   // the same, with no payment left
)

// move is where a step leads, or the code with which it is refused.
type move struct {
	to      string
	refused fault.Code
}

// moves is the life of a session: what each step does in each status. Every step has an answer in every status. What a customer,
// a merchant or a test asks is refused by name; what only this package's own reading of chain and clock can bring is refused with
// CheckoutConflict, which nobody sees.
//
// A cancelled link is an expired one. An expired one goes on when a payment turns up that was sent before its end; an underpaid
// one when the rest is paid, or what was paid changes.
var moves = map[string]map[step]move{
	Pending: {
		stepSelect: {to: Awaiting}, stepCancel: {to: Expired}, stepSimulate: {refused: fault.AssetChainNotSelected},
		stepEnd: {to: Expired}, stepSee: never, stepFill: never, stepFall: never, stepStale: never, stepLose: never,
	},
	Awaiting: {
		stepSelect: {to: Awaiting}, stepCancel: {to: Awaiting}, stepSimulate: {to: Completed}, stepEnd: {to: Expired},
		stepSee: {to: Confirming}, stepFill: never, stepFall: never, stepStale: never, stepLose: never,
	},
	Confirming: {
		stepSelect: seen, stepCancel: seen, stepSimulate: {to: Completed}, stepEnd: never,
		stepSee: never, stepFill: {to: Completed}, stepFall: {to: Underpaid}, stepStale: {to: Expired}, stepLose: {to: Failed},
	},
	Underpaid: {
		stepSelect: seen, stepCancel: seen, stepSimulate: {to: Completed}, stepEnd: never,
		stepSee: {to: Confirming}, stepFill: never, stepFall: never, stepStale: never, stepLose: never,
	},
	Expired: {
		stepSelect: {refused: fault.LinkEnded}, stepCancel: {refused: fault.LinkExpired},
		stepSimulate: {refused: fault.LinkExpired}, stepEnd: never, stepSee: {to: Confirming}, stepFill: never, stepFall: never,
		stepStale: never, stepLose: never,
	},
	Completed: {
		stepSelect: seen, stepCancel: seen, stepSimulate: {to: Completed}, stepEnd: never,
		stepSee: never, stepFill: never, stepFall: never, stepStale: never, stepLose: never,
	},
	Failed: {
		stepSelect: seen, stepCancel: seen, stepSimulate: {refused: fault.LinkExpired}, stepEnd: never,
		stepSee: never, stepFill: never, stepFall: never, stepStale: never, stepLose: never,
	},
}

var (
	never = move{refused: fault.CheckoutConflict}
	seen  = move{refused: fault.PaymentSeen}
)

// after is where a step leads from a status; the error says that it leads nowhere.
func after(status string, st step) (string, error) {
	m, known := moves[status][st]
	switch {
	case !known:
		panic(fmt.Sprintf("BUG: a session that is %q, to be %s", status, st))
	case m.refused != "":
		return "", fault.New(m.refused, fmt.Sprintf("a link that is %s cannot be %s", status, st))
	}
	return m.to, nil
}

// mustGo is after a step that this package has chosen itself.
func mustGo(status string, st step) string {
	to, err := after(status, st)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return to
}
