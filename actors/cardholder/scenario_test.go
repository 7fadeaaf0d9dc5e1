package cardholder_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"purser/actors/cardholder"
	"purser/actors/decision"
	"purser/actors/fault"
)

// Each scenario is a series of people who are saved, on one day, each as a cardholder of its own. Every step also holds the package to
// its contract: events read back as they were written, the answer is the cardholder as it then stands, and what tells who the person is
// stands in the one record that is sealed.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			return
		}
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "save" {
				d.Fatalf(t, "no such step")
			}
			c := cardholder.Create{ID: "chld_1", Workspace: "ws_1", Enrolment: cardholder.Enrolment{State: cardholder.StatePending}}
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
			return save(t, c, now)
		})
	})
}

func save(t *testing.T, c cardholder.Create, now time.Time) string {
	var state cardholder.State
	d, err := state.Decide(decision.Meta{At: now}, c)
	require.Zero(t, state, "deciding changes nothing")
	if err != nil {
		var f *fault.Error
		require.True(t, errors.As(err, &f))
		return "refused: " + f.Error() + "\n"
	}
	var out strings.Builder
	for _, e := range d.Events {
		read, err := cardholder.DecodeEvent(e.EventType(), []byte(encode(t, e)))
		require.NoError(t, err)
		require.Equal(t, e, read)
		state.Apply(e)
		fmt.Fprintln(&out, e.EventType())
	}
	require.Equal(t, state.View(c.Person), d.Reply)
	requireNothingOf(t, c.Person, encode(t, d.Events)+encode(t, state))
	for _, r := range d.Records {
		require.True(t, r.Personal)
		fmt.Fprintf(&out, "  sealed record %s: %s\n", r.Kind, encode(t, r.Document))
	}
	for _, tally := range d.Tallies {
		fmt.Fprintf(&out, "  counted: %s, most %d\n", tally.Name, tally.Max)
	}
	fmt.Fprintf(&out, "shown: %s\n", encode(t, d.Reply))
	return out.String()
}

// requireNothingOf fails when a text holds any of a person's fields.
func requireNothingOf(t *testing.T, p cardholder.Person, text string) {
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

func TestAReadAnswersTheState(t *testing.T) {
	var state cardholder.State
	_, err := state.Decide(decision.Meta{}, decision.Read{})
	require.True(t, fault.Is(err, fault.NotFound))
	state.Apply(cardholder.Created{ID: "chld_1", Kind: cardholder.Agent})
	d, err := state.Decide(decision.Meta{}, decision.Read{})
	require.NoError(t, err)
	require.Equal(t, state, d.Reply)
}

func TestUnknownCommandsAndEventsAreBugs(t *testing.T) {
	require.Panics(t, func() { _, _ = new(cardholder.State).Decide(decision.Meta{}, 7) })
	require.Panics(t, func() { new(cardholder.State).Apply(nil) })
}

func encode(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
