package workspace

import (
	"slices"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
)

// createKey creates a key with the asked scopes. It fails with requireKeyManager's faults,
// invalid_body for a wrong label or scope, the missing-scope fault for a scope that the calling key
// lacks, and limit_exceeded.
func (s *State) createKey(m decision.Meta, c CreateKey) (decision.Decision, error) {
	held, err := s.requireKeyManager(c.By)
	if err != nil {
		return decision.Decision{}, err
	}
	if err := checkLabel(c.Label); err != nil {
		return decision.Decision{}, err
	}
	scopes, err := checkScopes(c.Scopes)
	if err != nil {
		return decision.Decision{}, err
	}
	if c.By.KeyID != "" {
		if err := checkHeld(held, scopes); err != nil {
			return decision.Decision{}, err
		}
	}
	if len(s.Keys) >= MaxLiveKeys {
		return decision.Decision{}, limitExceeded("at most %d keys that are not revoked", MaxLiveKeys)
	}
	if s.Keys.index(c.ID) >= 0 || slices.Contains(s.RevokedKeys, c.ID) {
		panic("BUG: key created twice")
	}
	at := decision.StampOf(m.At)
	key := c.NewKey.liveKey(scopes, at)
	key.CreatedBy = c.By.principalID()
	return decision.Decision{
		Events:  []decision.Event{KeyCreated{Workspace: s.ID, Key: key, At: at}},
		Reply:   key.apiKey(),
		Records: s.keyRecords(key),
	}, nil
}

// requireKeyManager checks that a principal may create and revoke keys. For a key it returns the
// scopes, which bound the keys that it creates and revokes. An owner's or admin's session is not
// bound by scopes. It fails with the faults of keyScopes or requireRole.
func (s *State) requireKeyManager(by Principal) ([]string, error) {
	if by.KeyID == "" {
		return nil, s.requireRole(by, Owner, Admin)
	}
	return s.keyScopes(by)
}

// keyScopes returns the scopes of a calling key. It fails with unauthorized for a key revoked since
// its authentication, and with the missing-scope fault for a key without write:api_keys.
func (s *State) keyScopes(by Principal) ([]string, error) {
	i := s.Keys.index(by.KeyID)
	if i < 0 {
		return nil, fault.New(fault.Unauthorized, "")
	}
	if !Holds(s.Keys[i].Scopes, WriteKeys) {
		return nil, missingScope(WriteKeys)
	}
	return s.Keys[i].Scopes, nil
}

// revokeKey revokes a key and its descendants; a repeat revokes nothing. It fails with
// requireKeyManager's faults, not_found, and the missing-scope fault when the key holds a scope
// that the calling key lacks.
func (s *State) revokeKey(m decision.Meta, c RevokeKey) (decision.Decision, error) {
	held, err := s.requireKeyManager(c.By)
	if err != nil {
		return decision.Decision{}, err
	}
	i := s.Keys.index(c.ID)
	if i < 0 {
		if slices.Contains(s.RevokedKeys, c.ID) {
			return decision.Decision{Reply: Revoked{Revoked: []string{}}}, nil
		}
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if c.By.KeyID != "" {
		if err := checkHeld(held, s.Keys[i].Scopes); err != nil {
			return decision.Decision{}, err
		}
	}
	ids := s.Keys.descendants(c.ID)
	d := decision.Decision{Reply: Revoked{Revoked: slices.Clone(ids)}}
	s.revokeKeys(&d, ids, c.By, decision.StampOf(m.At))
	return d, nil
}

// revokeKeys ends live keys in one event and deletes the records of their secrets. It panics for an
// id that is not live.
func (s *State) revokeKeys(d *decision.Decision, ids []string, by Principal, at decision.Stamp) {
	for _, id := range ids {
		key := s.Keys[s.Keys.index(id)]
		view := key.apiKey()
		view.RevokedAt = &at
		d.Records = append(d.Records,
			decision.Record{Kind: RecordKey, ID: id, Document: view},
			decision.Record{Kind: RecordSecret, ID: key.SecretHash, Delete: true})
	}
	d.Events = append(d.Events, KeysRevoked{Workspace: s.ID, Keys: ids, By: by.principalID(), At: at})
}

// Descendants returns the live keys that a key made, directly or not, in the order of their
// creation: those that end with it. It is empty for a key that is not live.
func (s *State) Descendants(keyID string) []APIKey {
	made := []APIKey{}
	if s.Keys.index(keyID) < 0 {
		return made
	}
	for _, id := range s.Keys.descendants(keyID)[1:] {
		made = append(made, s.Keys[s.Keys.index(id)].apiKey())
	}
	return made
}

// OwnersBehind returns the owners, and the owner from whom a live key descends, "" without one.
func (s *State) OwnersBehind(keyID string) (owners []string, founder string) {
	maker := keyID
	for i := len(s.Keys) - 1; i >= 0; i-- { // a key's maker comes before the key
		if s.Keys[i].ID == maker {
			maker = s.Keys[i].CreatedBy
		}
	}
	for _, member := range s.Members {
		if member.Role != Owner {
			continue
		}
		owners = append(owners, member.UserID)
		if member.UserID == maker {
			founder = maker
		}
	}
	return owners, founder
}

// noteUse records the use of a key, at most once in UseResolution. It fails with not_found for a
// key that is not live.
func (s *State) noteUse(m decision.Meta, c NoteUse) (decision.Decision, error) {
	at := decision.StampOf(m.At)
	i := s.Keys.index(c.KeyID)
	if i < 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	key := s.Keys[i]
	if !key.useDue(at) {
		return decision.Decision{Reply: key.apiKey()}, nil
	}
	key.LastUsedAt = at
	return decision.Decision{
		Events:  []decision.Event{KeyUsed{Workspace: s.ID, Key: key.ID, At: at}},
		Reply:   key.apiKey(),
		Records: []decision.Record{{Kind: RecordKey, ID: key.ID, Document: key.apiKey()}},
	}, nil
}

// authenticateKey replies the Access of the key with the secret's hash. It fails with unauthorized
// when no live key has it.
func (s *State) authenticateKey(m decision.Meta, c Authenticate) (decision.Decision, error) {
	i := s.Keys.find(func(k *Key) bool { return k.SecretHash == c.SecretHash })
	if i < 0 || c.SecretHash == "" {
		return decision.Decision{}, fault.New(fault.Unauthorized, "")
	}
	key := s.Keys[i]
	access := s.newAccess(Principal{KeyID: key.ID})
	access.Scopes = slices.Clone(key.Scopes)
	access.UseDue = key.useDue(decision.StampOf(m.At))
	return decision.Decision{Reply: access}, nil
}

func (s *State) newAccess(p Principal) Access {
	return Access{Workspace: s.ID, Principal: p, Mode: s.Mode, KYBStatus: s.KYBStatus}
}

func (s *State) keyRecords(key Key) []decision.Record {
	return []decision.Record{
		{Kind: RecordKey, ID: key.ID, Document: key.apiKey()},
		{Kind: RecordSecret, ID: key.SecretHash, Document: SecretDocument{WorkspaceID: s.ID, KeyID: key.ID}},
	}
}

// liveKey returns the key to store. It panics for a key without an id, a prefix or a secret's hash.
func (k NewKey) liveKey(scopes []string, at decision.Stamp) Key {
	if k.ID == "" || k.SecretHash == "" || k.Prefix == "" {
		panic("BUG: key without an id or secret")
	}
	return Key{
		ID: k.ID, Label: k.Label, Scopes: scopes, Prefix: k.Prefix, SecretHash: k.SecretHash, CreatedBy: k.CreatedBy,
		CreatedAt: at,
	}
}

// apiKey returns the key as the interface shows it, without its secret's hash. The decisions about
// keys store and reply it.
func (k Key) apiKey() APIKey {
	v := APIKey{
		ID: k.ID, Label: k.Label, Scopes: append([]string{}, k.Scopes...), Prefix: k.Prefix, CreatedBy: k.CreatedBy,
		CreatedAt: k.CreatedAt,
	}
	if used := k.LastUsedAt; !used.IsZero() {
		v.LastUsedAt = &used
	}
	return v
}

func (k Key) useDue(at decision.Stamp) bool {
	return k.LastUsedAt.IsZero() || at.Sub(k.LastUsedAt.Time) >= UseResolution
}

func (p Principal) principalID() string {
	if (p.KeyID == "") == (p.UserID == "") {
		panic("BUG: a principal is a key or a user")
	}
	return p.KeyID + p.UserID
}

func checkLabel(label string) error {
	if n := utf8.RuneCountInString(label); n < 1 || n > MaxLabel {
		return invalidBody("label: 1 to %d characters", MaxLabel)
	}
	return nil
}
