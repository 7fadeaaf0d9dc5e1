package bench

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine describes where a run was made, with no name of it.
type Machine struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memoryBytes"`
	Kernel      string `json:"kernel"`
	Go          string `json:"go"`
}

// describeMachine reads the machine's facts from Linux; elsewhere some stay empty. It never fails.
// prepareReport calls it.
func describeMachine() Machine {
	m := Machine{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if model := lineOf(string(text), "model name"); model != "" {
			m.CPU = model
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		kilobytes, _, _ := strings.Cut(lineOf(string(text), "MemTotal"), " ")
		n, _ := strconv.ParseInt(kilobytes, 10, 64) // 0 when it is unknown
		m.MemoryBytes = n << 10
	}
	m.Kernel = runtime.GOOS
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		release, _, _ := strings.Cut(strings.TrimSpace(string(text)), "-") // what follows names a build, not the kernel
		m.Kernel += " " + release
	}
	return m
}

// lineOf is what follows a name and a colon in the first line that begins with it.
func lineOf(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
