package actors

import (
	"bytes"
	"encoding/json"
	"fmt"

	"purser/actors/decision"
	"purser/persistence"
)

// sealedDocument is the stored form of a personal document.
type sealedDocument struct {
	Sealed []byte `json:"sealed"`
}

var sealedPrefix = []byte(`{"sealed":"`)

// documentSealer seals personal documents on their way to the journal, and opens them on the way
// back.
type documentSealer struct {
	sealer   Sealer
	personal map[string]bool // the sealed kinds of records
}

// newDocumentSealer returns a documentSealer that encrypts the document kinds that a table marks as
// personal.
func newDocumentSealer(sealer Sealer, table []Kind) *documentSealer {
	d := &documentSealer{sealer, make(map[string]bool)}
	for i := range table {
		for _, kind := range table[i].Personal {
			d.personal[kind] = true
		}
	}
	return d
}

// encode encodes a record's document, and seals it when it is personal; a deletion has none. It
// fails when the document cannot be encoded or sealed, or when no Kind lists the record as
// personal, which is a bug. See package seal.
func (d *documentSealer) encode(rec decision.Record) (json.RawMessage, error) {
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
	if !d.personal[rec.Kind] {
		return nil, fmt.Errorf("BUG: record %s is personal, and no row of Kinds names it", rec.Kind)
	}
	return d.seal(rec.Kind, rec.ID, document)
}

// seal encrypts a document, bound to the name of its record (kind/id). It fails only when the
// sealer has no key or no entropy.
func (d *documentSealer) seal(kind, id string, document []byte) (json.RawMessage, error) {
	sealed, err := d.sealer.Seal(kind+"/"+id, document)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", kind, err)
	}
	return json.Marshal(sealedDocument{Sealed: sealed})
}

// open replaces a sealed document by its plain form. It leaves a plain document as it is.
func (d *documentSealer) open(r *persistence.Record) error { return OpenRecord(d.sealer, r) }

// OpenRecord replaces the sealed document of a record that was not read through a System. It leaves
// a plain document as it is. It fails when the document opens under none of the sealer's keys.
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
