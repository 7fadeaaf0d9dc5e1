package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/httpapi/password"
)

// Every thread of the password worker has the lowest priority, and so any thread that derives a
// key.
func TestThePasswordWorkerHasTheLowestPriority(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must run on Linux, where /proc shows priorities")
		t.Skip("only Linux shows the priorities of threads, in /proc")
	}
	worker := password.NewWorker(os.Args[0], passwordWorker)
	defer func() { require.NoError(t, worker.Close()) }()
	_, err := worker.Derive(password.Derivation{Password: []byte("x"), Salt: []byte("0123456789abcdef"), Memory: 64,
		Time: 1})
	require.NoError(t, err)
	checked := 0
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, process := range processes {
		line, err := os.ReadFile(process)
		if err != nil || !strings.HasPrefix(string(line), os.Args[0]+"\x00"+passwordWorker) {
			continue
		}
		tasks, err := filepath.Glob(filepath.Join(filepath.Dir(process), "task", "*", "stat"))
		require.NoError(t, err)
		for _, task := range tasks {
			stat, err := os.ReadFile(task)
			if err != nil {
				continue // the thread has ended
			}
			_, fields, found := strings.Cut(string(stat), ") ")
			require.True(t, found)
			require.Equal(t, "19", strings.Fields(fields)[16], "the nice value of %s", task)
			checked++
		}
	}
	require.NotZero(t, checked)
}
