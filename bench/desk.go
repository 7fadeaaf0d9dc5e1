package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of creating the users, workspaces and cards of a run.
const (
	makers       = 32               // requests at once
	settleWithin = 20 * time.Second // without any change, or without an answer
	settlePause  = 50 * time.Millisecond
)

// ErrLimited reports that the server's rate limits are on, so that a load would measure them.
var ErrLimited = errors.New("bench: the server limits how often it may be asked; start it with PURSER_RATE_LIMITS=off")

// desk creates a user, workspaces, deposits and cards through the public interface.
type desk struct {
	rest, run string
	http      *http.Client
	quiet     time.Duration // without any change, until an amount is taken for the last one
}

// tenant is a workspace of the run.
type tenant struct {
	id, key        string
	depositedCents int64
	moved          atomic.Int64 // cents that the run's swipes have added to the available amount
	before         int64        // available when clients began to read
	asked          atomic.Int64 // cents of the swipes sent since then that are to be approved
}

// card is a card of a tenant.
type card struct {
	id, token string
	tenant    *tenant
}

// rules are the body that issues a card.
type rules map[string]any

// signUp creates the user that owns the run's workspaces. It fails when the server refuses or does
// not answer. prepareReport calls it.
func signUp(ctx context.Context, target Target, run string) (*desk, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	d := &desk{rest: strings.TrimRight(target.REST, "/"), run: run, quiet: settleWithin, http: &http.Client{Jar: jar,
		Timeout: answerWithin, Transport: &http.Transport{MaxIdleConnsPerHost: makers,
			TLSClientConfig: clientTLS(target.Authorities)}}}
	_, err = d.requestOK(ctx, "POST", "/api/dashboard/signup", nil,
		rules{"email": "bench-" + run + "-" + strings.ToLower(rand.Text()[:8]) + "@example.com",
			"password": "bench-" + rand.Text()})
	return d, err
}

// requestOK sends a request outside the loads and expects success. Headers come in pairs. It fails
// with ErrLimited for a 429, and for any other status outside 200 to 299.
func (d *desk) requestOK(ctx context.Context, method, path string, headers []string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, d.rest+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if method == http.MethodGet {
		req.Body, req.ContentLength = nil, 0
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusTooManyRequests:
		return nil, ErrLimited
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("bench: %s %s answered %d %s", method, path, resp.StatusCode, answer[:min(len(answer), 300)])
	}
	return answer, nil
}

func bearerHeader(key string) []string { return []string{"Authorization", "Bearer " + key} }

// createTenant creates a workspace with a key and announces a deposit of cents, if not 0.
// awaitBalance waits for it. It fails like requestOK.
func (d *desk) createTenant(ctx context.Context, name string, cents int64) (*tenant, error) {
	made, err := d.requestOK(ctx, "POST", "/api/workspaces", nil, rules{"name": "Bench " + d.run + " " + name})
	if err != nil {
		return nil, err
	}
	var workspace struct{ Workspace struct{ ID string } }
	if err := json.Unmarshal(made, &workspace); err != nil {
		return nil, err
	}
	t := &tenant{id: workspace.Workspace.ID, depositedCents: cents}
	key, err := d.requestOK(ctx, "POST", "/api/auth/keys", []string{"X-Workspace-Id", t.id},
		rules{"label": "bench", "scopes": []string{"read:treasury", "write:treasury", "read:cards", "write:cards"}})
	if err != nil {
		return nil, err
	}
	var issued struct{ Secret string }
	if err := json.Unmarshal(key, &issued); err != nil {
		return nil, err
	}
	if t.key = issued.Secret; cents == 0 {
		return t, nil
	}
	headers := append(bearerHeader(t.key), "Idempotency-Key", newUUID())
	_, err = d.requestOK(ctx, "POST", "/api/treasury/deposits", headers,
		rules{"source": "bank_fiat", "rail": "fednow", "amountUsdCents": cents})
	return t, err
}

// newUUID makes a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// issueCard issues a card with the limits of r or wide ones. It fails like requestOK.
func (d *desk) issueCard(ctx context.Context, t *tenant, r rules) (*card, error) {
	body := rules{"holderKind": "agent", "holderLabel": "Bench", "monthlyLimitUsdCents": plentyCents,
		"perTxnLimitUsdCents": perTxnCents}
	for name, value := range r {
		body[name] = value
	}
	answer, err := d.requestOK(ctx, "POST", "/api/cards", bearerHeader(t.key), body)
	if err != nil {
		return nil, err
	}
	var minted struct {
		Card struct{ ID, PartnerCardToken string }
	}
	err = json.Unmarshal(answer, &minted)
	return &card{id: minted.Card.ID, token: minted.Card.PartnerCardToken, tenant: t}, err
}

// readDollars reads the balance of a workspace, in cents. It fails like requestOK, and for an
// answer without dollars.
func (d *desk) readDollars(ctx context.Context, t *tenant) (availableCents, heldCents int64, err error) {
	answer, err := d.requestOK(ctx, "GET", "/api/treasury", bearerHeader(t.key), nil)
	if err != nil {
		return 0, 0, err
	}
	var treasury struct {
		Balances []struct {
			Account                   string
			AvailableCents, HeldCents int64
		}
	}
	if err := json.Unmarshal(answer, &treasury); err != nil {
		return 0, 0, err
	}
	for _, b := range treasury.Balances {
		if b.Account == "usd" {
			return b.AvailableCents, b.HeldCents, nil
		}
	}
	return 0, 0, errors.New("bench: GET /api/treasury shows no dollars")
}

// awaitBalance waits until a workspace has the expected available balance, and returns the balance.
// It gives up when the balance has not changed for a while. It retries while the server cannot
// answer. Another balance is no error. It fails with ErrLimited, with the last error of the server,
// and when ctx ends.
func (d *desk) awaitBalance(ctx context.Context, t *tenant, want int64) (has int64, err error) {
	for last, since := int64(-1), time.Now(); ; last = has {
		if has, _, err = d.readDollars(ctx, t); err == nil && has == want || errors.Is(err, ErrLimited) {
			return has, err
		}
		if has != last {
			since = time.Now()
		}
		if time.Since(since) > d.quiet {
			return has, err
		}
		if err = pause(ctx, settlePause); err != nil {
			return has, err
		}
	}
}

// readLimit reads a card's monthly limit. It retries while the server cannot answer. It fails with
// ErrLimited, after d.quiet without an answer, and for an answer about another card.
func (d *desk) readLimit(ctx context.Context, c *card) (cents int64, err error) {
	for began := time.Now(); ; {
		answer, err := d.requestOK(ctx, "GET", "/api/cards/"+c.id, bearerHeader(c.tenant.key), nil)
		if err == nil {
			cents, told := centsField(answer, limitField)
			if !told || !describesCard(answer, c) {
				err = fmt.Errorf("bench: GET card %s answered %s", c.id, answer[:min(len(answer), 300)])
			}
			return cents, err
		}
		if errors.Is(err, ErrLimited) || time.Since(began) > d.quiet {
			return 0, err
		}
		if err = pause(ctx, settlePause); err != nil {
			return 0, err
		}
	}
}

// pause waits for d. It fails only when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// forEach calls do for 0 to n-1, some concurrently, and returns the first error, after which no
// further call begins.
func forEach(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(n, makers) {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := do(ctx, int(i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
