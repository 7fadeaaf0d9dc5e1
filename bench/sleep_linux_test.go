package bench

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A disk that is none is said.
func TestADirectoryInMemoryIsTold(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	for _, dir := range []string{"/dev/shm", "/proc"} {
		kind := ""
		for line := range strings.Lines(string(mounts)) {
			if words := strings.Fields(line); words[1] == dir {
				kind = words[2]
			}
		}
		r := runAt("http://h:1")
		r.DiskDir = dir
		_, told := r.facts(t.Context())["disk"]
		require.Equal(t, kind == "tmpfs", told, dir)
	}
}
