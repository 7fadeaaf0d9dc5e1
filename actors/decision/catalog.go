package decision

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// ErrUnknownEvent reports an event type that the package never wrote.
var ErrUnknownEvent = errors.New("unknown event type")

// Catalog holds every event type that a package ever wrote.
type Catalog struct {
	owner string
	types map[string]reflect.Type
}

// NewCatalog returns the catalog of a package from a zero value of each type. It panics for two
// events of one type. Each domain package calls it once, in a variable.
func NewCatalog(owner string, all ...Event) Catalog {
	c := Catalog{owner: owner, types: make(map[string]reflect.Type, len(all))}
	for _, e := range all {
		if _, twice := c.types[e.EventType()]; twice {
			panic("BUG: two events are stored as " + e.EventType())
		}
		c.types[e.EventType()] = reflect.TypeOf(e)
	}
	return c
}

// Decode decodes a payload. It fails with ErrUnknownEvent for an event type outside the catalog,
// and for a payload that is not JSON of the type.
func (c Catalog) Decode(eventType string, payload []byte) (Event, error) {
	t, known := c.types[eventType]
	if !known {
		return nil, fmt.Errorf("%s: %w %q", c.owner, ErrUnknownEvent, eventType)
	}
	e := reflect.New(t)
	if err := json.Unmarshal(payload, e.Interface()); err != nil {
		return nil, fmt.Errorf("decode %s: %w", eventType, err)
	}
	return e.Elem().Interface().(Event), nil
}
