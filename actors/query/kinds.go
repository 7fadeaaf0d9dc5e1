package query

import (
	"encoding/json"

	"purser/actors"
	"purser/actors/agent"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/cardholder"
	"purser/actors/checkout"
	"purser/actors/counterparty"
	"purser/actors/ramp"
	"purser/actors/user"
	"purser/actors/webhook"
	"purser/actors/workspace"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Cards and their authorizations.
var (
	Cards             = RecordsOf[card.State](actors.KindCard, ident.Card)
	CardLabels        = RecordsOf[card.Label](card.RecordLabel, ident.Card)
	CardSpends        = RecordsOf[balance.CardSpend](balance.RecordCardSpend, ident.Card)
	Cardholders       = RecordsOf[cardholder.State](actors.KindCardholder, ident.Cardholder)
	CardholderPersons = RecordsOf[cardholder.Person](cardholder.RecordPerson, ident.Cardholder)
	CardholderTallies = RecordsOf[actors.Tally](actors.TallyKind(cardholder.TallyActive), ident.Workspace)
	PhysicalOrders    = RecordsOf[balance.PhysicalOrder](balance.RecordPhysicalOrder, ident.PhysicalOrder)
	PhysicalTexts     = RecordsOf[balance.PhysicalText](balance.RecordPhysicalText, ident.PhysicalOrder)

	// Authorizations are listed under their card.
	Authorizations      = RecordsOf[balance.Authorization](balance.RecordAuthorization, ident.Authorization)
	AuthorizationTraits = RecordsOf[AuthorizationTrait](balance.RecordAuthorization, ident.Authorization)
	// AuthorizationIndexes are listed for the workspace.
	AuthorizationIndexes = RecordsOf[balance.AuthorizationIndex](balance.RecordAuthorizationIndex, ident.Authorization)
)

// AuthorizationTrait holds the fields of an authorization's document that filters compare. It is
// read without the rest of the document.
type AuthorizationTrait struct {
	Decision    string      `json:"decision"`
	Reason      string      `json:"reason"`
	AmountCents money.Cents `json:"amountCents"`
	Merchant    struct {
		Name string `json:"name"`
	} `json:"merchant"`
}

// The balance of a workspace in dollars.
var (
	LedgerEntries        = RecordsOf[balance.LedgerEntry](balance.RecordLedgerEntry, ident.LedgerEntry)
	Counterparties       = RecordsOf[counterparty.State](actors.KindCounterparty, ident.Counterparty)
	CounterpartyAccounts = RecordsOf[counterparty.Account](counterparty.RecordAccount, ident.Counterparty)
	CounterpartyViews    = RecordsOf[counterparty.View](counterparty.RecordView, ident.Counterparty)
	Payouts              = RecordsOf[balance.Payout](balance.RecordPayout, ident.Payout)
	PayoutTexts          = RecordsOf[balance.PayoutText](balance.RecordPayoutText, ident.Payout)
	PayoutQuotes         = RecordsOf[balance.Quote](balance.RecordQuote, ident.FXQuote)

	// InternationalPayments are of a retired route. No record is written any more.
	InternationalPayments = RecordsOf[json.RawMessage]("international_payment")
)

// Balances in currencies.
var (
	// Activities are listed under their currency.
	Activities       = RecordsOf[balance.Activity](balance.RecordActivity, ident.LedgerEntry)
	PayinTexts       = RecordsOf[balance.PayinText](balance.RecordPayinText, ident.Deposit)
	ConversionQuotes = RecordsOf[balance.ConversionQuote](balance.RecordConversionQuote, ident.CurrencyQuote)
	Conversions      = RecordsOf[balance.Conversion](balance.RecordConversion, ident.Conversion)
)

// The ramp between dollars and USDC.
var (
	RampAccounts = RecordsOf[ramp.Account](ramp.RecordAccount, ident.RampAccount)
	RampWallets  = RecordsOf[ramp.Wallet](ramp.RecordWallet, ident.RampWallet)
	RampQuotes   = RecordsOf[balance.RampQuote](balance.RecordRampQuote, ident.RampQuote)
	RampOrders   = RecordsOf[balance.RampOrder](balance.RecordRampOrder, ident.RampOrder, ident.Withdrawal)
	// RampSessions are of retired routes. They are listed under their direction.
	RampSessions = RecordsOf[balance.RampSession](balance.RecordRampSession, ident.RampSession)
)

// Checkout links.
var (
	Checkouts     = RecordsOf[checkout.State](actors.KindCheckout, ident.Checkout)
	CheckoutTexts = RecordsOf[checkout.Text](checkout.RecordText, ident.Checkout)
	// CheckoutReferences are read without the rest of the text, of which the metadata can be long.
	CheckoutReferences = RecordsOf[CheckoutReference](checkout.RecordText, ident.Checkout)
	CheckoutTallies    = RecordsOf[actors.Tally](actors.TallyKind(checkout.Tally), ident.Workspace)
	CheckoutWatches    = RecordsOf[checkout.Watch](checkout.RecordWatch, ident.Checkout)
)

// CheckoutReference holds the field of a link's text that a filter compares.
type CheckoutReference struct {
	MerchantReference string `json:"merchantReference"`
}

// Agents, and the entries of their logs, which are listed under their agent.
var (
	Agents       = RecordsOf[agent.State](actors.KindAgent, ident.Agent)
	AgentIntents = RecordsOf[agent.LogEntry](agent.RecordIntent, ident.IntentLog)
)

// Endpoints of webhooks, and their deliveries, which are listed under their endpoint.
var (
	EndpointStates = RecordsOf[webhook.State](actors.KindWebhook, ident.Endpoint)
	Endpoints      = RecordsOf[webhook.Endpoint](webhook.RecordEndpoint, ident.Endpoint)
	Deliveries     = RecordsOf[webhook.Delivery](webhook.RecordDelivery, ident.Delivery)
)

// Workspaces, users and their credentials. The keys of kinds without a prefix are hashes.
var (
	Workspaces       = RecordsOf[workspace.State](actors.KindWorkspace, ident.Workspace)
	APIKeys          = RecordsOf[workspace.APIKey](workspace.RecordKey, ident.Key)
	APISecrets       = RecordsOf[workspace.SecretDocument](workspace.RecordSecret)
	Invitations      = RecordsOf[workspace.InvitationDocument](workspace.RecordInvitation, ident.Invitation)
	InvitationTokens = RecordsOf[workspace.InvitationToken](workspace.RecordInvitationToken)
	Users            = RecordsOf[user.State](actors.KindUser, ident.User)
	Credentials      = RecordsOf[user.Credential](user.RecordCredential, ident.User)
	Emails           = RecordsOf[user.EmailDocument](user.RecordEmail)
	Sessions         = RecordsOf[user.SessionDocument](user.RecordSession)
	SecondFactors    = RecordsOf[user.FactorDocument](user.RecordFactor, ident.User)
	PendingFactors   = RecordsOf[user.PendingFactor](user.RecordPendingFactor, ident.User)
	EmailLinks       = RecordsOf[user.EmailLinkDocument](user.RecordEmailLink)
	PasswordResets   = RecordsOf[user.ResetDocument](user.RecordReset)
	SignInPlaces     = RecordsOf[user.Places](user.RecordPlaces, ident.User)
)
