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

// mustRun runs a command in this process, requires that it succeeds, and returns its output.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, run(args, &out), out.String())
	return out.String()
}

// copySecrets copies the secret files to a restored directory, as its operator does: a backup has
// none.
func copySecrets(t *testing.T, from, to string) {
	t.Helper()
	for name := range settings.SecretSettings {
		require.NoError(t, storecare.CopyFile(filepath.Join(from, name), filepath.Join(to, name)))
	}
}

// openJournalOf opens the journal in the data directory of a stopped server.
func openJournalOf(t *testing.T, data string) *pebblejournal.Journal {
	t.Helper()
	j, err := pebblejournal.Open(pebblejournal.Options{Dir: datadir.JournalDir(data), MustExist: true})
	require.NoError(t, err)
	return j
}

// TestBackupUnderLoadRestoresElsewhere backs up a server while it serves a second tour. The
// restored directory has every answer of the first tour, passes the audit and serves a further
// tour.
func TestBackupUnderLoadRestoresElsewhere(t *testing.T) {
	onlyInFullLength(t)
	t.Parallel()
	data, restored := t.TempDir(), filepath.Join(t.TempDir(), "restored")
	saved, backup := filepath.Join(t.TempDir(), "saved.json"), filepath.Join(t.TempDir(), "backup")
	m := startServer(t, data)
	passDemo(t, data, "--save", saved)
	during := make(chan error)
	go func() {
		var out strings.Builder
		during <- run([]string{"backup", "--data-dir", data, backup}, &out)
	}()
	passDemo(t, data) // load while the backup runs
	require.NoError(t, <-during)
	require.ErrorContains(t, run([]string{"backup", "--data-dir", data, backup}, io.Discard), "is there already")
	require.NoError(t, m.Close())

	require.Contains(t, mustRun(t, "restore", "--data-dir", restored, backup), "restored to")
	require.Contains(t, runAudit(t, restored), "agree to the cent", "before the start")
	copySecrets(t, data, restored)
	m = startServer(t, restored)
	passDemo(t, restored, "--check", saved)
	passDemo(t, restored)
	require.NoError(t, m.Close())
	require.Contains(t, runAudit(t, restored), "agree to the cent")

	old, again := openJournalOf(t, data), openJournalOf(t, restored)
	require.Equal(t, old.Identity().Deployment, again.Identity().Deployment)
	require.NotEqual(t, old.Identity().Store, again.Identity().Store, "a restore gives the store a new id")
	require.NoError(t, errors.Join(old.Close(), again.Close()))
}

// TestRestoreOfAnOlderJournalKeepsTheAuthorizer loses the journal and restores it from a backup,
// with --keep-authorizer. The start relays the decisions made after the backup again, also those of
// workspaces and cards that the restored journal does not know.
func TestRestoreOfAnOlderJournalKeepsTheAuthorizer(t *testing.T) {
	t.Parallel()
	data, saved, backup := t.TempDir(), filepath.Join(t.TempDir(), "saved.json"), filepath.Join(t.TempDir(), "backup")
	m := startServer(t, data)
	passDemo(t, data, "--save", saved)
	require.NoError(t, m.Close())
	mustRun(t, "backup", "--data-dir", data, backup)
	m = startServer(t, data)
	passDemo(t, data)
	var decided [ident.Shards]uint64
	for shard := range decided {
		decided[shard] = m.authorizer.Synced(ident.Shard(shard))
	}
	require.NoError(t, m.Close())

	require.ErrorContains(t, run([]string{"restore", "--data-dir", data, backup}, io.Discard), "move it away first")
	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	require.ErrorContains(t, run([]string{"restore", "--data-dir", data, backup}, io.Discard), "--keep-authorizer")
	mustRun(t, "restore", "--keep-authorizer", "--data-dir", data, backup)
	require.Contains(t, runAudit(t, data), "agree to the cent", "before the start")
	m = startServer(t, data)
	for shard := range decided {
		synced := m.authorizer.Synced(ident.Shard(shard))
		require.GreaterOrEqual(t, synced, decided[shard], "shard %d lost decisions", shard)
	}
	require.NoError(t, m.system.RelayAll(t.Context()))
	passDemo(t, data, "--check", saved)
	passDemo(t, data)
	require.NoError(t, m.Close())
	require.Contains(t, runAudit(t, data), "agree to the cent")
	kept, err := filepath.Glob(datadir.AuthorizerDir(data) + ".old-*")
	require.NoError(t, err)
	require.Len(t, kept, 1)

	stranger := t.TempDir()
	require.NoError(t, startServer(t, stranger).Close())
	require.NoError(t, os.RemoveAll(datadir.JournalDir(stranger)))
	err = run([]string{"restore", "--keep-authorizer", "--data-dir", stranger, backup}, io.Discard)
	require.ErrorIs(t, err, authorizer.ErrForeign)
	require.NoDirExists(t, datadir.RestoringDir(stranger))
}

// TestBackupIncludesTheSandboxChains backs up a running and a stopped server. Each payment on a
// sandbox chain is in the same block of the restored chain. A restore with --keep-authorizer keeps
// the newer chains too.
func TestBackupIncludesTheSandboxChains(t *testing.T) {
	t.Parallel()
	data, running, stopped := t.TempDir(), filepath.Join(t.TempDir(), "running"), filepath.Join(t.TempDir(), "stopped")
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
	m := startServer(t, data)
	first := pay(m, "first")
	mustRun(t, "backup", "--data-dir", data, running)
	second := pay(m, "second")
	require.NoError(t, m.Close())
	mustRun(t, "backup", "--data-dir", data, stopped)
	for backup, want := range map[string][]string{running: first, stopped: second} {
		restored := filepath.Join(t.TempDir(), "restored")
		mustRun(t, "restore", "--data-dir", restored, backup)
		copySecrets(t, data, restored)
		m = startServer(t, restored)
		require.Equal(t, want, paid(m), backup)
		require.NoError(t, m.Close())
	}
	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	mustRun(t, "restore", "--keep-authorizer", "--data-dir", data, running)
	m = startServer(t, data)
	require.Equal(t, second, paid(m))
	require.NoError(t, m.Close())
	require.NoError(t, errors.Join(os.RemoveAll(datadir.JournalDir(data)), os.RemoveAll(datadir.AuthorizerDir(data))))
	require.ErrorContains(t, run([]string{"restore", "--data-dir", data, stopped}, io.Discard),
		"sandbox is there: move it away first")
}

// backUpFreshServer returns the data directory of a server that has only started and stopped, and a
// backup of it.
func backUpFreshServer(t *testing.T) (data, backup string) {
	data, backup = t.TempDir(), filepath.Join(t.TempDir(), "backup")
	require.NoError(t, startServer(t, data).Close())
	mustRun(t, "backup", "--data-dir", data, backup)
	return data, backup
}

// TestDamagedBackupIsRefused damages each part of a backup. The restore names the fault and has
// created nothing. A trailing space only makes the key of a case unique.
func TestDamagedBackupIsRefused(t *testing.T) {
	t.Parallel()
	_, backup := backUpFreshServer(t)
	logs, err := filepath.Glob(filepath.Join(datadir.AuthorizerDir(backup), "*.wal"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	log := filepath.Join("authorizer", filepath.Base(logs[0]))
	flip := func(name string, at func(size int) int) func(dir string) {
		return func(dir string) {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			text[at(len(text))] ^= 1
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
	}
	first, last := func(int) int { return 0 }, func(n int) int { return n - 1 }
	middle := func(n int) int { return n / 2 }
	remove := func(name string) func(dir string) {
		return func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, name))) }
	}
	flipAndResum := func(at func(size int) int) func(dir string) {
		return func(dir string) {
			flip(storecare.ArchiveFile, at)(dir)
			rewriteChecksums(t, dir)
		}
	}
	for why, damage := range map[string]func(dir string){
		"BACKUP is not of the form": flip(storecare.ManifestFile, first),
		"BACKUP: its format is 1, this program reads 2: restore it with the program that made it": func(dir string) {
			form := datadir.Form{Name: "purser-backup", Number: 1}
			require.NoError(t, datadir.WriteChecksummed(filepath.Join(dir, storecare.ManifestFile), form, nil))
		},
		"BACKUP: its format is 3, this program reads 2: run the newer program": func(dir string) {
			form := datadir.Form{Name: "purser-backup", Number: 3}
			require.NoError(t, datadir.WriteChecksummed(filepath.Join(dir, storecare.ManifestFile), form, nil))
		},
		"the checksum of BACKUP differs":            flip(storecare.ManifestFile, middle),
		"the checksum of BACKUP differs ":           flip(storecare.ManifestFile, last),
		"the checksum of journal.archive differs":   flip(storecare.ArchiveFile, first),
		"the checksum of journal.archive differs ":  flip(storecare.ArchiveFile, middle),
		"the checksum of journal.archive differs  ": flip(storecare.ArchiveFile, last),
		"the checksum of " + log + " differs":       flip(log, last),
		"journal.archive is missing":                remove(storecare.ArchiveFile),
		log + " is missing":                         remove(log),
		"has no file BACKUP":                        remove(storecare.ManifestFile),
		"journal.archive has 7 bytes": func(dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, storecare.ArchiveFile), 7))
		},
		"stray is not of the backup": func(dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "stray"), nil, 0o600))
		},
		"is not the journal that BACKUP tells of": func(dir string) {
			rewriteManifest(t, dir, func(m *storecare.Manifest) { m.Deployment = strings.Repeat("0", 32) })
		},
		"is not the journal that BACKUP tells of ": func(dir string) {
			rewriteManifest(t, dir, func(m *storecare.Manifest) { m.Counts.Events++ })
		},
		"journal.archive: not a journal archive of":  flipAndResum(first),
		"journal.archive: damaged journal archive":   flipAndResum(middle),
		"journal.archive: damaged journal archive: ": flipAndResum(last),
	} {
		dir, into := filepath.Join(t.TempDir(), "damaged"), filepath.Join(t.TempDir(), "into")
		require.NoError(t, storecare.CopyTree(backup, dir))
		damage(dir)
		err := run([]string{"restore", "--data-dir", into, dir}, io.Discard)
		require.ErrorIs(t, err, storecare.ErrDamaged, why)
		require.ErrorContains(t, err, strings.TrimSpace(why))
		require.NoDirExists(t, into)
	}
	mustRun(t, "restore", "--data-dir", filepath.Join(t.TempDir(), "into"), backup)
}

// rewriteManifest changes the manifest of a backup and writes it with its new checksum.
func rewriteManifest(t *testing.T, dir string, change func(*storecare.Manifest)) {
	var c storecare.CheckedBackup
	c.Dir = dir
	require.NoError(t, c.ReadManifest())
	change(&c.Manifest)
	require.NoError(t, c.Write(dir))
}

// rewriteChecksums writes the manifest of a damaged backup with the checksums of the damaged files.
func rewriteChecksums(t *testing.T, dir string) {
	rewriteManifest(t, dir, func(m *storecare.Manifest) {
		files, err := storecare.SumFiles(dir)
		require.NoError(t, err)
		delete(files, storecare.ManifestFile)
		m.Files = files
	})
}

// TestInterruptedRestoreIsFinishedByTheSameCommand crashes a restore after each of its steps. No
// other command then opens the directory, and the same restore finishes.
func TestInterruptedRestoreIsFinishedByTheSameCommand(t *testing.T) {
	t.Parallel()
	source, backup := backUpFreshServer(t)
	_, other := backUpFreshServer(t)
	from, err := storecare.CheckBackup(backup)
	require.NoError(t, err)
	for name, crash := range map[string]func(s *storecare.Restoration, plan storecare.RestorePlan) error{
		"with the plan": func(s *storecare.Restoration, plan storecare.RestorePlan) error { return s.Begin(plan) },
		"with the authorizer": func(s *storecare.Restoration, plan storecare.RestorePlan) error {
			return errors.Join(s.Begin(plan), s.BuildAuthorizer())
		},
		"with the journal": func(s *storecare.Restoration, plan storecare.RestorePlan) error {
			return buildUpToTheJournal(t, s, plan)
		},
		"when it is ready": func(s *storecare.Restoration, plan storecare.RestorePlan) error {
			return s.Build(t.Context(), plan)
		},
		"with one store placed": func(s *storecare.Restoration, plan storecare.RestorePlan) error {
			return errors.Join(s.Build(t.Context(), plan),
				os.Rename(datadir.AuthorizerDir(datadir.RestoringDir(s.DataDir)), datadir.AuthorizerDir(s.DataDir)))
		},
		"with all stores placed": func(s *storecare.Restoration, plan storecare.RestorePlan) error {
			dir := datadir.RestoringDir(s.DataDir)
			return errors.Join(s.Build(t.Context(), plan),
				os.Rename(datadir.AuthorizerDir(dir), datadir.AuthorizerDir(s.DataDir)),
				os.Rename(datadir.SandboxDir(dir), datadir.SandboxDir(s.DataDir)),
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
			m := newDaemon(testConfig(t, data), slog.New(slog.DiscardHandler))
			require.ErrorContains(t, m.Start(t.Context()), refusal)
			rebuild, restore := []string{"rebuild-authorizer", "--yes"}, []string{"restore", other}
			require.ErrorContains(t, run(append(rebuild, "--data-dir", data), io.Discard), refusal)
			require.ErrorContains(t, run(append(restore, "--data-dir", data), io.Discard), "run that one again")
			mustRun(t, "restore", "--data-dir", data, backup)
			require.NoDirExists(t, datadir.RestoringDir(data))
			j := openJournalOf(t, data)
			require.Equal(t, plan.Store, j.Identity().Store)
			require.NoError(t, j.Close())
			copySecrets(t, source, data)
			require.NoError(t, startServer(t, data).Close())
		})
	}
}

// buildUpToTheJournal runs the steps of a restoration's build except the last one.
func buildUpToTheJournal(t *testing.T, s *storecare.Restoration, plan storecare.RestorePlan) error {
	return errors.Join(s.Begin(plan), s.BuildAuthorizer(), s.BuildJournal(t.Context(), plan))
}

// TestFailedRestoreLeavesNoFiles truncates the archive after the checks of the backup, so that the
// build of the journal fails.
func TestFailedRestoreLeavesNoFiles(t *testing.T) {
	t.Parallel()
	_, backup := backUpFreshServer(t)
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

// TestNextIncarnationDropsTheKafkaCursor: the Kafka topic has no event of the restored
// store, so the outbox starts again. Every other cursor stays.
func TestNextIncarnationDropsTheKafkaCursor(t *testing.T) {
	content := func(yield func(persistence.Part, error) bool) {
		for _, name := range []string{"announcer", kafka.CursorName, "relay"} {
			yield(&persistence.Cursor{Name: name}, nil)
		}
	}
	var kept []string
	for part := range storecare.NextIncarnation(content) {
		kept = append(kept, part.(*persistence.Cursor).Name)
	}
	require.True(t, slices.Equal(kept, []string{"announcer", "relay"}), "%v", kept)
}

// TestMissingSecretsAreNamedAfterARestore: the start of a restored directory without its secrets
// fails and names each missing file and its setting. It creates no new secrets.
func TestMissingSecretsAreNamedAfterARestore(t *testing.T) {
	t.Parallel()
	data, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	m := startServer(t, data)
	passDemo(t, data)
	require.NoError(t, m.Close())
	mustRun(t, "backup", "--data-dir", data, backup)
	secrets, err := filepath.Glob(filepath.Join(backup, "*key*"))
	require.NoError(t, err)
	require.Empty(t, secrets)
	restored := filepath.Join(t.TempDir(), "restored")
	mustRun(t, "restore", "--data-dir", restored, backup)
	err = newDaemon(testConfig(t, restored), slog.New(slog.DiscardHandler)).Start(t.Context())
	for name, setting := range settings.SecretSettings {
		require.ErrorContains(t, err, filepath.Join(restored, name)+" is missing")
		require.ErrorContains(t, err, setting)
		require.NoFileExists(t, filepath.Join(restored, name))
	}
	copySecrets(t, data, restored)
	require.NoError(t, startServer(t, restored).Close())
}
