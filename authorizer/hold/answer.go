package hold

import (
	"time"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// AnswerWithin is how long a message waits for its sync before it is answered without.
const AnswerWithin = 150 * time.Millisecond

// Statuses of an Answer, as HTTP writes them.
const (
	StatusOK       = 200
	StatusConflict = 409 // a reversal, clearing or refund whose id was seen with other content
	StatusFull     = 503 // a reversal, clearing or refund that the full backlog cannot take; nothing changed
)

// Answer is what the network is told of one message.
type Answer struct {
	Status int    // StatusOK, StatusConflict or StatusFull; 0 must not leave: the outcome is not known and never will be
	ID     string // the network's id; may alias the message's
	// Authorization is zero when the message concerns none that is known.
	Authorization ident.UUID
	Decision      Decision
	Reason        Reason
	Approved      money.Cents // what this message was approved for; less than asked is a partial approval
	Held          money.Cents // what the authorization holds after it
	Message       string      // for a person; names the field of an invalid request
}

// Decider decides the messages of the card network. Submit is safe for concurrent use, returns when the answer may leave, and
// keeps none of the message's strings. authorizer.Engine is one.
type Decider interface {
	Submit(m *Message) Answer
}
