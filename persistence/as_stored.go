package persistence

import "context"

type asStored struct{}

// AsStored returns a context under which a journal answers from its store and never from memory.
// An audit needs it: it checks the stored books, not the cache of the process that wrote them.
func AsStored(ctx context.Context) context.Context { return context.WithValue(ctx, asStored{}, true) }

// IsAsStored reports whether a journal must answer from its store: the context comes from AsStored.
func IsAsStored(ctx context.Context) bool { return ctx.Value(asStored{}) != nil }
