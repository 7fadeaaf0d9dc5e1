package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
)

// earlierBackup is a backup by the build of commit 868e960, made with
// cmd/purser/testdata/make-backup BINARY cmd/purser/testdata/backup-868e960.tar.gz
const earlierBackup = "testdata/backup-868e960.tar.gz"

// unpackBackup unpacks a file of make-backup and returns its directory and the time of the backup.
func unpackBackup(t *testing.T, file string) (dir string, at time.Time) {
	t.Helper()
	dir = t.TempDir()
	packed, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, packed.Close()) }()
	plain, err := gzip.NewReader(packed)
	require.NoError(t, err)
	for entries := tar.NewReader(plain); ; {
		entry, err := entries.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(entry.Name))
		if entry.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o700))
			continue
		}
		content, err := io.ReadAll(entries)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	text, err := os.ReadFile(filepath.Join(dir, "time"))
	require.NoError(t, err)
	at, err = time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return dir, at
}

// pendingPayout returns the API key in payouts.json, the payout that the bank had not settled at
// the backup, and the recipient of its payouts.
func pendingPayout(t *testing.T, dir string) (key, payout, recipient string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "payouts.json"))
	require.NoError(t, err)
	var saved struct {
		APIKey string `json:"apiKey"`
		Posts  []struct {
			Path   string          `json:"path"`
			Answer json.RawMessage `json:"answer"`
		} `json:"posts"`
	}
	require.NoError(t, json.Unmarshal(text, &saved))
	for _, post := range saved.Posts {
		answer := apiclient.Answer{Raw: post.Answer}
		switch post.Path {
		case "/api/treasury/payouts":
			payout = answer.Text("payout", "id")
		case "/api/treasury/counterparties":
			recipient = answer.Text("counterparty", "id")
		}
	}
	return saved.APIKey, payout, recipient
}

// A backup by an earlier build is restored by this one: the audit finds no difference, repeated
// requests and card messages get the stored answers, the keys authenticate, and payouts settle. The
// clock begins at the time of the backup, so that holds, links and the month are as they were.
func TestRestoreOfABackupByAnEarlierBuild(t *testing.T) {
	t.Parallel()
	pack, at := unpackBackup(t, earlierBackup)
	data := filepath.Join(t.TempDir(), "restored")
	mustRun(t, "restore", "--data-dir", data, filepath.Join(pack, "backup"))
	require.Contains(t, runAudit(t, data), "agree to the cent", "before the start")
	copySecrets(t, filepath.Join(pack, "secrets"), data)

	key, sent, recipient := pendingPayout(t, pack)
	p := &payoutScenario{t: t, payouts: map[string]string{"sent": sent}}
	config := testConfig(t, data)
	config.RateLimits.Off, config.Convert = true, true
	p.daemon = newDaemon(config, debugLogger())
	p.daemon.Clock = func() time.Time { return at.Add(time.Duration(p.clockMillis.Load()) * time.Millisecond) }
	require.NoError(t, p.daemon.Start(t.Context()))
	passDemo(t, data, "--check", filepath.Join(pack, "demo.json"))
	passDemo(t, data, "--check", filepath.Join(pack, "payouts.json"))

	rest, err := datadir.PublishedAddress(data, "HTTP_ADDR")
	require.NoError(t, err)
	p.client = apiclient.New("http://"+rest, key)
	p.orderPayout("of this build", "ach", recipient, 100_00)
	p.awaitStatus("submitted", "sent", "of this build")
	p.advanceClock(2 * time.Hour) // the bank was to settle within one
	p.awaitStatus("settled", "sent", "of this build")
	p.requireDollars(400_00, 0)
	require.NoError(t, p.daemon.Close())
	require.Contains(t, runAudit(t, data), "agree to the cent", "after the payouts")
}
