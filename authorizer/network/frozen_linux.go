package network

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// receivedAgo asks the kernel for the age of the last bytes of a TCP connection. It is not known
// for any other connection and when the kernel refuses.
func receivedAgo(conn net.Conn) (age time.Duration, known bool) {
	tcp, ok := socketOf(conn).(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		info, errInfo := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if errInfo == nil {
			age, known = time.Duration(info.Last_data_recv)*time.Millisecond, true
		}
	})
	return age, known && err == nil
}

// machineSleep returns the machine's sleep since boot: CLOCK_BOOTTIME counts it and CLOCK_MONOTONIC
// does not. It is unknown when the readings were interrupted. Each beat of the
// pulse calls it, by which the card network's port knows messages that waited while the machine
// slept.
func machineSleep() (slept time.Duration, known bool) {
	var before, boot, after unix.Timespec
	for _, reading := range []struct {
		clock int32
		at    *unix.Timespec
	}{{unix.CLOCK_MONOTONIC, &before}, {unix.CLOCK_BOOTTIME, &boot}, {unix.CLOCK_MONOTONIC, &after}} {
		if err := unix.ClockGettime(reading.clock, reading.at); err != nil {
			return 0, false
		}
	}
	known = time.Duration(after.Nano()-before.Nano()) < sleepReadWithin
	return time.Duration(boot.Nano() - before.Nano()), known
}
