package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/valyala/fasthttp"
)

// The measured writes: blocks over zeros, as the server's logs write them.
const (
	blockBytes  = 4096
	zeroedBytes = 16 << 20
)

// Yardstick is the speed of the idle machine.
type Yardstick struct {
	SyncP50Micros float64 `json:"syncP50Micros"` // a block over preallocated zeroed ones, until it is on the disk
	Empty         []Empty `json:"empty"`
}

// Empty is the speed of an HTTP handler that does nothing, in another process, with the same client
// and a number of connections.
type Empty struct {
	Connections int     `json:"connections"`
	PerSecond   float64 `json:"perSecond"`
	P50Micros   float64 `json:"p50Micros"`
}

// floorMicros is the shortest time of a durable answer: one sync and one exchange.
func (y *Yardstick) floorMicros() float64 {
	if e := y.emptyOf(1); e != nil {
		return y.SyncP50Micros + e.P50Micros
	}
	return 0
}

func (y *Yardstick) emptyOf(connections int) *Empty {
	for i := range y.Empty {
		if y.Empty[i].Connections == connections {
			return &y.Empty[i]
		}
	}
	return nil
}

// measureMachine measures the machine, and keeps the better of this and an earlier measurement in
// the report. It fails with the disk's error, and when the empty handler does not answer.
func (r *run) measureMachine(ctx context.Context, report *Report) error {
	if r.Yardstick == 0 {
		return nil
	}
	r.Progress(Progress{Stage: "measuring the machine"})
	sync, err := measureSync(r.DiskDir, r.Yardstick)
	if err != nil {
		return err
	}
	y := &report.Yardstick
	if y.SyncP50Micros == 0 || sync < y.SyncP50Micros {
		y.SyncP50Micros = sync
	}
	connections := []int{1}
	for _, l := range r.Loads {
		for _, s := range l.Streams {
			connections = append(connections, s.Connections)
		}
	}
	slices.Sort(connections)
	for _, n := range slices.Compact(connections) {
		e, err := r.measureEmpty(ctx, n)
		if err != nil {
			return fmt.Errorf("empty handler: %w", err)
		}
		if known := y.emptyOf(n); known == nil {
			y.Empty = append(y.Empty, e)
		} else {
			known.PerSecond, known.P50Micros = max(known.PerSecond, e.PerSecond), min(known.P50Micros, e.P50Micros)
		}
	}
	return nil
}

// measureSync returns the median time of a synced write over zeros in a new file of a directory, in
// microseconds. It fails with the disk's error.
func measureSync(dir string, during time.Duration) (p50 float64, err error) {
	file, err := os.CreateTemp(dir, "purser-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	if _, err := file.Write(make([]byte, zeroedBytes)); err != nil {
		return 0, err
	}
	if err := file.Sync(); err != nil {
		return 0, err
	}
	h, block := newHistogram(wholeDigits), make([]byte, blockBytes)
	for began, i := time.Now(), int64(0); i == 0 || time.Since(began) < during; i++ {
		block[0] = byte(i) | 1
		at := time.Now()
		if _, err := file.WriteAt(block, i*blockBytes%zeroedBytes); err != nil {
			return 0, err
		}
		if err := syncData(file); err != nil {
			return 0, err
		}
		recordNanos(h, time.Since(at))
	}
	return percentileOf(h, 50), nil
}

// measureEmpty measures the empty handler over a number of connections. It fails when the handler
// does not answer 200, and when ctx ends.
func (r *run) measureEmpty(ctx context.Context, connections int) (Empty, error) {
	c := Config{Target: Target{Network: r.Empty}, Seed: r.Seed}
	l := &Load{Streams: []Stream{{Kind: emptyRequests, Connections: connections}}, Duration: r.Yardstick}
	empty := newRun(c)
	streams, _, err := empty.runStreams(ctx, l)
	s := empty.collectStages(l, streams)[0]
	if err == nil && s.hasFailed() {
		err = fmt.Errorf("%s %v", s.Wrong, s.Outcomes)
	}
	return Empty{Connections: connections, PerSecond: s.Measures[0].PerSecond, P50Micros: s.Measures[0].P50Micros}, err
}

// ServeEmpty answers every request with nothing, until the listener fails.
func ServeEmpty(listener net.Listener) error {
	server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}, NoDefaultServerHeader: true}
	return server.Serve(listener)
}
