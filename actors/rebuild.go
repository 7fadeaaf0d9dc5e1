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

// Rebuilt is what Rebuild needs of a fresh authorizer.
type Rebuilt interface {
	Follow(shard ident.Shard, f authorizer.Follow) error
	Followed(shard ident.Shard) uint64
	Replay(shard ident.Shard, entries []hold.Entry) error
	NoteLost(shard ident.Shard, lost []authorizer.Lost) error
	Synced(shard ident.Shard) uint64
}

// Relayed is, by shard, the decision up to which a rebuilt authorizer has what the journal has.
type Relayed [ident.Shards]uint64

// Rebuild makes a fresh authorizer from the journal: rules and credits by way of the follower, decisions from the relayed
// entries. What had been decided and not relayed when the old one was lost is lost with it; everything else answers as before.
// The authorizer must be empty and nothing else may run on either store. The journal stays as it is: it belongs to the old
// authorizer until that is gone, and then to the new one by SaveRelayed.
func Rebuild(ctx context.Context, journal persistence.Journal, a Rebuilt) (relayed Relayed, err error) {
	kinds := make(map[string]*Kind)
	for _, k := range Kinds() {
		kinds[k.Name] = &k
	}
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

// SaveRelayed tells the journal from where a rebuilt authorizer will relay: what was replayed is not in its log. It comes after
// the new store has taken the place of the old one, whose log the cursors before it are of. A start without it is refused.
func SaveRelayed(ctx context.Context, journal persistence.Journal, relayed Relayed) error {
	for shard, seq := range relayed {
		if err := journal.SaveCursor(ctx, relayCursor, ident.Shard(shard), seq); err != nil {
			return fmt.Errorf("shard %d: relay cursor: %w", shard, err)
		}
	}
	return nil
}

func rebuildShard(ctx context.Context, journal persistence.Journal, a Rebuilt, kinds map[string]*Kind, shard ident.Shard) error {
	var seen spans
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
			relayed, err := rebuildFrom(&events[i], &f, kinds)
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

func rebuildFrom(e *persistence.Event, f *authorizer.Follow, kinds map[string]*Kind) ([]hold.Entry, error) {
	if e.Kind == "balance" && e.Type == (balance.Relayed{}).EventType() {
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

// spans are runs of sequence numbers in order, no two of which touch. A relay mixes workspaces within what it reads at once, so
// they are few.
type spans []span

type span struct{ first, last uint64 }

func (s *spans) add(n uint64) {
	i := len(*s) // the first run that begins after n
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
		*s = slices.Insert(*s, i, span{n, n})
	}
}

// gaps are the numbers from 1 on that are missing before the last one.
func (s spans) gaps() (lost []authorizer.Lost) {
	next := uint64(1)
	for _, run := range s {
		if run.first > next {
			lost = append(lost, authorizer.Lost{First: next, Last: run.first - 1})
		}
		next = run.last + 1
	}
	return lost
}
