// Package bankhttp is a bank in another process: Client is a partner.Bank over HTTP. The protocol is
// the one below; package bankserver serves it for the sandbox bank. The bank's reports take another
// way, to the inbound webhook handlers.
//
//	PUT  /v1/deposits/{id}           announces a deposit          200
//	PUT  /v1/accounts/{reference}    registers an account         200 {token}, 422 refused
//	POST /v1/payments                orders a payment             200, 422 refused, 429 full
//	GET  /v1/payments/{reference}    the status of a payment      200 {standing}, 404 unknown
//	GET  /v1/orders?after=reference  orders per payment, paged    200 {orders: [{reference, orders}]}
//	GET  /v1/ach/{day}               NACHA file of a day          200 the file, 404 nothing sent
//
// Every request is signed with the partner's secret, which also signs the bank's reports, over its
// method, path and body. A lost answer is a connection that closes without one. Account numbers are
// in request bodies and in the NACHA file, and in no error and no log of this package.
package bankhttp

import (
	"net/http"
	"time"

	"purser/actors/partner"
)

// MaxBody is the limit of a request, and of an answer other than a file, in bytes.
const MaxBody = 64 << 10

// Limits of the client.
const (
	callTimeout    = 10 * time.Second // of a call other than the order of a payment
	payTimeout     = time.Minute      // of the order of a payment; callers give up earlier
	maxConnections = 128
	idleTimeout    = 90 * time.Second
	maxFile        = 16 << 20 // bytes of a NACHA file
)

// Headers of the protocol.
const (
	PaymentsHeader  = "Payments"          // the number of payments in a NACHA file
	SignatureHeader = "Partner-Signature" // as on the bank's reports
)

// TokenAnswer answers the registration of an account.
type TokenAnswer struct {
	Token string `json:"token"`
}

// StandingAnswer answers the inquiry about a payment.
type StandingAnswer struct {
	Standing partner.Standing `json:"standing"`
}

// Order says how often a payment was ordered.
type Order struct {
	Reference string `json:"reference"`
	Orders    int    `json:"orders"`
}

// OrdersAnswer is a page of payments.
type OrdersAnswer struct {
	Orders []Order `json:"orders"`
}

// SignedMessage is the message that a request's signature covers: method, path with query, and
// body.
func SignedMessage(r *http.Request, body []byte) []byte {
	return append([]byte(r.Method+" "+r.URL.RequestURI()+"\n"), body...)
}
