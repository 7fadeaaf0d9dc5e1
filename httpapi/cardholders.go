package httpapi

import (
	"context"
	"encoding/json"
	"fmt"

	"purser/actors"
	"purser/actors/cardholder"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

func (h *cardHandlers) cardholderRoutes() []route {
	const path = "/api/cardholders"
	return []route{
		{method: "POST", path: path, auth: authKey, scope: "write:cards", kyb: true, idempotency: keyOptional,
			handle: h.createCardholder},
		{method: "GET", path: path, auth: authKey, scope: "read:cards", query: pageQuery, handle: h.listCardholders},
	}
}

// createCardholder stores a person. With the issuing partner connected, the person is first
// enrolled under a reference that a repeat sends again. After a crash in between, the repeat stores
// the person without a second enrolment.
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
	return askIdempotent(h.edge, c, actors.Envelope{Kind: actors.KindCardholder, Stream: create.ID,
		Workspace: create.Workspace,
		Prepare:   func(ctx context.Context) (any, error) { return h.enrolPerson(ctx, c, create) }},
		func(created cardholder.View) (answer, error) { return reply(map[string]any{"cardholder": created}) })
}

// enrolPerson completes the command with the partner's enrolment of the person.
func (h *cardHandlers) enrolPerson(ctx context.Context, c *call, create cardholder.Create) (any, error) {
	create.Enrolment.State = cardholder.StatePending
	if h.cfg.Issuer != IssuerConnected {
		return create, nil
	}
	reference := create.ID
	if c.key != "" {
		reference = c.onceName()
	}
	var err error
	create.Enrolment, err = h.actors.Enrol(ctx, reference, create.Person)
	return create, err
}

func (h *cardHandlers) listCardholders(c *call) (answer, error) {
	return h.list(c, listing{kind: actors.KindCardholder, workspace: c.who.workspace()},
		func(r persistence.Record) (any, error) {
			var state cardholder.State
			if err := json.Unmarshal(r.Document, &state); err != nil {
				return nil, fmt.Errorf("cardholder's record: %w", err)
			}
			record, err := h.actors.Record(c.ctx, cardholder.RecordPerson, c.who.workspace(), state.ID)
			if err != nil {
				// %v hides a not_found, which would read as one of the list.
				return nil, fmt.Errorf("person of a cardholder: %v", err)
			}
			var person cardholder.Person
			if err := json.Unmarshal(record.Document, &person); err != nil {
				return nil, fmt.Errorf("person of a cardholder: %w", err)
			}
			return state.View(person), nil
		})
}

// cardholderFor returns the cardholder of a new card: the named one, or the first active one. The
// connected issuer issues no card without an active one.
func (h *cardHandlers) cardholderFor(c *call, named string) (string, error) {
	if named == "" {
		first, err := h.firstCardholder(c)
		if err == nil && first == "" && h.cfg.Issuer == IssuerConnected {
			err = fault.New(cardholderRequired, "the issuing partner needs an active cardholder")
		}
		return first, err
	}
	if _, err := ident.Parse(ident.Cardholder, named); err != nil {
		return "", fault.New(fault.NotFound, "")
	}
	record, err := h.actors.Record(c.ctx, actors.KindCardholder, c.who.workspace(), named)
	if err != nil {
		return "", err
	}
	var holder cardholder.State
	if err := json.Unmarshal(record.Document, &holder); err != nil {
		return "", fmt.Errorf("cardholder's record: %w", err)
	}
	if holder.State != cardholder.StateActive && h.cfg.Issuer == IssuerConnected {
		return "", fault.New(cardholderRequired, "the cardholder is not active with the issuing partner")
	}
	return named, nil
}

// firstCardholder returns the workspace's oldest active cardholder, or "".
func (h *cardHandlers) firstCardholder(c *call) (string, error) {
	id := c.who.workspace()
	record, err := h.actors.Record(c.ctx, actors.TallyKind(cardholder.TallyActive), id, id)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var tally actors.Tally
	if err := json.Unmarshal(record.Document, &tally); err != nil {
		return "", fmt.Errorf("tally of cardholders: %w", err)
	}
	return tally.First, nil
}
