package workspace

import (
	"slices"

	"purser/actors/fault"
)

// Scopes that this package itself asks for.
const (
	ReadKeys   = "read:api_keys"
	WriteKeys  = "write:api_keys"
	WriteRamps = "write:ramps"
)

// everything is the scope of older keys. It can no longer be handed out.
const everything = "*"

// Scopes lists every scope that a key can be given, in the order of the interface. The caller owns the list.
func Scopes() []string {
	return []string{
		"read:treasury", "write:treasury", "write:counterparties", "write:payouts", WriteRamps, "read:cards", "write:cards",
		"read:agents", "write:agents", "read:checkout", "write:checkout", ReadKeys, WriteKeys, "read:webhooks", "write:webhooks",
	}
}

// FirstKeyScopes lists what the first key of a workspace holds. The caller owns the list.
func FirstKeyScopes() []string { return []string{ReadKeys, WriteKeys} }

// Holds says whether a key's scopes grant a scope. A stored * grants every scope but write:ramps, which must be on the key
// itself.
func Holds(scopes []string, scope string) bool {
	return slices.Contains(scopes, scope) || scope != WriteRamps && slices.Contains(scopes, everything)
}

// checkScopes refuses scopes that cannot be handed out and returns the others, each once.
func checkScopes(asked []string) ([]string, error) {
	if len(asked) == 0 {
		return nil, invalid("scopes: at least one")
	}
	known := Scopes()
	var scopes []string
	for i, scope := range asked {
		if scope == everything {
			return nil, invalid("scopes[%d]: * can no longer be issued", i)
		}
		if !slices.Contains(known, scope) {
			return nil, invalid("scopes[%d]: no such scope", i)
		}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// checkHeld refuses the first scope that is asked for and not held.
func checkHeld(held, asked []string) error {
	for _, scope := range asked {
		if !Holds(held, scope) {
			return missing(scope)
		}
	}
	return nil
}

func missing(scope string) error {
	return fault.New(fault.MissingScope(scope), "the key does not hold "+scope)
}
