package httpapi

import (
	"encoding/json"
	"fmt"

	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// Reading and naming the records of the caller's workspace.

// readOwn reads a record of the caller's workspace, by an id that must have the prefix.
func (e *edge) readOwn(c *call, kind, prefix, id string, into any) error {
	if _, err := ident.Parse(prefix, id); err != nil {
		return fault.New(fault.NotFound, "")
	}
	record, err := e.actors.Record(c.ctx, kind, c.who.workspace(), id)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(record.Document, into); err != nil {
		return fmt.Errorf("%s's record: %w", kind, err)
	}
	return nil
}

// readQuote reads a quote that the caller is about to use. A missing quote is quote_not_found.
func (e *edge) readQuote(c *call, kind, prefix, id string, into any) error {
	err := e.readOwn(c, kind, prefix, id, into)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.QuoteNotFound, "quoteId")
	}
	return err
}

// newID draws an id in the slot of the caller's workspace.
func (e *edge) newID(c *call, prefix string) (string, error) {
	slot, err := c.slot()
	if err != nil {
		return "", err
	}
	u, err := ident.New(slot, c.now, e.actors.Entropy())
	return u.Format(prefix), err
}

// decodeRecord unmarshals a record's document.
func decodeRecord(record persistence.Record, into any) error {
	if err := json.Unmarshal(record.Document, into); err != nil {
		return fmt.Errorf("%s's record: %w", record.Kind, err)
	}
	return nil
}
