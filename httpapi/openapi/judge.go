package openapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// schemaFault turns what the schema refused into one Fault: of several, the first by field, so that the same body always
// gets the same message.
func schemaFault(err error) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	var faults []*Fault
	collect(invalid, &faults)
	return slices.MinFunc(faults, func(a, b *Fault) int {
		return strings.Compare(a.Field+"\x00"+a.Problem, b.Field+"\x00"+b.Problem)
	})
}

// collect gathers the leaves. A body that fits none of several variants is told about the variant it came closest to: the
// one with the fewest faults.
func collect(e *jsonschema.ValidationError, into *[]*Fault) {
	if _, ok := e.ErrorKind.(*kind.OneOf); ok && len(e.Causes) > 0 {
		var best []*Fault
		for _, cause := range e.Causes {
			var faults []*Fault
			collect(cause, &faults)
			if best == nil || len(faults) < len(best) {
				best = faults
			}
		}
		*into = append(*into, best...)
		return
	}
	for _, cause := range e.Causes {
		collect(cause, into)
	}
	if len(e.Causes) == 0 {
		*into = append(*into, leaf(e)...)
	}
}

func leaf(e *jsonschema.ValidationError) []*Fault {
	at := func(problem string) []*Fault {
		return []*Fault{{Field: fieldPath(e.InstanceLocation), Problem: problem}}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return named(e, k.Missing, "is required")
	case *kind.AdditionalProperties:
		return named(e, k.Properties, "is not a known field")
	case *kind.Type:
		return at("must be of type " + strings.Join(k.Want, " or "))
	case *kind.Enum:
		return at("must be one of " + choices(k.Want))
	case *kind.Const:
		return at("must be " + choices([]any{k.Want}))
	case *kind.Minimum:
		return at("must be at least " + k.Want.RatString())
	case *kind.Maximum:
		return at("must be at most " + k.Want.RatString())
	case *kind.MinLength:
		return at("must have at least " + counted(k.Want, "character"))
	case *kind.MaxLength:
		return at("must have at most " + counted(k.Want, "character"))
	case *kind.MinItems:
		return at("must have at least " + counted(k.Want, "item"))
	case *kind.MaxItems:
		return at("must have at most " + counted(k.Want, "item"))
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

// counted is a number of things: 1 item, 2 items.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func named(e *jsonschema.ValidationError, names []string, problem string) []*Fault {
	faults := make([]*Fault, len(names))
	for i, name := range names {
		faults[i] = &Fault{Field: fieldPath(append(slices.Clone(e.InstanceLocation), name)), Problem: problem}
	}
	return faults
}

func choices(want []any) string {
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = fmt.Sprint(w)
	}
	return strings.Join(names, ", ")
}
