package bankserver_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/bankhttp"
	"purser/actors/partner/sandbox"
	"purser/actors/partner/sandbox/bankserver"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
	"purser/persistence/money"
)

const secret = "a secret of both ends"

var start = time.UnixMilli(1_763_640_000_123)

func sign(secret string) func([]byte) string {
	return func(message []byte) string { return webhook.Sign(secret, start, message) }
}

func verify(signature string, message []byte) error {
	if signature != webhook.Sign(secret, start, message) {
		return errors.New("another's")
	}
	return nil
}

// serveBank serves a sandbox bank whose reports are dropped.
func serveBank(t *testing.T) (bank *sandbox.Bank, url string) {
	t.Helper()
	bank, err := sandbox.NewBank(sandbox.Config{Dir: "bank", FS: vfs.NewMem(), Clock: func() time.Time { return start },
		Report: func(context.Context, []byte) (int, error) { return http.StatusOK, nil }})
	require.NoError(t, err)
	server := httptest.NewServer(bankserver.NewHandler(bank, verify))
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, bank.Close())
	})
	return bank, server.URL
}

func newClient(t *testing.T, url, secret string) *bankhttp.Client {
	c := bankhttp.NewClient(url, sign(secret))
	t.Cleanup(c.Close)
	return c
}

func payment(n int, account string, cents money.Minor) partner.Payment {
	id := ident.Derive(77, start.Add(time.Duration(n)*time.Millisecond), "payment").Format(ident.Payout)
	return partner.Payment{Reference: id, Account: account, Rail: "ach", AmountMinor: cents, Description: "rent"}
}

var ada = partner.Account{Reference: "rcp_1", Kind: "us", Name: "Ada", RoutingNumber: "021000021",
	AccountNumber: "987654321"}

func TestTheClientBehavesLikeTheBank(t *testing.T) {
	_, url := serveBank(t)
	c, ctx := newClient(t, url, secret), t.Context()
	deposit := partner.Deposit{ID: ident.Derive(77, start, "deposit").Format(ident.Deposit), AmountUsdCents: 100,
		ExpectedAt: start}
	require.NoError(t, c.Expect(ctx, deposit))
	require.NoError(t, c.Expect(ctx, deposit), "once more changes nothing")
	token, err := c.Tokenize(ctx, ada)
	require.NoError(t, err)
	again, err := c.Tokenize(ctx, ada)
	require.NoError(t, err)
	require.Equal(t, token, again)
	refused := ada
	refused.Name = sandbox.NameRefused
	_, err = c.Tokenize(ctx, refused)
	require.ErrorIs(t, err, partner.ErrRefused)

	one := payment(1, token, 1_000)
	_, err = c.Standing(ctx, one.Reference)
	require.ErrorIs(t, err, partner.ErrUnknown)
	require.NoError(t, c.Pay(ctx, one))
	standing, err := c.Standing(ctx, one.Reference)
	require.NoError(t, err)
	require.Equal(t, partner.Settled, standing, "due at once")
	require.ErrorIs(t, c.Pay(ctx, payment(2, token, 1_000+sandbox.EndingRefused)), partner.ErrRefused)
	require.ErrorIs(t, c.Pay(ctx, payment(3, "another account", 1_000)), partner.ErrRefused)
}

// An order without an answer is neither taken nor refused: the bank may have it.
func TestALostAnswerIsNeitherTakenNorRefused(t *testing.T) {
	bank, url := serveBank(t)
	c := newClient(t, url, secret)
	token, err := c.Tokenize(t.Context(), ada)
	require.NoError(t, err)
	unanswered := func(p partner.Payment, err error) {
		require.Error(t, err)
		require.NotErrorIs(t, err, partner.ErrRefused)
		require.NotErrorIs(t, err, partner.ErrFull)
		orders, err := bank.Paid(p.Reference)
		require.NoError(t, err)
		require.Equal(t, 1, orders, "and nobody has sent it again")
	}
	lost := payment(1, token, 1_000+sandbox.EndingAnswersLost)
	unanswered(lost, c.Pay(t.Context(), lost))

	never := payment(2, token, 1_000+sandbox.EndingNever)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	paid := make(chan error, 1)
	go func() { paid <- c.Pay(ctx, never) }()
	require.Eventually(t, func() bool {
		orders, err := bank.Paid(never.Reference)
		return err == nil && orders > 0
	}, time.Minute, time.Millisecond, "the bank has the order")
	cancel() // the client gives up
	unanswered(never, <-paid)
}

// The bank counts the orders of each payment and lists them in pages.
func TestTheBankListsItsOrders(t *testing.T) {
	_, url := serveBank(t)
	c := newClient(t, url, secret)
	token, err := c.Tokenize(t.Context(), ada)
	require.NoError(t, err)
	const payments = 501 // a page and one more payment
	var group sync.WaitGroup
	for client := range 8 {
		group.Go(func() {
			for n := client; n < payments; n += 8 {
				if err := c.Pay(t.Context(), payment(n, token, 1_000)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, c.Pay(t.Context(), payment(0, token, 1_000)))
	listed, after := map[string]int{}, ""
	for {
		page, err := c.Orders(t.Context(), after)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, o := range page {
			require.NotContains(t, listed, o.Reference)
			listed[o.Reference], after = o.Orders, o.Reference
		}
	}
	require.Len(t, listed, payments)
	require.Equal(t, 2, listed[payment(0, "", 0).Reference], "it was told twice")
	require.Equal(t, 1, listed[payment(1, "", 0).Reference])
}

// A bank without payments answers an empty array, not null.
func TestABankWithoutPaymentsHasAnEmptyPage(t *testing.T) {
	_, url := serveBank(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/orders", nil)
	require.NoError(t, err)
	req.Header.Set("Partner-Signature", sign(secret)([]byte("GET /v1/orders\n")))
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "{\"orders\":[]}\n", string(body))
}

func TestUnsignedRequestsAreRefused(t *testing.T) {
	bank, url := serveBank(t)
	stranger := newClient(t, url, "another secret")
	_, err := stranger.Tokenize(t.Context(), ada)
	require.ErrorContains(t, err, "401")
	require.Error(t, stranger.Pay(t.Context(), payment(1, "any", 1_000)))
	orders, err := bank.Orders("", 10)
	require.NoError(t, err)
	require.Empty(t, orders)

	signature := sign(secret)([]byte("GET /v1/orders\n"))
	for target, status := range map[string]int{"/v1/orders": 200, "/v1/orders?after=a": 401, "/v1/payments/a": 401} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+target, nil)
		require.NoError(t, err)
		req.Header.Set("Partner-Signature", signature)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode, "a signature is of one request: "+target)
	}
	resp, err := http.Post(url+"/v1/payments", "application/json", strings.NewReader(strings.Repeat(" ", 64<<10+1)))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
}

// The client returns the bank's NACHA file unchanged.
func TestTheClientReturnsTheNACHAFileUnchanged(t *testing.T) {
	bank, url := serveBank(t)
	c := newClient(t, url, secret)
	token, err := c.Tokenize(t.Context(), partner.Account{Reference: "rcp_1", Kind: "us", Name: "Ada",
		RoutingNumber: "021000021",
		AccountNumber: "987654321", AccountType: "checking"})
	require.NoError(t, err)
	require.NoError(t, c.Pay(t.Context(), payment(1, token, 1_000)))
	var here, there bytes.Buffer
	day := time.Date(2025, 11, 20, 0, 0, 0, 0, time.UTC)
	n, err := bank.WriteACH(t.Context(), day, &here)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = c.WriteACH(t.Context(), day, &there)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, here.String(), there.String())
	_, err = c.WriteACH(t.Context(), day.AddDate(1, 0, 0), &there)
	require.ErrorIs(t, err, partner.ErrNothingSent)
}
