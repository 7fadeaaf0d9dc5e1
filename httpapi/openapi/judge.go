package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxNamed bounds the faults that one message names. An object of 256 unknown fields has as many
// faults.
const maxNamed = 16

// Faults holds all faults of a body, sorted by field, at least one.
type Faults []*Fault

// Error names every fault, up to maxNamed of them.
func (f Faults) Error() string {
	var parts []string
	for _, fault := range f[:min(len(f), maxNamed)] {
		parts = append(parts, fault.Error())
	}
	if more := len(f) - maxNamed; more > 0 {
		parts = append(parts, "and "+countOf(more, "more fault"))
	}
	return strings.Join(parts, "; ")
}

// OverLimit reports whether the only faults are arrays over a limit of the interface.
func (f Faults) OverLimit() bool {
	return !slices.ContainsFunc(f, func(fault *Fault) bool { return !fault.OverLimit })
}

// schemaFault turns an error of the schema into Faults, sorted by field, so that the same body
// always gets the same message.
func schemaFault(err error) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	var faults Faults
	collectFaults(invalid, &faults)
	slices.SortFunc(faults, func(a, b *Fault) int {
		return strings.Compare(a.Field+"\x00"+a.Problem, b.Field+"\x00"+b.Problem)
	})
	return slices.CompactFunc(faults, func(a, b *Fault) bool { return *a == *b })
}

// collectFaults collects the leaves of a validation error. A body that fits no variant is reported
// against the nearest one: a variant with its type and constant, and among those the one with the
// fewest faults.
func collectFaults(e *jsonschema.ValidationError, into *Faults) {
	_, oneOf := e.ErrorKind.(*kind.OneOf)
	_, anyOf := e.ErrorKind.(*kind.AnyOf)
	if (oneOf || anyOf) && len(e.Causes) > 0 {
		*into = append(*into, nearestVariant(e.Causes)...)
		return
	}
	for _, cause := range e.Causes {
		collectFaults(cause, into)
	}
	if len(e.Causes) == 0 {
		*into = append(*into, leafFaults(e)...)
	}
}

// nearestVariant returns the faults of the variant nearest to a body.
func nearestVariant(variants []*jsonschema.ValidationError) (best Faults) {
	least := 0
	for _, variant := range variants {
		var faults Faults
		collectFaults(variant, &faults)
		distance := len(faults)
		if otherKind(variant, len(variant.InstanceLocation)) {
			distance += maxFields
		}
		if best == nil || distance < least {
			best, least = faults, distance
		}
	}
	return best
}

// otherKind reports whether a body is of another kind than the variant that refused it with e.
// Its value at depth then has another type, or it lacks the value of a constant of the variant.
func otherKind(e *jsonschema.ValidationError, depth int) bool {
	switch k := e.ErrorKind.(type) {
	case *kind.Const:
		return true
	case *kind.Enum: // a constant that may be left out
		return len(slices.DeleteFunc(slices.Clone(k.Want), func(w any) bool { return w == nil })) == 1
	case *kind.Type:
		return len(e.InstanceLocation) == depth
	}
	return slices.ContainsFunc(e.Causes,
		func(cause *jsonschema.ValidationError) bool { return otherKind(cause, depth) })
}

// leafFaults describes a failed keyword of the schema for the caller, naming the field and never
// its value.
func leafFaults(e *jsonschema.ValidationError) []*Fault {
	at := func(problem string) []*Fault {
		return []*Fault{{Field: fieldPath(e.InstanceLocation), Problem: problem}}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return faultsNaming(e, k.Missing, "is required")
	case *kind.AdditionalProperties:
		return faultsNaming(e, k.Properties, "is not a known field")
	case *kind.Type:
		want := slices.Clone(k.Want)
		slices.SortStableFunc(want, func(a, b string) int { return cmp.Compare(nullLast(a), nullLast(b)) })
		return at("must be of type " + strings.Join(want, " or "))
	case *kind.Enum:
		return at("must be one of " + listChoices(k.Want))
	case *kind.Const:
		return at("must be " + listChoices([]any{k.Want}))
	case *kind.Minimum:
		return at("must be at least " + k.Want.RatString())
	case *kind.Maximum:
		return at("must be at most " + k.Want.RatString())
	case *kind.MinLength:
		return at("must have at least " + countOf(k.Want, "character"))
	case *kind.MaxLength:
		return at("must have at most " + countOf(k.Want, "character"))
	case *kind.MinItems:
		return at("must have at least " + countOf(k.Want, "item"))
	case *kind.MaxItems:
		faults := at("must have at most " + countOf(k.Want, "item"))
		faults[0].tooMany = true
		return faults
	case *kind.UniqueItems:
		return at("must not repeat an item")
	case *kind.MinProperties:
		return at("must have at least one field")
	case *kind.Pattern, *kind.Format:
		return at("does not have the required form")
	default:
		return at("is not valid")
	}
}

func nullLast(kind string) int {
	if kind == "null" {
		return 1
	}
	return 0
}

// countOf formats a number of things: 1 item, 2 items.
func countOf(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func faultsNaming(e *jsonschema.ValidationError, names []string, problem string) []*Fault {
	faults := make([]*Fault, len(names))
	for i, name := range names {
		faults[i] = &Fault{Field: fieldPath(append(slices.Clone(e.InstanceLocation), name)), Problem: problem}
	}
	return faults
}

// listChoices returns permitted values as a list with commas, for the message of a fault.
func listChoices(want []any) string {
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = fmt.Sprint(w)
		if w == nil {
			names[i] = "null"
		}
	}
	return strings.Join(names, ", ")
}
