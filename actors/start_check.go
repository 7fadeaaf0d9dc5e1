package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"purser/persistence"
	"purser/persistence/ident"
)

// ErrStores reports that the two stores do not belong together, or that the data key is another's.
// No retry mends that; the text names the repair.
var ErrStores = errors.New("the stores are refused")

// startCheck refuses to start over stores that do not belong together, or without a key or a secret
// that they need.
type startCheck struct {
	journal    persistence.Journal
	authorizer Authorizer
	documents  *documentSealer
	secrets    []Secret
	log        *slog.Logger

	required [ident.Shards]uint64 // positions that the journal must reach; of checkStores
}

// rebuildHint is the repair for an authorizer that is not the journal's.
const rebuildHint = "stop here; `purser rebuild-authorizer` says what a repair keeps and loses, " +
	"and `purser rebuild-authorizer --yes` makes it: rules from the journal, decisions from the authorizer's log"

// checkStores refuses two stores of which one is older or another's, before a shard is taken: the
// start of a stale copy must not end the server that has the shards.
func (k *startCheck) checkStores(ctx context.Context) error {
	required, err := k.authorizer.RequiredJournal()
	if err != nil {
		return fmt.Errorf("note of the journal's positions: %w", err)
	}
	k.required = required
	for shard := range ident.Shards {
		if _, err := k.compareStores(ctx, ident.Shard(shard)); err != nil {
			return err
		}
	}
	return nil
}

// compareStores refuses two stores that do not belong together: going on would answer swipes from
// wrong funds. It returns the number of the last decision that the relay has delivered to the
// journal. Reading it also reads the journal's head.
func (k *startCheck) compareStores(ctx context.Context, id ident.Shard) (told uint64, err error) {
	told, err = k.journal.Cursor(ctx, relayCursor, id)
	if err != nil {
		return 0, fmt.Errorf("shard %d: relay cursor: %w", id, err)
	}
	if followed, head := k.authorizer.Followed(id), k.journal.Head(id).Position; followed > head {
		return 0, fmt.Errorf("%w: shard %d: the authorizer has followed the journal to position %d, which ends at %d: the journal is older or another's; %s",
			ErrStores, id, followed, head, rebuildHint)
	}
	if required, head := k.required[id], k.journal.Head(id).Position; required > head {
		return 0, fmt.Errorf("%w: shard %d: the journal had events up to position %d, and ends at %d: the journal is older or another's; %s",
			ErrStores, id, required, head, rebuildHint)
	}
	if synced := k.authorizer.Synced(id); told > synced {
		return 0, fmt.Errorf("%w: shard %d: the journal was told of decision %d, the authorizer's log ends at %d: the log is older or another's; %s",
			ErrStores, id, told, synced, rebuildHint)
	}
	return told, nil
}

// checkShard compares the stores of a shard that this process has taken, and finds where the relay
// continues. A journal that knows fewer decisions than the authorizer believes is sent them again,
// for as long as the log still has them. It fails with ErrStores for stores that do not belong
// together, and with the errors of the stores.
func (k *startCheck) checkShard(ctx context.Context, sh *shard) error {
	told, err := k.compareStores(ctx, sh.id)
	if err != nil {
		return err
	}
	// Either note may be lost in a crash. The relay continues from the lower one. Repeats are
	// dropped by their numbers.
	relayed := k.authorizer.Relayed(sh.id)
	sh.relayed.value = min(told, relayed)
	sh.asides.saved = sh.relayed.value
	if told >= relayed {
		return nil
	}
	rest, err := k.authorizer.ReadLog(sh.id, told, 1)
	if err != nil {
		return fmt.Errorf("shard %d: decision log: %w", sh.id, err)
	}
	if len(rest) == 0 || rest[0].Seq != told+1 {
		return fmt.Errorf("%w: shard %d: the journal was told of decision %d and the log no longer has the next one: the journal is older; %s",
			ErrStores, sh.id, told, rebuildHint)
	}
	return nil
}
