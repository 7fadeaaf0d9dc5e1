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

// TestACloseRelaysTheBacklogOrReportsIt: who is stopped in good order leaves nothing to the next start, or says so.
func TestACloseRelaysTheBacklogOrReportsIt(t *testing.T) {
	data := t.TempDir()
	var log bytes.Buffer // read when the server has stopped
	m := newDaemon(testConfig(t, data), settings.NewLogger(&log, settings.Config{LogLevel: slog.LevelInfo, LogFormat: settings.LogJSON}))
	require.NoError(t, m.Start(t.Context()))
	token, err := ident.NewToken(4095, rand.Reader)
	require.NoError(t, err)
	for i := range 20 { // of a card that nobody knows: posted to suspense, one shard's
		a := m.authorizer.Submit(&hold.Message{Kind: hold.Clearing, ID: fmt.Sprint("n", i), Token: token, Amount: 100,
			Currency: [3]byte{'U', 'S', 'D'}})
		require.Equal(t, hold.StatusOK, a.Status)
	}
	require.NoError(t, m.Close())
	engine, err := authorizer.Open(authorizer.Options{Dir: datadir.AuthorizerDir(data), Clock: time.Now, Entropy: rand.Reader,
		Fatal: func(err error) { t.Error(err) }})
	require.NoError(t, err)
	left := engine.Backlog()
	require.NoError(t, engine.Close())
	said := strings.Contains(log.String(), "the next start relays what is left")
	require.True(t, left == 0 || said, "%d left", left)
}
