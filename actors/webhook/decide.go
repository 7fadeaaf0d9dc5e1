package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Decide says what follows from a command. Errors are faults.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case Register:
		return s.register(m, c)
	case Remove:
		return s.remove(m)
	case Enqueue:
		return s.enqueue(m, c), nil
	case Ping:
		return s.ping(m, c)
	case Attempted:
		return s.attempted(c), nil
	case Replay:
		return s.replay(m, c)
	case decision.Fire:
		return s.fire(m, c), nil
	case decision.Read:
		if err := s.live(); err != nil {
			return decision.Decision{}, err
		}
		return decision.Decision{Reply: *s}, nil
	}
	panic(fmt.Sprintf("BUG: webhook command %T", command))
}

// live refuses an endpoint that was never there or is removed.
func (s *State) live() error {
	if s.State != StateActive {
		return fault.New(fault.NotFound, "")
	}
	return nil
}

func (s *State) register(m decision.Meta, c Register) (decision.Decision, error) {
	if s.ID != "" {
		panic("BUG: endpoint registered twice")
	}
	if err := CheckEvents(c.Events); err != nil {
		return decision.Decision{}, err
	}
	if c.URL == "" || len(c.URL) > MaxURL {
		return decision.Decision{}, invalid("url: 1 to %d bytes", MaxURL)
	}
	if c.ID == "" || c.Workspace == "" || c.Secret == "" {
		panic("BUG: endpoint without an id, a workspace or a secret")
	}
	view := View{ID: c.ID, URL: c.URL, Events: slices.Clone(c.Events), CreatedAt: decision.StampOf(m.At)}
	return decision.Decision{
		Events: []decision.Event{Registered{ID: c.ID, Workspace: c.Workspace, Events: slices.Clone(c.Events),
			At: view.CreatedAt}},
		Records: []decision.Record{{Kind: RecordEndpoint, ID: c.ID, Document: Endpoint{view, c.Secret}, Personal: true}},
		Tallies: []decision.Tally{{Name: Tally, ID: c.ID, Max: MaxPerWorkspace}},
		Reply:   view,
	}, nil
}

// CheckEvents refuses a subscription to nothing, to the same twice, or to what is never announced.
func CheckEvents(events []string) error {
	if len(events) < 1 || len(events) > MaxSubscribed {
		return invalid("events: 1 to %d items", MaxSubscribed)
	}
	for i, event := range events {
		switch event {
		case CheckoutCompleted, PingEvent, AllEvents:
		default:
			return invalid("events[%d]: %s, %s or %s", i, CheckoutCompleted, PingEvent, AllEvents)
		}
		if slices.Contains(events[:i], event) {
			return invalid("events[%d]: is given twice", i)
		}
	}
	return nil
}

func (s *State) remove(m decision.Meta) (decision.Decision, error) {
	switch s.State {
	case "":
		return decision.Decision{}, fault.New(fault.NotFound, "")
	case StateRemoved:
		return decision.Decision{Reply: true}, nil
	}
	d := decision.Decision{
		Events:  []decision.Event{Removed{ID: s.ID, Workspace: s.Workspace, At: decision.StampOf(m.At)}},
		Records: []decision.Record{{Kind: RecordEndpoint, ID: s.ID, Delete: true}},
		Tallies: []decision.Tally{{Name: Tally, ID: s.ID, Less: true}},
		Reply:   true,
	}
	for _, p := range s.Pending {
		d.Timers = append(d.Timers, decision.Timer{Key: p.Delivery})
	}
	return d, nil
}

func (s *State) enqueue(m decision.Meta, c Enqueue) decision.Decision {
	if !s.Wants(c.Event) {
		return decision.Decision{}
	}
	if len(s.Pending) < MaxPending {
		return s.queue(m, c)
	}
	doc := s.delivery(m, c)
	doc.Status, doc.Failure, doc.NextAttemptAt = StatusFailed, FailureBacklog, nil
	return s.recorded(doc, Dropped{Delivery: doc.ID, Workspace: s.Workspace, Event: doc.Event, At: doc.CreatedAt})
}

func (s *State) ping(m decision.Meta, c Ping) (decision.Decision, error) {
	if err := s.live(); err != nil {
		return decision.Decision{}, err
	}
	if err := s.room(); err != nil {
		return decision.Decision{}, err
	}
	return s.queue(m, Enqueue{ID: c.ID, Event: PingEvent, Body: c.Body}), nil
}

func (s *State) room() error {
	if len(s.Pending) >= MaxPending {
		return fault.New(fault.LimitExceeded, fmt.Sprintf("%d deliveries wait for this endpoint, which is the most", MaxPending))
	}
	return nil
}

// queue makes a delivery whose first attempt is due now.
func (s *State) queue(m decision.Meta, c Enqueue) decision.Decision {
	doc := s.delivery(m, c)
	d := s.recorded(doc, Queued{Delivery: doc.ID, Workspace: s.Workspace, Event: doc.Event, Due: doc.CreatedAt,
		Until: decision.StampOf(m.At.Add(runFor)), At: doc.CreatedAt})
	d.Timers = []decision.Timer{{Key: doc.ID, Due: doc.CreatedAt.Time}}
	return d
}

func (s *State) delivery(m decision.Meta, c Enqueue) Delivery {
	if c.ID == "" || len(c.Body) > MaxBody || !json.Valid([]byte(c.Body)) {
		panic("BUG: a delivery without an id or with a bad body")
	}
	at := decision.StampOf(m.At)
	return Delivery{ID: c.ID, EndpointID: s.ID, Event: c.Event, Status: StatusPending, Body: c.Body, Attempts: []Attempt{},
		Runs: 1, NextAttemptAt: &at, CreatedAt: at}
}

// recorded is the decision that stores a delivery with what happened to it, and answers its view.
func (s *State) recorded(doc Delivery, e decision.Event) decision.Decision {
	return decision.Decision{Events: []decision.Event{e}, Reply: doc.View(),
		Records: []decision.Record{{Kind: RecordDelivery, Parent: s.ID, ID: doc.ID, Document: doc}}}
}

// attempted records what came of an attempt and arms the next. A result that is not of the newest attempt changes nothing:
// another sender was faster, or the endpoint is removed.
func (s *State) attempted(c Attempted) decision.Decision {
	p, ok := s.pending(c.Delivery.ID)
	if !ok || p.Attempts != len(c.Delivery.Attempts) {
		return decision.Decision{}
	}
	doc, a := c.Delivery, c.Attempt
	doc.Attempts = append(slices.Clone(doc.Attempts), a)
	due := decision.StampOf(a.At.Add(pauseAfter(p.Run+1, c.Jitter)))
	switch {
	case a.Delivered():
		doc.Status, doc.NextAttemptAt = StatusDelivered, nil
		return s.through(doc, Succeeded{Delivery: doc.ID, Workspace: s.Workspace, Attempt: a})
	case due.After(p.Until.Time):
		doc.Status, doc.Failure, doc.NextAttemptAt = StatusFailed, FailureGaveUp, nil
		return s.through(doc, Failed{Delivery: doc.ID, Workspace: s.Workspace, Attempt: a})
	}
	doc.NextAttemptAt = &due
	d := s.recorded(doc, Postponed{Delivery: doc.ID, Workspace: s.Workspace, Attempt: a, Due: due})
	d.Timers = []decision.Timer{{Key: doc.ID, Due: due.Time}}
	return d
}

func (s *State) through(doc Delivery, e decision.Event) decision.Decision {
	d := s.recorded(doc, e)
	d.Timers = []decision.Timer{{Key: doc.ID}}
	return d
}

func (s *State) replay(m decision.Meta, c Replay) (decision.Decision, error) {
	doc := c.Delivery
	if err := s.live(); err != nil || doc.EndpointID != s.ID {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	const changed = "the delivery"
	if _, waits := s.pending(doc.ID); waits && doc.Status == StatusPending {
		return decision.Decision{Reply: doc.View()}, nil
	} else if waits || doc.Status == StatusPending {
		return decision.Decision{}, fault.New(fault.Stale, changed)
	}
	if len(doc.Attempts)+maxRun > MaxAttempts {
		return decision.Decision{}, fault.New(fault.LimitExceeded, "the delivery has been tried too often to be replayed")
	}
	if err := s.room(); err != nil {
		return decision.Decision{}, err
	}
	at := decision.StampOf(m.At)
	doc.Runs++
	doc.Status, doc.Failure, doc.NextAttemptAt = StatusPending, "", &at
	d := s.recorded(doc, Replayed{Delivery: doc.ID, Workspace: s.Workspace, Attempts: len(doc.Attempts), Due: at,
		Until: decision.StampOf(m.At.Add(runFor)), At: at})
	d.Timers = []decision.Timer{{Key: doc.ID, Due: at.Time}}
	// The record may be older than another replay that is through by now: each run is begun once.
	d.Onces = []decision.Once{{Scope: "webhook_run", Key: doc.ID + "/" + strconv.Itoa(doc.Runs), Expires: m.At.Add(replayOnce),
		Code: string(fault.Stale), Message: changed}}
	return d, nil
}

// fire answers Due when the attempt is due, and arms the timer again: should nothing be heard of the attempt, it is made once
// more.
func (s *State) fire(m decision.Meta, c decision.Fire) decision.Decision {
	p, ok := s.pending(c.Key)
	if !ok {
		return decision.Decision{}
	}
	if p.Due.After(m.At) {
		return decision.Decision{Timers: []decision.Timer{{Key: c.Key, Due: p.Due.Time}}}
	}
	return decision.Decision{Timers: []decision.Timer{{Key: c.Key, Due: m.At.Add(resend)}},
		Reply: Due{Workspace: s.Workspace, Endpoint: s.ID, Delivery: p.Delivery}}
}

func (s *State) pending(delivery string) (Pending, bool) {
	i := s.indexOf(delivery)
	if i < 0 {
		return Pending{}, false
	}
	return s.Pending[i], true
}

func (s *State) indexOf(delivery string) int {
	return slices.IndexFunc(s.Pending, func(p Pending) bool { return p.Delivery == delivery })
}

func invalid(format string, args ...any) error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}
