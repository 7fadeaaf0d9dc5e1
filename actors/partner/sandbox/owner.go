package sandbox

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"purser/persistence/ident"
)

// ErrForeign means that a store belongs to another deployment.
var ErrForeign = errors.New("sandbox: the store belongs to another deployment")

// ownerKey holds the 16 bytes of the deployment that owns a store. It sorts before all other keys.
var ownerKey = []byte("\x00deployment")

// ClaimStore compares the owner of the bank's or ramp's store with a deployment. A store without an
// owner, such as a new one or one of an earlier version, is given the deployment, synced. It fails
// with ErrForeign for another owner, and with the store's error. The start of a server calls it
// before the partner is used.
func (b *orderProcessor) ClaimStore(deployment ident.UUID) error {
	return claimStore(b.store.db, deployment)
}

// ClaimStore compares the owner of the chains' store with a deployment, like the ClaimStore of a
// bank.
func (c *Chains) ClaimStore(deployment ident.UUID) error { return claimStore(c.store.db, deployment) }

func claimStore(db *pebble.DB, deployment ident.UUID) error {
	owner, closer, err := db.Get(ownerKey)
	if errors.Is(err, pebble.ErrNotFound) {
		if err := db.Set(ownerKey, deployment[:], pebble.Sync); err != nil {
			return fmt.Errorf("sandbox: claim the store: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("sandbox: owner of the store: %w", err)
	}
	if !bytes.Equal(owner, deployment[:]) {
		err = fmt.Errorf("%w: %x, not %x", ErrForeign, owner, deployment[:])
	}
	return errors.Join(err, closer.Close())
}
