package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"purser/actors/decision"
	"purser/persistence"
	"purser/persistence/ident"
)

// sealedDocument is the stored form of a personal document.
type sealedDocument struct {
	Sealed []byte `json:"sealed"`
}

var sealedPrefix = []byte(`{"sealed":"`)

// encodeDocument encodes a record's document, and seals it when it is personal. See package seal.
func (s *System) encodeDocument(rec decision.Record) (json.RawMessage, error) {
	if rec.Delete {
		return nil, nil
	}
	document, err := decision.Encode(rec.Document)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", rec.Kind, err)
	}
	if !rec.Personal {
		return document, nil
	}
	if !s.personal[rec.Kind] {
		return nil, fmt.Errorf("BUG: record %s is personal, and no row of Kinds names it", rec.Kind)
	}
	return s.sealDocument(rec.Kind, rec.ID, document)
}

// sealDocument seals a document under the name of its record, kind/id.
func (s *System) sealDocument(kind, id string, document []byte) (json.RawMessage, error) {
	sealed, err := s.sealer.Seal(kind+"/"+id, document)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", kind, err)
	}
	return json.Marshal(sealedDocument{Sealed: sealed})
}

// openDocument replaces a sealed document by its plain form. It leaves a plain document as it is.
func (s *System) openDocument(r *persistence.Record) error { return OpenRecord(s.sealer, r) }

// OpenRecord replaces the sealed document of a record that was not read through a System. It leaves
// a plain document as it is.
func OpenRecord(sealer Sealer, r *persistence.Record) error {
	if !bytes.HasPrefix(r.Document, sealedPrefix) {
		return nil
	}
	var d sealedDocument
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return fmt.Errorf("record %s: %w", r.Kind, err)
	}
	document, err := sealer.Open(r.Kind+"/"+r.ID, d.Sealed)
	if err != nil {
		return fmt.Errorf("record %s: %w (is PURSER_DATA_KEY the one it was written with?)", r.Kind, err)
	}
	r.Document = document
	return nil
}

// keySampleKind is the kind of the records that name the data keys under which documents of a
// journal may be sealed: one sample for each key, with the key's id, sealed under that key. The
// sample of an earlier version has the system workspace's id.
const keySampleKind = "data_key_sample"

// maxKeySamples bounds the samples that a start reads. Every rotation that did not finish leaves
// one.
const maxKeySamples = 64

// DataKeysInUse returns the ids of the data keys under which documents of a journal may be sealed.
// The key of an earlier version, whose id is unknown, has the system workspace's id.
func DataKeysInUse(ctx context.Context, journal persistence.Journal) ([]string, error) {
	samples, err := journal.Records(ctx, ident.SystemSlot.Shard(), keySampleKind, "", maxKeySamples)
	keys := make([]string, 0, len(samples))
	for _, r := range samples {
		keys = append(keys, r.ID)
	}
	return keys, err
}

// checkDataKeys fails when a data key under which documents of this journal may be sealed is
// missing, because they could not be read. It stores a sample of the first key before any document
// is sealed under it.
func (s *System) checkDataKeys(ctx context.Context) error {
	sh := s.shards[ident.SystemSlot.Shard()]
	samples, err := s.journal.Records(ctx, sh.id, keySampleKind, "", maxKeySamples)
	if err != nil {
		return fmt.Errorf("data key: %w", err)
	}
	known := false
	for _, r := range samples {
		known = known || r.ID == s.sealer.KeyID()
		if err := s.openDocument(&r); err != nil {
			return fmt.Errorf("%w: the data key is not the one that the journal's personal data is sealed under; "+
				"PURSER_DATA_KEY takes it after the new one and a comma (sample %s): %w", ErrStores, r.ID, err)
		}
	}
	if known {
		return nil
	}
	document, err := s.sealDocument(keySampleKind, s.sealer.KeyID(), []byte(`"sample"`))
	if err != nil {
		return err
	}
	system := ident.System.Format(ident.Workspace)
	err = sh.lane.appendRecords(ctx, []*persistence.Batch{{Workspace: system, Slot: ident.SystemSlot,
		Records: []persistence.Record{{Kind: keySampleKind, Workspace: system, ID: s.sealer.KeyID(),
			Document: document}}}})
	if err != nil {
		return fmt.Errorf("data key: %w", err)
	}
	return nil
}
