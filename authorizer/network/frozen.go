package network

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"purser/authorizer/hold"
)

// A process that is stopped or starved does not run its timers: messages then wait in the sockets,
// and their 150 ms would begin when the process reads them. The server therefore notices its own
// gaps and asks the kernel for the age of the bytes that it reads after one. Neither the process's
// clock nor that age counts the sleep of a machine, which the difference of the kernel's two
// clocks since boot shows.
const (
	// pulseEvery is the pause between two beats. A gap of frozenAfter is ten of them.
	pulseEvery  = 10 * time.Millisecond
	frozenAfter = 100 * time.Millisecond
	// doubtFor is how long after a gap the kernel is asked. A server with a full backlog of
	// connections reads all that waited sooner.
	doubtFor = 10 * time.Second
	// kernelTick is the coarsest unit of the kernel's age of bytes.
	kernelTick = 10 * time.Millisecond
	// sleepReadWithin is how far apart two readings of the kernel's clocks may be to be compared.
	sleepReadWithin = time.Millisecond
)

// pulse knows when this process did not run. Its methods are safe for concurrent use; the zero
// value knows of no gap.
type pulse struct {
	began time.Time
	last  atomic.Int64 // the last beat, nanoseconds after began; 0: there was none
	awake atomic.Int64 // the first beat after the last gap; 0: there was no gap
	slept atomic.Int64 // how long the machine slept in the last gap, nanoseconds
	// asleep is the machine's sleep since boot at the last beat; the beats alone use it.
	asleep time.Duration

	once   sync.Once
	cancel context.CancelFunc
}

// begin beats until end. Later calls do nothing.
func (p *pulse) begin() {
	p.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		p.began, p.cancel = time.Now(), cancel
		p.asleep, _ = machineSleep()
		p.beat(p.elapsed(), p.asleep)
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
					p.beat(p.elapsed(), asleep)
				case <-ctx.Done():
					return
				}
			}
		}()
	})
}

// end stops the beats, and keeps a later begin from starting them.
func (p *pulse) end() {
	p.once.Do(func() {})
	if p.cancel != nil {
		p.cancel()
	}
}

func (p *pulse) elapsed() int64 { return max(1, int64(time.Since(p.began))) }

// beat notes that the process runs. asleep is the machine's sleep since boot.
func (p *pulse) beat(at int64, asleep time.Duration) {
	slept := max(0, int64(asleep-p.asleep))
	if last := p.last.Load(); last != 0 && at-last+slept >= int64(frozenAfter) {
		p.slept.Store(slept)
		p.awake.Store(at)
	}
	p.asleep = asleep
	p.last.Store(at)
}

// gap reports whether the process may not have run since a message came that is read at a moment.
// sinceAwake is the time since the process runs again, 0 when the gap is not over or its first beat
// is still to come.
func (p *pulse) gap(at int64) (sinceAwake time.Duration, frozen bool) {
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

// waited returns how long a message that was just read has lain in the socket, as far as anyone can
// know. Without a gap it is 0: the message was read when it came. After a gap the kernel knows when
// the connection's last bytes came; the message is at least as old. Bytes that came before the end
// of a machine's sleep are older by that sleep. Where the kernel cannot be asked, a message that is
// read within AnswerWithin of the gap's end counts as old.
func (p *pulse) waited(conn net.Conn) time.Duration {
	if p.last.Load() == 0 {
		return 0
	}
	sinceAwake, frozen := p.gap(p.elapsed())
	if !frozen {
		return 0
	}
	if age, known := receivedAgo(conn); known {
		if sinceAwake > 0 && age+kernelTick >= sinceAwake {
			age += time.Duration(p.slept.Load())
		}
		return age
	}
	if sinceAwake < hold.AnswerWithin {
		return hold.AnswerWithin
	}
	return 0
}

// socketOf finds the kernel's connection below those that wrap it.
func socketOf(conn net.Conn) net.Conn {
	for {
		wrapped, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = wrapped.NetConn()
	}
}
