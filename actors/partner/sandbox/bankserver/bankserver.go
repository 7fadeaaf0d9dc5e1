// Package bankserver serves the sandbox bank to the client of package bankhttp, which has the
// protocol.
package bankserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"purser/actors/partner"
	"purser/actors/partner/bankhttp"
	"purser/actors/partner/sandbox"
)

// ordersPerPage is the number of payments on a page of orders.
const ordersPerPage = 500

// NewHandler serves a sandbox bank. verify fails for a signature that is not the partner's, or not
// recent.
func NewHandler(bank *sandbox.Bank, verify func(signature string, message []byte) error) http.Handler {
	h := &handler{bank: bank, verify: verify}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/deposits/{id}", h.requireSignature(h.serveExpect))
	mux.HandleFunc("PUT /v1/accounts/{reference}", h.requireSignature(h.serveTokenize))
	mux.HandleFunc("POST /v1/payments", h.requireSignature(h.servePay))
	mux.HandleFunc("GET /v1/payments/{reference}", h.requireSignature(h.serveStanding))
	mux.HandleFunc("GET /v1/orders", h.requireSignature(h.serveOrders))
	mux.HandleFunc("GET /v1/ach/{day}", h.requireSignature(h.serveACHFile))
	return mux
}

type handler struct {
	bank   *sandbox.Bank
	verify func(signature string, message []byte) error
}

// errBadRequest says that a request does not have the form of the client's requests.
var errBadRequest = errors.New("bad request")

// requireSignature serves signed requests only. Answers are JSON; an error is a status without a
// body.
func (h *handler) requireSignature(serve func(r *http.Request, body []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bankhttp.MaxBody))
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		if h.verify(r.Header.Get(bankhttp.SignatureHeader), bankhttp.SignedMessage(r, body)) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer, err := serve(r, body)
		if err != nil {
			w.WriteHeader(statusOf(err))
			return
		}
		if file, ok := answer.(achFile); ok {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set(bankhttp.PaymentsHeader, strconv.Itoa(file.payments))
			_, _ = w.Write(file.text)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // an error means that the client has gone
	}
}

// statusOf returns the HTTP status of an error of the bank: 422 refused, 429 full, 404 unknown or
// nothing sent, 400 malformed. Any other error is 503. The client, bankhttp, maps them back.
func statusOf(err error) int {
	switch {
	case errors.Is(err, partner.ErrRefused):
		return http.StatusUnprocessableEntity
	case errors.Is(err, partner.ErrFull):
		return http.StatusTooManyRequests
	case errors.Is(err, partner.ErrUnknown), errors.Is(err, partner.ErrNothingSent):
		return http.StatusNotFound
	case errors.Is(err, errBadRequest):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

func (h *handler) serveExpect(r *http.Request, body []byte) (any, error) {
	var d partner.Deposit
	if json.Unmarshal(body, &d) != nil || d.ID != r.PathValue("id") {
		return nil, errBadRequest
	}
	return struct{}{}, h.bank.Expect(r.Context(), d)
}

func (h *handler) serveTokenize(r *http.Request, body []byte) (any, error) {
	var a partner.Account
	if json.Unmarshal(body, &a) != nil || a.Reference != r.PathValue("reference") {
		return nil, errBadRequest
	}
	token, err := h.bank.Tokenize(r.Context(), a)
	return bankhttp.TokenAnswer{Token: token}, err
}

// servePay orders a payment. It closes the connection without an answer when the sandbox simulates
// a lost one, and waits for the client's end when the sandbox's bank is silent.
func (h *handler) servePay(r *http.Request, body []byte) (any, error) {
	var p partner.Payment
	if json.Unmarshal(body, &p) != nil {
		return nil, errBadRequest
	}
	err := h.bank.Pay(r.Context(), p)
	if errors.Is(err, partner.ErrSilent) {
		<-r.Context().Done()
	}
	if err != nil && statusOf(err) == http.StatusServiceUnavailable {
		panic(http.ErrAbortHandler)
	}
	return struct{}{}, err
}

func (h *handler) serveStanding(r *http.Request, _ []byte) (any, error) {
	standing, err := h.bank.Standing(r.Context(), r.PathValue("reference"))
	if errors.Is(err, partner.ErrSilent) {
		<-r.Context().Done()
	}
	return bankhttp.StandingAnswer{Standing: standing}, err
}

func (h *handler) serveOrders(r *http.Request, _ []byte) (any, error) {
	orders, err := h.bank.Orders(r.URL.Query().Get("after"), ordersPerPage)
	answer := bankhttp.OrdersAnswer{Orders: make([]bankhttp.Order, 0, len(orders))}
	for _, o := range orders {
		answer.Orders = append(answer.Orders, bankhttp.Order(o))
	}
	return answer, err
}

type achFile struct {
	payments int
	text     []byte
}

// serveACHFile answers with the NACHA file of the bank day in the path. A malformed day is 400, and
// a day without payments is 404.
func (h *handler) serveACHFile(r *http.Request, _ []byte) (any, error) {
	day, err := time.Parse(time.DateOnly, r.PathValue("day"))
	if err != nil {
		return nil, errBadRequest
	}
	var text bytes.Buffer
	payments, err := h.bank.WriteACH(r.Context(), day, &text)
	return achFile{payments, text.Bytes()}, err
}
