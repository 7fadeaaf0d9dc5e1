package webhook_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/webhook"
)

const secret, token = "whsec_of-the-endpoint", "token-of-the-receiver"

var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// scenario is one endpoint with the records of its deliveries and its timers. Every step also
// checks the package's contract: Decide changes nothing, events decode to themselves, and secret
// and URL are in the sealed record only.
type scenario struct {
	state   webhook.State
	now     time.Time
	records map[string]webhook.Delivery
	timers  map[string]time.Time
	claims  map[string]bool
}

func newScenario() *scenario {
	return &scenario{now: began, records: map[string]webhook.Delivery{}, timers: map[string]time.Time{},
		claims: map[string]bool{}}
}

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step { return newScenario().step })
}

func (s *scenario) step(t *testing.T, d *datadriven.TestData) string {
	arg := func(i int) string {
		if i >= len(d.CmdArgs) {
			return ""
		}
		return d.CmdArgs[i].Key
	}
	switch d.Cmd {
	case "new":
		*s = *newScenario()
		return ""
	case "register":
		c := webhook.Register{ID: "whe_1", Workspace: "ws_1", Secret: secret, By: "usr_1",
			URL: "https://example.com/" + token}
		require.NoError(t, json.Unmarshal([]byte(d.Input), &c))
		return s.send(t, c)
	case "remove":
		return s.send(t, webhook.Remove{})
	case "adopt":
		return s.send(t, webhook.Adopt{By: arg(0), Endpoint: webhook.Endpoint{Secret: secret,
			View: webhook.View{ID: "whe_1", URL: "https://example.com/" + token, Events: s.state.Events}}})
	case "announce":
		return s.send(t, webhook.Enqueue{ID: arg(0), Event: arg(1), Body: `{"n":1}`})
	case "ping":
		return s.send(t, webhook.Ping{ID: arg(0), Body: `{"type":"ping"}`})
	case "replay":
		return s.send(t, webhook.Replay{Delivery: s.records[arg(0)]})
	case "read":
		return s.send(t, decision.Read{})
	case "wait":
		s.now = s.now.Add(decisiontest.Duration(t, arg(0)))
		return ""
	case "fire":
		return s.send(t, decision.Fire{Key: arg(0), Due: s.now})
	case "answer":
		return s.reportAttempt(t, arg(0), arg(1))
	case "never":
		return s.failEveryAttempt(t, arg(0))
	case "fill":
		for i := len(s.state.Pending); i < webhook.MaxPending; i++ {
			s.send(t, webhook.Enqueue{ID: fmt.Sprint("whd_fill", i), Event: webhook.CheckoutCompleted, Body: "{}"})
		}
		return fmt.Sprintf("%d pending\n", len(s.state.Pending))
	}
	d.Fatalf(t, "no such step")
	return ""
}

// reportAttempt reports the result of an attempt: a status, or an error text.
func (s *scenario) reportAttempt(t *testing.T, id, outcome string) string {
	a := failedAttempt(decision.StampOf(s.now), outcome, 20)
	if status, err := strconv.Atoi(outcome); err == nil {
		a = answeredAttempt(decision.StampOf(s.now), status, 20)
	}
	return s.send(t, webhook.Attempted{Delivery: s.records[id], Attempt: a, Jitter: time.Minute})
}

// failEveryAttempt fails every due attempt, with no jitter, until none is due, and returns the
// pauses.
func (s *scenario) failEveryAttempt(t *testing.T, id string) string {
	var out strings.Builder
	start, attempts := s.now, 0
	for s.records[id].Status == webhook.StatusPending {
		before := s.now
		s.now = s.timers[id]
		if pause := s.now.Sub(before); attempts < 7 {
			fmt.Fprintf(&out, "attempt after %s\n", pause)
		}
		attempts++
		s.send(t, webhook.Attempted{Delivery: s.records[id], Attempt: answeredAttempt(decision.StampOf(s.now), 500, 1)})
	}
	fmt.Fprintf(&out, "%d attempts, the last after %s: %s, %s\n", attempts, s.now.Sub(start), s.records[id].Status,
		s.records[id].Failure)
	return out.String()
}

func (s *scenario) send(t *testing.T, command any) string {
	d, err := decisiontest.Decide(t, &s.state, s.now, command)
	if err != nil {
		return decisiontest.RefusalLine(t, err)
	}
	for _, once := range d.Onces {
		if s.claims[once.Key] {
			return "refused: " + once.Code + "\n"
		}
		s.claims[once.Key] = true
	}
	var out strings.Builder
	out.WriteString(decisiontest.Apply(t, &s.state, decodeEvent, d.Events...))
	for _, text := range []string{secret, token} {
		require.NotContains(t, decisiontest.JSON(t, d.Events)+decisiontest.JSON(t, s.state), text)
	}
	s.store(t, &out, d)
	if reply, ok := d.Reply.(webhook.Due); ok {
		fmt.Fprintf(&out, "to be sent: %s\n", reply.Delivery)
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

func (s *scenario) store(t *testing.T, out *strings.Builder, d decision.Decision) {
	for _, r := range d.Records {
		doc, isDelivery := r.Document.(webhook.Delivery)
		switch {
		case r.Delete:
			fmt.Fprintf(out, "  record %s is gone\n", r.Kind)
		case isDelivery:
			require.Equal(t, "whe_1", r.Parent)
			s.records[r.ID] = doc
			require.LessOrEqual(t, len(doc.Attempts), webhook.MaxAttempts)
			fmt.Fprintf(out, "  %s: %s%s, %d attempts\n", r.ID, doc.Status, strings.TrimRight(" "+doc.Failure, " "),
				len(doc.Attempts))
		default:
			require.True(t, r.Personal)
			fmt.Fprintf(out, "  sealed record %s%s\n", r.Kind, maker(r.Document.(webhook.Endpoint)))
		}
	}
	out.WriteString(decisiontest.TallyLines(d.Tallies))
	for _, timer := range d.Timers {
		if s.timers[timer.Key] = timer.Due; timer.Due.IsZero() {
			delete(s.timers, timer.Key)
			continue
		}
		fmt.Fprintf(out, "  timer %s in %s\n", timer.Key, timer.Due.Sub(s.now))
	}
}

func maker(e webhook.Endpoint) string { return " of " + e.CreatedBy }
