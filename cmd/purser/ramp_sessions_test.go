package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/workspace"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/storecare"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
	"purser/persistence/pgjournal/pgtest"
)

// TestImportOfRampSessions imports the orders of the ramp's retired routes into each of the two
// journals.
func TestImportOfRampSessions(t *testing.T) {
	t.Run("embedded",
		func(t *testing.T) { importRampSessions(t, func(data string) *daemon { return startServer(t, data) }) })
	t.Run("postgres", func(t *testing.T) {
		database := pgtest.Own(t, "purser import-ramp-sessions", true)
		if database == nil {
			return
		}
		url := createDatabase(t, database, "imported")
		t.Setenv("DATABASE_URL", url) // read by the commands
		importRampSessions(t, func(data string) *daemon {
			require.NoError(t, os.WriteFile(filepath.Join(data, "data-key"), []byte(testDataKey), 0o600))
			return startOnDatabase(t, data, url)
		})
	})
}

// legacyWorkspace is a workspace that had ramp sessions in the previous service.
type legacyWorkspace struct {
	t         *testing.T
	data      string
	workspace string
	bearer    string
}

func importRampSessions(t *testing.T, serve func(data string) *daemon) {
	o := &legacyWorkspace{t: t, data: t.TempDir()}
	m := serve(o.data)
	o.signUp(m)
	neighbour := o.createNeighbour(m)
	good := o.writeFile(o.sessionLine("on", "onramp", "processing", 3_000, "2025-03"),
		o.sessionLine("done", "onramp", "completed", 100),
		o.sessionLine("off", "offramp", "created", 5_000), o.sessionLine("sold", "offramp", "processing", 700))
	require.ErrorIs(t, run([]string{"import-ramp-sessions", "--data-dir", o.data, good}, io.Discard), datadir.ErrInUse)
	require.NoError(t, m.Close())

	o.checkRefusedFiles()
	require.Equal(t, "3 sessions brought over, 1 were there already\n", o.importFile(good))
	require.Equal(t, "0 sessions brought over, 4 were there already\n", o.importFile(good))
	more := o.writeFile(o.sessionLine("on", "onramp", "processing", 3_000, "2025-03"),
		o.sessionLine("new", "onramp", "failed", 900, "2025-04"))
	require.Equal(t, "1 sessions brought over, 1 were there already\n", o.importFile(more))
	o.requireFaults([]string{strings.Replace(o.sessionLine("on", "onramp", "processing", 3_000, "2025-03"), o.workspace,
		neighbour, 1)}, "line 1: workspaceId: "+o.id("on")+" was brought over with another one")

	m = serve(o.data)
	require.Equal(t, []string{"900 failed", "3000 processing", "100 completed"}, o.listOnramps(m), "newest first")
	one := o.get(m, "/api/ramp/sessions/"+o.id("off"))
	require.Equal(t, "created", one.Text("session", "status"))
	require.Equal(t, "https://ramp.example/off", one.Text("session", "hostedUrl"))
	require.Equal(t, int64(0), o.usdcCents(m), "an imported session that had ended moves no money")
	for range 2 {
		o.sendReport(m, "partner-onramp", "onramp.completed", "on")
		o.sendReport(m, "partner-offramp", "offramp.failed", "off")
		o.sendReport(m, "partner-offramp", "offramp.completed", "sold")
	}
	require.Equal(t, int64(8_000), o.usdcCents(m))
	require.NoError(t, m.Close())
	require.Equal(t, "0 sessions brought over, 4 were there already\n", o.importFile(good),
		"sessions that reports have changed since the import")
	require.Contains(t, runAudit(t, o.data), "agree to the cent")
	require.Contains(t, mustRun(t, "unmatched", "--data-dir", o.data), "0 unmatched")
}

func (o *legacyWorkspace) signUp(m *daemon) {
	session := apiclient.New("http://"+m.listeners.http.Addr().String(), "")
	defer session.HTTP.CloseIdleConnections()
	post := func(path string, body fields) apiclient.Answer {
		a, err := session.Send(o.t.Context(), apiclient.Request{Method: "POST", Path: path, Body: marshal(body)})
		require.NoError(o.t, err)
		require.Equal(o.t, 200, a.Status, string(a.Raw))
		return a
	}
	post("/api/dashboard/signup", fields{"email": "older@example.com", "password": "a long password"})
	o.workspace = post("/api/workspaces", fields{"name": "Storm before"}).Text("workspace", "id")
	o.bearer = post("/api/auth/keys", fields{"label": "reads", "scopes": []string{"read:treasury"}}).Text("secret")
}

// createNeighbour creates a workspace whose ids are in the same slot.
func (o *legacyWorkspace) createNeighbour(m *daemon) string {
	slot, err := ident.SlotOf(o.workspace)
	require.NoError(o.t, err)
	id := ident.Derive(slot, time.Now(), "neighbour").Format(ident.Workspace)
	owner := ident.Derive(slot, time.Now(), "neighbour").Format(ident.User)
	_, err = m.system.Ask(o.t.Context(), actors.Envelope{Kind: "workspace", Stream: id, Workspace: id,
		Command: workspace.Create{ID: id, Name: "Neighbour", OwnerIDs: []string{owner}, IssuerID: "issuer",
			FirstKey: workspace.NewKey{ID: ident.Derive(slot, time.Now(), "neighbour").Format(ident.Key),
				Label: "first", Prefix: "apk_neighbou", SecretHash: strings.Repeat("0", 64), CreatedBy: owner}}})
	require.NoError(o.t, err)
	return id
}

func (o *legacyWorkspace) id(name string) string {
	owner, err := ident.Parse(ident.Workspace, o.workspace)
	require.NoError(o.t, err)
	return ident.Derive(owner.Slot(), time.UnixMilli(1_700_000_000_000), name).Format(ident.RampSession)
}

// sessionLine returns the import line of a session, created in the given month or in February 2025.
func (o *legacyWorkspace) sessionLine(name, direction, status string, cents int64, month ...string) string {
	month = append(month, "2025-02")
	return string(marshal(fields{"workspaceId": o.workspace, "id": o.id(name), "direction": direction, "status": status,
		"amountUsdCents": cents, "hostedUrl": "https://ramp.example/" + name, "createdAt": month[0] + "-01T10:00:00Z"}))
}

func (o *legacyWorkspace) writeFile(lines ...string) string {
	path := filepath.Join(o.t.TempDir(), "sessions.jsonl")
	require.NoError(o.t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

func (o *legacyWorkspace) importFile(file string) string {
	o.t.Helper()
	return mustRun(o.t, "import-ramp-sessions", "--data-dir", o.data, file)
}

// checkRefusedFiles imports files with faults. The command reports each fault with its line and
// field, and imports no line of such a file.
func (o *legacyWorkspace) checkRefusedFiles() {
	good := o.sessionLine("bad", "onramp", "processing", 1)
	stranger := ident.Derive(5, time.UnixMilli(1_700_000_000_000), "nobody").Format(ident.Workspace)
	for _, c := range []struct {
		lines []string
		want  []string
	}{
		{[]string{good, `{`, o.sessionLine("x", "sideways", "created", 1), o.sessionLine("y", "onramp", "lost", 1),
			o.sessionLine("z", "onramp", "failed", 0), good},
			[]string{"line 2: ", "line 3: direction: ", "line 4: status: ", "line 5: amountUsdCents: ",
				"line 6: id: "}},
		{[]string{strings.Replace(good, "rs_", "ro_", 1), strings.Replace(good, "https:", "ftp:", 1),
			strings.Replace(good, `"2025-02-01T10:00:00Z"`, `"yesterday"`, 1),
			strings.Replace(good, "hostedUrl", "url", 1),
			strings.Replace(good, `:1,`, `:"1",`, 1), strings.Replace(good, o.workspace, "ws_1", 1),
			strings.Replace(good, `"createdAt":"2025-02-01T10:00:00Z",`, "", 1)},
			[]string{"line 1: id: ", "line 2: hostedUrl: ", "line 3: createdAt: ", "line 4: url: ",
				"line 5: amountUsdCents: ",
				"line 6: workspaceId: ", "line 6: id: ", "line 7: createdAt: required", "line 7: id: "}},
		{[]string{good, strings.Replace(strings.Replace(good, o.workspace, stranger, 1), o.id("bad"),
			ident.Derive(5, time.UnixMilli(1), "x").Format(ident.RampSession), 1)}, []string{"line 2: workspaceId: "}},
	} {
		o.requireFaults(c.lines, c.want...)
	}
	long := o.writeFile(good, strings.Repeat(" ", storecare.MaxSessionLine)+good)
	require.ErrorContains(o.t, run([]string{"import-ramp-sessions", "--data-dir", o.data, long}, io.Discard),
		"line 2 is longer")
	once := o.writeFile(o.sessionLine("sold", "offramp", "processing", 700))
	require.Equal(o.t, "1 sessions brought over, 0 were there already\n", o.importFile(once))
	for field, line := range map[string]string{"amountUsdCents": o.sessionLine("sold", "offramp", "processing", 701),
		"direction": o.sessionLine("sold", "onramp", "processing", 700),
		"status":    o.sessionLine("sold", "offramp", "failed", 700)} {
		var out strings.Builder
		require.ErrorIs(o.t, run([]string{"import-ramp-sessions", "--data-dir", o.data, o.writeFile(good, line)}, &out),
			storecare.ErrNothingImported)
		require.Equal(o.t, fmt.Sprintf("line 2: %s: %s was brought over with another one\n", field, o.id("sold")),
			out.String())
	}
}

// requireFaults imports lines with faults and requires one report for each, in order.
func (o *legacyWorkspace) requireFaults(lines []string, want ...string) {
	o.t.Helper()
	var out strings.Builder
	require.ErrorIs(o.t, run([]string{"import-ramp-sessions", "--data-dir", o.data, o.writeFile(lines...)}, &out),
		storecare.ErrNothingImported)
	reports := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(o.t, reports, len(want), out.String())
	for i := range reports {
		require.Contains(o.t, reports[i], want[i])
	}
}

func (o *legacyWorkspace) get(m *daemon, path string) apiclient.Answer {
	o.t.Helper()
	c := apiclient.New("http://"+m.listeners.http.Addr().String(), o.bearer)
	defer c.HTTP.CloseIdleConnections()
	a, err := c.Send(o.t.Context(), apiclient.Request{Method: "GET", Path: path})
	require.NoError(o.t, err)
	require.Equal(o.t, 200, a.Status, string(a.Raw))
	return a
}

// listOnramps returns the amount in cents and the status of each on-ramp session.
func (o *legacyWorkspace) listOnramps(m *daemon) (shown []string) {
	for _, row := range o.get(m, "/api/ramp/onramp/sessions").Rows("data") {
		shown = append(shown,
			fmt.Sprint(strings.TrimLeft(strings.Replace(fmt.Sprint(row["amount"]), ".", "", 1), "0"), " ",
				row["status"]))
	}
	return shown
}

func (o *legacyWorkspace) usdcCents(m *daemon) (cents int64) {
	o.t.Helper()
	_, err := fmt.Sscan(fmt.Sprint(o.get(m, "/api/treasury").At("snapshot", "stablecoinUsdCents")), &cents)
	require.NoError(o.t, err)
	return cents
}

// sendReport sends a partner's report about a session.
func (o *legacyWorkspace) sendReport(m *daemon, handler, eventType, name string) {
	o.t.Helper()
	body := string(marshal(fields{"id": "evt-" + name, "type": eventType, "data": fields{"orderId": o.id(name)}}))
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost,
		"http://"+m.listeners.http.Addr().String()+"/api/webhooks/"+handler, strings.NewReader(body))
	require.NoError(o.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("partner-signature", webhook.Sign(m.config.PartnerSecrets.Common[0], time.Now(), []byte(body)))
	resp, err := http.DefaultClient.Do(req)
	require.NoError(o.t, err)
	require.NoError(o.t, resp.Body.Close())
	require.Equal(o.t, http.StatusOK, resp.StatusCode)
}
