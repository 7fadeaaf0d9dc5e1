package user

import (
	"crypto/sha256"
	"fmt"
	"time"

	"purser/actors/decision"
)

// Place is a network address from which the user has signed in. Hash is PlaceHash.
type Place struct {
	Hash   string         `json:"hash"`
	SeenAt decision.Stamp `json:"seenAt"`
}

// Places are the known places of a user, the newest last. They are personal data.
type Places []Place

// PlaceHash returns the hash of an address for a user.
func PlaceHash(userID, address string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(userID+"|"+address)))
}

// Knows reports whether the user has signed in from a place within PlaceLife.
func (p Places) Knows(hash string, at time.Time) bool {
	for _, place := range p {
		if place.Hash == hash {
			return at.Sub(place.SeenAt.Time) < PlaceLife
		}
	}
	return false
}

// With returns a copy with a place as the newest. Beyond MaxPlaces the oldest goes.
func (p Places) With(hash string, at time.Time) Places {
	var seen Places
	for _, place := range p {
		if place.Hash != hash {
			seen = append(seen, place)
		}
	}
	seen = append(seen, Place{Hash: hash, SeenAt: decision.StampOf(at)})
	return seen[max(0, len(seen)-MaxPlaces):]
}
