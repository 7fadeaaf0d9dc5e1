package pgjournal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
)

func payloadBatch(slot ident.Slot, stream, document string) *persistence.Batch {
	b := oneEventBatch(slot, 1)
	b.Events[0].Stream, b.Events[0].Payload = stream, json.RawMessage(document)
	b.Records, b.Timers = nil, nil
	return b
}

// Batches that Postgres refuses fail alone, among good ones of the same shard and of others.
func TestBadBatchFailsAlone(t *testing.T) {
	o := fastOptions(databases.Database(t))
	o.Lanes = 1 // all appends share a transaction
	j := open(t, o)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	heads, err := j.Raise(t.Context(), 1, 2)
	require.NoError(t, err)

	const others = 20
	var work sync.WaitGroup
	errs := make([]error, others)
	for i := range errs {
		work.Go(func() {
			outcomes, err := j.Append(context.Background(), 2, heads[1].Epoch, journaltest.Start,
				[]*persistence.Batch{payloadBatch(0x020, fmt.Sprint(i), `{}`)})
			if errs[i] = err; err == nil {
				errs[i] = outcomes[0].Err
			}
		})
	}
	bad := []*persistence.Batch{
		payloadBatch(0x010, "json", `{"a":`), payloadBatch(0x010, "nul\x00", `{}`), payloadBatch(0x010, "\xff", `{}`),
		payloadBatch(0x010, "raw nul", "\"\x00\""), payloadBatch(0x010, "two", `{} {}`),
	}
	for _, b := range bad {
		group := []*persistence.Batch{payloadBatch(0x010, "", `{}`), b, payloadBatch(0x010, "", `{}`)}
		group[0].Events[0].Stream = fmt.Sprintf("before %x", b.Events[0].Stream)
		group[2].Events[0].Stream = fmt.Sprintf("after %x", b.Events[0].Stream)
		outcomes, err := j.Append(t.Context(), 1, heads[0].Epoch, journaltest.Start, group)
		require.NoError(t, err)
		require.NoError(t, outcomes[0].Err)
		require.ErrorIs(t, outcomes[1].Err, persistence.ErrRefused)
		require.NoError(t, outcomes[2].Err)
		require.Equal(t, outcomes[0].Last+1, outcomes[2].First)
	}
	work.Wait()
	require.NoError(t, errors.Join(errs...))
	require.EqualValues(t, others, j.Head(2).Position)
	require.EqualValues(t, 2*len(bad), j.Head(1).Position)
}

// JSON that a jsonb column would change or refuse comes back byte by byte.
func TestDocumentsKeepTheirBytes(t *testing.T) {
	j := open(t, fastOptions(databases.Database(t)))
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	heads, err := j.Raise(t.Context(), 1)
	require.NoError(t, err)
	documents := []string{`"\u0000"`, `{"b":1, "a":1,"b":2}`, `1e400`, ` [ 1.0 ] `, `""`, `null`, ``}
	for i, document := range documents {
		b := payloadBatch(0x010, fmt.Sprint(i), document)
		b.Records = []persistence.Record{{Kind: "card", ID: fmt.Sprint(i), Document: json.RawMessage(document)}}
		outcomes, err := j.Append(t.Context(), 1, heads[0].Epoch, journaltest.Start, []*persistence.Batch{b})
		require.NoError(t, errors.Join(err, outcomes[0].Err))
	}
	events, err := j.Events(persistence.AsStored(t.Context()), 1, 0, len(documents))
	require.NoError(t, err)
	for i, document := range documents {
		require.Equal(t, document, string(events[i].Payload))
		r, err := j.Record(t.Context(), 0x010, "card", fmt.Sprint(i))
		require.NoError(t, err)
		require.Equal(t, document, string(r.Document))
	}
}

// A group with so many events that CopyFrom is used, and a batch with too long a key.
func TestManyEventsAreCopied(t *testing.T) {
	j := open(t, fastOptions(databases.Database(t)))
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	heads, err := j.Raise(t.Context(), 1)
	require.NoError(t, err)
	b := &persistence.Batch{Workspace: "ws_1", Slot: 0x010}
	for version := uint64(1); version <= persistence.MaxBatchEvents; version++ {
		b.Events = append(b.Events, oneEventBatch(0x010, version).Events...)
	}
	long := &persistence.Batch{Slot: 0x010, Timers: []persistence.Timer{{
		Kind: strings.Repeat("k", 1000), Stream: strings.Repeat("s", 1000), Key: strings.Repeat("k", 1000),
		Due: journaltest.Start,
	}}}
	empty := payloadBatch(0x010, "empty", "")
	outcomes, err := j.Append(t.Context(), 1, heads[0].Epoch, journaltest.Start, []*persistence.Batch{b, long, empty})
	require.NoError(t, err)
	require.Equal(t, persistence.Outcome{First: 1, Last: persistence.MaxBatchEvents}, outcomes[0])
	require.ErrorIs(t, outcomes[1].Err, persistence.ErrTooLarge)
	require.NoError(t, outcomes[2].Err)
	events, err := j.Events(persistence.AsStored(t.Context()), 1, persistence.MaxBatchEvents-1, 10)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.True(t, bytes.Equal(b.Events[len(b.Events)-1].Payload, events[0].Payload))
	require.Empty(t, events[1].Payload)
}

// Two journals over one database each see the appends of the other, and only the last to raise may
// write.
func TestOnlyTheLastRaiserMayWrite(t *testing.T) {
	o := fastOptions(databases.Database(t))
	writer, reader := open(t, o), open(t, o)
	t.Cleanup(func() { require.NoError(t, errors.Join(writer.Close(), reader.Close())) })
	require.Equal(t, writer.Identity(), reader.Identity())
	heads, err := writer.Raise(t.Context(), 1)
	require.NoError(t, err)
	woken := make(chan error, 1)
	go func() { woken <- journaltest.AwaitHead(context.Background(), reader, 1, 0) }()
	require.NoError(t, appendOne(writer, 0x010, heads[0].Epoch, 1))
	require.NoError(t, <-woken)
	events, err := reader.Events(t.Context(), 1, 0, 10)
	require.NoError(t, err)
	require.Len(t, events, 1)

	taken, err := reader.Raise(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, []persistence.Head{{Position: 1, Epoch: heads[0].Epoch + 1}}, taken)
	requireTruth(t, reader, 0x010, 1)
	require.ErrorIs(t, appendOne(writer, 0x010, heads[0].Epoch, 2), persistence.ErrFenced)
	require.NoError(t, appendOne(reader, 0x010, taken[0].Epoch, 2))
}
