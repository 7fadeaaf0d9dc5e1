package processes

import "purser/actors"

// Kinds of actors. They are stored with events, records and timers.
const (
	KindUser         = "user"
	KindWorkspace    = "workspace"
	KindCardholder   = "cardholder"
	KindCounterparty = "counterparty"
	KindAgent        = "agent"
	KindCard         = "card"
	KindBalance      = "balance"
	KindCheckout     = "checkout"
	KindRamp         = "ramp"
	KindDerivation   = "derivation"
	KindWebhook      = "webhook"
)

// toBalance addresses a command to the balance of a workspace.
func toBalance(workspace string, command any) actors.Envelope {
	return actors.Envelope{Kind: KindBalance, Stream: workspace, Workspace: workspace, Command: command}
}
