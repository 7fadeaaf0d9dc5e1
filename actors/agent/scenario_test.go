package agent_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"purser/actors/agent"
	"purser/actors/agent/intent"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
)

// scenario is one agent. Its clock advances only in the step "later". Every step also checks the
// package's contract: events decode to themselves, Decide changes nothing, and the reply is the
// agent as it then is.
type scenario struct {
	state agent.State
	now   time.Time
}

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step { return (&scenario{now: at}).step })
}

func (s *scenario) step(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "new":
		*s = scenario{now: at}
		return ""
	case "register":
		c := agent.Register{ID: "agt_1", Workspace: "ws_1",
			PublicKeyPem: intent.PublicKeyPEM(intent.PublicKey(agentKey))}
		require.NoError(t, json.Unmarshal([]byte(d.Input), &c))
		return s.send(t, c)
	case "move":
		return s.send(t, agent.ChangeState{State: d.CmdArgs[0].Key})
	case "keys":
		return fmt.Sprintf("%d verification keys\n", len(s.state.Keys()))
	case "submit":
		return s.submit(t, d)
	case "later":
		s.now = s.now.Add(decisiontest.Duration(t, d.CmdArgs[0].Key))
		return ""
	}
	d.Fatalf(t, "no such step")
	return ""
}

// submit signs an intent, judges it and logs the outcome. By default it is issued now and valid for
// a minute.
func (s *scenario) submit(t *testing.T, d *datadriven.TestData) string {
	asked := intent.Intent{AgentID: "agt_1", IntentID: "order-1", IssuedAt: s.now.Unix(), ExpiresAt: s.now.Unix() + 60,
		Amount: intent.Amount{Currency: "USD", Cents: 1999}, Protocol: "TAP"}
	signer, malformed, tampered, keyID := agentKey, false, false, ""
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "agent":
			asked.AgentID = arg.Vals[0]
		case "issued":
			asked.IssuedAt = s.now.Add(decisiontest.Duration(t, arg.Vals[0])).Unix()
		case "expires":
			asked.ExpiresAt = s.now.Add(decisiontest.Duration(t, arg.Vals[0])).Unix()
		case "other-key":
			signer = foreignKey
		case "names-the-agents-key":
			keyID = intent.KeyID(intent.PublicKey(agentKey))
		case "malformed":
			malformed = true
		case "tampered":
			tampered = true
		default:
			d.Fatalf(t, "no such argument")
		}
	}
	text, err := json.Marshal(asked)
	require.NoError(t, err)
	signed, err := intent.Sign(signer, text)
	require.NoError(t, err)
	c := agent.Submission{LogID: "log_1", Intent: string(text), IntentID: asked.IntentID, Signature: signed.Signature,
		KeyID: signed.KeyID, Parsed: &asked}
	if keyID != "" {
		c.KeyID = keyID
	}
	if malformed {
		c.Parsed = nil
	}
	if tampered {
		c.Intent = strings.Replace(c.Intent, "1999", "1", 1)
	}
	if reason := s.state.Judge(c, s.now); reason != "" {
		refusal := reason.Refusal()
		return s.send(t, agent.Refuse{Submission: c, Reason: reason}) + "answer: " + refusal.Error() + "\n"
	}
	return s.send(t, agent.Accept{Submission: c})
}

func (s *scenario) send(t *testing.T, command any) string {
	d, err := decisiontest.Decide(t, &s.state, s.now, command)
	if err != nil {
		return decisiontest.RefusalLine(t, err)
	}
	var out strings.Builder
	out.WriteString(decisiontest.Apply(t, &s.state, decodeEvent, d.Events...))
	out.WriteString(decisiontest.TallyLines(d.Tallies))
	switch reply := d.Reply.(type) {
	case agent.View:
		require.Equal(t, s.state.View(), reply)
		fmt.Fprintf(&out, "%s: %s, %s\n", reply.AgentName, reply.State, strings.Join(reply.Protocols, " "))
	case agent.LogEntry:
		require.Equal(t, reply, d.Records[0].Document)
		reason := "accepted"
		if !reply.Accepted {
			reason = string(*reply.RejectionReason)
		}
		fmt.Fprintf(&out, "  record %s: %s\n", d.Records[0].ID, reason)
	}
	return out.String()
}

func TestSubmissionToAFullLogDeletesTheOldestEntry(t *testing.T) {
	state := agent.State{ID: "agt_1", Workspace: "ws_1", State: agent.StateActive, Logged: agent.MaxLog - 1}
	refuse := agent.Refuse{Reason: agent.InvalidBody}
	for _, want := range []string{"", "agt_1/1", "agt_1/2"} {
		d, err := state.Decide(decision.Meta{At: at}, refuse)
		require.NoError(t, err)
		state.Apply(d.Events[0])
		if want == "" {
			require.Len(t, d.Records, 1)
			continue
		}
		require.Equal(t, decision.Record{Kind: agent.RecordIntent, Parent: "agt_1", ID: want, Delete: true},
			d.Records[1])
	}
	require.EqualValues(t, agent.MaxLog+2, state.Logged)
}

// A refused submission may hold anything, so no event repeats it.
func TestEventsOfRefusalsHoldNothingOfTheSubmission(t *testing.T) {
	state := agent.State{ID: "agt_1", Workspace: "ws_1", State: agent.StateActive}
	d, err := state.Decide(decision.Meta{At: at}, agent.Refuse{Reason: agent.InvalidBody,
		Submission: agent.Submission{LogID: "log_1", Intent: `{"x":"Lovelace"}`, IntentID: "Lovelace",
			Signature: "Lovelace",
			KeyID:     "Lovelace"}})
	require.NoError(t, err)
	require.NotContains(t, decisiontest.JSON(t, d.Events), "Lovelace")
}

// The caller owns the State in the reply.
func TestReadRepliesWithACopy(t *testing.T) {
	state := agent.State{ID: "agt_1", Protocols: []string{"TAP"}, PublicKey: intent.PublicKey(agentKey)}
	d, err := state.Decide(decision.Meta{}, decision.Read{})
	require.NoError(t, err)
	read := d.Reply.(agent.State)
	require.Equal(t, state, read)
	read.Protocols[0], read.PublicKey[0] = "spoilt", read.PublicKey[0]+1
	require.NotEqual(t, state.Protocols, read.Protocols)
	require.NotEqual(t, state.PublicKey, read.PublicKey)
}

func TestProgrammingErrorsPanic(t *testing.T) {
	state := agent.State{ID: "agt_1", State: agent.StateActive}
	require.Panics(t, func() { _, _ = state.Decide(decision.Meta{}, 7) })
	require.Panics(t, func() { _, _ = state.Decide(decision.Meta{}, agent.Register{}) })
	require.Panics(t, func() { _, _ = state.Decide(decision.Meta{}, agent.Accept{}) })
	require.Panics(t, func() { state.Apply(nil) })
}
