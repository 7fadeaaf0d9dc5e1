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
)

// Cards and their authorizations.
var (
	Cards             = recordsOf[card.State](actors.KindCard, ident.Card)
	CardLabels        = recordsOf[card.Label](card.RecordLabel, ident.Card)
	CardSpends        = recordsOf[balance.CardSpend](balance.RecordCardSpend, ident.Card)
	Cardholders       = recordsOf[cardholder.State](actors.KindCardholder, ident.Cardholder)
	CardholderPersons = recordsOf[cardholder.Person](cardholder.RecordPerson, ident.Cardholder)
	CardholderTallies = recordsOf[actors.Tally](actors.TallyKind(cardholder.TallyActive), ident.Workspace)
	PhysicalOrders    = recordsOf[balance.PhysicalOrder](balance.RecordPhysicalOrder, ident.PhysicalOrder)
	PhysicalTexts     = recordsOf[balance.PhysicalText](balance.RecordPhysicalText, ident.PhysicalOrder)

	// Authorizations are listed under their card.
	Authorizations         = recordsOf[balance.Authorization](balance.RecordAuthorization, ident.Authorization)
	AuthorizationDecisions = recordsOf[AuthorizationDecision](balance.RecordAuthorization, ident.Authorization)
	// AuthorizationIndexes are listed for the workspace.
	AuthorizationIndexes = recordsOf[balance.AuthorizationIndex](balance.RecordAuthorizationIndex, ident.Authorization)
)

// AuthorizationDecision is the decision of an authorization's document, approved or declined, which
// is read without the rest of it.
type AuthorizationDecision struct {
	Decision string `json:"decision"`
}

// The balance of a workspace in dollars.
var (
	Deposits          = recordsOf[balance.Deposit](balance.RecordDeposit, ident.Deposit)
	LedgerEntries     = recordsOf[balance.LedgerEntry](balance.RecordLedgerEntry, ident.LedgerEntry)
	Counterparties    = recordsOf[counterparty.State](actors.KindCounterparty, ident.Counterparty)
	CounterpartyViews = recordsOf[counterparty.View](counterparty.RecordView, ident.Counterparty)
	Payouts           = recordsOf[balance.Payout](balance.RecordPayout, ident.Payout)
	PayoutTexts       = recordsOf[balance.PayoutText](balance.RecordPayoutText, ident.Payout)
	PayoutQuotes      = recordsOf[balance.Quote](balance.RecordQuote, ident.FXQuote)

	// InternationalPayments are of a retired route. No record is written any more.
	InternationalPayments = recordsOf[json.RawMessage]("international_payment")
)

// Balances in currencies.
var (
	// Activities are listed under their currency.
	Activities       = recordsOf[balance.Activity](balance.RecordActivity, ident.LedgerEntry)
	PayinTexts       = recordsOf[balance.PayinText](balance.RecordPayinText, ident.Deposit)
	ConversionQuotes = recordsOf[balance.ConversionQuote](balance.RecordConversionQuote, ident.CurrencyQuote)
	Conversions      = recordsOf[balance.Conversion](balance.RecordConversion, ident.Conversion)
)

// The ramp between dollars and USDC.
var (
	RampAccounts = recordsOf[ramp.Account](ramp.RecordAccount, ident.RampAccount)
	RampWallets  = recordsOf[ramp.Wallet](ramp.RecordWallet, ident.RampWallet)
	RampQuotes   = recordsOf[balance.RampQuote](balance.RecordRampQuote, ident.RampQuote)
	RampOrders   = recordsOf[balance.RampOrder](balance.RecordRampOrder, ident.RampOrder, ident.Withdrawal)
	// RampSessions are of retired routes. They are listed under their direction.
	RampSessions = recordsOf[balance.RampSession](balance.RecordRampSession, ident.RampSession)
)

// Checkout links.
var (
	Checkouts     = recordsOf[checkout.State](actors.KindCheckout, ident.Checkout)
	CheckoutTexts = recordsOf[checkout.Text](checkout.RecordText, ident.Checkout)
)

// Agents, and the entries of their logs, which are listed under their agent.
var (
	Agents       = recordsOf[agent.State](actors.KindAgent, ident.Agent)
	AgentIntents = recordsOf[agent.LogEntry](agent.RecordIntent, ident.IntentLog)
)

// Endpoints of webhooks, and their deliveries, which are listed under their endpoint.
var (
	Endpoints  = recordsOf[webhook.Endpoint](webhook.RecordEndpoint, ident.Endpoint)
	Deliveries = recordsOf[webhook.Delivery](webhook.RecordDelivery, ident.Delivery)
)

// Workspaces, users and their credentials. The keys of kinds without a prefix are hashes.
var (
	Workspaces       = recordsOf[workspace.State](actors.KindWorkspace, ident.Workspace)
	APIKeys          = recordsOf[workspace.APIKey](workspace.RecordKey, ident.Key)
	APISecrets       = recordsOf[workspace.SecretDocument](workspace.RecordSecret)
	Invitations      = recordsOf[workspace.InvitationDocument](workspace.RecordInvitation, ident.Invitation)
	InvitationTokens = recordsOf[workspace.InvitationToken](workspace.RecordInvitationToken)
	Users            = recordsOf[user.State](actors.KindUser, ident.User)
	Credentials      = recordsOf[user.Credential](user.RecordCredential, ident.User)
	Emails           = recordsOf[user.EmailDocument](user.RecordEmail)
	Sessions         = recordsOf[user.SessionDocument](user.RecordSession)
	SignInPlaces     = recordsOf[user.Places](user.RecordPlaces, ident.User)
)
