package authorizer

import (
	"encoding/binary"
	"fmt"

	"purser/persistence/ident"
)

// RequireJournal notes the position that each shard of the journal must reach, durably before it
// returns: that of the newest event which the decision log cannot restore. It replaces the earlier
// note. It fails with ErrStopped and the store's error.
func (e *Engine) RequireJournal(positions *[ident.Shards]uint64) error {
	if err := e.failStop.failure(); err != nil {
		return err
	}
	note := make([]byte, 0, 8*ident.Shards)
	for _, position := range positions {
		note = binary.BigEndian.AppendUint64(note, position)
	}
	b := newBatch()
	b.setKey(keyJournal(), note)
	return e.failStop.failOn(e.store.commitDurably(b))
}

// RequiredJournal returns the newest note of RequireJournal, and zeros for a store without one,
// such as after FollowAnew. It fails with ErrCorrupt and the store's error. The actors' start
// compares it with the journal.
func (e *Engine) RequiredJournal() (positions [ident.Shards]uint64, err error) {
	_, err = e.store.get(keyJournal(), func(note []byte) error {
		if len(note) != 8*ident.Shards {
			return fmt.Errorf("%w: a note of the journal of %d bytes", ErrCorrupt, len(note))
		}
		for shard := range positions {
			positions[shard] = binary.BigEndian.Uint64(note[8*shard:])
		}
		return nil
	})
	return positions, err
}
