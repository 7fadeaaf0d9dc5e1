package bench

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	tickDuration = 10 * time.Millisecond // unit of /proc/PID/stat: 1 s / USER_HZ, which is 100 on Linux
	stateListen  = "0A"                  // of a socket in /proc/net/tcp
	// Indexes of the fields of /proc/PID/stat behind the name of the command.
	userTicks, systemTicks = 11, 12
)

// processorClock reads the processor time that a server has used so far, user and system. It
// reports false when the time is not known.
type processorClock func() (used time.Duration, known bool)

// serverClock returns the processor clock of the process that listens on a URL. It knows no time
// unless the URL is of this machine, the system is Linux, and this user may look at the process.
func serverClock(base string) processorClock {
	pid, found := listeningProcess(base)
	return func() (time.Duration, bool) {
		if !found {
			return 0, false
		}
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			return 0, false
		}
		return parseProcessorTime(text)
	}
}

// parseProcessorTime returns the user and system time in the text of /proc/PID/stat. The name of
// the command may have spaces and parentheses.
func parseProcessorTime(stat []byte) (used time.Duration, ok bool) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= systemTicks {
		return 0, false
	}
	for _, ticks := range fields[userTicks : systemTicks+1] {
		n, err := strconv.ParseInt(ticks, 10, 64)
		if err != nil {
			return 0, false
		}
		used += time.Duration(n) * tickDuration
	}
	return used, true
}

// listeningProcess returns the id of the process that listens on the address of a URL. It reports
// false for an address of another machine, and when /proc does not show the process.
func listeningProcess(base string) (pid int, found bool) {
	u, err := url.Parse(base)
	if err != nil {
		return 0, false
	}
	address, err := net.ResolveTCPAddr("tcp", u.Host)
	if err != nil || !isOfThisMachine(address.IP) {
		return 0, false
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		if inode, ok := listeningSocket(string(text), address); ok {
			return socketOwner(inode)
		}
	}
	return 0, false
}

func isOfThisMachine(ip net.IP) bool {
	own, err := net.InterfaceAddrs()
	return ip.IsLoopback() || err == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(ip)
	})
}

// listeningSocket returns the inode of the socket that listens on an address or on all addresses,
// from the text of /proc/net/tcp or /proc/net/tcp6.
func listeningSocket(table string, address *net.TCPAddr) (inode string, found bool) {
	const local, state, inodeField = 1, 3, 9
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) <= inodeField || fields[state] != stateListen {
			continue
		}
		host, port, _ := strings.Cut(fields[local], ":")
		n, err := strconv.ParseUint(port, 16, 16)
		ip := parseTableIP(host)
		if err == nil && int(n) == address.Port && (ip.IsUnspecified() || ip.Equal(address.IP)) {
			return fields[inodeField], true
		}
	}
	return "", false
}

// parseTableIP reads an address of /proc/net/tcp: hexadecimal words of 32 bits in the order of a
// little-endian machine. It returns nil for another text.
func parseTableIP(text string) net.IP {
	const word = 4
	ip, err := hex.DecodeString(text)
	if err != nil || len(ip) != net.IPv4len && len(ip) != net.IPv6len {
		return nil
	}
	for at := 0; at < len(ip); at += word {
		slices.Reverse(ip[at : at+word])
	}
	return ip
}

// socketOwner returns the id of the process that has a socket open. It reports false when no
// process that this user may look at has the socket.
func socketOwner(inode string) (pid int, found bool) {
	sockets, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, false
	}
	for _, path := range sockets {
		if target, err := os.Readlink(path); err != nil || target != "socket:["+inode+"]" {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		return pid, err == nil
	}
	return 0, false
}
