package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/cmd/purser/storecare"
	"purser/persistence/pebblegate"
)

// deploymentIDOf returns the deployment id, in hex, in the data directory of a stopped server.
func deploymentIDOf(t *testing.T, data string) string {
	t.Helper()
	j := openJournalOf(t, data)
	id := j.Identity().Deployment
	require.NoError(t, j.Close())
	return hex.EncodeToString(id[:])
}

// A backup whose size and the disk reserve exceed the free space is refused before it copies a
// file, by a running server and by the command. The error states the free and the needed bytes.
func TestBackupWithoutRoomIsRefusedWithNumbers(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 40)
	data := t.TempDir()
	m, p := startWithFreeBytes(t, data, &free)
	free.Store(m.config.DiskReserve + 1<<10)
	status, answer := postAdminCommand(t, m, "backup", `{"name":"refused"}`)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Regexp(t, `the disk of \S+/backups has 1 GiB free; the backup needs 1\.\d GiB: `+
		`[0-9.]+ [KM]iB to copy, and the reserve of 1 GiB`, answer)
	left, err := os.ReadDir(m.config.BackupsIn())
	require.NoError(t, err)
	require.Empty(t, left)
	free.Store(1 << 40)
	status, answer = postAdminCommand(t, m, "backup", `{"name":"made"}`)
	require.Equal(t, http.StatusOK, status, answer)
	require.NoError(t, p.stop())

	b := storecare.BackupCmd{Stores: datadir.Stores{DataDir: data}}
	room := storecare.BackupRoom{Free: func(string) (int64, error) { return 3 << 30, nil }, Reserve: 3 << 30}
	to := filepath.Join(t.TempDir(), "stopped")
	_, err = b.Backup(t.Context(), to, room, nil)
	require.ErrorIs(t, err, pebblegate.ErrNoRoom)
	require.ErrorContains(t, err, "and the reserve of 3 GiB")
	require.NoDirExists(t, to)
	require.ErrorContains(t, run([]string{"backup", "--data-dir", data, "--disk-reserve", "1MiB", to}, io.Discard),
		"PURSER_DISK_RESERVE")
}

// The archive of a journal may be larger than its tables. Its writer therefore measures the free
// space every RoomEvery bytes, and stops before the archive takes the reserve.
func TestArchiveLeavesTheReserve(t *testing.T) {
	disk := int64(4 * storecare.RoomEvery)
	var file bytes.Buffer
	free := func(string) (int64, error) { return disk - int64(file.Len()), nil }
	w := &storecare.RoomWriter{Writer: &file, Dir: "backups",
		Room: storecare.BackupRoom{Reserve: storecare.RoomEvery, Free: free}}
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(endlessReader{}, disk), make([]byte, 1<<20))
	require.ErrorIs(t, err, pebblegate.ErrNoRoom)
	require.GreaterOrEqual(t, disk-int64(file.Len()), int64(storecare.RoomEvery))
	require.Greater(t, file.Len(), storecare.RoomEvery)
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }

// A checkpoint on the store's own disk links the tables, which takes no space. On another disk it
// copies them.
func TestCheckpointCountsTablesOnlyOnAnotherDisk(t *testing.T) {
	store, to := t.TempDir(), t.TempDir()
	for name, size := range map[string]int{"000001.sst": 1000, "000002.log": 10, "MANIFEST-1": 1} {
		require.NoError(t, os.WriteFile(filepath.Join(store, name), make([]byte, size), 0o600))
	}
	total, err := storecare.CheckpointBytes(to, store, filepath.Join(store, "missing"))
	require.NoError(t, err)
	require.EqualValues(t, 11, total)
	other := mountSmallDisk(t, 1<<20)
	if other == nil {
		return
	}
	total, err = storecare.CheckpointBytes(other.dir, store)
	require.NoError(t, err)
	require.EqualValues(t, 1011, total)
}

// TestBackupNeedsAParentDirectory: a backup is refused before it copies a file if the parent of its
// directory is missing or is a file, with a running server and without one.
func TestBackupNeedsAParentDirectory(t *testing.T) {
	data, _ := backUpFreshServer(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	refused := func() {
		t.Helper()
		for _, parent := range []string{filepath.Join(t.TempDir(), "missing"), file} {
			err := run([]string{"backup", "--data-dir", data, filepath.Join(parent, "backup")}, io.Discard)
			require.ErrorContains(t, err, parent+" is not a directory")
		}
	}
	refused()
	m := startServer(t, data)
	refused()
	require.NoDirExists(t, m.config.BackupsIn())
	require.NoError(t, m.Close())
}

// TestBackupIsRefusedInAStoreAndInTheDataDirectory: a backup in a store or in the data directory,
// also through a link, is refused by name before anything is written, with a running server and
// without one. The directory of backups in the data directory is allowed.
func TestBackupIsRefusedInAStoreAndInTheDataDirectory(t *testing.T) {
	data, _ := backUpFreshServer(t)
	link, own := filepath.Join(t.TempDir(), "link"), filepath.Join(data, "backups")
	require.NoError(t, os.Symlink(datadir.JournalDir(data), link))
	require.NoError(t, os.MkdirAll(own, 0o700))
	refused := func() {
		t.Helper()
		for parent, reason := range map[string]string{
			datadir.JournalDir(data):    "is in the store " + datadir.JournalDir(data),
			link:                        "is in the store " + datadir.JournalDir(data),
			datadir.AuthorizerDir(data): "is in the store " + datadir.AuthorizerDir(data),
			data:                        "is in the data directory " + data,
		} {
			to := filepath.Join(parent, "misplaced")
			require.ErrorContains(t, run([]string{"backup", "--data-dir", data, to}, io.Discard), reason)
			left, err := filepath.Glob(to + "*")
			require.NoError(t, err)
			require.Empty(t, left)
		}
	}
	refused()
	mustRun(t, "backup", "--data-dir", data, filepath.Join(own, "one"))
	m := startServer(t, data)
	refused()
	mustRun(t, "backup", "--data-dir", data, filepath.Join(own, "two"))
	require.NoError(t, m.Close())
	inStore := startWithSettings(t, data, func(s *settings.Settings) { s.BackupDir = datadir.JournalDir(data) })
	_, answer := postAdminCommand(t, inStore, "backup", `{"name":"made"}`)
	require.Contains(t, answer, "is in the store")
	require.NoError(t, inStore.Close())
}

// A backup removes the unfinished directory of a killed backup of its deployment. It keeps the
// directory of a backup that still runs, of another deployment, or without an owner, and names the
// last two.
func TestBackupRemovesTheDirectoryOfAKilledBackup(t *testing.T) {
	data, _ := backUpFreshServer(t)
	place := t.TempDir()
	to := filepath.Join(place, "backup")
	begin := func(deployment string) *storecare.Unfinished {
		u, err := storecare.BeginUnfinished(to, deployment, func(string) {})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(u.Dir, storecare.ArchiveFile), []byte("half"), 0o600))
		return u
	}
	foreign, killed := begin("another"), begin(deploymentIDOf(t, data))
	running := begin(deploymentIDOf(t, data))
	require.NoError(t, foreign.Mark.Close())
	require.NoError(t, killed.Mark.Close()) // the end of its process releases the lock of the mark
	unmarked := to + storecare.UnfinishedInfix + "unmarked"
	require.NoError(t, os.Mkdir(unmarked, 0o700))
	linked := to + storecare.UnfinishedInfix + "linked"
	require.NoError(t, os.Symlink(killed.Dir, linked))

	said := mustRun(t, "backup", "--data-dir", data, to)
	require.NoDirExists(t, killed.Dir)
	for _, stays := range []string{foreign.Dir, running.Dir} {
		require.FileExists(t, filepath.Join(stays, storecare.ArchiveFile))
	}
	require.DirExists(t, unmarked)
	_, err := os.Lstat(linked)
	require.NoError(t, err)
	require.Contains(t, said, foreign.Dir+": an unfinished backup of another deployment or without a mark stays")
	require.Contains(t, said, unmarked+": ")
	require.NotContains(t, said, running.Dir)
	_, err = storecare.CheckBackup(to)
	require.NoError(t, err)
	require.NoError(t, running.Mark.Close())
}

// A process that is killed in the middle of a backup leaves an unfinished directory. The next
// backup into the same parent directory removes it.
func TestKilledBackupIsRemovedByTheNext(t *testing.T) {
	data, _ := backUpFreshServer(t)
	place := t.TempDir()
	const maxBackups = 50 // a backup may finish before it is killed
	for n := 0; !killBackupMidway(t, data, filepath.Join(place, fmt.Sprint("first", n))); n++ {
		require.Less(t, n, maxBackups)
	}
	said := mustRun(t, "backup", "--data-dir", data, filepath.Join(place, "second"))
	require.NotContains(t, said, storecare.UnfinishedInfix)
	left, err := filepath.Glob(filepath.Join(place, "*"+storecare.UnfinishedInfix+"*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// killBackupMidway starts a backup and kills it once the mark file of its directory has the
// deployment id. It reports whether the unfinished directory is still there.
func killBackupMidway(t *testing.T, data, to string) bool {
	t.Helper()
	cmd := exec.Command(program{path: buildProgram(t)}.path, "backup", "--data-dir", data, to)
	cmd.Env = append(os.Environ(), "PURSER_DATA_DIR="+data)
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	marks := func() []string {
		found, err := filepath.Glob(filepath.Join(to+storecare.UnfinishedInfix+"*", storecare.UnfinishedMark))
		require.NoError(t, err)
		return found
	}
	require.Eventually(t, func() bool {
		for _, mark := range marks() {
			if owner, err := os.ReadFile(mark); err == nil && len(owner) > 0 {
				return true
			}
		}
		return len(ended) > 0
	}, stateTimeout, pollInterval)
	_ = cmd.Process.Kill()
	<-ended
	return len(marks()) == 1
}
