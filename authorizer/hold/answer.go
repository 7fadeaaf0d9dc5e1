package hold

import (
	"time"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// AnswerWithin is the default of the longest wait of a message for its sync, after which it is answered "timeout".
const AnswerWithin = 150 * time.Millisecond

// HTTP statuses of an Answer.
const (
	StatusOK       = 200
	StatusConflict = 409 // a reversal, clearing or refund whose id was used with other content
	StatusFull     = 503 // a reversal, clearing or refund that the full backlog cannot accept; nothing changed
)

// Answer is the answer to one message.
type Answer struct {
	// Status is StatusOK, StatusConflict or StatusFull. With 0 the outcome is unknown, and no
	// answer may be sent.
	Status int
	ID     string // the network's id; may alias the message's
	// Authorization is zero when the message concerns no known authorization.
	Authorization ident.UUID
	Decision      Decision
	Reason        Reason
	Approved      money.Cents // the approved part of this message; less than requested is a partial approval
	Held          money.Cents // held by the authorization after this message
	Message       string      // for a person; names the field of an invalid request
}

// Decider decides the messages of the card network; authorizer.Engine implements it. Submit is safe
// for concurrent use, returns when the answer may be sent, and does not retain the message's
// strings.
type Decider interface {
	Submit(m *Message) Answer
}
