package bankhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
)

// NewHandler serves a sandbox bank. Its verify refuses a signature of a message that is not the partner's, or not of now.
func NewHandler(bank *sandbox.Bank, verify func(signature string, message []byte) error) http.Handler {
	h := &handler{bank: bank, verify: verify}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/deposits/{id}", h.signed(h.expect))
	mux.HandleFunc("PUT /v1/accounts/{reference}", h.signed(h.tokenize))
	mux.HandleFunc("POST /v1/payments", h.signed(h.pay))
	mux.HandleFunc("GET /v1/payments/{reference}", h.signed(h.standing))
	mux.HandleFunc("GET /v1/orders", h.signed(h.orders))
	mux.HandleFunc("GET /v1/ach/{day}", h.signed(h.ach))
	return mux
}

type handler struct {
	bank   *sandbox.Bank
	verify func(signature string, message []byte) error
}

// errBadRequest says that a request is not one of the partner's.
var errBadRequest = errors.New("bad request")

// signed lets signed requests through. What is answered is JSON; an error is a status.
func (h *handler) signed(serve func(r *http.Request, body []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		if h.verify(r.Header.Get(signatureHeader), signed(r, body)) != nil {
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
			w.Header().Set(paymentsHeader, strconv.Itoa(file.payments))
			_, _ = w.Write(file.text)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // who asked has gone
	}
}

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

func (h *handler) expect(r *http.Request, body []byte) (any, error) {
	var d partner.Deposit
	if json.Unmarshal(body, &d) != nil || d.ID != r.PathValue("id") {
		return nil, errBadRequest
	}
	return struct{}{}, h.bank.Expect(r.Context(), d)
}

func (h *handler) tokenize(r *http.Request, body []byte) (any, error) {
	var a partner.Account
	if json.Unmarshal(body, &a) != nil || a.Reference != r.PathValue("reference") {
		return nil, errBadRequest
	}
	token, err := h.bank.Tokenize(r.Context(), a)
	return tokenAnswer{token}, err
}

// pay orders a payment. A bank whose answer is lost closes the connection.
func (h *handler) pay(r *http.Request, body []byte) (any, error) {
	var p partner.Payment
	if json.Unmarshal(body, &p) != nil {
		return nil, errBadRequest
	}
	err := h.bank.Pay(r.Context(), p)
	if err != nil && statusOf(err) == http.StatusServiceUnavailable {
		panic(http.ErrAbortHandler)
	}
	return struct{}{}, err
}

func (h *handler) standing(r *http.Request, _ []byte) (any, error) {
	standing, err := h.bank.Standing(r.Context(), r.PathValue("reference"))
	return standingAnswer{standing}, err
}

func (h *handler) orders(r *http.Request, _ []byte) (any, error) {
	orders, err := h.bank.Orders(r.URL.Query().Get("after"), pageOrders)
	return ordersAnswer{orders}, err
}

type achFile struct {
	payments int
	text     []byte
}

func (h *handler) ach(r *http.Request, _ []byte) (any, error) {
	day, err := time.Parse(time.DateOnly, r.PathValue("day"))
	if err != nil {
		return nil, errBadRequest
	}
	var text bytes.Buffer
	payments, err := h.bank.WriteACH(r.Context(), day, &text)
	return achFile{payments, text.Bytes()}, err
}
