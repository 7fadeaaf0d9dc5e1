package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
	"purser/cmd/purser/storecare"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// TestARefusedRestoreChangesNothing: a restore into a database that is in use or unreachable
// changes nothing, and the deployment that it was to replace still starts.
func TestARefusedRestoreChangesNothing(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "a refused purser restore", true)
	if database == nil {
		return
	}
	data, backup := backUpFreshServer(t)
	url := createDatabase(t, database, "taken")
	mustRun(t, "restore", "--data-dir", filepath.Join(t.TempDir(), "x"), "--database-url", url, backup)
	keep := []string{"restore", "--keep-authorizer", "--data-dir", data, "--database-url"}
	require.ErrorIs(t, run(append(keep, url, backup), io.Discard), pgjournal.ErrNotEmpty)
	require.NoDirExists(t, datadir.RestoringDir(data))
	require.Error(t, run(append(keep, "postgres://127.0.0.1:1/none", backup), io.Discard))
	require.NoDirExists(t, datadir.RestoringDir(data))
	require.NoError(t, startServer(t, data).Close())
}

// TestARestoreRefusesLinksInsideABackup: the path of a backup may be a symbolic link, but a backup
// that contains one is refused as damaged.
func TestARestoreRefusesLinksInsideABackup(t *testing.T) {
	_, backup := backUpFreshServer(t)
	link := filepath.Join(t.TempDir(), "latest")
	require.NoError(t, os.Symlink(backup, link))
	mustRun(t, "restore", "--data-dir", filepath.Join(t.TempDir(), "data"), link)
	file, elsewhere := filepath.Join(backup, storecare.ArchiveFile), filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.Rename(file, elsewhere))
	require.NoError(t, os.Symlink(elsewhere, file))
	err := run([]string{"restore", "--data-dir", filepath.Join(t.TempDir(), "data"), backup}, io.Discard)
	require.ErrorIs(t, err, storecare.ErrDamaged)
	require.ErrorContains(t, err, storecare.ArchiveFile+" is no plain file")
}
