// Package query reads stored records as the types of their documents. The variables of kinds.go name
// the kinds of record, the prefixes of their ids and the types of their documents.
//
// The functions return the error of the Reader: not_found for a record that does not exist or that
// belongs to another workspace, unavailable when the journal cannot be read.
package query

import (
	"context"
	"encoding/json"
	"fmt"

	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// MaxPage is the largest Limit of a Page.
const MaxPage = persistence.MaxPage

// firstRead is the number of records that ListWithin reads first, so that long records beyond the
// end of a page are not read.
const firstRead = 16

// Reader reads stored records; *actors.System implements it.
type Reader interface {
	// Record returns a record of a workspace.
	Record(ctx context.Context, kind, workspace, id string) (persistence.Record, error)
	// Find returns a record of any workspace.
	Find(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error)
	// List returns a page of a workspace's records, newest first.
	List(ctx context.Context, kind, workspace, parent string, page persistence.Page) ([]persistence.Record, error)
}

// Records is a kind of record whose documents have the type D. With json.RawMessage as D the
// documents are returned as they are stored.
type Records[D any] struct {
	kind     string
	prefixes []string
}

// RecordsOf returns a kind of record whose ids have one of the prefixes. Without prefixes every id is
// looked up.
func RecordsOf[D any](kind string, prefixes ...string) Records[D] { return Records[D]{kind, prefixes} }

// Kind returns the name under which the records are stored.
func (k Records[D]) Kind() string { return k.kind }

// AsStored returns the same kind with its documents as they are stored.
func (k Records[D]) AsStored() Records[json.RawMessage] {
	return Records[json.RawMessage](k)
}

// Place is the place of a record in its list. A list begins with the newest record, the one with the
// highest place.
type Place struct {
	Position uint64
	Ordinal  uint32
}

// Page selects at most Limit records of a list behind a place. The zero place selects the newest.
type Page struct {
	After Place
	Limit int
}

// Record is a stored record.
type Record[D any] struct {
	ID, Workspace, Parent string
	Place                 Place
	Document              D
}

// Read returns the document of a workspace's record. It fails as ReadRecord does.
func (k Records[D]) Read(ctx context.Context, r Reader, workspace, id string) (D, error) {
	record, err := k.ReadRecord(ctx, r, workspace, id)
	return record.Document, err
}

// ReadRecord returns a workspace's record. It fails with not_found for an id of another kind, for
// an unknown record and for another workspace's, with unavailable when the journal cannot be read,
// and with a plain error for a document that does not decode.
func (k Records[D]) ReadRecord(ctx context.Context, r Reader, workspace, id string) (Record[D], error) {
	if !k.names(id) {
		return Record[D]{}, fault.New(fault.NotFound, "")
	}
	stored, err := r.Record(ctx, k.kind, workspace, id)
	if err != nil {
		return Record[D]{}, err
	}
	return k.decodeRecord(&stored)
}

// ReadPart returns the document of a record that is stored together with another one, such as the
// label of a card. The caller has read the other one, so every failure is an internal error, also
// not_found.
func (k Records[D]) ReadPart(ctx context.Context, r Reader, workspace, id string) (D, error) {
	document, err := k.Read(ctx, r, workspace, id)
	if err != nil {
		return document, fmt.Errorf("part %s of a record: %v", k.kind, err)
	}
	return document, nil
}

// Find returns the document of a record of any workspace, by a key that proves the access to it:
// the hash of a secret, a token or an email. It fails with not_found without such a record, with
// unavailable when the journal cannot be read, and for a document that does not decode.
func (k Records[D]) Find(ctx context.Context, r Reader, slot ident.Slot, key string) (D, error) {
	record, err := k.find(ctx, r, slot, key)
	return record.Document, err
}

// FindRecord returns a record of any workspace by its id. It is for callers that need not belong to
// the record's workspace, such as the public pages of agents and checkout links. It fails with
// not_found for an id of another kind and an unknown record, and otherwise as Find does.
func (k Records[D]) FindRecord(ctx context.Context, r Reader, id string) (Record[D], error) {
	slot, err := ident.SlotOf(id)
	if err != nil || !k.names(id) {
		return Record[D]{}, fault.New(fault.NotFound, "")
	}
	return k.find(ctx, r, slot, id)
}

func (k Records[D]) find(ctx context.Context, r Reader, slot ident.Slot, key string) (Record[D], error) {
	stored, err := r.Find(ctx, slot, k.kind, key)
	if err != nil {
		return Record[D]{}, err
	}
	return k.decodeRecord(&stored)
}

// names reports whether an id can be of a record of this kind.
func (k Records[D]) names(id string) bool {
	for _, prefix := range k.prefixes {
		if _, err := ident.Parse(prefix, id); err == nil {
			return true
		}
	}
	return len(k.prefixes) == 0
}

// List returns a page of a workspace's records of a parent, newest first. Most kinds have no
// parent, which is "". It fails when the journal cannot be read (unavailable), for an invalid
// workspace id (not_found), or for a document that does not decode. An empty page is no error.
func (k Records[D]) List(ctx context.Context, r Reader, workspace, parent string, page Page) ([]Record[D], error) {
	stored, err := r.List(ctx, k.kind, workspace, parent, page.stored())
	if err != nil {
		return nil, err
	}
	return k.decodeRecords(stored)
}

// ListWithin returns a page as List does, and whether more records follow. The page ends with the
// record that takes its documents beyond maxBytes. It fails as List does.
func (k Records[D]) ListWithin(ctx context.Context, r Reader, workspace, parent string, page Page, maxBytes int,
) (records []Record[D], more bool, err error) {
	stored, more, err := k.readWithin(ctx, r, workspace, parent, page, maxBytes)
	if err != nil {
		return nil, false, err
	}
	records, err = k.decodeRecords(stored)
	return records, more, err
}

// readWithin reads the stored records of ListWithin, a few first and then the rest. It fails with
// the Reader's error.
func (k Records[D]) readWithin(ctx context.Context, r Reader, workspace, parent string, page Page, maxBytes int,
) (records []persistence.Record, more bool, err error) {
	length, at := 0, page.stored()
	for {
		// The extra record shows whether the list continues.
		at.Limit = page.Limit + 1 - len(records)
		if len(records) == 0 {
			at.Limit = min(at.Limit, firstRead)
		}
		read, err := r.List(ctx, k.kind, workspace, parent, at)
		if err != nil {
			return nil, false, err
		}
		for i := range read {
			if length > maxBytes || len(records) == page.Limit {
				return records, true, nil
			}
			length += len(read[i].Document)
			records = append(records, read[i])
		}
		if len(read) < at.Limit {
			return records, false, nil
		}
		last := records[len(records)-1]
		at.AfterPosition, at.AfterOrdinal = last.Position, last.Ordinal
	}
}

func (p Page) stored() persistence.Page {
	return persistence.Page{AfterPosition: p.After.Position, AfterOrdinal: p.After.Ordinal, Limit: p.Limit}
}

// decodeRecords decodes stored records, in order. It fails at the first document that does not
// decode.
func (k Records[D]) decodeRecords(stored []persistence.Record) ([]Record[D], error) {
	records := make([]Record[D], len(stored))
	for i := range stored {
		var err error
		if records[i], err = k.decodeRecord(&stored[i]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func (k Records[D]) decodeRecord(stored *persistence.Record) (Record[D], error) {
	document, err := k.Decode(stored.Document)
	return Record[D]{ID: stored.ID, Workspace: stored.Workspace, Parent: stored.Parent,
		Place: Place{stored.Position, stored.Ordinal}, Document: document}, err
}

// Decode returns the document that a stored text holds. It fails only when the text is not the JSON
// of a D; json.RawMessage never fails. Callers with records of the journal, not of a Reader, use
// it.
func (k Records[D]) Decode(stored json.RawMessage) (document D, err error) {
	if text, ok := any(&document).(*json.RawMessage); ok {
		*text = stored
		return document, nil
	}
	if err := json.Unmarshal(stored, &document); err != nil {
		return document, fmt.Errorf("record %s: %w", k.kind, err)
	}
	return document, nil
}
