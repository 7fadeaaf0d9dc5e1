package httpapi

import (
	"fmt"
	"strings"

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
)

// recordLimits are the limits that the guide of limits lists, in its order.
var recordLimits = []struct {
	of   string
	most int
}{
	{"workspaces that a user has made", user.MaxOwn},
	{"workspaces that a user has joined", user.MaxForeign},
	{"open sessions of a user; the oldest ends", user.MaxSessions},
	{"open password resets of a user", user.MaxResets},
	{"codes of a second factor that an account tries in an hour", triesPerHour},
	{"members of a workspace", workspace.MaxMembers},
	{"pending invitations of a workspace", workspace.MaxInvitations},
	{"API keys of a workspace that are not revoked", workspace.MaxLiveKeys},
	{"cards of a workspace", card.MaxPerWorkspace},
	{"entries of a card's allowlist", card.MaxAllowlist},
	{"cardholders of a workspace", cardholder.MaxPerWorkspace},
	{"agents of a workspace", agent.MaxPerWorkspace},
	{"recipients of a workspace", counterparty.MaxPerWorkspace},
	{"pending deposits of a workspace", balance.MaxOpenDeposits},
	{"unfinished payouts of a workspace", balance.MaxOpenPayouts},
	{"locked exchange-rate quotes of a workspace", balance.MaxOpenQuotes},
	{"API keys that order payouts on one day", balance.MaxPayoutKeys},
	{"unfinished conversions of a workspace", balance.MaxOpenConversions},
	{"unfinished ramp orders of a workspace", balance.MaxOpenRampOrders},
	{"wallets of a workspace", ramp.MaxWallets},
	{"webhook endpoints of a workspace", webhook.MaxPerWorkspace},
	{"pending deliveries of a webhook endpoint", webhook.MaxPending},
	{"requests of a workspace in the request log; the oldest is dropped", maxLoggedRequests},
	{"requests in the request logs of all workspaces; the logs of the quietest are dropped", maxLoggedInAll},
	{"open checkout links of a workspace: `pending`, `awaiting_payment` or `confirming`", checkout.MaxOpen},
	{"bytes of a checkout link's metadata", checkout.MaxMetadata},
	{"payments that a checkout link stores", checkout.MaxPayments},
	{"of these, payments under a hundredth of the link's amount", checkout.MaxSmallPayments},
	{"days of a statement", maxStatementDays},
	{"lines of a statement", maxStatementLines},
}

// limitTable writes the limits of records as Markdown.
func limitTable() string {
	var table strings.Builder
	table.WriteString("\n| At most | Of |\n|---|---|\n")
	for _, limit := range recordLimits {
		fmt.Fprintf(&table, "| %s | %s |\n", grouped(limit.most), limit.of)
	}
	return table.String()
}

// grouped writes a number with a comma between thousands.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
