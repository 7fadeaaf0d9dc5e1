package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/partner/sandbox"
	"purser/authorizer"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/cmd/purser/storecare"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/kafka"
	"purser/persistence/pebblejournal"
)

func runs(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, run(args, &out), out.String())
	return out.String()
}

// copySecrets does for a restored directory what its operator does.
func copySecrets(t *testing.T, from, to string) {
	t.Helper()
	for name := range settings.SecretSettings {
		require.NoError(t, storecare.CopyFile(filepath.Join(from, name), filepath.Join(to, name)))
	}
}

// journalOf opens the journal of a directory at rest.
func journalOf(t *testing.T, data string) *pebblejournal.Journal {
	t.Helper()
	j, err := pebblejournal.Open(pebblejournal.Options{Dir: datadir.JournalDir(data), MustExist: true})
	require.NoError(t, err)
	return j
}

// TestABackupOfARunningServer: while it answers, a server is backed up; what is restored elsewhere has all of before, agrees to the
// cent, and goes on.
func TestABackupOfARunningServer(t *testing.T) {
	t.Parallel()
	data, restored, told := t.TempDir(), filepath.Join(t.TempDir(), "restored"), filepath.Join(t.TempDir(), "told.json")
	backup := filepath.Join(t.TempDir(), "backup")
	m := start(t, data)
	passDemo(t, data, "--save", told)
	during := make(chan error)
	go func() {
		var out strings.Builder
		during <- run([]string{"backup", "--data-dir", data, backup}, &out)
	}()
	passDemo(t, data) // the load
	require.NoError(t, <-during)
	require.ErrorContains(t, run([]string{"backup", "--data-dir", data, backup}, io.Discard), "is there already")
	require.NoError(t, m.Close())

	require.Contains(t, runs(t, "restore", "--data-dir", restored, backup), "restored to")
	require.Contains(t, auditOf(t, restored), "agree to the cent", "before the start")
	copySecrets(t, data, restored)
	m = start(t, restored)
	passDemo(t, restored, "--check", told)
	passDemo(t, restored)
	require.NoError(t, m.Close())
	require.Contains(t, auditOf(t, restored), "agree to the cent")

	old, again := journalOf(t, data), journalOf(t, restored)
	require.Equal(t, old.Identity().Deployment, again.Identity().Deployment)
	require.NotEqual(t, old.Identity().Store, again.Identity().Store, "a new incarnation")
	require.NoError(t, errors.Join(old.Close(), again.Close()))
}

// TestARestoreKeepsTheNewerAuthorizer: the journal is lost and comes back older. What the authorizer has decided since is sent to it
// again, for workspaces and cards that it does not know any more too.
func TestARestoreKeepsTheNewerAuthorizer(t *testing.T) {
	t.Parallel()
	data, told, backup := t.TempDir(), filepath.Join(t.TempDir(), "told.json"), filepath.Join(t.TempDir(), "backup")
	m := start(t, data)
	passDemo(t, data, "--save", told)
	require.NoError(t, m.Close())
	runs(t, "backup", "--data-dir", data, backup)
	m = start(t, data)
	passDemo(t, data)
	var decided [ident.Shards]uint64
	for shard := range decided {
		decided[shard] = m.authorizer.Synced(ident.Shard(shard))
	}
	require.NoError(t, m.Close())

	require.ErrorContains(t, run([]string{"restore", "--data-dir", data, backup}, io.Discard), "move it away first")
	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	require.ErrorContains(t, run([]string{"restore", "--data-dir", data, backup}, io.Discard), "--keep-authorizer")
	runs(t, "restore", "--keep-authorizer", "--data-dir", data, backup)
	require.Contains(t, auditOf(t, data), "agree to the cent", "before the start")
	m = start(t, data)
	for shard := range decided {
		require.GreaterOrEqual(t, m.authorizer.Synced(ident.Shard(shard)), decided[shard], "no decision is lost")
	}
	require.NoError(t, m.system.Settle(t.Context()))
	passDemo(t, data, "--check", told)
	passDemo(t, data)
	require.NoError(t, m.Close())
	require.Contains(t, auditOf(t, data), "agree to the cent")
	kept, err := filepath.Glob(datadir.AuthorizerDir(data) + ".old-*")
	require.NoError(t, err)
	require.Len(t, kept, 1)

	stranger := t.TempDir()
	require.NoError(t, start(t, stranger).Close())
	require.NoError(t, os.RemoveAll(datadir.JournalDir(stranger)))
	require.ErrorIs(t, run([]string{"restore", "--keep-authorizer", "--data-dir", stranger, backup}, io.Discard), authorizer.ErrForeign)
	require.NoDirExists(t, datadir.RestoringDir(stranger))
}

// TestABackupHasTheSandboxChains: of a running server and of a directory at rest. What was paid on a chain of the sandbox is in the same
// block of the restored one, and a restore that keeps the authorizer keeps the newer chains too.
func TestABackupHasTheSandboxChains(t *testing.T) {
	t.Parallel()
	data, running, rest := t.TempDir(), filepath.Join(t.TempDir(), "running"), filepath.Join(t.TempDir(), "rest")
	paid := func(m *daemon) (all []string) {
		found, err := m.sandboxChains.Chain("base").Transfers(t.Context(), 1, 1<<40, []string{"0xshop"})
		require.NoError(t, err)
		for _, o := range found {
			all = append(all, fmt.Sprint(o.TxHash, o.Amount, o.Block, o.BlockHash))
		}
		return all
	}
	pay := func(m *daemon, reference string) (all []string) {
		count := len(paid(m))
		_, err := m.sandboxChains.Chain("base").Pay(t.Context(), reference, "0xpayer",
			sandbox.ChainPayment{Asset: "USDC", Address: "0xshop", Amount: "7"})
		require.NoError(t, err)
		require.Eventually(t, func() bool { all = paid(m); return len(all) > count }, time.Minute, time.Millisecond)
		return all
	}
	m := start(t, data)
	first := pay(m, "first")
	runs(t, "backup", "--data-dir", data, running)
	second := pay(m, "second")
	require.NoError(t, m.Close())
	runs(t, "backup", "--data-dir", data, rest)
	for backup, want := range map[string][]string{running: first, rest: second} {
		restored := filepath.Join(t.TempDir(), "restored")
		runs(t, "restore", "--data-dir", restored, backup)
		copySecrets(t, data, restored)
		m = start(t, restored)
		require.Equal(t, want, paid(m), backup)
		require.NoError(t, m.Close())
	}
	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	runs(t, "restore", "--keep-authorizer", "--data-dir", data, running)
	m = start(t, data)
	require.Equal(t, second, paid(m))
	require.NoError(t, m.Close())
	require.NoError(t, errors.Join(os.RemoveAll(datadir.JournalDir(data)), os.RemoveAll(datadir.AuthorizerDir(data)), os.RemoveAll(datadir.BankDir(data)),
		os.RemoveAll(datadir.RampDir(data))))
	require.ErrorContains(t, run([]string{"restore", "--data-dir", data, rest}, io.Discard), "sandbox-chains is there: move it away first")
}

// small is a backup of a server that has done nothing but start.
func small(t *testing.T) (data, backup string) {
	data, backup = t.TempDir(), filepath.Join(t.TempDir(), "backup")
	require.NoError(t, start(t, data).Close())
	runs(t, "backup", "--data-dir", data, backup)
	return data, backup
}

// TestADamagedBackupIsRefused: by the name of what is wrong, before anything is touched.
func TestADamagedBackupIsRefused(t *testing.T) {
	t.Parallel()
	_, backup := small(t)
	table, err := filepath.Glob(filepath.Join(datadir.AuthorizerDir(backup), "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, table)
	log := filepath.Join("authorizer", filepath.Base(table[0]))
	flip := func(name string, at func(size int) int) func(dir string) {
		return func(dir string) {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			text[at(len(text))] ^= 1
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
	}
	first, middle, last := func(int) int { return 0 }, func(n int) int { return n / 2 }, func(n int) int { return n - 1 }
	for why, damage := range map[string]func(dir string){
		"BACKUP is not of the form":                 flip(storecare.ManifestFile, first),
		"the checksum of BACKUP differs":            flip(storecare.ManifestFile, middle),
		"the checksum of BACKUP differs ":           flip(storecare.ManifestFile, last),
		"the checksum of journal.archive differs":   flip(storecare.ArchiveFile, first),
		"the checksum of journal.archive differs ":  flip(storecare.ArchiveFile, middle),
		"the checksum of journal.archive differs  ": flip(storecare.ArchiveFile, last),
		"the checksum of " + log + " differs":       flip(log, last),
		"journal.archive is missing":                func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, storecare.ArchiveFile))) },
		log + " is missing":                         func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, log))) },
		"has no file BACKUP":                        func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, storecare.ManifestFile))) },
		"journal.archive has 7 bytes":               func(dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, storecare.ArchiveFile), 7)) },
		"stray is not of the backup":                func(dir string) { require.NoError(t, os.WriteFile(filepath.Join(dir, "stray"), nil, 0o600)) },
		"is not the journal that BACKUP tells of": func(dir string) {
			rewrite(t, dir, func(m *storecare.Manifest) { m.Deployment = strings.Repeat("0", 32) })
		},
		"is not the journal that BACKUP tells of ":   func(dir string) { rewrite(t, dir, func(m *storecare.Manifest) { m.Counts.Events++ }) },
		"journal.archive: not a journal archive of":  func(dir string) { flip(storecare.ArchiveFile, first)(dir); resum(t, dir) },
		"journal.archive: damaged journal archive":   func(dir string) { flip(storecare.ArchiveFile, middle)(dir); resum(t, dir) },
		"journal.archive: damaged journal archive: ": func(dir string) { flip(storecare.ArchiveFile, last)(dir); resum(t, dir) },
	} {
		dir, into := filepath.Join(t.TempDir(), "damaged"), filepath.Join(t.TempDir(), "into")
		require.NoError(t, storecare.CopyTree(backup, dir))
		damage(dir)
		err := run([]string{"restore", "--data-dir", into, dir}, io.Discard)
		require.ErrorIs(t, err, storecare.ErrDamaged, why)
		require.ErrorContains(t, err, strings.TrimSpace(why))
		require.NoDirExists(t, into)
	}
	runs(t, "restore", "--data-dir", filepath.Join(t.TempDir(), "into"), backup)
}

// rewrite changes a manifest with a good checksum.
func rewrite(t *testing.T, dir string, change func(*storecare.Manifest)) {
	var c storecare.CheckedBackup
	c.Dir = dir
	require.NoError(t, c.ReadManifest())
	change(&c.Manifest)
	require.NoError(t, c.Write(dir))
}

// resum gives a damaged backup the checksums of its files.
func resum(t *testing.T, dir string) {
	rewrite(t, dir, func(m *storecare.Manifest) {
		files, err := storecare.SumFiles(dir)
		require.NoError(t, err)
		delete(files, storecare.ManifestFile)
		m.Files = files
	})
}

// TestARestoreThatIsInterrupted: after a crash anywhere in it no command takes the directory, and the same restore ends it.
func TestARestoreThatIsInterrupted(t *testing.T) {
	t.Parallel()
	source, backup := small(t)
	_, other := small(t)
	from, err := storecare.CheckBackup(backup)
	require.NoError(t, err)
	for name, crash := range map[string]func(s *storecare.Restoration, plan storecare.RestorePlan) error{
		"after its plan": func(s *storecare.Restoration, plan storecare.RestorePlan) error { return s.Begin(plan) },
		"with the authorizer": func(s *storecare.Restoration, plan storecare.RestorePlan) error {
			return errors.Join(s.Begin(plan), s.BuildAuthorizer())
		},
		"with the journal": func(s *storecare.Restoration, plan storecare.RestorePlan) error { return buildWithoutReady(t, s, plan) },
		"when it is ready": func(s *storecare.Restoration, plan storecare.RestorePlan) error { return s.Build(t.Context(), plan) },
		"with one store placed": func(s *storecare.Restoration, plan storecare.RestorePlan) error {
			return errors.Join(s.Build(t.Context(), plan),
				os.Rename(datadir.AuthorizerDir(datadir.RestoringDir(s.DataDir)), datadir.AuthorizerDir(s.DataDir)))
		},
		"with all stores placed": func(s *storecare.Restoration, plan storecare.RestorePlan) error {
			dir := datadir.RestoringDir(s.DataDir)
			return errors.Join(s.Build(t.Context(), plan), os.Rename(datadir.AuthorizerDir(dir), datadir.AuthorizerDir(s.DataDir)),
				os.Rename(datadir.BankDir(dir), datadir.BankDir(s.DataDir)), os.Rename(datadir.ChainsDir(dir), datadir.ChainsDir(s.DataDir)),
				os.Rename(datadir.JournalDir(dir), datadir.JournalDir(s.DataDir)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			s := &storecare.Restoration{Stores: datadir.Stores{DataDir: data}, From: from}
			plan, err := s.ReadPlan()
			require.NoError(t, err)
			require.NoError(t, crash(s, plan))
			const refusal = "was not finished: run the same `purser restore` again"
			require.ErrorContains(t, newDaemon(testConfig(t, data), slog.New(slog.DiscardHandler)).Start(t.Context()), refusal)
			require.ErrorContains(t, run([]string{"rebuild-authorizer", "--yes", "--data-dir", data}, io.Discard), refusal)
			require.ErrorContains(t, run([]string{"restore", "--data-dir", data, other}, io.Discard), "run that one again")
			runs(t, "restore", "--data-dir", data, backup)
			require.NoDirExists(t, datadir.RestoringDir(data))
			j := journalOf(t, data)
			require.Equal(t, plan.Store, j.Identity().Store)
			require.NoError(t, j.Close())
			copySecrets(t, source, data)
			require.NoError(t, start(t, data).Close())
		})
	}
}

// buildWithoutReady runs the steps of a restoration's build except the last one.
func buildWithoutReady(t *testing.T, s *storecare.Restoration, plan storecare.RestorePlan) error {
	return errors.Join(s.Begin(plan), s.BuildAuthorizer(), s.BuildJournal(t.Context(), plan))
}

// TestARestoreThatFailsLeavesNothing: the disk is full when the journal is loaded.
func TestARestoreThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	_, backup := small(t)
	from, err := storecare.CheckBackup(backup)
	require.NoError(t, err)
	data := t.TempDir()
	s := &storecare.Restoration{Stores: datadir.Stores{DataDir: data}, From: from}
	plan, err := s.ReadPlan()
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(backup, storecare.ArchiveFile), 100))
	require.ErrorContains(t, s.Build(t.Context(), plan), "cut short")
	left, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestWhatANextIncarnationForgets: only the outbox, which speaks of a topic that has nothing of it.
func TestWhatANextIncarnationForgets(t *testing.T) {
	content := func(yield func(persistence.Part, error) bool) {
		for _, name := range []string{"announcer", kafka.CursorName, "reaction/bank", "relay"} {
			yield(&persistence.Cursor{Name: name}, nil)
		}
	}
	var kept []string
	for part := range storecare.NextIncarnation(content) {
		kept = append(kept, part.(*persistence.Cursor).Name)
	}
	require.True(t, slices.Equal(kept, []string{"announcer", "reaction/bank", "relay"}), "%v", kept)
}

// TestMissingSecretsAreNamedAfterARestore: a start makes no new secrets for stores that have used
// others.
func TestMissingSecretsAreNamedAfterARestore(t *testing.T) {
	t.Parallel()
	data, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	m := start(t, data)
	passDemo(t, data)
	require.NoError(t, m.Close())
	runs(t, "backup", "--data-dir", data, backup)
	secrets, err := filepath.Glob(filepath.Join(backup, "*key*"))
	require.NoError(t, err)
	require.Empty(t, secrets)
	restored := filepath.Join(t.TempDir(), "restored")
	runs(t, "restore", "--data-dir", restored, backup)
	err = newDaemon(testConfig(t, restored), slog.New(slog.DiscardHandler)).Start(t.Context())
	for name, setting := range settings.SecretSettings {
		require.ErrorContains(t, err, filepath.Join(restored, name)+" is missing")
		require.ErrorContains(t, err, setting)
		require.NoFileExists(t, filepath.Join(restored, name))
	}
	copySecrets(t, data, restored)
	require.NoError(t, start(t, restored).Close())
}
