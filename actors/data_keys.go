package actors

import (
	"context"
	"fmt"

	"purser/persistence"
	"purser/persistence/ident"
)

// keySampleKind is the kind of the records that name the data keys under which documents of a
// journal may be sealed: one sample for each key, with the key's id, sealed under that key.
const keySampleKind = "data_key_sample"

// maxKeySamples bounds the samples that a start reads. Every rotation that did not finish leaves
// one.
const maxKeySamples = 64

// DataKeysInUse returns the ids of the data keys under which documents of a journal may be sealed.
// It fails only when the journal cannot be read.
func DataKeysInUse(ctx context.Context, journal persistence.Journal) ([]string, error) {
	samples, err := journal.Records(ctx, ident.SystemSlot.Shard(), keySampleKind, "", maxKeySamples)
	keys := make([]string, 0, len(samples))
	for _, r := range samples {
		keys = append(keys, r.ID)
	}
	return keys, err
}

// checkDataKeys fails with ErrStores when a data key is missing under which documents of this
// journal may be sealed, because they could not be read. It fails with the store's error when the
// samples cannot be read or written. It stores a sample of the first key, unless the journal has
// it, and must be called before any document is sealed under that key.
func (k *startCheck) checkDataKeys(ctx context.Context, sh *shard) error {
	samples, err := k.journal.Records(ctx, sh.id, keySampleKind, "", maxKeySamples)
	if err != nil {
		return fmt.Errorf("data key: %w", err)
	}
	known := false
	for _, r := range samples {
		known = known || r.ID == k.documents.sealer.KeyID()
		if err := k.documents.open(&r); err != nil {
			return fmt.Errorf("%w: the data key is not the one that the journal's personal data is sealed under; "+
				"PURSER_DATA_KEY takes it after the new one and a comma (sample %s): %w", ErrStores, r.ID, err)
		}
	}
	if known {
		return nil
	}
	document, err := k.documents.seal(keySampleKind, k.documents.sealer.KeyID(), []byte(`"sample"`))
	if err != nil {
		return err
	}
	system := ident.System.Format(ident.Workspace)
	err = sh.lane.appendRecords(ctx, []*persistence.Batch{{Workspace: system, Slot: ident.SystemSlot,
		Records: []persistence.Record{{Kind: keySampleKind, Workspace: system, ID: k.documents.sealer.KeyID(),
			Document: document}}}})
	if err != nil {
		return fmt.Errorf("data key: %w", err)
	}
	return nil
}
