package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/fault"
	"purser/actors/webhook"
)

// After any results of attempts a delivery has a timer exactly while it is pending. Its record has
// every attempt, the state is bounded, and a repeated result changes nothing.
func TestEveryPendingDeliveryHasATimer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newScenario()
		s.send(t, webhook.Register{ID: "whe_1", Workspace: "ws_1", Secret: secret, By: "usr_1",
			URL:    "https://example.com",
			Events: []string{"*"}})
		ids := []string{"whd_a", "whd_b", "whd_c"}
		made := map[string]int{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			id := rapid.SampledFrom(ids).Draw(rt, "delivery")
			doc, known := s.records[id]
			switch step := rapid.IntRange(0, 4).Draw(rt, "step"); {
			case !known:
				s.send(t, webhook.Ping{ID: id, Body: "{}"})
			case step == 0:
				s.send(t, webhook.Replay{Delivery: doc})
			case step == 1:
				s.now = s.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(rt, "hours")) * time.Hour)
			default:
				status := rapid.SampledFrom([]int{200, 299, 300, 199, 404, 500}).Draw(rt, "status")
				report := webhook.Attempted{Delivery: doc, Attempt: answeredAttempt(decision.StampOf(s.now), status,
					1)}
				if s.send(t, report) != "nothing\n" {
					made[id]++
				}
				require.Equal(t, "nothing\n", s.send(t, report))
			}
			for id, doc := range s.records {
				_, armed := s.timers[id]
				require.Equal(t, doc.Status == webhook.StatusPending, armed)
				require.Equal(t, doc.Status == webhook.StatusPending, doc.NextAttemptAt != nil)
				require.Equal(t, doc.Status == webhook.StatusPending, doc.GivesUpAt != nil)
				require.Equal(t, doc.Status == webhook.StatusFailed, doc.Failure != "")
				require.Len(t, doc.Attempts, made[id])
			}
			require.Len(t, s.state.Pending, len(s.timers))
		}
	})
}

// The record of a delivery has the end of its run, and after a replay that of the new one. A record
// without it gets it with the next attempt.
func TestTheRecordHasTheEndOfItsRun(t *testing.T) {
	s := newScenario()
	s.send(t, webhook.Register{ID: "whe_1", Workspace: "ws_1", Secret: secret, By: "usr_1",
		URL:    "https://example.com",
		Events: []string{"*"}})
	s.send(t, webhook.Ping{ID: "whd_1", Body: "{}"})
	first := decision.StampOf(s.now.Add(72 * time.Hour))
	require.Equal(t, &first, s.records["whd_1"].GivesUpAt)
	earlier := s.records["whd_1"]
	earlier.GivesUpAt = nil
	s.send(t, webhook.Attempted{Delivery: earlier, Attempt: answeredAttempt(decision.StampOf(s.now), 500, 1)})
	require.Equal(t, &first, s.records["whd_1"].View().GivesUpAt)
	s.failEveryAttempt(t, "whd_1")
	s.send(t, webhook.Replay{Delivery: s.records["whd_1"]})
	second := decision.StampOf(s.now.Add(72 * time.Hour))
	require.NotEqual(t, first, second)
	require.Equal(t, &second, s.records["whd_1"].View().GivesUpAt)
}

func TestReplayIsRefusedWhenItsAttemptsCouldPassTheLimit(t *testing.T) {
	s := newScenario()
	s.send(t, webhook.Register{ID: "whe_1", Workspace: "ws_1", Secret: secret, By: "usr_1",
		URL: "https://example.com", Events: []string{"*"}})
	s.send(t, webhook.Ping{ID: "whd_1", Body: "{}"})
	for runs := 1; ; runs++ {
		s.failEveryAttempt(t, "whd_1")
		reply := s.send(t, webhook.Replay{Delivery: s.records["whd_1"]})
		if strings.HasPrefix(reply, "refused: limit_exceeded") {
			require.Greater(t, runs, 3)
			return
		}
		require.Less(t, runs, webhook.MaxAttempts)
	}
}

// Two replays based on the same failed record begin one run, even when the first has finished
// before the second is decided.
func TestTwoReplaysOfOneFailureBeginOneRun(t *testing.T) {
	s := newScenario()
	s.send(t, webhook.Register{ID: "whe_1", Workspace: "ws_1", Secret: secret, By: "usr_1",
		URL: "https://example.com", Events: []string{"*"}})
	s.send(t, webhook.Ping{ID: "whd_1", Body: "{}"})
	s.reportAttempt(t, "whd_1", "200")
	seen := s.records["whd_1"]
	s.send(t, webhook.Replay{Delivery: seen})
	require.Contains(t, s.send(t, webhook.Replay{Delivery: seen}), "stale")
	s.reportAttempt(t, "whd_1", "200")
	s.now = s.now.Add(time.Second)
	require.Contains(t, s.send(t, webhook.Replay{Delivery: seen}), "stale")
	require.Len(t, s.records["whd_1"].Attempts, 2)
}

func TestADeliveryOfAnotherEndpointIsNotReplayed(t *testing.T) {
	s := newScenario()
	s.send(t, webhook.Register{ID: "whe_1", Workspace: "ws_1", Secret: secret, By: "usr_1",
		URL: "https://example.com", Events: []string{"*"}})
	_, err := s.state.Decide(decision.Meta{At: s.now}, webhook.Replay{Delivery: webhook.Delivery{ID: "whd_1",
		EndpointID: "whe_2"}})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

// The body is sent as it was announced, byte for byte, after any number of trips through the
// journal.
func TestDeliveryBodyIsStoredByteForByte(t *testing.T) {
	const body = `{ "a" : "<&>\u00e9é",  "n":1.0}`
	doc := webhook.Delivery{ID: "whd_1", Body: body}
	for range 3 {
		var read webhook.Delivery
		require.NoError(t, json.Unmarshal([]byte(decisiontest.JSON(t, doc)), &read))
		require.Equal(t, body, read.Body)
		doc = read
	}
}

func TestProgrammingErrorsPanic(t *testing.T) {
	require.Panics(t, func() { _, _ = new(webhook.State).Decide(decision.Meta{}, 7) })
	require.Panics(t, func() { new(webhook.State).Apply(nil) })
	active := webhook.State{ID: "whe_1", State: webhook.StateActive, Events: []string{"*"}}
	for _, body := range []string{"", "{", `"` + strings.Repeat("x", webhook.MaxBody) + `"`} {
		require.Panics(t, func() { _, _ = active.Decide(decision.Meta{}, webhook.Ping{ID: "whd_1", Body: body}) })
	}
}
