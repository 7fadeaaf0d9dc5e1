package httpapi

import (
	"encoding/json"
	"slices"
	"time"

	"purser/actors"
	"purser/actors/cardholder"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
)

func (h *cardHandlers) cardholderRoutes() []route {
	const path = "/api/cardholders"
	return []route{
		{method: "POST", path: path, auth: authKey, scope: "write:cards", kyb: true, idempotency: keyOptional,
			handle: h.createCardholder},
		{method: "GET", path: path, auth: authKey, scope: "read:cards", query: slices.Concat(stateQuery, pageQuery),
			handle: h.listCardholders},
	}
}

// createCardholder handles POST /api/cardholders: it stores a person. With the issuing partner
// connected, the person is first enrolled under a reference that a repeat sends again. After a
// crash in between, the repeat stores the person without a second enrolment. It fails with the
// faults of cardholder.Check, of the partner and of the store.
func (h *cardHandlers) createCardholder(c *call) (answer, error) {
	var body struct {
		cardholder.Person
		Kind string `json:"kind"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	if err := cardholder.Check(body.Kind, body.Person, c.now); err != nil {
		return answer{}, err
	}
	slot, err := c.slot()
	if err != nil {
		return answer{}, err
	}
	u, err := ident.New(slot, c.now, h.actors.Entropy())
	if err != nil {
		return answer{}, err
	}
	create := cardholder.Create{ID: u.Format(ident.Cardholder), Workspace: c.who.workspace(), Kind: body.Kind,
		Person: body.Person}
	to := actors.Envelope{Kind: actors.KindCardholder, Stream: create.ID, Workspace: create.Workspace}
	return askPrepared(h.edge, c, to, func() (any, error) { return h.enrolPerson(c, create) },
		func(created cardholder.View) (answer, error) { return reply(map[string]any{"cardholder": created}) })
}

// enrolPerson completes the command with the partner's enrolment of the person; without a connected
// partner the enrolment is pending. It fails with the partner's error.
func (h *cardHandlers) enrolPerson(c *call, create cardholder.Create) (any, error) {
	create.Enrolment.State = cardholder.StatePending
	if h.cfg.Issuer != IssuerConnected {
		return create, nil
	}
	reference := create.ID
	if c.key != "" {
		reference = c.onceName()
	}
	var err error
	create.Enrolment, err = h.actors.Enrol(c.ctx, reference, create.Person)
	return create, err
}

func (h *cardHandlers) listCardholders(c *call) (answer, error) {
	state, given, err := c.readChoice("state", cardholder.StatePending, cardholder.StateActive,
		cardholder.StateRejected)
	if err != nil {
		return answer{}, err
	}
	list := filteredList[cardholder.State]{of: query.Cardholders, filter: c.filterText(stateQuery...),
		timeOf:  func(s *cardholder.State) time.Time { return s.CreatedAt.Time },
		matches: func(s *cardholder.State) bool { return !given || s.State == state },
		show: func(_ json.RawMessage, s *cardholder.State) (any, error) {
			person, err := query.CardholderPersons.ReadPart(c.ctx, h.actors, c.who.workspace(), s.ID)
			return s.View(person), err
		}}
	return list.answerPage(h.edge, c)
}

// cardholderFor returns the cardholder of a new card: the named one, or the first active one. The
// connected issuer issues no card without an active one. It fails with not_found for a name that is
// not the workspace's, and with cardholder_required when the connected issuer has no active one.
func (h *cardHandlers) cardholderFor(c *call, named string) (string, error) {
	if named == "" {
		first, err := h.firstCardholder(c)
		if err == nil && first == "" && h.cfg.Issuer == IssuerConnected {
			err = fault.New(cardholderRequired, "the issuing partner needs an active cardholder")
		}
		return first, err
	}
	holder, err := readOwn(h.edge, c, query.Cardholders, named)
	if err != nil {
		return "", err
	}
	if holder.State != cardholder.StateActive && h.cfg.Issuer == IssuerConnected {
		return "", fault.New(cardholderRequired, "the cardholder is not active with the issuing partner")
	}
	return named, nil
}

// firstCardholder returns the workspace's oldest active cardholder, or "". It fails only with an
// error of the store.
func (h *cardHandlers) firstCardholder(c *call) (string, error) {
	tally, err := readOwn(h.edge, c, query.CardholderTallies, c.who.workspace())
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return tally.First, err
}
