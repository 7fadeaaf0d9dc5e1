package workspace

import "purser/actors/fault"

// keyring is the live keys of a workspace in the order of their creation, so a key's maker comes
// before the key.
type keyring []Key

// index returns the index of a key, or -1.
func (r keyring) index(id string) int { return r.find(func(k *Key) bool { return k.ID == id }) }

// find returns the index of the first matching key, or -1. It copies no key, because every request
// of the API authenticates through it.
func (r keyring) find(matches func(*Key) bool) int {
	for i := range r {
		if matches(&r[i]) {
			return i
		}
	}
	return -1
}

// descendants returns a live key and every key made by it, directly or not. revokeKey calls it,
// because a revoked key takes its descendants with it.
func (r keyring) descendants(id string) []string {
	ids := []string{id}
	in := map[string]bool{id: true}
	for _, key := range r {
		if in[key.CreatedBy] {
			in[key.ID] = true
			ids = append(ids, key.ID)
		}
	}
	return ids
}

// divide splits the keys that descend from a user and may not stay in the user's role, "" for none.
// It returns the keys that end, and the kept keys whose maker ends or is the user. keep lists the
// keys to keep.
func (r keyring) divide(userID, role string, keep []string) (ended, adopted []string) {
	descends, gone := map[string]bool{userID: true}, map[string]bool{}
	kept := make(map[string]bool, len(keep))
	for _, id := range keep {
		kept[id] = true
	}
	for i := range r {
		key := &r[i]
		if !descends[key.CreatedBy] {
			continue
		}
		descends[key.ID] = true
		switch {
		case isWithinRole(role, key.Scopes) && !gone[key.CreatedBy]: // stays
		case !kept[key.ID]:
			gone[key.ID] = true
			ended = append(ended, key.ID)
		case gone[key.CreatedBy] || key.CreatedBy == userID:
			adopted = append(adopted, key.ID)
		}
	}
	return ended, adopted
}

// checkKept fails with not_found when a key to keep is not live, because the owner relies on
// keeping it, and with invalid_body for too many keys. own reports that the asking owner is the
// member; then keys or endpoints to keep are invalid_body.
func (r keyring) checkKept(keys, endpoints []string, own bool) error {
	if own && len(keys) > 0 {
		return invalidBody("keepKeys: only keys of another member are kept")
	}
	if own && len(endpoints) > 0 {
		return invalidBody("keepEndpoints: only endpoints of another member are kept")
	}
	if len(keys) > MaxKeptKeys {
		return invalidBody("keepKeys: at most %d keys", MaxKeptKeys)
	}
	for _, id := range keys {
		if r.index(id) < 0 {
			return fault.New(fault.NotFound, "")
		}
	}
	return nil
}
