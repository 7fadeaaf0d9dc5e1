//go:build !linux

package network

import (
	"net"
	"time"
)

// receivedAgo is unknown on this platform.
func receivedAgo(conn net.Conn) (age time.Duration, known bool) {
	_ = socketOf(conn)
	return 0, false
}

// machineSleep is unknown on this platform.
func machineSleep() (slept time.Duration, known bool) { return 0, false }
