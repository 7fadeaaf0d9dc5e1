package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
)

// A start with a sandbox's store of another deployment is refused and names the directory. With its
// own directory back, and without any, the deployment starts.
func TestASandboxOfAnotherDeploymentIsRefused(t *testing.T) {
	t.Parallel()
	ours, theirs, aside := t.TempDir(), t.TempDir(), t.TempDir()
	for _, data := range []string{ours, theirs} {
		require.NoError(t, startWithSettings(t, data, func(*settings.Settings) {}).Close())
	}
	for _, dir := range datadir.SandboxDirs {
		name := filepath.Base(dir(ours))
		require.NoError(t, os.Rename(dir(ours), filepath.Join(aside, name)))
		require.NoError(t, os.Rename(dir(theirs), dir(ours)))
		err := newDaemon(testConfig(t, ours), debugLogger()).Start(t.Context())
		require.ErrorContains(t, err, dir(ours)+" is of another deployment: put the directory of this deployment back")
		require.NoError(t, os.Rename(dir(ours), dir(theirs)))
		if name == filepath.Base(datadir.ChainsDir(ours)) {
			continue // the last one begins anew
		}
		require.NoError(t, os.Rename(filepath.Join(aside, name), dir(ours)))
	}
	require.NoError(t, startWithSettings(t, ours, func(*settings.Settings) {}).Close())
}
