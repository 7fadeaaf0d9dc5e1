package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"purser/persistence"
	"purser/persistence/ident"
)

// Secret is a secret of the deployment as the stores remember it: by fingerprints, from which it
// cannot be derived. Fingerprints has one element for each valid value, and none for a secret that
// this start does not use and need not have.
type Secret struct {
	Name         string
	Fingerprints []string
	// OfAddresses: addresses derive from the secret. Others sign with or show it otherwise.
	OfAddresses bool
}

// changed is the warning about a secret with no value in common with the last start's.
func (s Secret) changed() string {
	const unknown = "a secret is none of those that the stores have used: "
	if s.OfAddresses {
		return unknown + "links have addresses of another seed from now on. Restore the old one, or keep it " +
			"for the addresses that were handed out"
	}
	return unknown + "signatures under the old one are refused from now on. Restore the old one, or give " +
		"the new one to the other side"
}

// MissingSecret means that the stores have used a secret which this start does not have. It is an
// ErrStores.
type MissingSecret struct{ Name string }

func (e MissingSecret) Error() string { return e.Name + " is missing, but the stores have used one" }

// Unwrap returns ErrStores.
func (e MissingSecret) Unwrap() error { return ErrStores }

// secretKind is the kind of the records of secrets, one for each name. They are sealed, because a
// fingerprint confirms a guess of a weak secret to a reader of the store.
const secretKind = "secret_fingerprints"

// maxSecretRecords bounds the secret records that a start reads.
const maxSecretRecords = 64

// secretDocument is the document of a secret record.
type secretDocument struct {
	Fingerprints []string `json:"fingerprints"`
}

// checkSecrets compares the configured secrets with those of the last start, and stores them. It
// fails with MissingSecret for a secret that is no longer configured, and with an error when the
// stored fingerprints cannot be read, opened or written. A secret with no value in common with the
// last start's is logged by name, with what follows from it. Without configured secrets nothing is
// compared.
func (k *startCheck) checkSecrets(ctx context.Context, sh *shard) error {
	if len(k.secrets) == 0 {
		return nil
	}
	used, err := SecretsInUse(ctx, k.journal, k.documents.sealer)
	if err != nil {
		return err
	}
	for name := range used {
		if !slices.ContainsFunc(k.secrets, func(c Secret) bool { return c.Name == name }) {
			return MissingSecret{Name: name}
		}
	}
	var changed []*persistence.Batch
	for _, secret := range k.secrets {
		before := used[secret.Name]
		if len(secret.Fingerprints) == 0 || slices.Equal(before, secret.Fingerprints) {
			continue
		}
		isKnown := func(f string) bool { return slices.Contains(before, f) }
		if len(before) > 0 && !slices.ContainsFunc(secret.Fingerprints, isKnown) {
			k.log.Warn(secret.changed(), "secret", secret.Name)
		}
		batch, err := k.secretBatch(secret)
		if err != nil {
			return err
		}
		changed = append(changed, batch)
	}
	if err := sh.lane.appendRecords(ctx, changed); err != nil {
		return fmt.Errorf("fingerprints of secrets: %w", err)
	}
	return nil
}

// SecretsInUse returns the fingerprints that the last start stored, by the secret's name. It fails
// when the journal cannot be read, or a record does not open under the sealer's keys or decode.
func SecretsInUse(ctx context.Context, journal persistence.Journal, sealer Sealer) (map[string][]string, error) {
	records, err := journal.Records(ctx, ident.SystemSlot.Shard(), secretKind, "", maxSecretRecords)
	if err != nil {
		return nil, fmt.Errorf("fingerprints of secrets: %w", err)
	}
	used := map[string][]string{}
	for _, r := range records {
		var document secretDocument
		if err := OpenRecord(sealer, &r); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(r.Document, &document); err != nil {
			return nil, fmt.Errorf("fingerprints of secret %s: %w", r.ID, err)
		}
		used[r.ID] = document.Fingerprints
	}
	return used, nil
}

// secretBatch returns the batch that stores a secret's fingerprints. It fails only when they cannot
// be sealed.
func (k *startCheck) secretBatch(secret Secret) (*persistence.Batch, error) {
	document, err := json.Marshal(secretDocument{Fingerprints: secret.Fingerprints})
	if err != nil {
		return nil, err
	}
	if document, err = k.documents.seal(secretKind, secret.Name, document); err != nil {
		return nil, err
	}
	system := ident.System.Format(ident.Workspace)
	return &persistence.Batch{Workspace: system, Slot: ident.SystemSlot,
		Records: []persistence.Record{{Kind: secretKind, Workspace: system, ID: secret.Name, Document: document}}}, nil
}
