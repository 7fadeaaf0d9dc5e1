package main

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program on the page of an agent signs and submits an intent as it is copied, with a key in
// its place. Afterwards the page has the intent, and the program folded.
func TestTheProgramOfAnAgentsPageSignsAnIntent(t *testing.T) {
	for _, tool := range []string{"sh", "curl", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			require.Empty(t, os.Getenv("CI"), "%s is missing", tool)
			t.Logf("left out: %s is missing here", tool)
			return
		}
	}
	directory := t.TempDir()
	m, p := startOnClock(t, filepath.Join(directory, "data"), &steppedClock{})
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	base, workspace := "http://"+m.listeners.http.Addr().String(), ""
	do := func(method, path, body string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		if workspace != "" {
			request.Header.Set("X-Workspace-Id", workspace)
		}
		if strings.HasPrefix(path, "/dashboard/") && method == "POST" {
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			request.Header.Set("Origin", base)
		}
		answered, err := browser.Do(request)
		require.NoError(t, err)
		text, err := io.ReadAll(answered.Body)
		require.NoError(t, err)
		require.NoError(t, answered.Body.Close())
		require.Equal(t, 200, answered.StatusCode, string(text))
		return string(text)
	}
	do("POST", "/api/dashboard/signup", `{"email":"ada@example.com","password":"correct horse battery"}`)
	var made struct {
		Workspace struct{ ID string }
		Secret    string
	}
	require.NoError(t, json.Unmarshal([]byte(do("POST", "/api/workspaces", `{"name":"Ada Ltd"}`)), &made))
	workspace = made.Workspace.ID
	key := do("POST", "/api/auth/keys", `{"label":"agents","scopes":["write:agents"]}`)
	require.NoError(t, json.Unmarshal([]byte(key), &made))

	copied := func(page, id string) string {
		t.Helper()
		found := regexp.MustCompile(`(?s)<code id="` + id + `">(.*?)</code>`).FindStringSubmatch(page)
		require.NotNil(t, found, page)
		return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(found[1], ""))
	}
	agents := "/dashboard/" + workspace + "/agents"
	registered := do("POST", agents+"/register",
		"key=0189d5a1-7b3c-4d5e-8f90-123456789abc&agentName=Buyer&protocols=ACP")
	require.NoError(t, os.WriteFile(filepath.Join(directory, "agent.pem"), []byte(copied(registered, "secret")),
		0o600))
	program := copied(registered, "sign")
	agent := agents + "/" + regexp.MustCompile(`PURSER_AGENT_ID='(\w+)'`).FindStringSubmatch(program)[1]
	require.Equal(t, program, copied(do("GET", agent, ""), "sign"), "the page shows it until the first intent")

	shell := exec.Command("sh", "-c", strings.Replace(program, "apk_…", made.Secret, 1))
	shell.Dir = directory
	shell.Env = append(os.Environ(), "no_proxy=*", "CURL_HOME="+directory)
	said, err := shell.CombinedOutput()
	require.NoError(t, err, string(said))
	require.Contains(t, string(said), `"accepted":true`)
	page := do("GET", agent, "")
	require.Contains(t, page, "Corner Books")
	require.NotContains(t, page, "Sign the first intent")
	require.Equal(t, program, copied(page, "sign"))
	require.NoError(t, p.stop())
}
