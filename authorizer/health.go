package authorizer

// Unsynced returns the number of commits that wait for a sync or for a place. At MaxUnsynced the
// next one waits.
func (e *Engine) Unsynced() int { return len(e.slots) }

// BacklogMax returns the limit of the backlog. Approvals stop at four fifths of it.
func (e *Engine) BacklogMax() int64 { return e.backlogMax }
