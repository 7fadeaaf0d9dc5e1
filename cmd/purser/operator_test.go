package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/workspace"
	"purser/cmd/purser/settings"
	"purser/httpapi/dashboard"
	"purser/persistence/ident"
)

// createWorkspaces creates workspaces in different slots.
func createWorkspaces(t *testing.T, m *daemon, n int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("Workspace %d", i)
		slot := ident.Slot(i*97%(ident.Slots-1) + 1)
		id, owner := ident.Derive(slot, time.Now(), name).Format(ident.Workspace), ident.Derive(slot, time.Now(),
			name).Format(ident.User)
		_, err := m.system.Ask(t.Context(), actors.Envelope{Kind: actors.KindWorkspace, Stream: id, Workspace: id,
			Command: workspace.Create{ID: id, Name: name, OwnerIDs: []string{owner}, IssuerID: "issuer",
				FirstKey: workspace.NewKey{ID: ident.Derive(slot, time.Now(), name).Format(ident.Key), Label: "first",
					Prefix: "apk_operator", SecretHash: fmt.Sprintf("%064d", i), CreatedBy: owner}}})
		require.NoError(t, err)
	}
}

// TestTheOperatorsPagesOfARunningServer signs in with the secret of the data directory and reads
// every page: each workspace once, over several pages, and the result of the last audit.
func TestTheOperatorsPagesOfARunningServer(t *testing.T) {
	data := t.TempDir()
	m := startServer(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	createWorkspaces(t, m, 55)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar}
	base := "http://" + m.listeners.admin.Addr().String()
	read := func(path string) string {
		resp, err := client.Get(base + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode, string(text))
		return string(text)
	}
	require.Contains(t, read("/operator"), "Operator secret")
	file := filepath.Join(data, settings.OperatorSecretFile)
	secret, err := os.ReadFile(file)
	require.NoError(t, err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	resp, err := client.PostForm(base+"/operator/sign-in", url.Values{"secret": {strings.TrimSpace(string(secret))}})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "/operator", resp.Request.URL.Path)

	require.Contains(t, read("/operator"), "None since the server started")
	status, answer := postAdminCommand(t, m, "audit", "{}")
	require.Equal(t, 200, status, answer)
	health := read("/operator")
	require.Contains(t, health, "Clean")
	require.Contains(t, health, "55 workspaces")
	for _, store := range m.disk.stores {
		require.Contains(t, health, store.dir)
	}
	require.Contains(t, read("/operator/unmatched"), "No unmatched reports.")
	seen, next := map[string]bool{}, "/operator/workspaces"
	for pages := 0; next != ""; pages++ {
		require.Less(t, pages, 3)
		page := read(next)
		for _, found := range regexp.MustCompile(`>(Workspace \d+)<`).FindAllStringSubmatch(page, -1) {
			require.False(t, seen[found[1]], found[1])
			seen[found[1]] = true
		}
		if next = ""; strings.Contains(page, `rel="next"`) {
			next = regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(page)[1]
		}
	}
	require.Len(t, seen, 55)
}

// troubledServer is a server of which each figure needs a person.
type troubledServer struct{ audit dashboard.AuditResult }

// Status implements dashboard.Operator.
func (s *troubledServer) Status() dashboard.ServerStatus {
	return dashboard.ServerStatus{Problems: []string{"the clock is suspect"}, Running: true, Overdue: 1, SetAside: 1,
		Audit: &s.audit, Disks: []dashboard.DiskSpace{{Store: "journal", Scarce: true}, {Store: "sandbox",
			Unknown: true},
			{Store: "authorizer"}}}
}

// Unmatched implements dashboard.Operator.
func (*troubledServer) Unmatched(context.Context, string) (dashboard.UnmatchedPage, error) {
	return dashboard.UnmatchedPage{}, nil
}

// Workspaces implements dashboard.Operator.
func (*troubledServer) Workspaces(context.Context, string) (dashboard.WorkspacePage, error) {
	return dashboard.WorkspacePage{}, nil
}

// TestTheOperatorsPagesNameCommandsOfTheProgram: each command on the pages parses, as written.
func TestTheOperatorsPagesNameCommandsOfTheProgram(t *testing.T) {
	site, err := dashboard.New()
	require.NoError(t, err)
	named := map[string]bool{}
	for _, result := range []dashboard.AuditResult{{Findings: []string{"a"}}, {Failure: "stopped"}} {
		for _, path := range []string{"", "unmatched", "workspaces"} {
			page, err := site.ServeOperator(t.Context(), &dashboard.OperatorVisit{Path: path, Query: url.Values{},
				SignedIn: true, State: &troubledServer{audit: result}})
			require.NoError(t, err)
			require.Equal(t, 200, page.Status)
			for _, found := range regexp.MustCompile(`<code[^>]*>(purser[^<]*)<`).FindAllSubmatch(page.Body, -1) {
				named[string(found[1])] = true
			}
		}
	}
	for command := range named {
		_, err := parse(strings.Fields(command)[1:], io.Discard)
		require.NoError(t, err, command)
	}
	for _, acts := range []string{"relay list", "relay retry", "payouts overdue", "unmatched --json", "audit",
		"health",
		"backup DIRECTORY"} {
		require.True(t, named["purser "+acts], "no page names %s", acts)
	}
}

// TestTheOperatorSecretIsChosenOrMade: a setting replaces the file, a short one is refused, and a
// missing file is made again also beside stores.
func TestTheOperatorSecretIsChosenOrMade(t *testing.T) {
	data := t.TempDir()
	s := testSettings(t, data)
	s.OperatorSecret = "short"
	_, err := s.Config()
	require.ErrorContains(t, err, "PURSER_OPERATOR_SECRET: has fewer than 16 characters")
	s.OperatorSecret = "a secret of the operator"
	config, err := s.Config()
	require.NoError(t, err)
	require.NoError(t, config.FindSecrets())
	require.Equal(t, "a secret of the operator", config.OperatorSecret)
	file := filepath.Join(data, settings.OperatorSecretFile)
	require.NoFileExists(t, file)

	m := startServer(t, data)
	made := m.config.OperatorSecret
	require.NoError(t, m.Close())
	require.GreaterOrEqual(t, len(made), 32)
	require.NoError(t, os.Remove(file))
	m = startServer(t, data)
	require.NotEqual(t, made, m.config.OperatorSecret)
	require.NoError(t, m.Close())
	require.NoError(t, os.WriteFile(file, []byte("short\n"), 0o600))
	config = testConfig(t, data)
	require.ErrorContains(t, config.FindSecrets(), "operator-secret")
}
