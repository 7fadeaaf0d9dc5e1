package processes

import (
	"purser/actors"
	"purser/actors/agent"
	"purser/actors/balance"
	"purser/actors/checkout"
	"purser/actors/decision"
	"purser/actors/workspace"
)

// reactions lists which events start which process. A reaction's name is that of its stored cursors.
func (p *processes) reactions() []actors.Reaction {
	return []actors.Reaction{
		{Name: "bank", Handle: p.deposits.announce, Events: []decision.Event{balance.DepositCreated{}}},
		{Name: "membership", Handle: p.memberships.listMembership, Events: []decision.Event{
			workspace.WorkspaceCreated{}, workspace.MemberAdded{}, workspace.MemberRoleChanged{}, workspace.MemberRemoved{}}},
		{Name: "agents", Handle: p.agents.mirrorChange, Events: []decision.Event{
			agent.Registered{}, agent.Frozen{}, agent.Unfrozen{}, agent.Terminated{}, workspace.ModeChanged{}}},
		{Name: "checkout", Handle: p.checkouts.creditCompleted, Events: []decision.Event{checkout.SessionCompleted{}}},
	}
}
