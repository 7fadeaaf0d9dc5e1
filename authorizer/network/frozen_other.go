//go:build !linux

package network

import (
	"net"
	"time"
)

// receivedAgo does not know where the kernel does not say.
func receivedAgo(conn net.Conn) (age time.Duration, known bool) {
	_ = socketOf(conn)
	return 0, false
}

// machineSleep is not known here.
func machineSleep() (slept time.Duration, known bool) { return 0, false }
