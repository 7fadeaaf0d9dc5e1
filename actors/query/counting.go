package query

import (
	"context"

	"purser/persistence"
)

// CountingReader is a Reader that reports the bytes of the documents it returns: of single records
// to Single, and of each list to Listed. It is as safe for concurrent use as both are.
type CountingReader struct {
	Reader
	Single, Listed func(bytes int)
}

// Record implements Reader.
func (r CountingReader) Record(ctx context.Context, kind, workspace, id string) (persistence.Record, error) {
	record, err := r.Reader.Record(ctx, kind, workspace, id)
	r.Single(len(record.Document))
	return record, err
}

// List implements Reader.
func (r CountingReader) List(ctx context.Context, kind, workspace, parent string, page persistence.Page,
) ([]persistence.Record, error) {
	records, err := r.Reader.List(ctx, kind, workspace, parent, page)
	bytes := 0
	for i := range records {
		bytes += len(records[i].Document)
	}
	r.Listed(bytes)
	return records, err
}
