package main

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/persistence/pgjournal/pgtest"
)

func secretIn(t *testing.T, data, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, name))
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(text)), ",")
}

// awaitSealedAnew waits until documents are sealed under one data key alone.
func (m *Main) awaitSealedAnew(t *testing.T) {
	t.Helper()
	m.operator().await(t, "one data key", func() bool {
		keys, err := actors.DataKeysInUse(t.Context(), m.journal)
		return err == nil && len(keys) == 1 && keys[0] == m.sealer.KeyID()
	})
}

// TestSecretsRotate: each step of a rotation, at a server that has people, cards and reports of
// partners.
func TestSecretsRotate(t *testing.T) {
	data := t.TempDir()
	m := start(t, data)
	demo(t, data)
	require.NoError(t, m.Close())
	before := secretIn(t, data, dataKeyFile)[0]

	rotate := func(args ...string) error {
		return run(append([]string{"rotate", "--data-dir", data}, args...), io.Discard)
	}
	for _, name := range []string{dataKeyFile, networkSecretFile, partnerSecretFile} {
		require.ErrorContains(t, rotate(name, "--finish"), "nothing is left to drop")
		old := secretIn(t, data, name)
		require.NoError(t, rotate(name))
		require.Len(t, secretIn(t, data, name), 2)
		require.Equal(t, old[0], secretIn(t, data, name)[1])
		require.ErrorContains(t, rotate(name), "is rotating already")
		require.ErrorContains(t, rotate(name, "--lost"), "it is not lost")
	}
	require.ErrorContains(t, rotate(checkoutSeedFile), "does not rotate")
	require.ErrorContains(t, rotate(dataKeyFile, "--finish"), "may still be sealed under the old data key")

	m = start(t, data)
	demo(t, data) // both network secrets are valid, and documents under both keys open
	m.awaitSealedAnew(t)
	require.Zero(t, m.scrape(t)["purser_reseal_shards_left"])
	require.Positive(t, m.scrape(t)["purser_resealed_records_total"])
	for _, secret := range secretIn(t, data, networkSecretFile) {
		require.Equal(t, http.StatusBadRequest, m.networkStatus(t, secret), "a valid secret is let in")
	}
	for _, name := range []string{dataKeyFile, networkSecretFile, partnerSecretFile} {
		require.NoError(t, rotate(name, "--finish"), "of the running server")
		require.Len(t, secretIn(t, data, name), 1)
	}
	require.NotEqual(t, before, secretIn(t, data, dataKeyFile)[0])
	require.NoError(t, m.Close())
	m = start(t, data)
	demo(t, data)
	require.NoError(t, m.Close())
	auditPlace(t, testConfig(t, data))

	require.NoError(t, os.WriteFile(filepath.Join(data, dataKeyFile), []byte(before), 0o600))
	err := NewMain(testConfig(t, data), slog.New(slog.DiscardHandler)).Start(t.Context())
	require.ErrorContains(t, err, "data key")
}

// networkStatus asks the card network's port with a body that is no message.
func (m *Main) networkStatus(t *testing.T, secret string) int {
	t.Helper()
	req, err := http.NewRequest("POST", "http://"+m.listeners.authorizer.Addr().String()+"/v1/authorizations", strings.NewReader("{"))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// TestLostSecretsAreReplacedByHandAlone: beside stores a start makes nothing, and a data key is
// never replaced.
func TestLostSecretsAreReplacedByHandAlone(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, start(t, data).Close())
	for name := range secretSettings {
		require.NoError(t, os.Rename(filepath.Join(data, name), filepath.Join(data, name+".aside")))
	}
	err := NewMain(testConfig(t, data), slog.New(slog.DiscardHandler)).Start(t.Context())
	for name := range secretSettings {
		require.ErrorContains(t, err, name+" is missing")
		require.NoFileExists(t, filepath.Join(data, name))
	}
	for _, name := range []string{networkSecretFile, partnerSecretFile, checkoutSeedFile} {
		require.ErrorContains(t, run([]string{"rotate", "--data-dir", data, name}, io.Discard), "is not there")
		require.NoError(t, run([]string{"rotate", "--data-dir", data, "--lost", name}, io.Discard))
	}
	require.ErrorContains(t, run([]string{"rotate", "--data-dir", data, "--lost", dataKeyFile}, io.Discard),
		"cannot be replaced")
	require.NoError(t, os.Rename(filepath.Join(data, dataKeyFile+".aside"), filepath.Join(data, dataKeyFile)))
	require.NoError(t, start(t, data).Close())
}

// TestAnEmptyDirectoryBesideAUsedDatabase: its first start has made secrets that the journal has
// not used.
func TestAnEmptyDirectoryBesideAUsedDatabase(t *testing.T) {
	database := pgtest.Own(t, "purser secrets", true)
	if database == nil {
		return
	}
	m, p := rise(t, onDatabase(t, t.TempDir(), database.URL("postgres")))
	p.awaitReady(t)
	demo(t, m.config.DataDir)
	require.NoError(t, p.stop())
	config := onDatabase(t, t.TempDir(), database.URL("postgres"))
	m = NewMain(config, slog.New(slog.DiscardHandler))
	require.NoError(t, m.Start(t.Context()))
	err := <-m.Failed()
	require.ErrorContains(t, err, networkSecretFile+" is missing")
	require.ErrorContains(t, err, partnerSecretFile+" is missing")
	require.NoError(t, m.Close())
	require.NoFileExists(t, filepath.Join(config.DataDir, networkSecretFile))
}
