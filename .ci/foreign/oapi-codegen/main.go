// Command flow goes from sign-up to a webhook with the client that oapi-codegen makes.
package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	openapi "github.com/oapi-codegen/runtime/types"

	"flow/client"
)

// patience bounds each wait for the sandbox.
const patience = 30 * time.Second

type delivery struct {
	header http.Header
	body   []byte
}

func main() {
	log.SetFlags(log.Lshortfile)
	ctx := context.Background()
	api, network, networkSecret := os.Getenv("API_URL"), os.Getenv("NETWORK_URL"), os.Getenv("NETWORK_SECRET")

	deliveries := make(chan delivery, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := mustGet(io.ReadAll(r.Body))
		w.WriteHeader(http.StatusNoContent)
		deliveries <- delivery{r.Header, body}
	}))
	defer receiver.Close()

	key, signing := signUp(ctx, api, receiver.URL)
	depositMoney(ctx, key)
	swipeCard(ctx, key, network, networkSecret)
	order := payOut(ctx, key)
	paidLink(ctx, key, signing, deliveries)
	checkRefusals(ctx, key, order)
	fmt.Println("oapi-codegen: sign-up, swipe, payout, webhook and refusals")
}

// signUp returns a client with a key and the signing secret of the webhook endpoint.
func signUp(ctx context.Context, api, receiver string) (key *client.ClientWithResponses, signing string) {
	jar := mustGet(cookiejar.New(nil))
	person := mustGet(client.NewClientWithResponses(api, client.WithHTTPClient(&http.Client{Jar: jar})))
	email := openapi.Email("go-" + uuid.NewString() + "@example.com")
	user := mustGet(person.SignupWithResponse(ctx, client.Credentials{Email: email, Password: "correct horse battery"}))
	mustBe(user.JSON200 != nil && user.JSON200.User.Email == string(email), user.Body)
	workspace := mustGet(person.CreateWorkspaceWithResponse(ctx, nil, client.NewWorkspace{Name: "Go Ltd"}))
	mustBe(workspace.JSON200 != nil, workspace.Body)
	onboarding := mustGet(person.StartCurrencyOnboardingWithResponse(ctx, nil))
	mustBe(onboarding.JSON200 != nil && onboarding.JSON200.KybStatus == "approved", onboarding.Body)
	endpoint := mustGet(person.CreateWebhookEndpointWithResponse(ctx, nil, client.NewWebhookEndpoint{
		Url: receiver, Events: []client.WebhookEvent{client.CheckoutSessionCompleted}}))
	mustBe(endpoint.JSON200 != nil, endpoint.Body)
	secret := mustGet(person.CreateKeyWithResponse(ctx, nil, client.NewApiKey{Label: "flow", Scopes: []client.Scope{
		"read:treasury", "write:treasury", "write:counterparties", "write:payouts",
		"read:cards", "write:cards", "write:checkout"}}))
	mustBe(secret.JSON200 != nil, secret.Body)
	bearer := client.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+secret.JSON200.Secret)
		return nil
	})
	return mustGet(client.NewClientWithResponses(api, bearer)), endpoint.JSON200.Secret
}

// depositMoney deposits 1,000 dollars.
func depositMoney(ctx context.Context, key *client.ClientWithResponses) {
	var deposit client.NewDeposit
	exitOnError(deposit.FromNewBankDeposit(client.NewBankDeposit{Rail: "fednow", AmountUsdCents: 100_000}))
	once := uuid.NewString()
	taken := mustGet(key.CreateDepositWithResponse(ctx, &client.CreateDepositParams{IdempotencyKey: &once}, deposit))
	mustBe(taken.JSON202 != nil, taken.Body)
	waitUntil(func() ([]byte, bool) {
		treasury := mustGet(key.GetTreasuryWithResponse(ctx))
		return treasury.Body, treasury.JSON200 != nil && treasury.JSON200.Balances[0].AvailableCents == 100_000
	})
}

func swipeCard(ctx context.Context, key *client.ClientWithResponses, network, secret string) {
	minted := mustGet(key.MintCardWithResponse(ctx, nil, client.NewCard{HolderKind: "agent", HolderLabel: "flow",
		MonthlyLimitUsdCents: 50_000, PerTxnLimitUsdCents: 20_000, AllowedMccs: &client.Mccs{"5812"}}))
	mustBe(minted.JSON200 != nil, minted.Body)
	card := minted.JSON200.Card
	message := mustGet(json.Marshal(map[string]any{"id": uuid.NewString(), "cardToken": card.PartnerCardToken,
		"amountCents": 1250,
		"currency":    "USD", "merchant": map[string]any{"name": "Cafe Aroma", "mcc": "5812"}}))
	request := mustGet(http.NewRequestWithContext(ctx, http.MethodPost, network+"/v1/authorizations", bytes.NewReader(message)))
	request.Header.Set("Authorization", "Bearer "+secret)
	request.Header.Set("Content-Type", "application/json")
	response := mustGet(http.DefaultClient.Do(request))
	defer response.Body.Close()
	body := mustGet(io.ReadAll(response.Body))
	mustBe(bytes.Contains(body, []byte(`"decision":"approved"`)), body)
	waitUntil(func() ([]byte, bool) {
		seen := mustGet(key.ListAuthorizationsWithResponse(ctx, &client.ListAuthorizationsParams{CardId: &card.Id}))
		return seen.Body, seen.JSON200 != nil && len(seen.JSON200.Data) == 1 &&
			seen.JSON200.Data[0].HeldCents == 1250 &&
			seen.JSON200.Data[0].Checked.LimitCents == 50_000
	})
}

func payOut(ctx context.Context, key *client.ClientWithResponses) client.NewPayout {
	var recipient client.NewCounterparty
	exitOnError(recipient.FromNewUsCounterparty(client.NewUsCounterparty{Name: "Bob", RoutingNumber: "021000021",
		AccountNumber: "12345678", AccountType: "checking"}))
	saved := mustGet(key.CreateCounterpartyWithResponse(ctx,
		&client.CreateCounterpartyParams{KeyOfPayment: uuid.NewString()}, recipient))
	mustBe(saved.JSON200 != nil, saved.Body)
	order := client.NewPayout{Rail: "ach", CounterpartyId: saved.JSON200.Counterparty.Id, AmountCents: 2_000,
		Description: "Rent"}
	ordered := mustGet(key.CreatePayoutWithResponse(ctx, &client.CreatePayoutParams{KeyOfPayment: uuid.NewString()},
		order))
	mustBe(ordered.JSON200 != nil, ordered.Body)
	waitUntil(func() ([]byte, bool) {
		payout := mustGet(key.GetPayoutWithResponse(ctx, ordered.JSON200.Payout.Id))
		return payout.Body, payout.JSON200 != nil && payout.JSON200.Payout.Status == "settled"
	})
	return order
}

func paidLink(ctx context.Context, key *client.ClientWithResponses, signing string, deliveries <-chan delivery) {
	link := mustGet(key.CreateCheckoutSessionWithResponse(ctx, nil,
		client.NewCheckoutSession{AmountUsdCents: 1_000, SuccessUrl: "https://example.com/thanks"}))
	mustBe(link.JSON200 != nil, link.Body)
	id := link.JSON200.Session.Id
	picked := mustGet(key.SelectCheckoutPairWithResponse(ctx, id, client.CheckoutPick{Asset: "USDC", Chain: "base"}))
	mustBe(picked.JSON200 != nil, picked.Body)
	paid := mustGet(key.SimulateCheckoutPaymentWithResponse(ctx, id, nil))
	mustBe(paid.JSON200 != nil, paid.Body)
	select {
	case event := <-deliveries:
		parts := map[string]string{}
		for part := range strings.SplitSeq(event.header.Get("service-signature"), ",") {
			name, value, _ := strings.Cut(part, "=")
			parts[name] = value
		}
		mac := hmac.New(sha256.New, []byte(signing))
		mac.Write([]byte(parts["t"] + "."))
		mac.Write(event.body)
		mustBe(hmac.Equal(mac.Sum(nil), mustGet(hex.DecodeString(parts["v1"]))), event.body)
		mustBe(event.header.Get("webhook-event") == "checkout.session.completed", event.body)
		mustBe(bytes.Contains(event.body, []byte(id)), event.body)
	case <-time.After(patience):
		log.Fatal("no webhook came")
	}
}

func checkRefusals(ctx context.Context, key *client.ClientWithResponses, order client.NewPayout) {
	order.AmountCents = 90_000_000
	refused := mustGet(key.CreatePayoutWithResponse(ctx, &client.CreatePayoutParams{KeyOfPayment: uuid.NewString()},
		order))
	mustBe(refused.JSON422 != nil && refused.JSON422.Error == "limit_exceeded", refused.Body)
	missing := mustGet(key.GetCardWithResponse(ctx, "card_00000000000000000000000000"))
	mustBe(missing.JSON404 != nil && missing.JSON404.Error == "not_found", missing.Body)
}

func waitUntil(done func() (body []byte, ok bool)) {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		body, ok := done()
		if ok {
			return
		}
		mustBe(time.Now().Before(end), body)
	}
}

func mustGet[T any](value T, err error) T {
	exitOnError(err)
	return value
}

func exitOnError(err error) {
	if err != nil {
		log.Output(3, err.Error())
		os.Exit(1)
	}
}

func mustBe(ok bool, body []byte) {
	if !ok {
		log.Output(2, string(body))
		os.Exit(1)
	}
}
