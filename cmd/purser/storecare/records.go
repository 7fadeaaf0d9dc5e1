package storecare

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"purser/actors"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// Limits of a page of ReadRecords.
const (
	recordsAtOnce    = 50
	maxRecordsCursor = 128 // bytes
)

// recordsFrom is a position in the records of a kind, in the order of shards and there of ids; the
// zero value is before the first.
type recordsFrom struct {
	Shard int
	After string
}

// readRecords reads the documents of at most atMost records of a kind from a position on, unsealed.
// next is nil on the last page. It fails with the journal's error, and for a document that the data
// keys do not open.
func readRecords(ctx context.Context, journal persistence.Journal, sealer actors.Sealer, kind string, from recordsFrom,
	atMost int) (documents []json.RawMessage, next *recordsFrom, err error) {
	documents = []json.RawMessage{}
	for from.Shard < ident.Shards {
		room := atMost - len(documents)
		records, err := journal.Records(ctx, ident.Shard(from.Shard), kind, from.After, room)
		if err != nil {
			return documents, nil, err
		}
		for _, r := range records {
			if err := actors.OpenRecord(sealer, &r); err != nil {
				return documents, nil, err
			}
			documents = append(documents, r.Document)
			from.After = r.ID
		}
		switch {
		case len(documents) == atMost:
			return documents, &from, nil
		case len(records) == 0:
			from = recordsFrom{Shard: from.Shard + 1}
		}
	}
	return documents, nil, nil
}

// ReadRecords reads a page of the documents of all workspaces' records of a kind, unsealed. next is
// the cursor of the next page, "" on the last. It fails with invalid_query for another cursor, and
// like readRecords.
func ReadRecords(ctx context.Context, journal persistence.Journal, sealer actors.Sealer, kind, cursor string) (
	documents []json.RawMessage, next string, err error) {
	from, err := parseRecordsCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	documents, further, err := readRecords(ctx, journal, sealer, kind, from, recordsAtOnce)
	if further != nil {
		next = strconv.Itoa(further.Shard) + "." + further.After
	}
	return documents, next, err
}

// parseRecordsCursor reads a cursor of ReadRecords. "" is the first page. It fails with
// invalid_query.
func parseRecordsCursor(cursor string) (from recordsFrom, err error) {
	if cursor == "" {
		return from, nil
	}
	shard, after, found := strings.Cut(cursor, ".")
	from.Shard, err = strconv.Atoi(shard)
	if !found || err != nil || from.Shard < 0 || from.Shard >= ident.Shards || len(cursor) > maxRecordsCursor {
		return recordsFrom{}, fault.New(fault.InvalidQuery, "the address is not of a page of this list")
	}
	from.After = after
	return from, nil
}
