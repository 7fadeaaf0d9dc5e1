// Package bankhttp is a bank in another process: Client is a partner.Bank over HTTP, and NewHandler
// serves the sandbox bank to it. The bank's reports take another way, to the inbound webhook
// handlers.
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
	"purser/actors/partner/sandbox"
)

// Limits of both ends.
const (
	maxBody        = 64 << 10         // bytes of a request, and of an answer other than a file
	callTimeout    = 10 * time.Second // of a call other than the order of a payment
	payTimeout     = time.Minute      // of the order of a payment; callers give up earlier
	maxConnections = 128
	idleTimeout    = 90 * time.Second
	ordersPerPage  = 500
	maxFile        = 16 << 20 // bytes of a NACHA file
)

// paymentsHeader is the header with the number of payments in a NACHA file.
const paymentsHeader = "Payments"

// signatureHeader is the signature header, as on the bank's reports.
const signatureHeader = "Partner-Signature"

type tokenAnswer struct {
	Token string `json:"token"`
}

type standingAnswer struct {
	Standing partner.Standing `json:"standing"`
}

type ordersAnswer struct {
	Orders []sandbox.Order `json:"orders"`
}

// signedMessage is the message that a request's signature covers: method, path with query, and
// body.
func signedMessage(r *http.Request, body []byte) []byte {
	return append([]byte(r.Method+" "+r.URL.RequestURI()+"\n"), body...)
}
