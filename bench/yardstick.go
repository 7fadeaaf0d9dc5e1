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

// The measured writes: blocks, as the server's logs write them.
const (
	blockBytes  = 4096
	zeroedBytes = 16 << 20
	maxSyncs    = 20_000
)

// YardstickBytes is the room that the measured writes take at most, in Config.DiskDir.
const YardstickBytes = zeroedBytes + maxSyncs*blockBytes

// Yardstick is the speed of the idle machine. A run's figures are given as ratios to it.
type Yardstick struct {
	SyncZeroedP50Micros  float64 `json:"syncZeroedP50Micros"`  // a block over preallocated zeroed ones, until it is on the disk
	SyncGrowingP50Micros float64 `json:"syncGrowingP50Micros"` // a block at the end of a file
	Empty                []Empty `json:"empty"`
}

// Empty is the speed of an HTTP handler that does nothing, in another process, with the same client
// and a number of connections.
type Empty struct {
	Connections int     `json:"connections"`
	PerSecond   float64 `json:"perSecond"`
	P50Micros   float64 `json:"p50Micros"`
	P99Micros   float64 `json:"p99Micros"`
}

// floorMicros is the shortest time of a durable answer: one sync and one exchange.
func (y *Yardstick) floorMicros() float64 {
	if e := y.emptyOf(1); e != nil {
		return y.SyncZeroedP50Micros + e.P50Micros
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

// fasterOf returns the better of two values for each figure, for the same connections.
func fasterOf(a, b Yardstick) Yardstick {
	best := Yardstick{SyncZeroedP50Micros: min(a.SyncZeroedP50Micros, b.SyncZeroedP50Micros),
		SyncGrowingP50Micros: min(a.SyncGrowingP50Micros, b.SyncGrowingP50Micros), Empty: slices.Clone(a.Empty)}
	for i := range best.Empty {
		e := &best.Empty[i]
		if other := b.emptyOf(e.Connections); other != nil {
			e.PerSecond = max(e.PerSecond, other.PerSecond)
			e.P50Micros, e.P99Micros = min(e.P50Micros, other.P50Micros), min(e.P99Micros, other.P99Micros)
		}
	}
	return best
}

// measureAgain measures the machine before and after the loads. Ratios are to the fastest of all
// measurements. It fails like measureYardstick.
func (r *run) measureAgain(ctx context.Context, report *Report) error {
	r.Progress(Progress{Stage: "measuring the machine"})
	y, err := measureYardstick(ctx, r.Config)
	if err != nil {
		return err
	}
	if report.Yardsticks = append(report.Yardsticks, y); len(report.Yardsticks) > 1 {
		y = fasterOf(report.Yardstick, y)
	}
	report.Yardstick = y
	return nil
}

// measureYardstick measures syncs in the disk's directory, and an empty handler over one connection
// and over the connections of each load. It fails with the disk's error, and when the empty handler
// does not start.
func measureYardstick(ctx context.Context, c Config) (Yardstick, error) {
	var y Yardstick
	zeroed, err := measureSync(c.DiskDir, c.YardstickFor, true)
	if err != nil {
		return y, err
	}
	growing, err := measureSync(c.DiskDir, c.YardstickFor, false)
	if err != nil {
		return y, err
	}
	y.SyncZeroedP50Micros, y.SyncGrowingP50Micros = zeroed, growing
	connections := []int{1}
	for _, l := range c.Loads {
		connections = append(connections, l.Connections)
	}
	slices.Sort(connections)
	y.Empty, err = measureEmpty(ctx, c, slices.Compact(connections))
	return y, err
}

// measureSync returns the median time of synced writes to a new file in a directory, in
// microseconds. It fails with the disk's error.
func measureSync(dir string, during time.Duration, zeroed bool) (p50 float64, err error) {
	file, err := os.CreateTemp(dir, "purser-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	if zeroed {
		if _, err := file.Write(make([]byte, zeroedBytes)); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
	}
	h, block := newHistogram(wholeDigits), make([]byte, blockBytes)
	for began, i := time.Now(), 0; i == 0 || time.Since(began) < during && i < maxSyncs; i++ {
		block[0] = byte(i) | 1
		at := time.Now()
		if _, err := file.WriteAt(block, writeOffset(i, zeroed)); err != nil {
			return 0, err
		}
		if err := syncData(file); err != nil {
			return 0, err
		}
		recordNanos(h, boundNanos(time.Since(at)))
	}
	return toMicros(h.ValueAtPercentile(50)), nil
}

// writeOffset returns the offset of the i-th block: the end of a growing file, or the next block of
// a zeroed file, whose blocks are overwritten in turn.
func writeOffset(i int, zeroed bool) int64 {
	at := int64(i) * blockBytes
	if zeroed {
		at %= zeroedBytes
	}
	return at
}

// nothing is the traffic to the empty handler. Its requests are as long as swipes.
type nothing struct{ body []byte }

func (*nothing) measures() []string { return []string{"empty"} }

func (t *nothing) unit(w *worker, due time.Time) {
	w.body = append(w.body[:0], t.body...)
	if status, answer, ok := w.sendMeasured(w.network, 0, due, "POST", authorizations); ok && status != 200 {
		w.noteDifference("empty handler", status, answer, "200")
	}
}

// ServeEmpty answers every request with nothing, until the listener is closed. The command `purser
// bench empty` runs it as the fastest possible server.
func ServeEmpty(listener net.Listener) error {
	server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}, NoDefaultServerHeader: true}
	return server.Serve(listener)
}

// emptyHere starts a server in this process that answers every request with nothing, and returns
// its URL. end stops it. It fails when no port can be had.
func emptyHere() (url string, end func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- ServeEmpty(listener) }()
	return "http://" + listener.Addr().String(), func() error { return errors.Join(listener.Close(), <-ended) }, nil
}

// measureEmpty measures the empty handler over each number of connections. It fails when the
// handler does not start or ctx ends.
func measureEmpty(ctx context.Context, c Config, connections []int) (all []Empty, err error) {
	url, end, err := c.Empty()
	if err != nil {
		return nil, fmt.Errorf("empty handler: %w", err)
	}
	defer func() { err = errors.Join(err, end()) }()
	c.Target.Network, c.Target.REST = url, url
	like := swipe{id: []byte("an-id-of-a-usual-length"), token: "ctok_00000000000000000000000000000", cents: leastSwipeCents,
		currency: "USD", mcc: groceryMCC}
	r := &run{Config: c}
	for _, n := range connections {
		l := &Load{Name: "empty handler", Connections: n, Duration: c.YardstickFor}
		stages, err := r.runFlows(ctx, l, nil, flow{traffic: &nothing{body: like.appendBody(nil)}, connections: n})
		if err != nil {
			return nil, err
		}
		if s := &stages[0]; s.Wrong > 0 {
			return nil, fmt.Errorf("empty handler: %v", s.Differences)
		}
		m := stages[0].Measures[0]
		all = append(all, Empty{Connections: n, PerSecond: m.PerSecond, P50Micros: m.P50Micros, P99Micros: m.P99Micros})
	}
	return all, nil
}
