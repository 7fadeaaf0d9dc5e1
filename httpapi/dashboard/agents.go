package dashboard

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"purser/httpapi/web"
	"purser/persistence/money"
)

const (
	agentsPath  = "/api/agents"
	agentPath   = agentsPath + "/{id}"
	intentsPath = agentPath + "/intents"
)

// Limits of the cards on an agent's page.
const (
	maxNamesakes  = 100 // the newest cards, among which the page finds those with the agent's name
	maxAgentCards = 10
)

// agent is an agent in the interface.
type agent struct {
	ID, AgentName, Description, State, PublicKeyPem, KeyID, JWKThumbprint string
	Protocols                                                             []string
	CreatedAt                                                             time.Time
}

type agentList struct {
	Data       []agent
	NextCursor *string
}

// agentPages are the list of agents and the page of one agent.
func agentPages() []page {
	protocols := []Option{{Value: "TAP", Label: "TAP"}, {Value: "MPP", Label: "MPP"}, {Value: "ACP", Label: "ACP"}}
	mint := mintAction("")
	mint.title, mint.body = "New card for the agent", func(v *visit) (map[string]any, error) {
		var shown struct{ Agent agent }
		return nil, v.readInto(&shown, agentPath, "id", v.recordID()) // the agent of the page is the workspace's
	}
	return []page{
		{path: "agents", access: member, section: "Agents", show: showAgents, actions: []action{
			{name: "register", method: "POST", path: agentsPath, title: "New agent", submit: "Register the agent",
				show: showRegistered, fields: []Field{
					{Name: "agentName", Label: "Name", Kind: fieldText, Required: true},
					{Name: "description", Label: "Description", Kind: fieldText},
					{Name: "protocols", Label: "Protocols of its intents", Kind: fieldChecks, Required: true, Options: protocols,
						Default: "TAP,MPP,ACP"},
					{Name: "publicKeyPem", Label: "Public key", Kind: fieldBlock,
						Hint: "An Ed25519 key in PEM. Without one a key pair is made, and its private key is " +
							"shown once."}}},
		}},
		{path: "agents/{id}", access: member, section: "Agents", show: showAgent, actions: append(agentStates(), mint)},
	}
}

// agentStates are the forms that change an agent's state, on its page and on the list.
func agentStates() []action {
	change := func(name, state, submit, done, danger string) action {
		return action{name: name, method: "PATCH", path: agentPath, submit: submit, done: done, danger: danger,
			fixed: map[string]any{"state": state}, then: backToList("agents", name)}
	}
	return []action{
		change("freeze", "frozen", "Freeze", "The agent is frozen. Its intents are refused.", ""),
		change("unfreeze", "active", "Unfreeze", "The agent is active again.", ""),
		change("terminate", "terminated", "Terminate", "The agent is terminated.",
			"Terminate the agent? It cannot be undone."),
	}
}

// showAgents lists the agents, newest first.
func showAgents(v *visit) (*View, error) {
	var list agentList
	if err := v.readInto(&list, agentsPath, "cursor", v.Query.Get("cursor"), "limit",
		strconv.Itoa(rowsWithButton)); err != nil {
		return nil, err
	}
	t := &Table{Caption: "Agents, newest first", Empty: "No agents yet.", Columns: []Column{{Name: "Agent",
		Role: rolePrimary}, {Name: "Description", Role: roleSecond}, {Name: "State", Role: roleAmount},
		{Name: "Protocols"},
		{Name: "Created"}, {Name: "Change", Number: true, Role: roleStatus}}}
	for _, a := range list.Data {
		change, err := v.drawChange(agentStates(), a.State, v.addressOf("agents", a.ID), a.AgentName)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, []Cell{linkCell(a.AgentName, v.addressOf("agents", a.ID)), plainCell(a.Description),
			stateCell(a.State), plainCell(strings.Join(a.Protocols, ", ")), v.dateCell(a.CreatedAt), change})
	}
	forms, err := v.drawForms("register")
	return &View{Title: "Agents", Lead: "AI agents that sign payment intents with a key of their own.",
		Notice: v.changeNotice(agentStates()),
		Blocks: append([]Block{{Table: v.addPaging(t, list.NextCursor)}}, forms...)}, err
}

// showRegistered shows a new agent, and the private key that no later answer shows, if a pair was
// made.
func showRegistered(v *visit, body []byte) (*View, error) {
	var made struct {
		Agent         agent
		PrivateKeyPem string
	}
	if err := json.Unmarshal(body, &made); err != nil {
		return nil, err
	}
	a := &made.Agent
	view := &View{Title: "The agent is registered", Lead: a.AgentName,
		Up: &Link{"The agent", v.addressOf("agents", a.ID)}}
	if made.PrivateKeyPem != "" {
		view.Notice = &Notice{Text: "Copy the private key now. It is shown only this once."}
		view.Blocks = append(view.Blocks, Block{Code: &Code{ID: "secret", Label: "Private key",
			Text: made.PrivateKeyPem}})
	}
	view.Blocks = append(view.Blocks, Block{Facts: []Fact{{"Fingerprint of its key", codeCell(a.KeyID)},
		{"Id", codeCell(a.ID)}}})
	return view, nil
}

// showAgent shows one agent: its key, its cards and the log of its intents.
func showAgent(v *visit) (*View, error) {
	var shown struct{ Agent agent }
	if err := v.readInto(&shown, agentPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	a := &shown.Agent
	view := &View{Title: a.AgentName, Lead: a.Description, Up: &Link{"Agents", v.addressOf("agents")}, Live: true,
		Blocks: []Block{{Facts: []Fact{{"State", stateCell(a.State)},
			{"Protocols", plainCell(strings.Join(a.Protocols, ", "))},
			{"Created (UTC)", timeCell(a.CreatedAt)}, {"Id", codeCell(a.ID)}}}}}
	changes := map[string][]string{"active": {"freeze", "terminate"}, "frozen": {"unfreeze", "terminate"}}
	buttons, err := v.drawButtons(changes[a.State]...)
	if err != nil {
		return nil, err
	}
	view.Blocks = append(view.Blocks, buttons...)
	view.Blocks = append(view.Blocks, Block{Heading: "Key", Facts: []Fact{
		{"Fingerprint, SHA-256 (the key_id of intents)", codeCell(a.KeyID)},
		{"JWK thumbprint", codeCell(a.JWKThumbprint)},
		{"Published", linkCell("JSON Web Key Set", "/api/agents/"+a.ID+"/jwks.json")}},
		Code: &Code{ID: "key", Label: "Public key", Text: strings.TrimSpace(a.PublicKeyPem)}})
	intents, err := intentTable(v)
	if err != nil {
		return nil, err
	}
	view.Blocks = append(view.Blocks, Block{Table: intents})
	cards, err := agentCards(v, a)
	view.Blocks = append(view.Blocks, cards...)
	return view, err
}

// agentCards shows the cards of an agent that have the agent's name as their label, and the form of
// a new one. A card of the interface names no agent.
func agentCards(v *visit, a *agent) ([]Block, error) {
	if !v.API.May("GET", "/api/cards") {
		return nil, nil
	}
	var list cardList
	if err := v.readInto(&list, "/api/cards", "limit", centsText(maxNamesakes)); err != nil {
		return nil, err
	}
	var own []card
	for _, c := range list.Data {
		if c.HolderKind == "agent" && c.HolderLabel == cutLabel(a.AgentName) && len(own) < maxAgentCards {
			own = append(own, c)
		}
	}
	t, err := cardTable(v, own, "Cards with the agent's name, the newest 10")
	if err != nil {
		return nil, err
	}
	t.Empty = "No card of an agent has this name as its label."
	blocks := []Block{{Table: t}}
	if a.State == "terminated" {
		return blocks, nil
	}
	v.prefillForm("mint", "holderKind", "agent", "holderLabel", cutLabel(a.AgentName))
	forms, err := v.drawForms("mint")
	return append(blocks, forms...), err
}

// maxLabel is the most characters of a card's label in the interface.
const maxLabel = 60

// cutLabel cuts an agent's name to the length of a card's label.
func cutLabel(name string) string {
	if runes := []rune(name); len(runes) > maxLabel {
		return string(runes[:maxLabel])
	}
	return name
}

// loggedIntent is an entry of an agent's log in the interface.
type loggedIntent struct {
	LogID           string    `json:"log_id"`
	IntentID        string    `json:"intent_id"`
	Accepted        bool      `json:"accepted"`
	RejectionReason string    `json:"rejection_reason"`
	ReceivedAt      time.Time `json:"received_at"`
	Intent          json.RawMessage
}

// intentTable draws a page of the intents of the agent of the page with their results.
func intentTable(v *visit) (*Table, error) {
	var log struct {
		Data       []loggedIntent
		NextCursor *string
	}
	if err := v.readInto(&log, intentsPath, "id", v.recordID(), "cursor", v.Query.Get("cursor"),
		"limit", "50"); err != nil {
		return nil, err
	}
	t := &Table{Caption: "Intents, newest first, accepted or refused", Empty: "The agent has sent no intent yet.",
		Columns: []Column{{Name: "Time (UTC)", Role: roleSecond}, {Name: "Merchant", Role: rolePrimary},
			{Name: "Intent"},
			{Name: "Protocol"}, {Name: "Result", Role: roleStatus}, {Name: "Reason"}, {Name: "Amount", Number: true,
				Role: roleAmount}}}
	for i := range log.Data {
		e := &log.Data[i]
		result, merchant, amount, protocol := "refused", "", "", ""
		if e.Accepted {
			result = "accepted"
		}
		if signed := e.parseIntent(); signed != nil {
			merchant, protocol = signed.Merchant.Name, signed.Protocol
			amount = signed.amountText()
		}
		t.Rows = append(t.Rows, []Cell{timeCell(e.ReceivedAt), plainCell(merchant), codeCell(e.IntentID),
			plainCell(protocol),
			stateCell(result), plainCell(inWords(e.RejectionReason)), plainCell(amount)})
	}
	return v.addPaging(t, log.NextCursor), nil
}

// signedIntent is an intent as far as the log shows it.
type signedIntent struct {
	Merchant struct{ Name string }
	Amount   struct {
		Currency string
		Cents    money.Cents
	}
	Protocol string
}

// parseIntent reads the intent of an entry. It is nil for a malformed one, which the log may hold.
func (e *loggedIntent) parseIntent() *signedIntent {
	var signed signedIntent
	if len(e.Intent) == 0 || json.Unmarshal(e.Intent, &signed) != nil {
		return nil
	}
	return &signed
}

// amountText writes the amount of an intent. Another currency than dollars has its code and cents.
func (s *signedIntent) amountText() string {
	switch s.Amount.Currency {
	case "":
		return ""
	case "USD":
		return web.Dollars(s.Amount.Cents)
	}
	return s.Amount.Currency + " " + centsText(s.Amount.Cents) + " cents"
}
