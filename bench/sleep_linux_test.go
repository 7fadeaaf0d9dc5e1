package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory in a memory file system is reported as no disk.
func TestADirectoryInMemoryIsTold(t *testing.T) {
	told := func(dir string) bool {
		r := runAt("http://h:1")
		r.DiskDir = dir
		_, told := r.collectFacts(t.Context())["disk"]
		return told
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		mount, system, _ := strings.Cut(line, " - ")
		words, kind := strings.Fields(mount), strings.Fields(system)[0]
		if !slices.Contains([]string{"tmpfs", "ramfs"}, kind) {
			continue
		}
		// A mount point that another mount covers is not reachable by this name.
		var at syscall.Stat_t
		if dir := words[4]; syscall.Stat(dir, &at) == nil && words[2] == fmt.Sprintf("%d:%d", at.Dev>>8&0xfff, at.Dev&0xff) {
			require.True(t, told(dir), line)
		}
	}
	require.False(t, told("/proc"))
}
