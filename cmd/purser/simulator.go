package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/valyala/fasthttp/fasthttputil"

	"purser/authorizer"
	"purser/persistence/ident"
)

// simulator is the card network of the simulation routes: it speaks HTTP to the authorizer's own server over a listener in
// memory, so that a simulated message passes every check a real one does.
type simulator struct {
	engine *authorizer.Engine
	secret string
	client *http.Client
}

// Limits of a simulated message.
const (
	maxNetworkAnswer = 64 << 10
)

func newSimulator(engine *authorizer.Engine, secret string, memory *fasthttputil.InmemoryListener) *simulator {
	return &simulator{engine: engine, secret: secret, client: &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return memory.Dial() },
	}}}
}

// Submit posts a message to the card network's server of this process, over memory, and returns the
// status and the JSON body. It fails when no answer comes before ctx ends.
func (s *simulator) Submit(ctx context.Context, route string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://authorizer/v1/"+route, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.secret)
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxNetworkAnswer))
	return resp.StatusCode, answer, errors.Join(err, resp.Body.Close())
}

// FindAuthorization returns the authorization that a network id names. It fails with the
// authorizer's error.
func (s *simulator) FindAuthorization(networkID string) (id ident.UUID, found bool, err error) {
	return s.engine.FindAuthorization(networkID)
}

// Expire ends the hold of an authorization as if its time had come. It fails with the authorizer's
// error.
func (s *simulator) Expire(_ context.Context, authorization ident.UUID) error {
	return s.engine.ExpireHold(authorization)
}
