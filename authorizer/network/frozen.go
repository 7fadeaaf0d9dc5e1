package network

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The timers of a stopped or starved process do not run. Messages then wait in the sockets, and
// their 150 ms would begin when the process reads them. The server therefore detects its own gaps,
// and asks the kernel for the age of the bytes that it reads after one. Neither the process's clock
// nor that age counts the sleep of a machine, which the difference of the kernel's two clocks since
// boot shows.
const (
	// pulseEvery is the pause between two beats. frozenAfter is a gap of ten beats.
	pulseEvery  = 10 * time.Millisecond
	frozenAfter = 100 * time.Millisecond
	// doubtFor is the time after a gap in which the kernel is asked. A server with a full backlog
	// of connections reads all waiting bytes sooner.
	doubtFor = 10 * time.Second
	// kernelTick is the coarsest unit of the kernel's age of bytes.
	kernelTick = 10 * time.Millisecond
	// sleepReadWithin is the longest distance between two comparable readings of the kernel's
	// clocks.
	sleepReadWithin = time.Millisecond
)

// pulse detects when this process did not run. It is safe for concurrent use. The zero value has no
// gap.
type pulse struct {
	began time.Time
	last  atomic.Int64 // the last beat, in nanoseconds after began; 0: none
	awake atomic.Int64 // the first beat after the last gap; 0: no gap
	slept atomic.Int64 // the machine's sleep in the last gap, in nanoseconds
	gap   atomic.Int64 // the length of the last gap with that sleep, in nanoseconds
	// asleep is the machine's sleep since boot at the last beat.
	asleep time.Duration

	once   sync.Once
	cancel context.CancelFunc
}

// start starts the beats, one per pulseEvery, which stop ends. Later calls do nothing. Server.Serve
// calls it, unless Options.IgnoreStops is set.
func (p *pulse) start() {
	p.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		p.began, p.cancel = time.Now(), cancel
		p.asleep, _ = machineSleep()
		p.recordBeat(p.sinceStart(), p.asleep)
		go func() {
			ticker := time.NewTicker(pulseEvery)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
					asleep, known := machineSleep()
					if !known {
						asleep = p.asleep
					}
					p.recordBeat(p.sinceStart(), asleep)
				case <-ctx.Done():
					return
				}
			}
		}()
	})
}

// stop ends the beats, and keeps a later start from starting them.
func (p *pulse) stop() {
	p.once.Do(func() {})
	if p.cancel != nil {
		p.cancel()
	}
}

func (p *pulse) sinceStart() int64 { return max(1, int64(time.Since(p.began))) }

// recordBeat records that the process runs. asleep is the machine's sleep since boot.
func (p *pulse) recordBeat(at int64, asleep time.Duration) {
	slept := max(0, int64(asleep-p.asleep))
	if last := p.last.Load(); last != 0 && at-last+slept >= int64(frozenAfter) {
		p.slept.Store(slept)
		p.gap.Store(at - last + slept)
		p.awake.Store(at)
	}
	p.asleep = asleep
	p.last.Store(at)
}

// gapBefore reports whether the process may not have run between the arrival of a message and its
// reading at a time. sinceAwake is the time since the process runs again; it is 0 while the gap
// lasts and until its first beat.
func (p *pulse) gapBefore(at int64) (sinceAwake time.Duration, frozen bool) {
	last := p.last.Load()
	switch awake := p.awake.Load(); {
	case last == 0:
		return 0, false
	case at-last >= int64(frozenAfter):
		return 0, true
	case awake != 0 && at-awake < int64(doubtFor):
		return time.Duration(max(0, at-awake)), true
	}
	return 0, false
}

// waitedInSocket returns how long a message has waited in the socket, as far as known. Without a
// gap it is 0. After a gap the kernel knows the arrival of the connection's last bytes, and the
// message is at least as old. Bytes from before the end of a machine's sleep are older by that
// sleep. Where the kernel cannot be asked, a message that is read within the time within after the
// gap's end counts as old as the gap's begin. The server reads it for each message, so that a
// message older than within, the answer's time, is not approved late.
func (p *pulse) waitedInSocket(conn net.Conn, within time.Duration) time.Duration {
	last, at := p.last.Load(), p.sinceStart()
	if last == 0 {
		return 0
	}
	sinceAwake, frozen := p.gapBefore(at)
	if !frozen {
		return 0
	}
	if age, known := receivedAgo(conn); known {
		if sinceAwake > 0 && age+kernelTick >= sinceAwake {
			age += time.Duration(p.slept.Load())
		}
		return age
	}
	switch {
	case sinceAwake == 0:
		return time.Duration(at - last)
	case sinceAwake < within:
		return sinceAwake + time.Duration(p.gap.Load())
	}
	return 0
}

// socketOf returns the kernel's connection below its wrappers.
func socketOf(conn net.Conn) net.Conn {
	for {
		wrapped, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = wrapped.NetConn()
	}
}
