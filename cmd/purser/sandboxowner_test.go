package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/authorizer"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
)

// A start with the sandbox's store of another deployment is refused and names the directory. With
// its own directory back, and without any, the deployment starts.
func TestASandboxOfAnotherDeploymentIsRefused(t *testing.T) {
	t.Parallel()
	ours, theirs, aside := t.TempDir(), t.TempDir(), t.TempDir()
	for _, data := range []string{ours, theirs} {
		require.NoError(t, startWithSettings(t, data, func(*settings.Settings) {}).Close())
	}
	dir := datadir.SandboxDir(ours)
	require.NoError(t, os.Rename(dir, filepath.Join(aside, "ours")))
	require.NoError(t, os.Rename(datadir.SandboxDir(theirs), dir))
	err := newDaemon(testConfig(t, ours), debugLogger()).Start(t.Context())
	require.ErrorContains(t, err, dir+" is of another deployment: put the directory of this deployment back")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, startWithSettings(t, ours, func(*settings.Settings) {}).Close())
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Rename(filepath.Join(aside, "ours"), dir))
	require.NoError(t, startWithSettings(t, ours, func(*settings.Settings) {}).Close())
}

// A start with the authorizer's store of another deployment is refused, names the directory, and
// leaves both stores usable.
func TestAnAuthorizerOfAnotherDeploymentIsRefused(t *testing.T) {
	t.Parallel()
	ours, theirs, aside := t.TempDir(), t.TempDir(), t.TempDir()
	for _, data := range []string{ours, theirs} {
		require.NoError(t, startWithSettings(t, data, func(*settings.Settings) {}).Close())
	}
	dir := datadir.AuthorizerDir(ours)
	require.NoError(t, os.Rename(dir, filepath.Join(aside, "ours")))
	require.NoError(t, os.Rename(datadir.AuthorizerDir(theirs), dir))
	err := newDaemon(testConfig(t, ours), debugLogger()).Start(t.Context())
	require.ErrorIs(t, err, authorizer.ErrForeign)
	require.ErrorContains(t, err, dir)
	require.NoError(t, os.Rename(dir, datadir.AuthorizerDir(theirs)))
	require.NoError(t, os.Rename(filepath.Join(aside, "ours"), dir))
	for _, data := range []string{ours, theirs} {
		require.NoError(t, startWithSettings(t, data, func(*settings.Settings) {}).Close())
	}
}

// A start without the journal is refused, and opens no other store.
func TestAMissingJournalLeavesTheAuthorizerAlone(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	require.NoError(t, startWithSettings(t, data, func(*settings.Settings) {}).Close())
	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	before, err := os.ReadDir(datadir.AuthorizerDir(data))
	require.NoError(t, err)
	require.Error(t, newDaemon(testConfig(t, data), debugLogger()).Start(t.Context()))
	after, err := os.ReadDir(datadir.AuthorizerDir(data))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(before), fmt.Sprint(after))
}

// A start whose journal is refused makes no store of the sandbox.
func TestARefusedJournalGetsNoSandbox(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	require.NoError(t, os.WriteFile(datadir.JournalDir(data), []byte("no directory"), 0o600))
	require.Error(t, newDaemon(testConfig(t, data), debugLogger()).Start(t.Context()))
	require.NoFileExists(t, datadir.SandboxDir(data))
	require.NoDirExists(t, datadir.SandboxDir(data))
}
