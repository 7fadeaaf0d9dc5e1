package fault

import (
	"fmt"
	"strings"
)

// Reasons collects the faults of a body, so that one refusal names all of them. The zero value
// is a body without a fault.
type Reasons []string

// RequireThat adds a reason unless a condition is met. The reason begins with the name of its
// field.
func (r *Reasons) RequireThat(met bool, format string, args ...any) {
	if !met {
		*r = append(*r, fmt.Sprintf(format, args...))
	}
}

// AsRefusal returns invalid_body with all reasons, separated by semicolons, or nil without one.
func (r Reasons) AsRefusal() error {
	if len(r) == 0 {
		return nil
	}
	return New(InvalidBody, strings.Join(r, "; "))
}
