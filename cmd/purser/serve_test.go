package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/persistence/ident"
)

// TestACloseRelaysTheBacklogOrReportsIt: Close relays the whole backlog, or logs that the next
// start relays the rest.
func TestACloseRelaysTheBacklogOrReportsIt(t *testing.T) {
	data := t.TempDir()
	var log bytes.Buffer // read when the server has stopped
	m := newDaemon(testConfig(t, data),
		settings.NewLogger(&log, settings.Config{LogLevel: slog.LevelInfo, LogFormat: settings.LogJSON}))
	require.NoError(t, m.Start(t.Context()))
	token, err := ident.NewToken(4095, rand.Reader)
	require.NoError(t, err)
	for i := range 20 { // clearings of an unknown card, which one shard posts to suspense
		a := m.authorizer.Submit(&hold.Message{Kind: hold.Clearing, ID: fmt.Sprint("n", i), Token: token, Amount: 100,
			Currency: [3]byte{'U', 'S', 'D'}})
		require.Equal(t, hold.StatusOK, a.Status)
	}
	require.NoError(t, m.Close())
	engine, err := authorizer.Open(authorizer.Options{Dir: datadir.AuthorizerDir(data), Clock: time.Now,
		Entropy: rand.Reader, Fatal: func(err error) { t.Error(err) }})
	require.NoError(t, err)
	left := engine.Backlog()
	require.NoError(t, engine.Close())
	reported := strings.Contains(log.String(), "the next start relays what is left")
	require.True(t, left == 0 || reported, "%d decisions left in the backlog and not reported", left)
}
