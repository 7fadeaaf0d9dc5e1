package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"purser/actors/clock"
	"purser/authorizer"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
	"purser/persistence"
	"purser/persistence/dataformat"
	"purser/persistence/tail"
)

// Pace of the trusted clock.
const (
	clockEvery     = 250 * time.Millisecond // between two readings of the wall clock
	clockMarkEvery = time.Minute            // between two marks for the next process
	clockLogEvery  = time.Minute            // between two log lines while the clock is suspect
	clockWithin    = 10 * time.Second       // for the commands
)

const removeClockMark = "remove it if the machine's clock is right"

// clockMarkForm is the format of the clock's mark.
var clockMarkForm = datadir.Form{Name: "purser-clock", Number: 2, Older: removeClockMark}

func clockFile(data string) string { return filepath.Join(data, "clock") }

// readClockMark reads the mark of the trusted time that the previous process has left, or returns
// nil without one. It fails with *dataformat.Other for a mark of another format, for a damaged one,
// because one wrong digit could move the trusted time so far that all holds expire, and with the
// disk's error.
func readClockMark(data string) (*clock.Mark, error) {
	text, _, err := datadir.ReadChecksummed(clockFile(data), clockMarkForm)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var mark clock.Mark
	if err == nil {
		err = json.Unmarshal(text, &mark)
	}
	if err == nil && (mark.Trusted.IsZero() || mark.Wall.IsZero()) {
		err = errors.New("a time is missing")
	}
	if _, other := errors.AsType[*dataformat.Other](err); other {
		return nil, fmt.Errorf("the mark of the clock in %s: %w", data, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no clock mark: %w; %s", clockFile(data), err, removeClockMark)
	}
	return &mark, nil
}

// writeClockMark replaces the mark durably. It fails only with the disk's error.
func writeClockMark(data string, mark clock.Mark) error {
	text, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	return datadir.WriteChecksummed(clockFile(data), clockMarkForm, append(text, '\n'))
}

// machineClocks are the sources of trusted time. elapsed is the fastest to read and stops while the
// machine sleeps; boot does not stop.
type machineClocks struct {
	wall         func() time.Time
	boot         func() time.Duration
	elapsed      func() time.Duration
	synchronised func() bool
}

func systemClocks() machineClocks {
	began := time.Now()
	elapsed := func() time.Duration { return time.Since(began) }
	return machineClocks{wall: time.Now, elapsed: elapsed, boot: bootClock(elapsed), synchronised: kernelSynchronised}
}

func (c *machineClocks) readBoth() clock.Reading {
	return clock.Reading{Wall: c.wall(), Boot: c.boot()}
}

// trustedClock is the time of the whole process. trustedTime never reads the wall clock. It adds
// the time that has elapsed since the guard's last reading to the trusted time of that reading, so
// that the guard judges a step of the wall clock before any decision sees it.
type trustedClock struct {
	clocks machineClocks
	data   string
	log    *slog.Logger
	pace   atomic.Pointer[clockPace]

	mu     sync.Mutex // guards guard and logged
	guard  *clock.Guard
	logged time.Duration

	writing sync.Mutex // guards the mark's file
}

// clockPace is trusted time between two readings of the guard.
type clockPace struct {
	at      time.Time
	wall    time.Time // the wall clock
	elapsed time.Duration
	halved  bool
	suspect bool
}

func (p *clockPace) timeAfter(elapsed time.Duration) time.Time {
	d := max(0, elapsed-p.elapsed)
	if p.halved {
		d /= 2
	}
	return p.at.Add(d)
}

// wallTimeAfter is the wall clock where trusted time is ahead of one that is believed, and trusted
// time otherwise.
func (p *clockPace) wallTimeAfter(elapsed time.Duration) time.Time {
	if !p.halved {
		return p.timeAfter(elapsed)
	}
	return p.wall.Add(max(0, elapsed-p.elapsed))
}

// newTrustedClock reads the previous process's mark and judges the wall clock by it. It fails for a
// damaged mark and with the disk's error; a suspect clock is no error.
func newTrustedClock(data string, clocks machineClocks, log *slog.Logger) (*trustedClock, error) {
	mark, err := readClockMark(data)
	if err != nil {
		return nil, err
	}
	c := &trustedClock{clocks: clocks, data: data, log: log}
	c.guard = clock.Start(mark, clocks.synchronised(), clocks.readBoth())
	c.publishPace()
	c.logSuspect(true)
	return c, nil
}

// publishPace makes trustedTime continue from the guard's last reading and never before a time that
// it has returned. The caller holds mu, except in the constructor.
func (c *trustedClock) publishPace() {
	next := clockPace{at: c.guard.Trusted(), wall: c.guard.Mark().Wall, elapsed: c.clocks.elapsed(), halved: c.guard.Ahead(),
		suspect: c.guard.Suspect()}
	if before := c.pace.Load(); before != nil {
		if at := before.timeAfter(next.elapsed); at.After(next.at) {
			next.at = at
		}
	}
	c.pace.Store(&next)
}

func (c *trustedClock) trustedTime() time.Time { return c.pace.Load().timeAfter(c.clocks.elapsed()) }

// wallTime is the best estimate of the time on other machines, for signatures that they make and
// check, and for the partners.
func (c *trustedClock) wallTime() time.Time { return c.pace.Load().wallTimeAfter(c.clocks.elapsed()) }

func (c *trustedClock) isSuspect() bool { return c != nil && c.pace.Load().suspect }

// suspectReason returns why the clock is suspect, or nil while it is trusted. /readyz reports it.
func (c *trustedClock) suspectReason() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guard.Fault()
}

func (c *trustedClock) wallOffset() time.Duration {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guard.Offset()
}

// noteCommitted takes the time of the newest stored decision or event, zero when there is none:
// trusted time is never before it.
func (c *trustedClock) noteCommitted(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guard.Committed(at)
	c.publishPace()
	c.logSuspect(true)
}

// observeClocks has the guard judge a reading of the clocks, and reports whether the clock has
// become suspect or right again.
func (c *trustedClock) observeClocks() (turned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.guard.Suspect()
	c.guard.Observe(c.clocks.readBoth())
	c.publishPace()
	c.logSuspect(!was)
	if was && !c.guard.Suspect() {
		c.log.Info("the wall clock is right again; expiry goes on")
	}
	return was != c.guard.Suspect()
}

// logSuspect logs a suspect clock: at once, or when the last line is old.
func (c *trustedClock) logSuspect(atOnce bool) {
	if err := c.guard.Fault(); err != nil && (atOnce || c.clocks.elapsed()-c.logged >= clockLogEvery) {
		c.logged = c.clocks.elapsed()
		c.log.Error("the clock is suspect", "err", err)
	}
}

// acceptWall makes the wall clock trusted on an operator's word. It fails when the mark cannot be
// written; the clock is then accepted all the same.
func (c *trustedClock) acceptWall() (clockStanding, error) {
	c.mu.Lock()
	c.guard.Accept(c.clocks.readBoth())
	c.publishPace()
	c.mu.Unlock()
	c.log.Warn("an operator has accepted the wall clock", "trusted", c.trustedTime())
	return c.currentStanding(), c.leaveMark()
}

// leaveMark writes the mark for the next process. It fails only with the disk's error.
func (c *trustedClock) leaveMark() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	c.guard.Observe(c.clocks.readBoth())
	c.publishPace()
	mark := c.guard.Mark()
	c.mu.Unlock()
	return writeClockMark(c.data, mark)
}

// observeUntil reads the clocks every clockEvery until ctx ends, and writes a mark every
// clockMarkEvery, and when the clock becomes suspect: a process that is killed then must not leave
// the step to the next one. A mark that cannot be written is logged and tried again at the next
// reading. startClock runs it in the background.
func (c *trustedClock) observeUntil(ctx context.Context) {
	ticker := time.NewTicker(clockEvery)
	defer ticker.Stop()
	due := false
	for marked := c.clocks.elapsed(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		due = c.observeClocks() || due || c.clocks.elapsed()-marked >= clockMarkEvery
		if !due {
			continue
		}
		marked = c.clocks.elapsed()
		err := c.leaveMark()
		if due = err != nil; due {
			c.log.Error("the mark of the clock is not written", "err", err)
		}
	}
}

// startClock makes the time of this process, unless a test has given one. It fails for a damaged
// mark and with the disk's error.
func (m *daemon) startClock(context.Context) (err error) {
	if m.wallTime = m.Clock; m.Clock != nil {
		return nil
	}
	if m.trusted, err = newTrustedClock(m.config.DataDir, m.clocks, m.log); err != nil {
		return err
	}
	m.Clock, m.wallTime = m.trusted.trustedTime, m.trusted.wallTime
	if err := m.trusted.leaveMark(); err != nil {
		return err
	}
	m.cleanup.push(m.trusted.leaveMark)
	m.cleanup.goUntilClosed(m.trusted.observeUntil)
	return nil
}

// trustJournal keeps trusted time from being before the newest event of a journal. A nil clock is
// not guarded. It fails with a transient error when the journal cannot be read.
func (c *trustedClock) trustJournal(ctx context.Context, journal persistence.Journal) error {
	if c == nil {
		return nil
	}
	newest, err := tail.NewestEventTime(ctx, journal)
	if err != nil {
		return asTransient(err)
	}
	c.noteCommitted(newest)
	return nil
}

// trustAuthorizer keeps trusted time from being before the newest decision of an authorizer. A nil
// clock is not guarded. It fails with the store's error.
func (c *trustedClock) trustAuthorizer(engine *authorizer.Engine) error {
	if c == nil {
		return nil
	}
	newest, err := engine.Newest()
	if err != nil {
		return err
	}
	c.noteCommitted(newest)
	return nil
}

// clockStanding is the answer of the clock command.
type clockStanding struct {
	Trusted time.Time `json:"trusted"`
	Wall    time.Time `json:"wall"`
	Suspect bool      `json:"suspect"`
	Reason  string    `json:"reason,omitempty"`
}

// currentStanding reads the clocks and returns the trusted time, the wall clock, and why the clock
// is suspect.
func (c *trustedClock) currentStanding() clockStanding {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guard.Observe(c.clocks.readBoth())
	c.publishPace()
	s := clockStanding{Trusted: c.guard.Trusted(), Wall: c.guard.Mark().Wall, Suspect: c.guard.Suspect()}
	if err := c.guard.Fault(); err != nil {
		s.Reason = err.Error()
	}
	return s
}

// answerCommand handles the admin port's command "clock": it shows the clock, or accepts the wall
// clock. It fails for a body that is not JSON, for a clock that is not guarded, and like
// acceptWall.
func (c *trustedClock) answerCommand(_ context.Context, body []byte) (any, error) {
	var question clockQuestion
	switch err := json.Unmarshal(body, &question); {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, errors.New("the clock of this server is not guarded")
	case question.Accept:
		return c.acceptWall()
	}
	return c.currentStanding(), nil
}

type clockQuestion struct {
	Accept bool `json:"accept"`
}

// clockCommand looks after the trusted time of a running server.
type clockCommand struct {
	Status clockStatusCommand `cmd:"" default:"withargs" help:"Show the trusted time and the wall clock of the running server."`
	Accept clockAcceptCommand `cmd:"" help:"Confirm that the wall clock is right, after a step that the server did not follow."`
}

// clockStatusCommand shows both clocks.
type clockStatusCommand struct{ clockPlace }

// clockAcceptCommand confirms the wall clock.
type clockAcceptCommand struct{ clockPlace }

type clockPlace struct {
	DataDir string `name:"data-dir" env:"PURSER_DATA_DIR" default:"./data" help:"Data directory of the running server."`
}

// Run is `purser clock status`: it prints the running server's trusted time and wall clock. It
// fails when no server answers.
func (c *clockStatusCommand) Run(out io.Writer) error { return c.askServer(out, clockQuestion{}) }

// Run is `purser clock accept`: it has the running server trust its wall clock, and prints the
// standing. It fails when no server answers or the server refuses.
func (c *clockAcceptCommand) Run(out io.Writer) error {
	return c.askServer(out, clockQuestion{Accept: true})
}

// askServer asks the running server by the admin port and prints the standing. It fails when no
// server answers within clockWithin.
func (c *clockPlace) askServer(out io.Writer, question clockQuestion) error {
	ctx, cancel := context.WithTimeout(context.Background(), clockWithin)
	defer cancel()
	s, err := adminport.Ask[clockStanding](ctx, c.DataDir, "clock", question, 1<<16)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "trusted time  %s\nwall clock    %s\n", s.Trusted.UTC().Format(time.RFC3339),
		s.Wall.UTC().Format(time.RFC3339))
	if s.Suspect {
		fmt.Fprintf(out, "suspect: %s\n", s.Reason)
	}
	return nil
}
