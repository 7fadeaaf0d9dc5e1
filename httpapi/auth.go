package httpapi

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"purser/actors"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/workspace"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
)

const (
	modeSandbox = workspace.Sandbox
	kybApproved = workspace.Approved
)

// maxCachedKeys bounds the secrets whose workspace is cached.
const maxCachedKeys = 100_000

// noValidKey is the one error of a missing, malformed, unknown or revoked key, so that a caller
// cannot distinguish them.
func noValidKey() error { return fault.New(fault.Unauthorized, "a valid API key is required") }

func noSession() error { return fault.New(fault.Unauthorized, "a valid session is required") }

// authenticateCaller identifies the caller by the route's kind of credential and stores it in
// c.who. It fails with unauthorized, with signature_invalid for a partner, and with an error of the
// store. It does not check the permissions.
func (e *edge) authenticateCaller(c *call) error {
	switch kind := c.route.auth; {
	case kind == authNone:
		return nil
	case kind == authPartner:
		return e.authenticatePartner(c)
	case kind == authSession && c.header.hasAuthorization:
		if err := e.authenticateKey(c); err != nil {
			return err
		}
		return nil // authorizeCaller refuses the key: session_required
	case kind == authSession, kind == authKeyOrSession && !c.header.hasAuthorization:
		return e.authenticateSession(c)
	default:
		return e.authenticateKey(c)
	}
}

// authenticatePartner verifies the signature of a report with the secrets of the route's partner.
// It fails with signature_invalid.
func (e *edge) authenticatePartner(c *call) error {
	request := webhook.Request{Method: c.route.method, Path: c.route.path, Body: c.body}
	version, err := webhook.VerifyRequest(e.cfg.PartnerSecrets[c.route.partner], c.header.signature, request,
		e.cfg.PartnerSignatures, e.actors.WallTime())
	if err != nil {
		return fault.New(fault.SignatureInvalid, "")
	}
	c.pathSigned = version == webhook.V2
	return nil
}

// authenticateKey identifies the caller by the API key of the Authorization header. It asks the
// workspace on every request whether the key is active, so a revoked key stops working before its
// DELETE is answered. Only the workspace of a secret is cached, because it never changes. Every
// unusable key is the same unauthorized; other errors are the store's.
func (e *edge) authenticateKey(c *call) error {
	scheme, secret, _ := strings.Cut(c.header.authorization, " ")
	slot, hash, err := ident.ParseSecret(ident.APISecret, strings.TrimSpace(secret))
	if err != nil || !strings.EqualFold(scheme, "Bearer") {
		return noValidKey()
	}
	owner, err := e.workspaceOfSecret(c.ctx, slot, hash)
	if err != nil {
		return err
	}
	access, err := ask[workspace.Access](c.ctx, e.actors, toWorkspace(owner, workspace.Authenticate{SecretHash: hash}))
	if fault.Is(err, fault.Unauthorized) || fault.Is(err, fault.NotFound) {
		return noValidKey()
	}
	if err != nil {
		return err
	}
	c.who = caller{access: access}
	if access.UseDue {
		e.keyUsage.noteUse(toWorkspace(access.Workspace, workspace.NoteUse{KeyID: access.Principal.KeyID}))
	}
	return nil
}

// workspaceOfSecret returns the id of the workspace that made a key, from the cache or from the
// index of API secrets. An unknown hash is unauthorized; other errors are the store's.
func (e *edge) workspaceOfSecret(ctx context.Context, slot ident.Slot, hash string) (string, error) {
	if owner, ok := e.keys.ownerOf(hash); ok {
		return owner, nil
	}
	document, err := query.APISecrets.Find(ctx, e.actors, slot, hash)
	if fault.Is(err, fault.NotFound) {
		return "", noValidKey()
	}
	if err != nil {
		return "", err
	}
	e.keys.storeOwner(hash, document.WorkspaceID)
	return document.WorkspaceID, nil
}

// authorizeCaller checks the caller's permissions: the scopes of a key, the origin and role of a
// session. It fails with session_required, missing_scope, origin_refused or role_required, all 403.
func (e *edge) authorizeCaller(c *call) error {
	r := c.route
	if c.who.user == "" && c.who.access.Principal.KeyID != "" {
		if r.auth == authSession {
			return fault.New(fault.SessionRequired, "this route takes a dashboard session, not an API key")
		}
		if len(c.who.access.Scopes) == 0 && r.scope == "" {
			return fault.New(fault.MissingScope("any"), "a key without scopes can do nothing")
		}
		if r.scope != "" && !workspace.Holds(c.who.access.Scopes, r.scope) {
			return fault.New(fault.MissingScope(r.scope), "")
		}
		return nil
	}
	if err := e.checkOrigin(c); err != nil {
		return err
	}
	if c.who.user != "" && r.roles != nil && !slices.Contains(r.roles, c.who.access.Role) {
		return fault.New(fault.RoleRequired, "this needs the role "+strings.Join(r.roles, " or "))
	}
	return nil
}

// keyCache maps the hash of a secret to its workspace. A full cache evicts an arbitrary entry. It
// is safe for concurrent use.
type keyCache struct {
	mu     sync.RWMutex
	owners map[string]string
	max    int
}

func newKeyCache(max int) *keyCache { return &keyCache{owners: map[string]string{}, max: max} }

func (k *keyCache) ownerOf(hash string) (string, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	owner, ok := k.owners[hash]
	return owner, ok
}

// storeOwner records the workspace of a key's hash. A full cache drops an arbitrary entry first.
func (k *keyCache) storeOwner(hash, owner string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.owners) >= k.max {
		for any := range k.owners {
			delete(k.owners, any)
			break
		}
	}
	k.owners[hash] = owner
}

// Limits of the records of key use.
const (
	maxNotes    = 64 // at once; a use beyond them is recorded at the next use
	maxNoteRate = 60 // of a workspace or user, per minute: each note writes the whole state of all keys
	noteTimeout = 5 * time.Second
)

// keyUsage records in the background when each key and session was last used. It is best effort: a
// failed record is retried at the next use.
type keyUsage struct {
	edge    *edge
	slots   chan struct{}
	running sync.WaitGroup
}

func newKeyUsage(e *edge) *keyUsage { return &keyUsage{edge: e, slots: make(chan struct{}, maxNotes)} }

// noteUse sends a command that records a use, in the background and within noteTimeout. It is
// skipped when maxNotes are running, over maxNoteRate, and when the disk has no room for writes
// that can wait; an error is only logged.
func (u *keyUsage) noteUse(note actors.Envelope) {
	counted := "notes/" + note.Workspace
	if u.edge.cfg.Full(DownToReserve) != nil || u.edge.limits.counts.untilFree(counted, maxNoteRate) > 0 {
		return
	}
	select {
	case u.slots <- struct{}{}:
	default:
		return
	}
	u.edge.limits.counts.countAdmitted(counted, maxNoteRate, 1)
	u.running.Add(1)
	go func() {
		defer u.running.Done()
		defer func() { <-u.slots }()
		ctx, cancel := context.WithTimeout(u.edge.base, noteTimeout)
		defer cancel()
		if _, err := u.edge.actors.Ask(ctx, note); err != nil {
			u.edge.log.Debug("use not noted", "err", err)
		}
	}()
}

func (u *keyUsage) waitIdle() { u.running.Wait() }
