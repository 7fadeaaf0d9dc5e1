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
	"purser/actors/fault"
	"purser/actors/reports"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/cmd/purser/storecare"
	"purser/persistence/pgjournal/pgtest"
)

func readSecrets(t *testing.T, data, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, name))
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(text)), ",")
}

// awaitResealed waits until all documents are sealed under the newest data key.
func awaitResealed(t *testing.T, m *daemon) {
	t.Helper()
	m.adminClient().await(t, "one data key", func() bool {
		keys, err := actors.DataKeysInUse(t.Context(), m.journal)
		return err == nil && len(keys) == 1 && keys[0] == m.sealer.KeyID()
	})
}

// TestSecretsRotate takes each secret through the steps of a rotation, with the data of the demo.
func TestSecretsRotate(t *testing.T) {
	data := t.TempDir()
	m := startServer(t, data)
	passDemo(t, data)
	require.NoError(t, m.Close())
	before := readSecrets(t, data, settings.DataKeyFile)[0]

	rotate := func(args ...string) error {
		return run(append([]string{"rotate", "--data-dir", data}, args...), io.Discard)
	}
	for _, name := range []string{settings.DataKeyFile, datadir.NetworkSecretFile, settings.PartnerSecretFile} {
		require.ErrorContains(t, rotate(name, "--finish"), "nothing is left to drop")
		old := readSecrets(t, data, name)
		require.NoError(t, rotate(name))
		require.Len(t, readSecrets(t, data, name), 2)
		require.Equal(t, old[0], readSecrets(t, data, name)[1])
		require.ErrorContains(t, rotate(name), "is rotating already")
		require.ErrorContains(t, rotate(name, "--lost"), "so it is not lost")
	}
	require.ErrorContains(t, rotate(settings.CheckoutSeedFile), "does not rotate")
	require.ErrorContains(t, rotate(settings.DataKeyFile, "--finish"), "may still be sealed under the old data key")

	m = startServer(t, data)
	passDemo(t, data) // both network secrets are valid, and both data keys open documents
	awaitResealed(t, m)
	require.Zero(t, m.scrape(t)["purser_reseal_shards_left"])
	require.Positive(t, m.scrape(t)["purser_resealed_records_total"])
	for _, secret := range readSecrets(t, data, datadir.NetworkSecretFile) {
		require.Equal(t, http.StatusBadRequest, networkStatus(t, m, secret), "a valid network secret was refused")
	}
	for _, name := range []string{settings.DataKeyFile, datadir.NetworkSecretFile, settings.PartnerSecretFile} {
		require.NoError(t, rotate(name, "--finish"), "with a running server")
		require.Len(t, readSecrets(t, data, name), 1)
	}
	require.NotEqual(t, before, readSecrets(t, data, settings.DataKeyFile)[0])
	require.NoError(t, m.Close())
	m = startServer(t, data)
	passDemo(t, data)
	require.NoError(t, m.Close())
	requireCleanAudit(t, testConfig(t, data))

	require.NoError(t, settings.WriteSecret(filepath.Join(data, settings.DataKeyFile), before))
	err := newDaemon(testConfig(t, data), slog.New(slog.DiscardHandler)).Start(t.Context())
	require.ErrorContains(t, err, "data key")
}

// TestAnOldSecretStaysUntilAStartHasTheNewOne: --finish is refused until a server has started with
// the new secret. The cases are a server from before the rotation, no server, and a server whose
// secret comes from a setting.
func TestAnOldSecretStaysUntilAStartHasTheNewOne(t *testing.T) {
	data := t.TempDir()
	rotate := func(args ...string) error {
		return run(append([]string{"rotate", "--data-dir", data}, args...), io.Discard)
	}
	own := settings.PartnerSecretFileOf(reports.Ramp)
	names := []string{datadir.NetworkSecretFile, settings.PartnerSecretFile, own}
	refused := func() {
		t.Helper()
		for _, name := range names {
			before := readSecrets(t, data, name)
			require.Len(t, before, 2)
			err := rotate(name, "--finish")
			require.ErrorContains(t, err, "no server has started with the new "+name+": restart the server")
			require.ErrorContains(t, err, settings.SettingOf(name))
			require.Equal(t, before, readSecrets(t, data, name))
		}
	}
	m := startServer(t, data)
	require.NoError(t, rotate(own))
	for _, name := range names[:2] {
		require.NoError(t, rotate(name))
	}
	refused()
	require.NoError(t, m.Close())
	refused()

	config := testConfig(t, data)
	config.NetworkSecrets = []string{"of a setting, beside the file"}
	m = newDaemon(config, debugLogger())
	require.NoError(t, m.Start(t.Context()))
	require.ErrorContains(t, rotate(datadir.NetworkSecretFile, "--finish"),
		"no server has started with the new network-secret")
	require.NoError(t, m.Close())

	require.NoError(t, startServer(t, data).Close())
	for _, name := range names {
		require.NoError(t, rotate(name, "--finish"), "the last server, which has stopped, had the new secret")
		require.Len(t, readSecrets(t, data, name), 1)
	}
	require.NoError(t, startServer(t, data).Close())
}

// TestARotationOfTheDataKeySaysWhatBackupsNeed: the first step of a rotation warns that older
// backups need the old key, before --finish drops it.
func TestARotationOfTheDataKeySaysWhatBackupsNeed(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, startServer(t, data).Close())
	output := mustRun(t, "rotate", "--data-dir", data, settings.DataKeyFile)
	require.Contains(t, output, "backups from before need the old key (the second in the file)")
	require.NotContains(t, mustRun(t, "rotate", "--data-dir", data, datadir.NetworkSecretFile), "backups")
}

// TestAMissingSecretIsNamedWithItsRepair: a missing data key must be put back, because no other key
// opens the stores. Any other missing secret may be replaced.
func TestAMissingSecretIsNamedWithItsRepair(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, startServer(t, data).Close())
	for _, name := range []string{settings.DataKeyFile, datadir.NetworkSecretFile} {
		require.NoError(t, os.Remove(filepath.Join(data, name)))
	}
	config := testConfig(t, data)
	err := config.FindSecrets()
	require.ErrorContains(t, err, "data-key is missing, but the stores have used one: put it back, or set "+
		"PURSER_DATA_KEY: no other key opens what is sealed under it")
	require.ErrorContains(t, err, "network-secret is missing, but the stores have used one: put it back, set "+
		"PURSER_NETWORK_SECRET, or make a new one with `purser rotate network-secret --lost --data-dir "+data+"`")
}

// TestASecretOfASettingDoesNotRotateInItsFile: rotate refuses a secret that a setting holds or
// whose file a setting names, because the server does not read the file in the data directory.
func TestASecretOfASettingDoesNotRotateInItsFile(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, startServer(t, data).Close())
	rotate := func(args ...string) error {
		return run(append([]string{"rotate", "--data-dir", data}, args...), io.Discard)
	}
	named := filepath.Join(t.TempDir(), "named")
	require.NoError(t, os.WriteFile(named, []byte(strings.Repeat("ab", settings.DataKeyBytes)), 0o600))
	own := settings.PartnerSecretFileOf(reports.Bank)
	for _, name := range append(settings.HeldSecretFiles(), settings.DataKeyFile) {
		for variable, value := range map[string]string{settings.SettingOf(name): strings.Repeat("ab",
			settings.DataKeyBytes), settings.SettingOf(name) + secretFileSuffix: named} {
			t.Run(variable, func(t *testing.T) {
				t.Setenv(variable, value)
				require.ErrorContains(t, rotate(name), settings.SettingOf(name)+" has the secret")
				require.ErrorContains(t, rotate(name, "--lost"), settings.SettingOf(name)+" has the secret")
				if name == settings.PartnerSecretFile {
					require.ErrorContains(t, rotate(own), "set "+settings.SettingOf(own)+" to NEW,OLD")
				}
			})
		}
	}
	require.NoFileExists(t, filepath.Join(data, own))
	require.Len(t, readSecrets(t, data, datadir.NetworkSecretFile), 1)
	require.NoError(t, rotate(datadir.NetworkSecretFile))
	t.Setenv(settings.SettingOf(datadir.NetworkSecretFile), "of a setting, beside the file")
	require.ErrorContains(t, rotate(datadir.NetworkSecretFile, "--finish"),
		"no server has started with the new network-secret")
}

// TestARotationEndsWithASecretOfItsOwn: --finish refuses a file, edited by hand, whose new secret
// is the card network's.
func TestARotationEndsWithASecretOfItsOwn(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, startServer(t, data).Close())
	network := readSecrets(t, data, datadir.NetworkSecretFile)[0]
	path := filepath.Join(data, settings.PartnerSecretFile)
	old := readSecrets(t, data, settings.PartnerSecretFile)[0]
	require.NoError(t, settings.WriteSecret(path, network+", "+old))
	err := run([]string{"rotate", "--data-dir", data, settings.PartnerSecretFile, "--finish"}, io.Discard)
	require.ErrorContains(t, err, "PURSER_PARTNER_SECRET: has a secret of PURSER_NETWORK_SECRET too")
	require.NotContains(t, err.Error(), network)
	require.Equal(t, []string{network, " " + old}, readSecrets(t, data, settings.PartnerSecretFile))
}

// TestTheAdminPortTriesNoSecrets: the admin port compares only the rotating secrets of its own data
// directory, chosen by name, and so cannot be used to guess a secret.
func TestTheAdminPortTriesNoSecrets(t *testing.T) {
	m := startServer(t, t.TempDir())
	defer func() { require.NoError(t, m.Close()) }()
	for _, body := range []string{`{"name":"data-key"}`, `{"name":"../network-secret"}`, `{}`} {
		_, err := storecare.AnswerSecret(&m.config, []byte(body))
		require.True(t, fault.Is(err, fault.InvalidBody), body)
		require.ErrorContains(t, err, "name is not one of network-secret, partner-secret")
	}
	answer, err := storecare.AnswerSecret(&m.config, []byte(`{"name":"network-secret"}`))
	require.NoError(t, err)
	require.True(t, answer.InUse)
}

// networkStatus sends a malformed message to the card network's port and returns the answer's
// status.
func networkStatus(t *testing.T, m *daemon, secret string) int {
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

// TestAStartReplacesNoLostSecret: a start with existing stores creates no secret. rotate --lost
// replaces every secret but the data key.
func TestAStartReplacesNoLostSecret(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, startServer(t, data).Close())
	for name := range settings.SecretSettings {
		require.NoError(t, os.Rename(filepath.Join(data, name), filepath.Join(data, name+".aside")))
	}
	err := newDaemon(testConfig(t, data), slog.New(slog.DiscardHandler)).Start(t.Context())
	for name := range settings.SecretSettings {
		require.ErrorContains(t, err, name+" is missing")
		require.NoFileExists(t, filepath.Join(data, name))
	}
	for name, want := range map[string]string{
		datadir.NetworkSecretFile:  "network-secret is not there. Where PURSER_NETWORK_SECRET has",
		settings.PartnerSecretFile: "is lost, --lost makes a new one",
		settings.CheckoutSeedFile:  "checkout-seed does not rotate",
	} {
		require.ErrorContains(t, run([]string{"rotate", "--data-dir", data, name}, io.Discard), want)
		require.NoError(t, run([]string{"rotate", "--data-dir", data, "--lost", name}, io.Discard))
	}
	require.ErrorContains(t, run([]string{"rotate", "--data-dir", data, "--lost", settings.DataKeyFile}, io.Discard),
		"cannot be replaced")
	require.NoError(t,
		os.Rename(filepath.Join(data, settings.DataKeyFile+".aside"), filepath.Join(data, settings.DataKeyFile)))
	require.NoError(t, startServer(t, data).Close())
}

// TestAnEmptyDirectoryBesideAUsedDatabase: a start with an empty data directory on a used database
// fails, because it lacks the secrets that the journal has used, and stores none of its own.
func TestAnEmptyDirectoryBesideAUsedDatabase(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "purser secrets", true)
	if database == nil {
		return
	}
	m, p := startServerWithClient(t, databaseConfig(t, t.TempDir(), database.URL("postgres")))
	p.awaitReady(t)
	passDemo(t, m.config.DataDir)
	require.NoError(t, p.stop())
	config := databaseConfig(t, t.TempDir(), database.URL("postgres"))
	m = newDaemon(config, slog.New(slog.DiscardHandler))
	require.NoError(t, m.Start(t.Context()))
	err := <-m.Failed()
	require.ErrorContains(t, err, datadir.NetworkSecretFile+" is missing")
	require.ErrorContains(t, err, settings.PartnerSecretFile+" is missing")
	require.NoError(t, m.Close())
	require.NoFileExists(t, filepath.Join(config.DataDir, datadir.NetworkSecretFile))
}
