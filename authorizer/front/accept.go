package front

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Bounds of the pause after an accept that has failed for want of descriptors or memory. The pause
// doubles from the shorter one.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Second
)

// exhausted are the faults of accept that pass by themselves: no descriptor left in the process or
// the machine, no memory, and a peer that has gone before it was accepted.
var exhausted = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}

func isExhaustion(err error) bool {
	for _, fault := range exhausted {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}

// counters are what a server counts. See Counts.
type counters struct {
	accepted, waits, overFull, overPeer, overRefused, cut, noHead, noHandshake atomic.Int64
}

// Counts are a server's open connections and its counters since New.
type Counts struct {
	Open        int   // connections
	Accepted    int64 // connections let in
	Waits       int64 // accepts that failed for want of descriptors or memory, and were tried again
	OverFull    int64 // connections refused because the pool was full
	OverPeer    int64 // connections refused because their peer had as many as it may
	OverRefused int64 // connections refused because their peer causes too many refusals
	Cut         int64 // waits of connections that were ended early because the pool was filling
	// NoHead are the connections of trusted proxies that ended without a valid PROXY head.
	// NoHandshake are those that ended without a TLS handshake, except silent health checks of
	// proxies.
	NoHead, NoHandshake int64
}

// Counts returns the server's counters.
func (s *Server) Counts() Counts {
	return Counts{Open: s.pool.openCount(), Accepted: s.counters.accepted.Load(), Waits: s.counters.waits.Load(),
		OverFull: s.counters.overFull.Load(), OverPeer: s.counters.overPeer.Load(),
		OverRefused: s.counters.overRefused.Load(), Cut: s.counters.cut.Load(), NoHead: s.counters.noHead.Load(),
		NoHandshake: s.counters.noHandshake.Load()}
}

// listener accepts for a server, within its limits.
type listener struct {
	net.Listener
	server *Server
}

// Accept implements net.Listener. It returns no error that passes by itself.
func (l *listener) Accept() (net.Conn, error) {
	s := l.server
	for pause := shortestPause; ; {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			c := s.wrapConn(conn)
			if !s.pool.admitConnection(c) {
				_ = conn.Close()
				continue
			}
			s.counters.accepted.Add(1)
			if s.isShut() {
				_ = conn.Close() // fasthttp sees it closed at its first read
			}
			return c, nil
		case !isExhaustion(err):
			return nil, err
		}
		s.counters.waits.Add(1)
		s.pool.endLongWaits(full)
		if !s.waitForPause(pause) {
			return nil, net.ErrClosed
		}
		pause = min(2*pause, longestPause)
	}
}

// Close implements net.Listener. fasthttp's shutdown also closes listeners that failed and were
// closed before.
func (l *listener) Close() error {
	if err := l.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// waitForPause returns after a while, or false at once when the server shuts.
func (s *Server) waitForPause(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.done:
		return false
	}
}

func (s *Server) isShut() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
