package book

// Disconnected reports whether a Close has ended all connections.
func (b *Book) Disconnected() bool { return b.disconnected.Load() }
