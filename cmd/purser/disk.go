package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purser/actors/fault"
	"purser/authorizer"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/httpapi"
	"purser/httpapi/dashboard"
	"purser/persistence/pebblegate"
)

// The last reserve of a disk. From it facts of the card network and partners' reports are stored,
// all that is answered is relayed, and the process ends and starts again.
const (
	// relayBytes bounds what the journal's directory grows by when it takes one decision, with both
	// copies in the log and its tables. TestRelayedDecisionsFitTheirShareOfTheReserve measures it.
	relayBytes = 8 << 10
	// againPart of a threshold must be free beyond it before the stopped work resumes.
	againPart = 8
	// startBytes is what a start writes beside the stores: the clock's mark, addresses, secrets.
	startBytes = 1 << 20
)

// diskEvery is the pause between two measurements.
const diskEvery = 250 * time.Millisecond

// measuredStore is a directory with a store, and the last measurement of its disk.
type measuredStore struct {
	name, dir string
	relayed   bool // relayed decisions come to this directory

	device uint64
	free   int64
	need   int64 // for approvals
	room   authorizer.Room
	err    error
}

// diskGuard measures the disks of the stores and reports their room.
type diskGuard struct {
	free    func(dir string) (int64, error)
	device  func(dir string) (uint64, error)
	data    string
	reserve int64
	log     *slog.Logger
	room    atomic.Uint32 // an authorizer.Room: the narrowest of all stores

	mu      sync.Mutex // guards stores and what follows
	stores  []*measuredStore
	backlog func() int64               // nil: there is no authorizer yet
	told    func(room authorizer.Room) // nil: there is no authorizer yet
}

// newDiskGuard returns a guard of the disks of the stores that the settings name. It measures
// nothing yet.
func newDiskGuard(c settings.Config, free func(string) (int64, error), log *slog.Logger) *diskGuard {
	d := &diskGuard{free: free, device: datadir.Device, data: c.DataDir, reserve: c.DiskReserve, log: log}
	add := func(name, dir string) { d.stores = append(d.stores, &measuredStore{name: name, dir: dir}) }
	if c.DatabaseURL == "" {
		d.stores = append(d.stores, &measuredStore{name: "journal", dir: datadir.JournalDir(c.DataDir),
			relayed: true})
	}
	add("authorizer", datadir.AuthorizerDir(c.DataDir))
	add("sandbox", datadir.SandboxDir(c.DataDir))
	return d
}

// requireStart refuses a start whose disk cannot take the files that the process writes before it
// opens a store. Each store requires its own room when it is opened. It fails with
// pebblegate.ErrNoRoom, or when the disk cannot be measured.
func (d *diskGuard) requireStart() error {
	free, err := d.free(d.data)
	if err == nil && free < startBytes {
		return fmt.Errorf("%w: the disk of %s has %s free; a start needs %s", pebblegate.ErrNoRoom, d.data,
			pebblegate.FormatFree(free), pebblegate.FormatNeed(startBytes))
	}
	return nil
}

// roomWith returns the room of a store with so many free bytes. Stopped work resumes only when a
// part more than its threshold is free, so that a disk near the threshold does not flap.
func roomWith(before authorizer.Room, free, approvals, facts int64) authorizer.Room {
	enough := func(threshold int64, stopped bool) bool {
		if stopped {
			threshold += threshold / againPart
		}
		return free >= threshold
	}
	switch {
	case enough(approvals, before != authorizer.RoomForAll):
		return authorizer.RoomForAll
	case enough(facts, before == authorizer.RoomForNone):
		return authorizer.RoomForFacts
	}
	return authorizer.RoomForNone
}

// measureDisks measures every disk, and passes a change to the authorizer and the log. A disk that
// cannot be measured keeps its room. It runs at the start, when the authorizer opens, and every
// diskEvery.
func (d *diskGuard) measureDisks() {
	d.mu.Lock()
	defer d.mu.Unlock()
	relays := int64(0)
	if d.backlog != nil {
		relays = d.backlog() * relayBytes
	}
	narrowest := authorizer.RoomForAll
	for _, s := range d.stores {
		waiting := int64(0)
		if s.relayed {
			waiting = relays
		}
		s.need = d.reserve + waiting
		if s.err = d.measureStore(s); s.err == nil {
			s.room = roomWith(s.room, s.free, s.need, settings.LastReserve+waiting)
		}
		narrowest = max(narrowest, s.room)
	}
	if d.told != nil {
		d.told(narrowest)
	}
	if before := authorizer.Room(d.room.Swap(uint32(narrowest))); before != narrowest {
		d.logRoom(narrowest)
	}
}

// measureStore measures the disk of a store's directory, or of the data directory while the store
// does not exist. On an error the store keeps its last measurement. The caller has locked mu.
func (d *diskGuard) measureStore(s *measuredStore) error {
	dir := s.dir
	device, err := d.device(dir)
	if errors.Is(err, fs.ErrNotExist) {
		dir = d.data
		device, err = d.device(dir)
	}
	if err != nil {
		return err
	}
	s.device = device
	free, err := d.free(dir)
	if err == nil {
		s.free = free
	}
	return err
}

// logRoom logs a change of the room.
func (d *diskGuard) logRoom(r authorizer.Room) {
	switch r {
	case authorizer.RoomForAll:
		d.log.Info("the disks have room again; approvals go on")
	case authorizer.RoomForFacts:
		d.log.Error("approvals and requests that store more are refused until space is free", "err", d.faultsLocked())
	default:
		d.log.Error("all messages of the card network are refused until space is free", "err", d.faultsLocked())
	}
}

// faultsLocked returns one error for each disk that lacks room or cannot be measured. The error
// names the directories of all stores on that disk. The caller holds mu.
func (d *diskGuard) faultsLocked() error {
	var faults []error
	for _, stores := range d.byDeviceLocked() {
		var paths []string
		var unknown error
		free, need, scarce := stores[0].free, int64(0), false
		for _, s := range stores {
			paths = append(paths, s.dir)
			unknown = cmp.Or(unknown, s.err)
			free, need = min(free, s.free), max(need, s.need)
			scarce = scarce || s.room != authorizer.RoomForAll
		}
		dirs := strings.Join(paths, ", ")
		switch {
		case unknown != nil:
			faults = append(faults, fmt.Errorf("the free space of %s is not known: %w", dirs, unknown))
		case scarce:
			faults = append(faults, fmt.Errorf("the disk of %s has %s free; approvals need %s", dirs,
				pebblegate.FormatFree(free), pebblegate.FormatNeed(need)))
		}
	}
	return errors.Join(faults...)
}

// byDeviceLocked groups the stores by device, in the order of the first store of each device. The
// caller holds mu.
func (d *diskGuard) byDeviceLocked() (groups [][]*measuredStore) {
	groupOf := map[uint64]int{}
	for _, s := range d.stores {
		i, known := groupOf[s.device]
		if !known {
			i = len(groups)
			groupOf[s.device], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}

// roomFault returns why a disk has no room for writes, or nil. /readyz reports it.
func (d *diskGuard) roomFault() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.faultsLocked()
}

// listSpaces returns the last measurement for the directory of each store.
func (d *diskGuard) listSpaces() (all []dashboard.DiskSpace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.stores {
		all = append(all, dashboard.DiskSpace{Store: s.name, Dir: s.dir, Free: pebblegate.FormatFree(s.free),
			Kept: pebblegate.FormatNeed(s.need), Resumes: pebblegate.FormatNeed(s.need + s.need/againPart),
			Scarce: s.room != authorizer.RoomForAll, Unknown: s.err != nil})
	}
	return all
}

// refusal returns the answer to a request that is served down to a level: unavailable, or nil when
// there is room.
func (d *diskGuard) refusal(served httpapi.FullDisk) error {
	switch authorizer.Room(d.room.Load()) {
	case authorizer.RoomForAll:
		return nil
	case authorizer.RoomForFacts:
		if served == httpapi.DownToLastReserve {
			return nil
		}
	}
	return fault.New(fault.Unavailable, "the server's disk is nearly full; nothing changed")
}

// attachEngine gives an authorizer the room from now on, and counts its backlog.
func (d *diskGuard) attachEngine(engine *authorizer.Engine) {
	d.mu.Lock()
	d.backlog, d.told = engine.Backlog, engine.SetRoom
	d.mu.Unlock()
	d.measureDisks()
}

// detachEngine forgets the authorizer. None of its methods runs when detachEngine returns.
func (d *diskGuard) detachEngine() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.backlog, d.told = nil, nil
}

// measureUntil measures every diskEvery until ctx ends. startDisk runs it in the background.
func (d *diskGuard) measureUntil(ctx context.Context) {
	ticker := time.NewTicker(diskEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			d.measureDisks()
		}
	}
}

// startDisk measures the disks from now on. It comes before anything is written, and fails like
// requireStart.
func (m *daemon) startDisk(context.Context) error {
	if err := m.disk.requireStart(); err != nil {
		return err
	}
	m.disk.measureDisks()
	m.cleanup.goUntilClosed(m.disk.measureUntil)
	return nil
}

// Describe implements prometheus.Collector.
func (d *diskGuard) Describe(to chan<- *prometheus.Desc) { to <- diskFreeDesc; to <- diskNeedDesc }

var (
	diskFreeDesc = prometheus.NewDesc("purser_disk_free_bytes", "Free space of the disk of a store.",
		[]string{"store"}, nil)
	diskNeedDesc = prometheus.NewDesc("purser_disk_reserve_bytes",
		"Free space below which approvals stop: PURSER_DISK_RESERVE, and room for what is not relayed.",
		[]string{"store"}, nil)
)

// Collect implements prometheus.Collector.
func (d *diskGuard) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.stores {
		to <- prometheus.MustNewConstMetric(diskFreeDesc, prometheus.GaugeValue, float64(s.free), s.name)
		to <- prometheus.MustNewConstMetric(diskNeedDesc, prometheus.GaugeValue, float64(s.need), s.name)
	}
}
