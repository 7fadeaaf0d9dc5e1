package actors

import (
	"context"
	"fmt"

	"purser/actors/balance"
	"purser/actors/ident"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
)

// Rebuilt is what Rebuild needs of a fresh authorizer.
type Rebuilt interface {
	Follow(shard ident.Shard, f authorizer.Follow) error
	Followed(shard ident.Shard) uint64
	Replay(shard ident.Shard, entries []hold.Entry) error
	Synced(shard ident.Shard) uint64
}

// Rebuild makes a fresh authorizer from the journal: rules and credits by way of the follower, decisions from the relayed entries.
// What had been decided and not relayed when the old one was lost is lost with it; everything else answers as before. The
// authorizer must be empty and nothing else may run on either store.
func Rebuild(ctx context.Context, journal persistence.Journal, a Rebuilt) error {
	kinds := make(map[string]*Kind)
	for _, k := range Kinds() {
		kinds[k.Name] = &k
	}
	for i := range ident.Shards {
		shard := ident.Shard(i)
		if a.Synced(shard) > 0 || a.Followed(shard) > 0 {
			return fmt.Errorf("shard %d: the authorizer is not empty", i)
		}
		if err := rebuildShard(ctx, journal, a, kinds, shard); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
	}
	return nil
}

func rebuildShard(ctx context.Context, journal persistence.Journal, a Rebuilt, kinds map[string]*Kind, shard ident.Shard) error {
	for cursor := uint64(0); ; {
		events, err := journal.Events(ctx, shard, cursor, followBatch)
		if err != nil {
			return err
		}
		if len(events) == 0 { // what was replayed is not in the new log: the relay must not ask for it
			return journal.SaveCursor(ctx, relayCursor, shard, a.Synced(shard))
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
