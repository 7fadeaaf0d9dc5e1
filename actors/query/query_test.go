package query_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence"
	"purser/persistence/ident"
)

// payoutsOf is a Reader of one workspace's payouts, newest first.
type payoutsOf struct {
	workspace string
	stored    []persistence.Record
	limits    []int // of the pages that were read
}

func (p *payoutsOf) Record(ctx context.Context, kind, workspace, id string) (persistence.Record, error) {
	r, err := p.Find(ctx, 0, kind, id)
	if err == nil && workspace != p.workspace {
		return persistence.Record{}, fault.New(fault.NotFound, "")
	}
	return r, err
}

func (p *payoutsOf) Find(_ context.Context, _ ident.Slot, kind, id string) (persistence.Record, error) {
	for _, r := range p.stored {
		if r.Kind == kind && r.ID == id {
			return r, nil
		}
	}
	return persistence.Record{}, fault.New(fault.NotFound, "")
}

func (p *payoutsOf) List(_ context.Context, _, _, _ string, page persistence.Page) ([]persistence.Record, error) {
	var read []persistence.Record
	p.limits = append(p.limits, page.Limit)
	for _, r := range p.stored {
		if behind := page.AfterPosition == 0 || r.Position < page.AfterPosition; behind && len(read) < page.Limit {
			read = append(read, r)
		}
	}
	return read, nil
}

// newPayouts returns a Reader of n payouts. Each one's document has length bytes.
func newPayouts(t *testing.T, n, length int) *payoutsOf {
	t.Helper()
	p := &payoutsOf{workspace: idIn(t, ident.Workspace, 0)}
	for i := range n {
		document := fmt.Sprintf(`{"id":%q,"amountCents":%d,"description":"`, idIn(t, ident.Payout, i), i)
		document += strings.Repeat("x", max(0, length-len(document)-2)) + `"}`
		p.stored = append(p.stored, persistence.Record{Kind: balance.RecordPayout, Workspace: p.workspace,
			ID: idIn(t, ident.Payout, i), Position: uint64(n - i), Document: json.RawMessage(document)})
	}
	return p
}

func idIn(t *testing.T, prefix string, n int) string {
	t.Helper()
	return ident.Derive(1, ident.System.Time(), fmt.Sprint(prefix, n)).Format(prefix)
}

func TestReadReturnsTheDocumentOfAnOwnRecord(t *testing.T) {
	p := newPayouts(t, 2, 0)
	id := p.stored[1].ID
	read, err := query.Payouts.Read(t.Context(), p, p.workspace, id)
	require.NoError(t, err)
	require.Equal(t, balance.Payout{ID: id, AmountCents: 1}, read)

	stored, err := query.Payouts.AsStored().Read(t.Context(), p, p.workspace, id)
	require.NoError(t, err)
	require.Equal(t, string(p.stored[1].Document), string(stored))

	found, err := query.Payouts.FindRecord(t.Context(), p, id)
	require.NoError(t, err)
	require.Equal(t, query.Record[balance.Payout]{ID: id, Workspace: p.workspace, Place: query.Place{Position: 1},
		Document: read}, found)
}

func TestIDThatNamesNoRecordOfTheKindIsNotFound(t *testing.T) {
	p := newPayouts(t, 1, 0)
	p.stored = append(p.stored, persistence.Record{Kind: balance.RecordPayout, ID: idIn(t, ident.Card, 1),
		Document: json.RawMessage(`{}`)})
	for _, id := range []string{"", "po_", "no id", idIn(t, ident.Card, 1), idIn(t, ident.Payout, 7)} {
		_, err := query.Payouts.Read(t.Context(), p, p.workspace, id)
		require.True(t, fault.Is(err, fault.NotFound), "%q: %v", id, err)
		_, err = query.Payouts.FindRecord(t.Context(), p, id)
		require.True(t, fault.Is(err, fault.NotFound), "%q: %v", id, err)
	}
	_, err := query.Payouts.Read(t.Context(), p, idIn(t, ident.Workspace, 1), p.stored[0].ID)
	require.True(t, fault.Is(err, fault.NotFound), "of another workspace: %v", err)
}

func TestMissingPartOfARecordIsAnInternalError(t *testing.T) {
	p := newPayouts(t, 1, 0)
	_, err := query.PayoutTexts.ReadPart(t.Context(), p, p.workspace, p.stored[0].ID)
	require.ErrorContains(t, err, "part payout_text of a record")
	require.False(t, fault.Is(err, fault.NotFound), "the caller would answer 404 for a payout that exists")
}

func TestDocumentThatCannotBeReadNamesItsKind(t *testing.T) {
	p := newPayouts(t, 1, 0)
	p.stored[0].Document = json.RawMessage(`{"amountCents":"12"}`)
	_, err := query.Payouts.Read(t.Context(), p, p.workspace, p.stored[0].ID)
	require.ErrorContains(t, err, "record payout: ")
	_, err = query.Payouts.List(t.Context(), p, p.workspace, "", query.Page{Limit: 1})
	require.ErrorContains(t, err, "record payout: ")
}

func TestPagesTogetherHaveEachRecordOnce(t *testing.T) {
	p := newPayouts(t, 50, 0)
	const limit = 20
	var seen []string
	for page := (query.Page{Limit: limit}); ; {
		records, more, err := query.Payouts.ListWithin(t.Context(), p, p.workspace, "", page, 1<<20)
		require.NoError(t, err)
		for _, r := range records {
			seen = append(seen, r.Document.ID)
		}
		if !more {
			break
		}
		require.Len(t, records, limit)
		page.After = records[limit-1].Place
	}
	require.Len(t, seen, 50)
	for i, r := range p.stored {
		require.Equal(t, r.ID, seen[i])
	}
}

// A page ends with the record that exceeds its limit of bytes. Few records behind it are read.
func TestPageOfLongRecordsEndsAtItsBytes(t *testing.T) {
	const length = 1000
	p := newPayouts(t, 100, length)
	records, more, err := query.Payouts.ListWithin(t.Context(), p, p.workspace, "", query.Page{Limit: 100}, 3*length)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, records, 4)
	require.Equal(t, []int{16}, p.limits)
}
