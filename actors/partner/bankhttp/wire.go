// Package bankhttp is a bank that is somewhere else: Client asks it over HTTP as a partner.Bank, and Handler puts the sandbox
// bank on the other end. What the bank reports does not go this way; it comes to the inbound webhook handlers.
//
//	PUT  /v1/deposits/{id}           a deposit is announced                    200
//	PUT  /v1/accounts/{reference}    an account is handed over                 200 {token}, 422 refused
//	POST /v1/payments                a payment is ordered                      200, 422 refused, 429 full
//	GET  /v1/payments/{reference}    what has become of a payment              200 {standing}, 404 unknown
//	GET  /v1/orders?after=reference  how often payments were ordered, a page   200 {orders: [{reference, orders}]}
//	GET  /v1/ach/{day}               the NACHA file of a day's ACH payments    200 the file, 404 nothing left
//
// Every request is signed with the partner's secret, the same that signs the bank's reports: over its method, its path and its
// body. An order without an answer is an open connection that is closed. Accounts are in bodies only, and in no error and no log
// of this package.
package bankhttp

import (
	"net/http"
	"time"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
)

// Limits of both ends.
const (
	maxBody        = 64 << 10         // bytes of a request and of an answer that is no file
	callTimeout    = 10 * time.Second // of any call but an order of a payment
	payTimeout     = time.Minute      // of that; who orders gives up before
	maxConnections = 128
	idleTimeout    = 90 * time.Second
	pageOrders     = 500
	maxFile        = 16 << 20 // bytes of a NACHA file
)

// paymentsHeader says how many payments a NACHA file has.
const paymentsHeader = "Payments"

// signatureHeader is that of the reports.
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

// signed is what the signature of a request is over.
func signed(r *http.Request, body []byte) []byte {
	return append([]byte(r.Method+" "+r.URL.RequestURI()+"\n"), body...)
}
