package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxCodeColumns is how wide a code block of the guides is, in columns.
const maxCodeColumns = 84

// quickstartCommands returns the commands of the quickstart, but for the start of the server, with
// the addresses of a server.
func quickstartCommands(t *testing.T, m *daemon) string {
	t.Helper()
	page, err := os.ReadFile("../../httpapi/docs/quickstart.md")
	require.NoError(t, err)
	var commands []string
	for _, block := range regexp.MustCompile("(?ms)^```(sh|json)\n(.*?)^```$").FindAllStringSubmatch(string(page),
		-1) {
		for line := range strings.SplitSeq(block[2], "\n") {
			require.LessOrEqual(t, len(line), maxCodeColumns, line)
		}
		if block[1] == "sh" && block[2] != "make run\n" {
			commands = append(commands, block[2])
		}
	}
	return strings.NewReplacer("http://127.0.0.1:8080", "http://"+m.listeners.http.Addr().String(),
		"http://127.0.0.1:8081", "http://"+m.listeners.authorizer.Addr().String(), "sleep 4",
		`until curl -sS -H "$auth" "$PURSER_URL/api/treasury" | grep -q '"availableCents":100000'; do sleep 0.1; done`).
		Replace(strings.Join(commands, "\necho\n"))
}

// The commands of the quickstart run as they are written, and again: the account exists then, and
// every other record is new.
func TestQuickstartRunsTwice(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			require.Empty(t, os.Getenv("CI"), "%s is missing", tool)
			t.Logf("left out: %s is missing here", tool)
			return
		}
	}
	directory := t.TempDir()
	m, p := startOnClock(t, filepath.Join(directory, "data"), &steppedClock{})
	script := "set -euo pipefail\n" + quickstartCommands(t, m)
	workspace := regexp.MustCompile(`"workspace":{"id":"(ws_[^"]+)"`)
	seen := map[string]bool{}
	for range 2 {
		shell := exec.Command("bash", "-c", script)
		shell.Dir = directory
		said, err := shell.CombinedOutput()
		require.NoError(t, err, string(said))
		for _, want := range []string{`"email":"ada@example.com"`, `"availableCents": 100000`,
			`"decision":"approved"`,
			`"reason":"per_transaction_limit_exceeded"`, `"status":"reserved"`, "opening_balance,"} {
			require.Contains(t, string(said), want)
		}
		seen[workspace.FindStringSubmatch(string(said))[1]] = true
	}
	require.Len(t, seen, 2, "a workspace of its own for each run")
	require.NoError(t, p.stop())
}
