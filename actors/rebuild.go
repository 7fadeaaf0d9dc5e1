package actors

import (
	"context"
	"fmt"
	"slices"

	"purser/actors/balance"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
)

// RebuildTarget is the part of an empty authorizer that Rebuild needs.
type RebuildTarget interface {
	Follow(shard ident.Shard, f authorizer.Follow) error
	Followed(shard ident.Shard) uint64
	Replay(shard ident.Shard, entries []hold.Entry) error
	NoteLost(shard ident.Shard, lost []authorizer.Lost) error
	Synced(shard ident.Shard) uint64
}

// Relayed is, by shard, the number of the last decision that the journal has of an authorizer.
type Relayed [ident.Shards]uint64

// Rebuild fills an empty authorizer from the journal: rules and credits through the follower,
// decisions from the relayed entries. Decisions that the lost authorizer had not relayed are lost;
// NoteLost records their numbers. It fails when the authorizer is not empty, an event cannot be
// read or decoded, or the authorizer cannot store it; the target must then be discarded. No other
// process may use either store meanwhile. Rebuild does not write to the journal, whose relay
// cursors belong to the old authorizer until SaveRelayed.
func Rebuild(ctx context.Context, journal persistence.Journal, a RebuildTarget, table []Kind,
) (relayed Relayed, err error) {
	kinds := kindsByName(table)
	for i := range ident.Shards {
		shard := ident.Shard(i)
		if a.Synced(shard) > 0 || a.Followed(shard) > 0 {
			return relayed, fmt.Errorf("shard %d: the authorizer is not empty", i)
		}
		if err := rebuildShard(ctx, journal, a, kinds, shard); err != nil {
			return relayed, fmt.Errorf("shard %d: %w", i, err)
		}
		relayed[shard] = a.Synced(shard)
	}
	return relayed, nil
}

// SaveRelayed stores the relay cursors of a rebuilt authorizer, whose log does not contain the
// replayed decisions. It must be called after the new store has replaced the old one, to which the
// former cursors belong. Start refuses a rebuilt store without it. It fails only when the journal
// does, and may then be called again.
func SaveRelayed(ctx context.Context, journal persistence.Journal, relayed Relayed) error {
	for shard, seq := range relayed {
		if err := journal.SaveCursor(ctx, relayCursor, ident.Shard(shard), seq); err != nil {
			return fmt.Errorf("shard %d: relay cursor: %w", shard, err)
		}
	}
	return nil
}

// rebuildShard applies all events of a shard to the authorizer, from the first to the head, and
// then notes the missing decisions. It fails with the first error of a read, an event or the
// authorizer.
func rebuildShard(ctx context.Context, journal persistence.Journal, a RebuildTarget, kinds map[string]*Kind,
	shard ident.Shard) error {
	var seen seqRanges
	for cursor := uint64(0); ; {
		events, err := journal.Events(ctx, shard, cursor, followBatch)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return a.NoteLost(shard, seen.gaps())
		}
		cursor = events[len(events)-1].Position
		f := authorizer.Follow{Through: cursor}
		var entries []hold.Entry
		for i := range events {
			relayed, err := rebuildFromEvent(&events[i], &f, kinds)
			if err != nil {
				return fmt.Errorf("event at position %d: %w", events[i].Position, err)
			}
			entries = append(entries, relayed...)
		}
		if err := a.Follow(shard, f); err != nil {
			return err
		}
		for i := range entries {
			seen.add(entries[i].Seq)
		}
		if len(entries) > 0 {
			if err := a.Replay(shard, entries); err != nil {
				return err
			}
		}
	}
}

// rebuildFromEvent returns the relayed decisions of an event, or adds its rules and credits to f.
// It fails only when the payload does not decode.
func rebuildFromEvent(e *persistence.Event, f *authorizer.Follow, kinds map[string]*Kind) ([]hold.Entry, error) {
	if isRelayed(e) {
		event, err := balance.DecodeEvent(e.Type, e.Payload)
		if err != nil {
			return nil, err
		}
		return event.(balance.Relayed).Entries, nil
	}
	if k := kinds[e.Kind]; k != nil && k.Follow != nil {
		return nil, k.Follow(e, f)
	}
	return nil, nil
}

// seqRanges are disjoint, ordered ranges of sequence numbers that do not touch. The relay mixes
// workspaces only within one read, so the ranges are few.
type seqRanges []seqRange

type seqRange struct{ first, last uint64 }

// add adds a number to the ranges and joins the ranges that it connects. A number that is already
// in them changes nothing.
func (s *seqRanges) add(n uint64) {
	i := len(*s) // the first range that begins after n
	for i > 0 && (*s)[i-1].first > n {
		i--
	}
	after := i < len(*s) && (*s)[i].first == n+1
	switch before := i > 0; {
	case before && n <= (*s)[i-1].last:
	case before && n == (*s)[i-1].last+1 && after:
		(*s)[i-1].last = (*s)[i].last
		*s = slices.Delete(*s, i, i+1)
	case before && n == (*s)[i-1].last+1:
		(*s)[i-1].last = n
	case after:
		(*s)[i].first = n
	default:
		*s = slices.Insert(*s, i, seqRange{n, n})
	}
}

// gaps returns the missing numbers between 1 and the last number: the decisions that a rebuild has
// lost.
func (s seqRanges) gaps() (lost []authorizer.Lost) {
	next := uint64(1)
	for _, run := range s {
		if run.first > next {
			lost = append(lost, authorizer.Lost{First: next, Last: run.first - 1})
		}
		next = run.last + 1
	}
	return lost
}
