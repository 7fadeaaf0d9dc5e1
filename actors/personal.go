package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"purser/actors/cardholder"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/ident"
	"purser/actors/partner"
	"purser/persistence"
)

// sealedDocument is what the journal keeps of a personal document.
type sealedDocument struct {
	Sealed []byte `json:"sealed"`
}

var sealedMark = []byte(`{"sealed":"`)

// document encodes a record's document; a personal one is sealed for its record. See package seal.
func (s *System) document(rec decision.Record) (json.RawMessage, error) {
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
	sealed, err := s.sealer.Seal(rec.Kind+"/"+rec.ID, document)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", rec.Kind, err)
	}
	return json.Marshal(sealedDocument{Sealed: sealed})
}

// open gives a record its document back as it was before it was sealed. One that was stored plain stays as it is.
func (s *System) open(r *persistence.Record) error {
	if !bytes.HasPrefix(r.Document, sealedMark) {
		return nil
	}
	var d sealedDocument
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return fmt.Errorf("record %s: %w", r.Kind, err)
	}
	document, err := s.sealer.Open(r.Kind+"/"+r.ID, d.Sealed)
	if err != nil {
		return fmt.Errorf("record %s: %w (is PURSER_DATA_KEY the one it was written with?)", r.Kind, err)
	}
	r.Document = document
	return nil
}

// sampleKind is the kind of the one record that tells which data key a journal's personal data is sealed under.
const sampleKind = "data_key_sample"

// checkDataKey refuses another data key than the one that this journal's personal data is sealed under: what is there could not
// be read, and what came would need the other key. The first start leaves a sample that the later ones must be able to open.
func (s *System) checkDataKey(ctx context.Context) error {
	sample := decision.Record{Kind: sampleKind, ID: ident.System.Format(ident.Workspace), Document: "sample", Personal: true}
	record, err := s.journal.Record(ctx, ident.SystemSlot, sample.Kind, sample.ID)
	if err == nil {
		if err := s.open(&record); err != nil {
			return fmt.Errorf("%w: the data key is not the one that the journal's personal data is sealed under: %w", ErrStores,
				err)
		}
		return nil
	}
	if !errors.Is(err, persistence.ErrNotFound) {
		return fmt.Errorf("data key: %w", err)
	}
	document, err := s.document(sample)
	if err != nil {
		return err
	}
	sh := s.shards[ident.SystemSlot.Shard()]
	outcomes, err := s.journal.Append(ctx, sh.id, sh.lane.epoch, s.clock(), []*persistence.Batch{{Workspace: sample.ID,
		Slot: ident.SystemSlot, Records: []persistence.Record{{Kind: sample.Kind, Workspace: sample.ID, ID: sample.ID,
			Document: document}}}})
	if err == nil {
		err = outcomes[0].Err
	}
	if err != nil {
		return fmt.Errorf("data key: %w", err)
	}
	return nil
}

// Enrol asks the issuing partner to take a person on. The same reference again is the same enrolment. A person who is not
// complete stays pending, and so does everyone where no partner is connected.
func (s *System) Enrol(ctx context.Context, reference string, p cardholder.Person) (cardholder.Enrolment, error) {
	if s.issuer == nil || !p.Complete() {
		return cardholder.Enrolment{State: cardholder.StatePending}, nil
	}
	a := p.ShippingAddress
	account, err := s.issuer.Enrol(ctx, partner.Person{Reference: reference, FirstName: p.FirstName, LastName: p.LastName,
		Email: p.Email, PhoneNumber: p.PhoneNumber, DateOfBirth: p.DateOfBirth, SsnLast4: p.SsnLast4,
		Address: partner.Address{Line1: a.Line1, City: a.City, Region: a.Region, PostalCode: a.PostalCode, Country: a.Country}})
	switch {
	case errors.Is(err, partner.ErrRefused):
		return cardholder.Enrolment{State: cardholder.StateRejected}, nil
	case err != nil:
		s.log.Warn("the issuing partner did not enrol a cardholder", "err", err)
		return cardholder.Enrolment{}, fault.New(fault.Unavailable, "The issuing partner does not answer; nothing changed.")
	}
	return cardholder.Enrolment{State: cardholder.StateActive, Account: account}, nil
}
