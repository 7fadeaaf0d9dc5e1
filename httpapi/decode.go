package httpapi

import (
	"errors"
	"fmt"
	"mime"
	"strings"

	"purser/actors/fault"
	"purser/httpapi/openapi"
)

// decode reads the body into a struct: strict JSON, checked against the route's schema. A bad body
// is invalid_body, with a message that names each field. An allowlist that is only too long is
// limit_exceeded. A media type other than JSON is unsupported_media_type.
func (e *edge) decode(c *call, into any) error {
	if err := c.jsonOnly(); err != nil {
		return err
	}
	return bodyFault(e.openapi.Decode(c.route.describedOperation(), c.body, into))
}

// decodeTree reads the body of a route like decode, and returns its object as
// openapi.Document.Parse does. It fails like decode, and for a route whose schema admits a body
// that is not an object.
func (e *edge) decodeTree(c *call) (map[string]any, error) {
	if err := c.jsonOnly(); err != nil {
		return nil, err
	}
	tree, err := e.openapi.Parse(c.route.describedOperation(), c.body)
	if err != nil {
		return nil, bodyFault(err)
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema of %s %s admits a body that is not an object", c.route.method, c.route.path)
	}
	return object, nil
}

// jsonOnly refuses another media type. A request without a media type is read as JSON.
func (c *call) jsonOnly() error {
	if c.header.contentType == "" {
		return nil
	}
	media, parameters, err := mime.ParseMediaType(c.header.contentType)
	charset := parameters["charset"]
	if err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.UnsupportedMediaType, "send application/json")
	}
	return nil
}

// bodyFault turns faults of the schema into invalid_body or limit_exceeded, and returns any other
// error as it is.
func bodyFault(err error) error {
	faults, ok := errors.AsType[openapi.Faults](err)
	switch {
	case !ok:
		return err
	case faults.OverLimit():
		return fault.New(fault.LimitExceeded, faults.Error())
	}
	return fault.New(fault.InvalidBody, faults.Error())
}
