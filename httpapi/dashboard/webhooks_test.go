package dashboard

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every failure that the sender of webhooks knows has its words, and what to do about it, and so
// has every class of answers.
func TestEveryFailedAttemptHasWordsAndAdvice(t *testing.T) {
	source, err := os.ReadFile("../webhook/sender.go")
	require.NoError(t, err)
	known := regexp.MustCompile(`failure\w+\s+= "(\w+)"`).FindAllSubmatch(source, -1)
	require.NotEmpty(t, known)
	for _, name := range known {
		a := attempt{Error: string(name[1])}
		require.NotEmpty(t, attemptErrors[a.Error], a.Error)
		require.NotEmpty(t, a.adviceText(), a.Error)
	}
	for status, says := range map[int]string{101: "200 to 299", 302: "no redirect", 400: "webhook-id", 401: "verify",
		403: "firewall", 404: "path", 410: "gone", 500: "server fails", 503: "server fails", 799: "200 to 299"} {
		require.Contains(t, (&attempt{StatusCode: status}).adviceText(), says)
	}
}

// The notice of a failing delivery names the next attempt and the end of the run, where it is
// known.
func TestAFailingDeliveryNamesItsSchedule(t *testing.T) {
	made := time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC)
	f := func(d *delivery, want ...string) {
		t.Helper()
		d.CreatedAt, d.NextAttemptAt = made, made.Add(time.Hour)
		blocks := d.failureBlocks()
		if len(want) == 0 {
			require.Empty(t, blocks)
			return
		}
		text := blocks[0].Notice.Fact + " " + blocks[0].Notice.Text
		for _, part := range want {
			require.Contains(t, text, part)
		}
	}
	at := func(after time.Duration, status int) attempt { return attempt{At: made.Add(after), StatusCode: status} }
	f(&delivery{Status: "pending"})
	f(&delivery{Status: "delivered", Attempts: []attempt{at(0, 500), at(time.Second, 204)}})
	end := made.Add(143 * time.Hour) // the run began when the delivery was sent again
	f(&delivery{Status: "pending", GivesUpAt: &end, Attempts: []attempt{at(71*time.Hour, 500)}},
		"failed: 500 Internal Server Error. The server fails.", "comes on 28 November 2026 at 15:00:00 UTC",
		"gives up by 4 December 2026 at 13:00:00 UTC.")
	f(&delivery{Status: "pending", Attempts: []attempt{at(time.Hour, 500)}}, "at 15:00:00 UTC.")
	require.NotContains(t, (&delivery{Status: "pending"}).scheduleText(), "gives up")
	f(&delivery{Status: "failed", Failure: "gave_up", Attempts: []attempt{at(0, 410)}}, "410 Gone", "has given up")
	f(&delivery{Status: "failed", Failure: "backlog_full"}, "500 other deliveries were pending", "has given up")
}
