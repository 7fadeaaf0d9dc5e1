package dashboard

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"purser/persistence/money"
)

const (
	agentsPath  = "/api/agents"
	agentPath   = agentsPath + "/{id}"
	intentsPath = agentPath + "/intents"
)

// agentCardPages bounds the pages of 100 cards, the newest first, among which a page finds those of
// an agent.
const agentCardPages = 5

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
					{Name: "protocols", Label: "Protocols of its intents", Kind: fieldChecks, Required: true,
						Options: protocols,
						Default: "TAP,MPP,ACP"},
					{Name: "publicKeyPem", Label: "Public key", Kind: fieldBlock,
						Hint: "An Ed25519 key in PEM. Without one a key pair is made, and its private key is " +
							"shown once."}}},
		}},
		{path: "agents/{id}", access: member, section: "Agents", show: showAgent, actions: append(agentStates(),
			mint)},
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

// showAgents lists the agents, newest first, with what their cards have spent this month.
func showAgents(v *visit) (*View, error) {
	var list agentList
	if err := v.readInto(&list, agentsPath, "cursor", v.Query.Get("cursor"), "limit",
		strconv.Itoa(rowsWithButton)); err != nil {
		return nil, err
	}
	cards, all, err := agentCards(v, "")
	if err != nil {
		return nil, err
	}
	t := &Table{Caption: "Agents, newest first", Empty: "No agents yet.", Columns: []Column{{Name: "Agent",
		Role: rolePrimary}, {Name: "Description", Role: roleSecond}, {Name: "Spent this month", Role: roleAction},
		{Name: "Protocols"}, {Name: "Created"}, {Name: "State", Role: roleAmount},
		{Name: "Change", Number: true, Role: roleStatus}}}
	for i := range list.Data {
		a := &list.Data[i]
		change, err := v.drawChange(agentStates(), a.State, v.addressOf("agents", a.ID), a.AgentName)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, []Cell{linkCell(a.AgentName, v.addressOf("agents", a.ID)), plainCell(a.Description),
			spentCell(a.cardsOf(cards), all), plainCell(strings.Join(a.Protocols, ", ")), v.dateCell(a.CreatedAt),
			stateCell(a.State), change})
	}
	forms, err := v.drawForms("register")
	view := &View{Title: "Agents", Lead: "AI agents that sign payment intents with a key of their own.",
		Notice: v.changeNotice(agentStates()),
		Blocks: append([]Block{{Table: v.addPaging(t, list.NextCursor)}}, forms...)}
	if len(forms) > 0 {
		view.Ways = []Way{{Link: Link{"New agent", "#f-agentName"}, Icon: "plus"}}
	}
	return view, err
}

// notAllCounted stands where cards beyond agentCardPages could be of an agent.
const notAllCounted = "Not all counted"

// spentCell is a cell of what cards have spent this month, of all their limits. all reports whether
// there are no further cards.
func spentCell(cards []card, all bool) Cell {
	switch {
	case !all:
		return Cell{Text: notAllCounted, Mark: "soft"}
	case len(cards) == 0:
		return Cell{Text: "No card", Mark: "soft"}
	}
	var spent, limit money.Cents
	for i := range cards {
		spent, limit = spent+cards[i].MonthSpendUsdCents, limit+cards[i].MonthlyLimitUsdCents
	}
	return limitCell(spent, limit)
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
	link := Link{"The agent", v.addressOf("agents", a.ID)}
	view := &View{Title: "The agent is registered", Lead: a.AgentName, Up: &link, Ways: []Way{{Link: link}}}
	if made.PrivateKeyPem != "" {
		view.Notice = &Notice{Text: "Copy the private key now. It is shown only this once."}
		view.Blocks = append(view.Blocks, Block{Code: &Code{ID: "secret", Label: "Private key, to save as agent.pem",
			Text: made.PrivateKeyPem}})
	}
	view.Blocks = append(view.Blocks, Block{Heading: "Key", Facts: []Fact{{"Fingerprint, the key_id",
		codeCell(a.KeyID)},
		{"JWK thumbprint", codeCell(a.JWKThumbprint)}, {"Agent's id", codeCell(a.ID)}}}, v.signBlock(a, false))
	return view, nil
}

// signBlock shows the program that signs an intent of an agent, with the agent's variables.
func (v *visit) signBlock(a *agent, folded bool) Block {
	protocol := ""
	if len(a.Protocols) > 0 {
		protocol = a.Protocols[0]
	}
	program := fmt.Sprintf("PURSER_URL='%s'\nPURSER_API_KEY='apk_…'\nPURSER_AGENT_ID='%s'\nPURSER_KEY_ID='%s'\n"+
		"PURSER_PROTOCOL='%s'\n\n%s", v.BaseURL, a.ID, a.KeyID, protocol, strings.TrimSpace(v.IntentProgram))
	code := &Code{ID: "sign", Language: "sh", Text: program, Folded: folded,
		Label: "It needs OpenSSL 3, the private key in agent.pem and, for apk_…, an API key with the scope write:agents."}
	if folded {
		code.Label = "Sign an intent from the shell"
		return Block{Code: code}
	}
	return Block{Heading: "Sign the first intent", More: &Link{"In other languages", "/docs/agents#sign-an-intent"},
		Code: code}
}

// showAgent shows one agent: how to sign its first intent, the log of its intents, its cards and
// its key.
func showAgent(v *visit) (*View, error) {
	var shown struct{ Agent agent }
	if err := v.readInto(&shown, agentPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	a := &shown.Agent
	view := &View{Title: a.AgentName, Badges: []Cell{stateCell(a.State)}, Lead: a.Description, Up: &Link{"Agents",
		v.addressOf("agents")}, Live: true}
	changes := map[string][]string{"active": {"terminate", "freeze"}, "frozen": {"terminate", "unfreeze"}}
	for _, name := range changes[a.State] {
		form, err := v.drawForm(name)
		if err != nil {
			return nil, err
		}
		if form != nil {
			form.Quiet, view.Forms = true, append(view.Forms, form)
		}
	}
	main, err := intentBlocks(v, a)
	if err != nil {
		return nil, err
	}
	cards, mint, err := cardBlocks(v, a)
	if err != nil {
		return nil, err
	}
	details := Block{Heading: "Details", Panel: true, Facts: []Fact{
		{"Protocols", plainCell(strings.Join(a.Protocols, ", "))}, {"Registered", timeCell(a.CreatedAt)},
		{"Id", idCell(a.ID)}}}
	view.Blocks = []Block{{Columns: &Columns{MainSide, append(main, cards...), append([]Block{details, a.keyBlock()},
		mint...)}}}
	return view, nil
}

// keyBlock shows the agent's public key and its names.
func (a *agent) keyBlock() Block {
	return Block{Heading: "Key", Panel: true, Facts: []Fact{
		{"Fingerprint, the key_id", codeCell(a.KeyID)}, {"JWK thumbprint", codeCell(a.JWKThumbprint)},
		{"Published", linkCell("JSON Web Key Set", agentsPath+"/"+a.ID+"/jwks.json")}},
		Code: &Code{ID: "key", Label: "Public key", Text: strings.TrimSpace(a.PublicKeyPem), Folded: true}}
}

// agentCards reads cards of agents whose label begins with a text, the newest agentCardPages. all
// reports whether there are no more. There are none for a role that reads no cards.
func agentCards(v *visit, label string) (cards []card, all bool, err error) {
	if !v.API.May("GET", "/api/cards") {
		return nil, true, nil
	}
	cursor := ""
	for read := 0; read < agentCardPages && !all; read++ {
		var list cardList
		if err := v.readInto(&list, "/api/cards", "holderKind", "agent", "holderLabel", label, "limit", "100",
			"cursor",
			cursor); err != nil {
			return nil, false, err
		}
		cards = append(cards, list.Data...)
		if all = list.NextCursor == nil; !all {
			cursor = *list.NextCursor
		}
	}
	return cards, all, nil
}

// cardsOf returns the cards that have the agent's name as their label. A card of the interface
// names no agent.
func (a *agent) cardsOf(cards []card) (own []card) {
	for _, c := range cards {
		if c.HolderKind == "agent" && c.HolderLabel == cutLabel(a.AgentName) {
			own = append(own, c)
		}
	}
	return own
}

// cardBlocks show the cards of an agent with what each has spent, and the form of a new one.
func cardBlocks(v *visit, a *agent) (cards, mint []Block, err error) {
	if !v.API.May("GET", "/api/cards") {
		return nil, nil, nil
	}
	list, all, err := agentCards(v, cutLabel(a.AgentName))
	if err != nil {
		return nil, nil, err
	}
	t := &Table{Caption: "Cards with the agent's name", Empty: "No card of an agent has this name as its label.",
		Columns: []Column{{Name: "Card", Role: rolePrimary}, {Name: "Spent this month", Role: roleAction},
			{Name: "Limit of one swipe", Number: true}, {Name: "State", Role: roleAmount}}}
	if !all {
		t.Caption, t.Empty = t.Caption+" (not all counted)", notAllCounted+"."
	}
	for _, c := range a.cardsOf(list) {
		t.Rows = append(t.Rows, []Cell{linkCell(c.labelText(), v.addressOf("cards", c.ID)), spentCell([]card{c},
			true),
			dollarCell(c.PerTxnLimitUsdCents), stateCell(c.State)})
	}
	if a.State != "terminated" {
		v.prefillForm("mint", "holderKind", "agent", "holderLabel", cutLabel(a.AgentName))
		mint, err = v.drawForms("mint")
	}
	return []Block{{Table: t}}, mint, err
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
