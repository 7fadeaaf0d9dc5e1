package pgjournal

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/persistence/ident"
)

// This file turns the staged rows into arrays, one per column.

func (s *staging) shardIDs() []int16 {
	ids := make([]int16, 0, len(s.shards))
	for id := range s.shards {
		ids = append(ids, int16(id))
	}
	slices.Sort(ids)
	return ids
}

type streamColumns struct {
	shard        []int16
	kind, stream []string
}

// streamKeys returns the streams whose versions the batches expect, each once. lockShards reads
// their versions.
func (s *staging) streamKeys() streamColumns {
	var c streamColumns
	seen := map[streamKey]bool{}
	for _, i := range s.items {
		b := i.batch()
		if b == nil {
			continue
		}
		for n := range b.Events {
			key := streamKey{i.r.shard, b.Events[n].Kind, b.Events[n].Stream}
			if !seen[key] {
				seen[key] = true
				c.shard, c.kind, c.stream = append(c.shard, int16(key.shard)), append(c.kind, key.kind),
					append(c.stream, key.stream)
			}
		}
	}
	return c
}

type claimColumns struct {
	shard []int16
	scope []string
	hash  [][]byte
}

// claimKeys returns the idempotency keys that the batches claim, each once. lockShards reads the
// stored ones.
func (s *staging) claimKeys() claimColumns {
	var c claimColumns
	seen := map[claimKey]bool{}
	for _, i := range s.items {
		b := i.batch()
		if b == nil {
			continue
		}
		for n := range b.Onces {
			key := claimKey{i.r.shard, b.Onces[n].Scope, b.Onces[n].Hash}
			if !seen[key] {
				seen[key] = true
				c.shard, c.scope, c.hash = append(c.shard, int16(key.shard)), append(c.scope, key.scope),
					append(c.hash, key.hash[:])
			}
		}
	}
	return c
}

// queueMove queues one statement that moves the heads of the written shards, and returns their
// number. A head that another process has moved meanwhile stays as it is.
func (s *staging) queueMove(b *pgx.Batch) int {
	var id []int16
	var epoch, was, head, ordinal []int64
	for shard, at := range s.shards {
		if at.touched {
			id, epoch, was = append(id, int16(shard)), append(epoch, int64(at.epoch)), append(was, int64(at.lockedHead))
			head, ordinal = append(head, int64(at.head)), append(ordinal, int64(at.ordinal))
		}
	}
	b.Queue(sqlMoveHeads, id, epoch, was, head, ordinal)
	return len(id)
}

func eventColumns() []string {
	return []string{"shard", "position", "id", "workspace", "kind", "stream", "version", "type", "at", "size", "payload"}
}

// eventRows returns the events as rows of CopyFrom. writeStaged copies copyMin events and more.
func (s *staging) eventRows() pgx.CopyFromSource {
	return pgx.CopyFromSlice(len(s.events), func(i int) ([]any, error) {
		e := &s.events[i]
		var payload any
		if len(e.event.Payload) > 0 {
			payload = []byte(e.event.Payload)
		}
		return []any{int16(e.shard), int64(e.position), e.event.ID, e.workspace, e.event.Kind, e.event.Stream,
			int64(e.event.Version), e.event.Type, e.event.At, int32(len(e.event.Payload)), payload}, nil
	})
}

// queueEvents queues one statement that inserts fewer than copyMin events; writeStaged copies more.
func (s *staging) queueEvents(b *pgx.Batch) {
	n := len(s.events)
	if n == 0 || n >= copyMin {
		return
	}
	shard, position, version := make([]int16, n), make([]int64, n), make([]int64, n)
	id, workspace, kind, stream := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	typ, at, size, payload := make([]string, n), make([]time.Time, n), make([]int32, n), make([]string, n)
	for i, e := range s.events {
		shard[i], position[i], version[i] = int16(e.shard), int64(e.position), int64(e.event.Version)
		id[i], workspace[i], kind[i], stream[i] = e.event.ID, e.workspace, e.event.Kind, e.event.Stream
		typ[i], at[i], size[i], payload[i] = e.event.Type, e.event.At, int32(len(e.event.Payload)), string(e.event.Payload)
	}
	b.Queue(sqlInsertEvents, shard, position, id, workspace, kind, stream, version, typ, at, size, payload)
}

// queueStreams queues one statement that stores the new versions of all streams that the batches
// advanced.
func (s *staging) queueStreams(b *pgx.Batch) {
	var shard []int16
	var kind, stream []string
	var version []int64
	for key, state := range s.streams {
		if state.moved {
			shard, kind, stream = append(shard, int16(key.shard)), append(kind, key.kind), append(stream, key.stream)
			version = append(version, int64(state.version))
		}
	}
	if len(shard) > 0 {
		b.Queue(sqlSetVersions, shard, kind, stream, version)
	}
}

// queueRecords queues the deleted records before the stored ones, so that a deleted and rewritten
// record is new.
func (s *staging) queueRecords(b *pgx.Batch) {
	var shard []int16
	var kind, id []string
	for key, state := range s.records {
		if state.cleared {
			shard, kind, id = append(shard, int16(key.shard)), append(kind, key.kind), append(id, key.id)
		}
	}
	if len(shard) > 0 {
		b.Queue(sqlDeleteRecords, shard, kind, id)
	}
	s.queueSetRecords(b)
}

// queueSetRecords queues one statement that stores all written records.
func (s *staging) queueSetRecords(b *pgx.Batch) {
	var shard, slot []int16
	var kind, id, workspace, parent, document []string
	var version, position, ordinal []int64
	for key, state := range s.records {
		if !state.present {
			continue
		}
		r := &state.record
		shard, slot = append(shard, int16(key.shard)), append(slot, int16(r.Slot))
		kind, id = append(kind, key.kind), append(id, key.id)
		workspace, parent = append(workspace, r.Workspace), append(parent, r.Parent)
		version, document = append(version, int64(r.Version)), append(document, string(r.Document))
		position, ordinal = append(position, int64(r.Position)), append(ordinal, int64(r.Ordinal))
	}
	if len(shard) > 0 {
		b.Queue(sqlSetRecords, shard, kind, id, workspace, parent, slot, version, position, ordinal, document)
	}
}

// queueOnces queues one statement that stores the idempotency keys which the batches claimed.
func (s *staging) queueOnces(b *pgx.Batch) {
	var shard []int16
	var scope []string
	var hash, fingerprint, answer [][]byte
	var expires []*time.Time
	for key, c := range s.claims {
		if !c.made {
			continue
		}
		shard, scope, hash = append(shard, int16(key.shard)), append(scope, key.scope), append(hash, key.hash[:])
		fingerprint, answer = append(fingerprint, c.once.Fingerprint[:]), append(answer, c.once.Answer)
		expires = append(expires, nullableTime(c.once.Expires))
	}
	if len(shard) > 0 {
		b.Queue(sqlSetOnces, shard, scope, hash, fingerprint, expires, answer)
	}
}

func nullableTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// queueTimers queues one statement that deletes timers and one that sets timers, as the batches
// changed them.
func (s *staging) queueTimers(b *pgx.Batch) {
	var removed, set []timerKey
	for key, t := range s.timers {
		if t.due.IsZero() {
			removed = append(removed, key)
		} else {
			set = append(set, key)
		}
	}
	if len(removed) > 0 {
		shard, kind, stream, key := timerColumns(removed)
		b.Queue(sqlDeleteTimers, shard, kind, stream, key)
	}
	if len(set) == 0 {
		return
	}
	workspace, slot, due := make([]string, len(set)), make([]int16, len(set)), make([]time.Time, len(set))
	for i, key := range set {
		t := s.timers[key]
		workspace[i], slot[i], due[i] = t.workspace, int16(t.slot), t.due
	}
	shard, kind, stream, key := timerColumns(set)
	b.Queue(sqlSetTimers, shard, kind, stream, key, workspace, slot, due)
}

func timerColumns(keys []timerKey) (shard []int16, kind, stream, key []string) {
	for _, k := range keys {
		shard, kind, stream, key = append(shard, int16(k.shard)), append(kind, k.kind), append(stream, k.stream),
			append(key, k.key)
	}
	return shard, kind, stream, key
}

func shardColumn(shards []ident.Shard) []int16 {
	column := make([]int16, len(shards))
	for i, id := range shards {
		column[i] = int16(id)
	}
	return column
}
