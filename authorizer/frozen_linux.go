package authorizer

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// receivedAgo asks the kernel how long ago the last bytes of a TCP connection came.
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
