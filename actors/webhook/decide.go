package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Decide returns the decision for a command. The actor of the endpoint calls it and commits the
// result. Its errors are the faults of the command's decision; not_found for an endpoint that does
// not exist or is removed. An unknown command panics.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case Register:
		return s.registerEndpoint(m, c)
	case Remove:
		return s.removeEndpoint(m)
	case Adopt:
		return s.adoptEndpoint(m, c)
	case Enqueue:
		return s.enqueueDelivery(m, c), nil
	case Ping:
		return s.enqueuePing(m, c)
	case Attempted:
		return s.recordAttempt(c), nil
	case Replay:
		return s.replayDelivery(m, c)
	case decision.Fire:
		return s.fireRetryTimer(m, c), nil
	case decision.Read:
		if err := s.requireActive(); err != nil {
			return decision.Decision{}, err
		}
		return decision.Decision{Reply: *s}, nil
	}
	panic(fmt.Sprintf("BUG: webhook command %T", command))
}

// requireActive refuses an endpoint that does not exist or is removed.
func (s *State) requireActive() error {
	if s.State != StateActive {
		return fault.New(fault.NotFound, "")
	}
	return nil
}

// registerEndpoint creates the endpoint and counts it against MaxPerWorkspace, which the commit
// checks. It fails with invalid_body for wrong events or a wrong length of the URL. A second
// Register panics.
func (s *State) registerEndpoint(m decision.Meta, c Register) (decision.Decision, error) {
	if s.ID != "" {
		panic("BUG: endpoint registered twice")
	}
	if err := CheckEvents(c.Events); err != nil {
		return decision.Decision{}, err
	}
	if c.URL == "" || len(c.URL) > MaxURL {
		return decision.Decision{}, invalidBody("url: 1 to %d bytes", MaxURL)
	}
	if c.ID == "" || c.Workspace == "" || c.By == "" || c.Secret == "" {
		panic("BUG: endpoint without an id, a workspace, a maker or a secret")
	}
	view := View{ID: c.ID, URL: c.URL, Events: slices.Clone(c.Events), CreatedBy: c.By,
		CreatedAt: decision.StampOf(m.At)}
	return decision.Decision{
		Events: []decision.Event{Registered{ID: c.ID, Workspace: c.Workspace, Events: slices.Clone(c.Events),
			By: c.By, At: view.CreatedAt}},
		Records: []decision.Record{{Kind: RecordEndpoint, ID: c.ID, Document: Endpoint{view, c.Secret},
			Personal: true}},
		Tallies: []decision.Tally{{Name: Tally, ID: c.ID, Max: MaxPerWorkspace}},
		Reply:   view,
	}, nil
}

// CheckEvents fails with invalid_body for an empty or too long subscription, a duplicate, and a
// kind of event that does not exist. The route POST /api/webhooks/endpoints calls it first, and
// registerEndpoint calls it again.
func CheckEvents(events []string) error {
	if len(events) < 1 || len(events) > MaxSubscribed {
		return invalidBody("events: 1 to %d items", MaxSubscribed)
	}
	for i, event := range events {
		switch event {
		case CheckoutCompleted, PingEvent, AllEvents:
		default:
			return invalidBody("events[%d]: %s, %s or %s", i, CheckoutCompleted, PingEvent, AllEvents)
		}
		if slices.Contains(events[:i], event) {
			return invalidBody("events[%d]: is given twice", i)
		}
	}
	return nil
}

// removeEndpoint removes the endpoint and the timers of its pending deliveries. It fails with
// not_found for an endpoint that never existed; a repeat replies true.
func (s *State) removeEndpoint(m decision.Meta) (decision.Decision, error) {
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

// adoptEndpoint makes c.By the maker of the endpoint; a repeat changes nothing. It fails with
// not_found for a removed endpoint. An empty By, or the record of another endpoint, panics.
func (s *State) adoptEndpoint(m decision.Meta, c Adopt) (decision.Decision, error) {
	if err := s.requireActive(); err != nil {
		return decision.Decision{}, err
	}
	if c.By == "" || c.Endpoint.ID != s.ID {
		panic("BUG: endpoint adopted by nobody, or another one's record")
	}
	if s.CreatedBy == c.By {
		return decision.Decision{Reply: true}, nil
	}
	doc := c.Endpoint
	doc.CreatedBy = c.By
	return decision.Decision{
		Events:  []decision.Event{Adopted{ID: s.ID, Workspace: s.Workspace, By: c.By, At: decision.StampOf(m.At)}},
		Records: []decision.Record{{Kind: RecordEndpoint, ID: s.ID, Document: doc, Personal: true}},
		Reply:   true,
	}, nil
}

// enqueueDelivery queues a delivery of a subscribed event. With MaxPending deliveries pending it
// records the delivery as failed; without a subscription it does nothing.
func (s *State) enqueueDelivery(m decision.Meta, c Enqueue) decision.Decision {
	if !s.Subscribes(c.Event) {
		return decision.Decision{}
	}
	if len(s.Pending) < MaxPending {
		return s.queueDelivery(m, c)
	}
	doc := s.newDelivery(m, c)
	doc.Status, doc.Failure, doc.NextAttemptAt, doc.GivesUpAt = StatusFailed, FailureBacklog, nil, nil
	return s.deliveryDecision(doc, Dropped{Delivery: doc.ID, Workspace: s.Workspace, Event: doc.Event,
		At: doc.CreatedAt})
}

// enqueuePing queues a test delivery. It fails with not_found for a removed endpoint, and with
// limit_exceeded when MaxPending deliveries wait.
func (s *State) enqueuePing(m decision.Meta, c Ping) (decision.Decision, error) {
	if err := s.requireActive(); err != nil {
		return decision.Decision{}, err
	}
	if err := s.requireCapacity(); err != nil {
		return decision.Decision{}, err
	}
	return s.queueDelivery(m, Enqueue{ID: c.ID, Event: PingEvent, Body: c.Body}), nil
}

// requireCapacity fails with limit_exceeded when MaxPending deliveries wait.
func (s *State) requireCapacity() error {
	if len(s.Pending) >= MaxPending {
		return fault.New(fault.LimitExceeded,
			fmt.Sprintf("%d deliveries wait for this endpoint, which is the most", MaxPending))
	}
	return nil
}

// queueDelivery creates a delivery whose first attempt is due now. It panics for a bad body or a
// missing id.
func (s *State) queueDelivery(m decision.Meta, c Enqueue) decision.Decision {
	doc := s.newDelivery(m, c)
	d := s.deliveryDecision(doc, Queued{Delivery: doc.ID, Workspace: s.Workspace, Event: doc.Event,
		Due:   doc.CreatedAt,
		Until: *doc.GivesUpAt, At: doc.CreatedAt})
	d.Timers = []decision.Timer{{Key: doc.ID, Due: doc.CreatedAt.Time}}
	return d
}

// newDelivery builds the record of a delivery that is due now. It panics without an id, and for a
// body that is not JSON or exceeds MaxBody bytes.
func (s *State) newDelivery(m decision.Meta, c Enqueue) Delivery {
	if c.ID == "" || len(c.Body) > MaxBody || !json.Valid([]byte(c.Body)) {
		panic("BUG: a delivery without an id or with a bad body")
	}
	at, until := decision.StampOf(m.At), decision.StampOf(m.At.Add(runDuration))
	return Delivery{ID: c.ID, EndpointID: s.ID, Event: c.Event, Status: StatusPending, Body: c.Body,
		Attempts: []Attempt{},
		Runs:     1, NextAttemptAt: &at, GivesUpAt: &until, CreatedAt: at}
}

// deliveryDecision stores a delivery together with its event, and replies with its view.
func (s *State) deliveryDecision(doc Delivery, e decision.Event) decision.Decision {
	return decision.Decision{Events: []decision.Event{e}, Reply: doc.View(),
		Records: []decision.Record{{Kind: RecordDelivery, Parent: s.ID, ID: doc.ID, Document: doc}}}
}

// recordAttempt stores the result of an attempt and sets the timer of the next. The result of an
// attempt that is not the newest changes nothing: another sender was faster, or the endpoint is
// removed.
func (s *State) recordAttempt(c Attempted) decision.Decision {
	p, ok := s.pendingDelivery(c.Delivery.ID)
	if !ok || p.Attempts != len(c.Delivery.Attempts) {
		return decision.Decision{}
	}
	doc, a := c.Delivery, c.Attempt
	doc.Attempts = append(slices.Clone(doc.Attempts), a)
	due := decision.StampOf(a.At.Add(pauseAfter(p.Run+1, c.Jitter)))
	switch {
	case a.Delivered():
		doc.Status, doc.NextAttemptAt, doc.GivesUpAt = StatusDelivered, nil, nil
		return s.finishDelivery(doc, Succeeded{Delivery: doc.ID, Workspace: s.Workspace, Attempt: a})
	case due.After(p.Until.Time):
		doc.Status, doc.Failure, doc.NextAttemptAt, doc.GivesUpAt = StatusFailed, FailureGaveUp, nil, nil
		return s.finishDelivery(doc, Failed{Delivery: doc.ID, Workspace: s.Workspace, Attempt: a})
	}
	doc.NextAttemptAt, doc.GivesUpAt = &due, &p.Until
	d := s.deliveryDecision(doc, Postponed{Delivery: doc.ID, Workspace: s.Workspace, Attempt: a, Due: due})
	d.Timers = []decision.Timer{{Key: doc.ID, Due: due.Time}}
	return d
}

func (s *State) finishDelivery(doc Delivery, e decision.Event) decision.Decision {
	d := s.deliveryDecision(doc, e)
	d.Timers = []decision.Timer{{Key: doc.ID}}
	return d
}

// replayDelivery starts a new run of a finished delivery; a pending one is replied again. It fails
// with not_found, with stale for an outdated record, and with limit_exceeded for too many attempts
// or pending deliveries.
func (s *State) replayDelivery(m decision.Meta, c Replay) (decision.Decision, error) {
	doc := c.Delivery
	if err := s.requireActive(); err != nil || doc.EndpointID != s.ID {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	const changed = "the delivery"
	if _, waits := s.pendingDelivery(doc.ID); waits && doc.Status == StatusPending {
		return decision.Decision{Reply: doc.View()}, nil
	} else if waits || doc.Status == StatusPending {
		return decision.Decision{}, fault.New(fault.Stale, changed)
	}
	if len(doc.Attempts)+maxRunAttempts > MaxAttempts {
		return decision.Decision{}, fault.New(fault.LimitExceeded,
			"the delivery has been tried too often to be replayed")
	}
	if err := s.requireCapacity(); err != nil {
		return decision.Decision{}, err
	}
	at, until := decision.StampOf(m.At), decision.StampOf(m.At.Add(runDuration))
	doc.Runs++
	doc.Status, doc.Failure, doc.NextAttemptAt, doc.GivesUpAt = StatusPending, "", &at, &until
	d := s.deliveryDecision(doc, Replayed{Delivery: doc.ID, Workspace: s.Workspace, Attempts: len(doc.Attempts),
		Due: at, Until: until, At: at})
	d.Timers = []decision.Timer{{Key: doc.ID, Due: at.Time}}
	// The record may be older than another replay that has finished since. The claim starts each
	// run once.
	d.Onces = []decision.Once{{Scope: "webhook_run", Key: doc.ID + "/" + strconv.Itoa(doc.Runs),
		Expires: m.At.Add(replayClaimLifetime),
		Code:    string(fault.Stale), Message: changed}}
	return d, nil
}

// fireRetryTimer replies with Due when the attempt is due. It sets the timer again, so that an
// attempt without a reported result is repeated after resendAfter. A finished delivery changes
// nothing. Decide calls it; the process that sends webhooks handles the reply.
func (s *State) fireRetryTimer(m decision.Meta, c decision.Fire) decision.Decision {
	p, ok := s.pendingDelivery(c.Key)
	if !ok {
		return decision.Decision{}
	}
	if p.Due.After(m.At) {
		return decision.Decision{Timers: []decision.Timer{{Key: c.Key, Due: p.Due.Time}}}
	}
	return decision.Decision{Timers: []decision.Timer{{Key: c.Key, Due: m.At.Add(resendAfter)}},
		Reply: Due{Workspace: s.Workspace, Endpoint: s.ID, Delivery: p.Delivery}}
}

func (s *State) pendingDelivery(delivery string) (Pending, bool) {
	i := s.indexOf(delivery)
	if i < 0 {
		return Pending{}, false
	}
	return s.Pending[i], true
}

func (s *State) indexOf(delivery string) int {
	return slices.IndexFunc(s.Pending, func(p Pending) bool { return p.Delivery == delivery })
}

func invalidBody(format string, args ...any) error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}
