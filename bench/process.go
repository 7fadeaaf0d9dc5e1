package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Limits of reading the server's metrics.
const scrapeEvery = 500 * time.Millisecond

// backlogGauge counts the decisions that the journal does not have yet.
const backlogGauge = "purser_backlog_entries"

// gauges are the metrics that a run reads: how far the server is behind, and its memory.
var gauges = map[string]bool{backlogGauge: true, "purser_relay_lag_seconds": true, "purser_follower_late_seconds": true,
	"purser_outbox_lag_seconds": true, "process_resident_memory_bytes": true}

// readGauges reads the server's gauges from its admin port: the sum of a metric's series, and the
// maximum of one in seconds. It returns nil without an admin port, and fails when the port does not
// answer 200.
func (r *run) readGauges() (map[string]float64, error) {
	if r.admin == nil {
		return nil, nil
	}
	if err := r.admin.callJSON("GET", "/metrics", nil, nil); err != nil {
		return nil, err
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(r.admin.response.Body())) {
		series, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ := strings.Cut(series, "{")
		value, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || !gauges[name]:
		case strings.HasSuffix(name, "_seconds"):
			found[name] = max(found[name], value)
		default:
			found[name] += value
		}
	}
	return found, nil
}

// measureUsage is what a process has used so far.
type usage struct {
	processor time.Duration // user and system
	written   int64         // bytes to the disk
}

// measureUsage reads the usage of the server's process from /proc. It is zero when the process is
// not known, or of another user.
func (r *run) measureUsage() (u usage) {
	if r.Target.Process == nil {
		return u
	}
	dir := fmt.Sprintf("/proc/%d/", r.Target.Process())
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return u
	}
	// Behind the name of the command, which may have spaces: the fields from the third on.
	const userTicks, systemTicks, tick = 11, 12, 10 * time.Millisecond // 1 s / USER_HZ, which is 100 on Linux
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= systemTicks {
		return u
	}
	for _, field := range fields[userTicks : systemTicks+1] {
		ticks, _ := strconv.ParseInt(field, 10, 64) // the kernel writes numbers
		u.processor += time.Duration(ticks) * tick
	}
	if text, err := os.ReadFile(dir + "io"); err == nil {
		u.written, _ = strconv.ParseInt(lineOf(string(text), "write_bytes"), 10, 64) // 0 when it is unknown
	}
	return u
}

// addUsage adds the usage of the server between two times, for each answer. It includes the work
// after the load until the dollars add up. A process that was started anew in between has none.
func (s *Stage) addUsage(before, after usage, stages []Stage) {
	n := float64(countAnswered(stages))
	if after.processor > before.processor && before.processor > 0 && n > 0 {
		s.addFigure(processorFigure, toMicros(int64(after.processor-before.processor))/n, "µs")
	}
	if after.written > before.written && before.written > 0 && n > 0 {
		s.addFigure(writtenFigure, float64(after.written-before.written)/n, "bytes")
	}
}

// Figures of the server's process, for each answer.
const (
	processorFigure = "processor time per answer"
	writtenFigure   = "written to the disk per answer"
)

// addBacklog adds the highest backlog of a load, and how fast it grew in the second half.
func (s *Stage) addBacklog() {
	var at, entries []float64
	most := 0.0
	for _, m := range s.Moments {
		if v, told := m.Gauges[backlogGauge]; told {
			at, entries, most = append(at, m.AtSeconds), append(entries, v), max(most, v)
		}
	}
	if len(at) > 0 {
		s.addFigure("most decisions in the backlog", most, "")
		s.addFigure("growth of the backlog in the second half", slopeOf(at[len(at)/2:], entries[len(at)/2:]), "/s")
	}
}

// slopeOf returns the slope of the least-squares line through the points, 0 without two of them.
func slopeOf(x, y []float64) float64 {
	n := float64(len(x))
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	if spread := n*sxx - sx*sx; spread > 0 {
		return (n*sxy - sx*sy) / spread
	}
	return 0
}

// Machine describes where a run was made, with no name of it.
type Machine struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memoryBytes"`
	Kernel      string `json:"kernel"`
	Go          string `json:"go"`
}

// describeMachine reads the machine's facts from Linux; elsewhere some stay empty.
func describeMachine() Machine {
	read := func(path string) string {
		text, _ := os.ReadFile(path) // empty on another system
		return string(text)
	}
	memory, _, _ := strings.Cut(lineOf(read("/proc/meminfo"), "MemTotal"), " ")
	kibibytes, _ := strconv.ParseInt(memory, 10, 64)                                         // 0 when it is unknown
	release, _, _ := strings.Cut(strings.TrimSpace(read("/proc/sys/kernel/osrelease")), "-") // what follows names a build
	return Machine{CPU: lineOf(read("/proc/cpuinfo"), "model name"), Cores: runtime.NumCPU(), MemoryBytes: kibibytes << 10,
		Kernel: strings.TrimSpace(runtime.GOOS + " " + release), Go: runtime.Version()}
}

// lineOf returns the text after a name and a colon in the first line that begins with it.
func lineOf(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
