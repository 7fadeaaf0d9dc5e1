package persistence

import "context"

type asStored struct{}

// AsStored returns a context under which a journal reads what is stored and nothing that it remembers: an audit is of the books,
// not of what the process that wrote them believes.
func AsStored(ctx context.Context) context.Context { return context.WithValue(ctx, asStored{}, true) }

// IsAsStored tells whether a context is one of AsStored.
func IsAsStored(ctx context.Context) bool { return ctx.Value(asStored{}) != nil }
