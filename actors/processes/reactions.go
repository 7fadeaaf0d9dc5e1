package processes

import (
	"purser/actors"
	"purser/actors/agent"
	"purser/actors/balance"
	"purser/actors/checkout"
	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/user"
	"purser/actors/webhook"
	"purser/actors/workspace"
)

// reactions lists which events start which process. A reaction's name is in the records of its
// pending events. Each Handle is called until it succeeds.
func (p *processes) reactions() []actors.Reaction {
	return []actors.Reaction{
		{Name: "bank", Handle: p.deposits.announce, Events: []decision.Event{balance.DepositCreated{}}},
		{Name: "payouts", Handle: p.payouts.handlePayout,
			Events: []decision.Event{balance.PayoutCreated{}, balance.PayoutMoved{}}},
		{Name: "conversions", Handle: p.conversions.handleConversion,
			Events: []decision.Event{balance.ConversionCreated{}, balance.ConversionMoved{}}},
		{Name: "recipients", Handle: p.recipients.tokenizeNew, Events: []decision.Event{counterparty.Saved{}}},
		{Name: "physical_cards", Handle: p.physical.mintAfterOrder,
			Events: []decision.Event{balance.PhysicalCardOrdered{}}},
		{Name: "membership", Handle: p.memberships.listMembership, Events: []decision.Event{
			workspace.WorkspaceCreated{}, workspace.MemberAdded{}, workspace.MemberRoleChanged{},
			workspace.MemberRemoved{}, workspace.WorkspaceRenamed{}}},
		{Name: "emails", Handle: p.emails.endClaim,
			Events: []decision.Event{user.EmailChanged{}, user.EmailChangeEnded{}}},
		{Name: "endpoints", Handle: p.webhooks.endUnmanaged, Events: []decision.Event{
			webhook.Registered{}, workspace.MemberRemoved{}, workspace.MemberRoleChanged{}}},
		{Name: "agents", Handle: p.agents.mirrorChange, Events: []decision.Event{
			agent.Registered{}, agent.Frozen{}, agent.Unfrozen{}, agent.Terminated{}, workspace.ModeChanged{}}},
		{Name: "checkout", Handle: p.checkouts.creditCompleted, Events: []decision.Event{checkout.SessionCompleted{}}},
		{Name: "watch", Handle: p.watch.handleSession, Events: []decision.Event{checkout.Selected{},
			checkout.WatchEnded{}}},
	}
}

// handleTimer gives an actor's answer to its timer to the processes that such an answer may start.
// It never blocks.
func (p *processes) handleTimer(workspace string, reply any) {
	p.webhooks.handleTimer(workspace, reply)
	p.ramps.handleTimer(workspace, reply)
	p.inquiries.handleTimer(workspace, reply)
}
