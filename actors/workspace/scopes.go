package workspace

import (
	"slices"

	"purser/actors/fault"
)

// Scopes that this package itself requires.
const (
	ReadKeys   = "read:api_keys"
	WriteKeys  = "write:api_keys"
	WriteRamps = "write:ramps"
)

// allScopes is the scope of older keys. It can no longer be granted.
const allScopes = "*"

// Scopes lists every scope that a key can be given, in the interface's order. The caller owns the
// list.
func Scopes() []string {
	return []string{
		"read:treasury", "write:treasury", "write:counterparties", "write:payouts", WriteRamps, "read:cards",
		"write:cards",
		"read:agents", "write:agents", "read:checkout", "write:checkout", ReadKeys, WriteKeys, "read:webhooks",
		"write:webhooks",
	}
}

// FirstKeyScopes lists the scopes of a workspace's first key. The caller owns the list.
func FirstKeyScopes() []string { return []string{ReadKeys, WriteKeys} }

// Manages reports whether a role may make keys and webhook endpoints.
func Manages(role string) bool { return role == Owner || role == Admin }

// RoleScopes lists the scopes that a key may keep when its maker has a role: those of the routes
// that a session of the role can call. It is empty for an unknown role. The caller owns the list.
func RoleScopes(role string) []string {
	switch role {
	case Owner, Admin:
		return Scopes()
	case Member:
		return []string{"read:treasury"}
	}
	return nil
}

// isWithinRole reports whether a key with these scopes may stay when its maker has a role. An owner
// and an admin may hold any, a stored * included; without a role nothing stays. divide calls it.
func isWithinRole(role string, scopes []string) bool {
	if role == "" || Manages(role) {
		return role != ""
	}
	within := RoleScopes(role)
	return !slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(within, scope) })
}

// Holds reports whether a key's scopes grant a scope. A stored * grants every scope except
// write:ramps, which must be on the key itself.
func Holds(scopes []string, scope string) bool {
	return slices.Contains(scopes, scope) || scope != WriteRamps && slices.Contains(scopes, allScopes)
}

// checkScopes returns the asked scopes without duplicates. It fails with invalid_body for none, for
// an unknown scope and for *.
func checkScopes(asked []string) ([]string, error) {
	if len(asked) == 0 {
		return nil, invalidBody("scopes: at least one")
	}
	known := Scopes()
	var scopes []string
	for i, scope := range asked {
		if scope == allScopes {
			return nil, invalidBody("scopes[%d]: * can no longer be issued", i)
		}
		if !slices.Contains(known, scope) {
			return nil, invalidBody("scopes[%d]: no such scope", i)
		}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// checkHeld fails with the missing-scope fault for the first asked scope that is not held.
func checkHeld(held, asked []string) error {
	for _, scope := range asked {
		if !Holds(held, scope) {
			return missingScope(scope)
		}
	}
	return nil
}

func missingScope(scope string) error {
	return fault.New(fault.MissingScope(scope), "the key does not hold "+scope)
}
