package cardholder_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"purser/actors/cardholder"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/fault"
)

// Each scenario creates several people on one day, each as a cardholder of its own. Every step also
// checks the package's contract: events decode to themselves, the reply is the cardholder as it
// then is, and personal data is in the one sealed record only.
func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step { return runStep })
}

func runStep(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd != "save" {
		d.Fatalf(t, "no such step")
	}
	c := cardholder.Create{ID: "chld_1", Workspace: "ws_1",
		Enrolment: cardholder.Enrolment{State: cardholder.StatePending}}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "kind":
			c.Kind = arg.Vals[0]
		case "enrolment":
			c.Enrolment.State = arg.Vals[0]
		default:
			d.Fatalf(t, "no such argument")
		}
	}
	if c.Enrolment.State == cardholder.StateActive {
		c.Enrolment.Account = "ich_1"
	}
	require.NoError(t, json.Unmarshal([]byte(d.Input), &c.Person))
	return createCardholder(t, c, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
}

func createCardholder(t *testing.T, c cardholder.Create, now time.Time) string {
	var state cardholder.State
	d, err := decisiontest.Decide(t, &state, now, c)
	if err != nil {
		return decisiontest.RefusalLine(t, err)
	}
	var out strings.Builder
	out.WriteString(decisiontest.Apply(t, &state, decodeEvent, d.Events...))
	require.Equal(t, state.View(c.Person), d.Reply)
	requireNoPersonalData(t, c.Person, decisiontest.JSON(t, d.Events)+decisiontest.JSON(t, state))
	for _, r := range d.Records {
		require.True(t, r.Personal)
		fmt.Fprintf(&out, "  sealed record %s: %s\n", r.Kind, decisiontest.JSON(t, r.Document))
	}
	out.WriteString(decisiontest.TallyLines(d.Tallies))
	fmt.Fprintf(&out, "shown: %s\n", decisiontest.JSON(t, d.Reply))
	return out.String()
}

// requireNoPersonalData fails when the text holds any of a person's fields.
func requireNoPersonalData(t *testing.T, p cardholder.Person, text string) {
	fields := []string{p.DisplayName, p.FirstName, p.LastName, p.Email, p.PhoneNumber, p.DateOfBirth, p.SsnLast4}
	if a := p.ShippingAddress; a != nil {
		fields = append(fields, a.Line1, a.City, a.PostalCode)
	}
	for _, field := range fields {
		if field != "" {
			require.NotContains(t, text, `"`+field+`"`)
		}
	}
}

func TestReadRepliesWithTheState(t *testing.T) {
	var state cardholder.State
	_, err := state.Decide(decision.Meta{}, decision.Read{})
	require.True(t, fault.Is(err, fault.NotFound))
	state.Apply(cardholder.Created{ID: "chld_1", Kind: cardholder.Agent})
	d, err := state.Decide(decision.Meta{}, decision.Read{})
	require.NoError(t, err)
	require.Equal(t, state, d.Reply)
}

func TestUnknownCommandsAndEventsPanic(t *testing.T) {
	require.Panics(t, func() { _, _ = new(cardholder.State).Decide(decision.Meta{}, 7) })
	require.Panics(t, func() { new(cardholder.State).Apply(nil) })
}
