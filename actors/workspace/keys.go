package workspace

import (
	"slices"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
)

func (s *State) createKey(m decision.Meta, c CreateKey) (decision.Decision, error) {
	held, err := s.mayHandOut(c.By)
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
		return decision.Decision{}, limit("at most %d keys that are not revoked", MaxLiveKeys)
	}
	if s.key(c.ID) >= 0 || slices.Contains(s.RevokedKeys, c.ID) {
		panic("BUG: key created twice")
	}
	at := decision.StampOf(m.At)
	key := c.NewKey.key(scopes, at)
	key.CreatedBy = c.By.id()
	return decision.Decision{
		Events:  []decision.Event{KeyCreated{Workspace: s.ID, Key: key, At: at}},
		Reply:   key.view(),
		Records: s.keyRecords(key),
	}, nil
}

// mayHandOut checks that a principal may make and revoke keys. The scopes of a key are returned,
// because they bound the keys that it makes and revokes. A session of an owner or admin is bound by
// no scope.
func (s *State) mayHandOut(by Principal) ([]string, error) {
	if by.KeyID == "" {
		return nil, s.mustBe(by, Owner, Admin)
	}
	return s.keyScopes(by)
}

// keyScopes returns the scopes of a calling key, which must hold write:api_keys. A key that was revoked since it was
// authenticated is nobody.
func (s *State) keyScopes(by Principal) ([]string, error) {
	i := s.key(by.KeyID)
	if i < 0 {
		return nil, fault.New(fault.Unauthorized, "")
	}
	if !Holds(s.Keys[i].Scopes, WriteKeys) {
		return nil, missing(WriteKeys)
	}
	return s.Keys[i].Scopes, nil
}

func (s *State) revokeKey(m decision.Meta, c RevokeKey) (decision.Decision, error) {
	held, err := s.mayHandOut(c.By)
	if err != nil {
		return decision.Decision{}, err
	}
	i := s.key(c.ID)
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
	ids := s.descent(c.ID)
	d := decision.Decision{Reply: Revoked{Revoked: slices.Clone(ids)}}
	s.revokeKeys(&d, ids, c.By, decision.StampOf(m.At))
	return d, nil
}

// revokeKeys ends live keys, all at once.
func (s *State) revokeKeys(d *decision.Decision, ids []string, by Principal, at decision.Stamp) {
	for _, id := range ids {
		key := s.Keys[s.key(id)]
		view := key.view()
		view.RevokedAt = &at
		d.Records = append(d.Records,
			decision.Record{Kind: RecordKey, ID: id, Document: view},
			decision.Record{Kind: RecordSecret, ID: key.SecretHash, Delete: true})
	}
	d.Events = append(d.Events, KeysRevoked{Workspace: s.ID, Keys: ids, By: by.id(), At: at})
}

// descent lists a live key and all that were made by it, directly or not. Live keys are in the order they were made, so one pass
// finds every maker before what it made.
func (s *State) descent(id string) []string {
	ids := []string{id}
	in := map[string]bool{id: true}
	for _, key := range s.Keys {
		if in[key.CreatedBy] {
			in[key.ID] = true
			ids = append(ids, key.ID)
		}
	}
	return ids
}

// OwnersBehind lists the owners, and names the one from whom a live key descends; "" when it
// descends from none of them.
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

func (s *State) noteUse(m decision.Meta, c NoteUse) (decision.Decision, error) {
	at := decision.StampOf(m.At)
	i := s.key(c.KeyID)
	if i < 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	key := s.Keys[i]
	if !key.useDue(at) {
		return decision.Decision{Reply: key.view()}, nil
	}
	key.LastUsedAt = at
	return decision.Decision{
		Events:  []decision.Event{KeyUsed{Workspace: s.ID, Key: key.ID, At: at}},
		Reply:   key.view(),
		Records: []decision.Record{{Kind: RecordKey, ID: key.ID, Document: key.view()}},
	}, nil
}

func (s *State) authenticate(m decision.Meta, c Authenticate) (decision.Decision, error) {
	i := s.find(func(k *Key) bool { return k.SecretHash == c.SecretHash })
	if i < 0 || c.SecretHash == "" {
		return decision.Decision{}, fault.New(fault.Unauthorized, "")
	}
	key := s.Keys[i]
	access := s.access(Principal{KeyID: key.ID})
	access.Scopes = slices.Clone(key.Scopes)
	access.UseDue = key.useDue(decision.StampOf(m.At))
	return decision.Decision{Reply: access}, nil
}

func (s *State) access(p Principal) Access {
	return Access{Workspace: s.ID, Principal: p, Mode: s.Mode, KYBStatus: s.KYBStatus}
}

func (s *State) key(id string) int { return s.find(func(k *Key) bool { return k.ID == id }) }

// find does not copy keys: every request of the API comes through here.
func (s *State) find(is func(*Key) bool) int {
	for i := range s.Keys {
		if is(&s.Keys[i]) {
			return i
		}
	}
	return -1
}

func (s *State) keyRecords(key Key) []decision.Record {
	return []decision.Record{
		{Kind: RecordKey, ID: key.ID, Document: key.view()},
		{Kind: RecordSecret, ID: key.SecretHash, Document: SecretDocument{WorkspaceID: s.ID, KeyID: key.ID}},
	}
}

func (k NewKey) key(scopes []string, at decision.Stamp) Key {
	if k.ID == "" || k.SecretHash == "" || k.Prefix == "" {
		panic("BUG: key without an id or secret")
	}
	return Key{
		ID: k.ID, Label: k.Label, Scopes: scopes, Prefix: k.Prefix, SecretHash: k.SecretHash, CreatedBy: k.CreatedBy,
		CreatedAt: at,
	}
}

func (k Key) view() APIKey {
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

func (p Principal) id() string {
	if (p.KeyID == "") == (p.UserID == "") {
		panic("BUG: a principal is a key or a user")
	}
	return p.KeyID + p.UserID
}

func checkLabel(label string) error {
	if n := utf8.RuneCountInString(label); n < 1 || n > MaxLabel {
		return invalid("label: 1 to %d characters", MaxLabel)
	}
	return nil
}
