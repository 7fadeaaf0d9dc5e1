package pgjournal

// Lookups is how many records are asked for and wait for a reader.
func (j *Journal) Lookups() int { return len(j.lookups) }
