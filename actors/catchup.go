package actors

import (
	"context"
	"fmt"

	"purser/authorizer"
	"purser/persistence"
	"purser/persistence/ident"
)

// RelayedInContent returns, by shard, the relay cursor of a journal's exported content: the journal
// has the authorizer's decisions up to that number, and may have later ones. It fails only when the
// content cannot be read.
func RelayedInContent(content persistence.Content) (told Relayed, err error) {
	var shard ident.Shard
	for part, err := range content {
		if err != nil {
			return told, err
		}
		switch p := part.(type) {
		case *persistence.ShardHead:
			shard = p.Shard
		case *persistence.Cursor:
			if p.Name == relayCursor {
				told[shard] = p.Position
			}
		}
	}
	return told, nil
}

// CatchUpTarget is the part of an authorizer that CatchUp needs.
type CatchUpTarget interface {
	Follow(shard ident.Shard, f authorizer.Follow) error
	Followed(shard ident.Shard) uint64
}

// CatchUp makes an authorizer that serves no requests follow the journal to its heads, as Start
// does. It fails when an event cannot be read or decoded, or the authorizer cannot store a change;
// shards before the failed one keep their progress.
func CatchUp(ctx context.Context, journal persistence.Journal, a CatchUpTarget, table []Kind) error {
	kinds := kindsByName(table)
	for i := range ident.Shards {
		if err := catchUpShard(ctx, journal, a, kinds, ident.Shard(i)); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
	}
	return nil
}

// catchUpShard applies one shard's rules and credits to the authorizer, from its position to the
// journal's head. It fails with the first error of a read, an event or the authorizer.
func catchUpShard(ctx context.Context, journal persistence.Journal, a CatchUpTarget, kinds map[string]*Kind,
	shard ident.Shard) error {
	for {
		events, err := journal.Events(ctx, shard, a.Followed(shard), followBatch)
		if err != nil || len(events) == 0 {
			return err
		}
		f := authorizer.Follow{Through: events[len(events)-1].Position}
		for i := range events {
			k := kinds[events[i].Kind]
			if k == nil || k.Follow == nil {
				continue
			}
			if err := k.Follow(&events[i], &f); err != nil {
				return fmt.Errorf("event at position %d: %w", events[i].Position, err)
			}
		}
		if err := a.Follow(shard, f); err != nil {
			return err
		}
	}
}

// RelayedInJournal returns, by shard, the relay cursor of a journal: the last decision of the
// authorizer's log that the journal is known to have. It fails only when a cursor cannot be read.
// `purser rebuild-authorizer` compares the result with the log of the old authorizer.
func RelayedInJournal(ctx context.Context, journal persistence.Journal) (told Relayed, err error) {
	for shard := range told {
		if told[shard], err = journal.Cursor(ctx, relayCursor, ident.Shard(shard)); err != nil {
			return told, fmt.Errorf("shard %d: relay cursor: %w", shard, err)
		}
	}
	return told, nil
}
