package httpapi

import (
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
)

// Reading and naming the records of the caller's workspace.

// readOwn reads a record of the caller's workspace. It fails with not_found for an id that is
// unknown or another workspace's, and with the store's error.
func readOwn[D any](e *edge, c *call, of query.Records[D], id string) (D, error) {
	return of.Read(c.ctx, e.actors, c.who.workspace(), id)
}

// readQuote reads a quote that the caller is about to use. A missing quote, or another workspace's,
// is quote_not_found; other errors are the store's.
func readQuote[D any](e *edge, c *call, of query.Records[D], id string) (D, error) {
	quote, err := readOwn(e, c, of, id)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.QuoteNotFound, "quoteId")
	}
	return quote, err
}

// newID draws an id in the slot of the caller's workspace. It fails only when the entropy source
// fails.
func (e *edge) newID(c *call, prefix string) (string, error) {
	slot, err := c.slot()
	if err != nil {
		return "", err
	}
	u, err := ident.New(slot, c.now, e.actors.Entropy())
	return u.Format(prefix), err
}
