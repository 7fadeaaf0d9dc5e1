package httpapi

import (
	"purser/actors/fault"
	"purser/actors/query"
)

// Limits of a scan, which is the reading of records for one page or total that does not show all of
// them.
const (
	maxReadBytes = 1 << 20  // a scan ends with the record that takes its bytes beyond it
	longScan     = 64 << 10 // bytes beyond which a scan takes a place of requestLimits.scans
)

// scan is one scan of a call. Its bytes are those by which call.read and call.passed grow after its
// begin. It is for one goroutine.
type scan struct {
	c      *call
	limits *requestLimits
	begin  int
	free   func() // gives the place back; nil without one
}

// newScan begins a scan. The caller calls endScan.
func (l *requestLimits) newScan(c *call) *scan {
	return &scan{c: c, limits: l, begin: c.read + c.passed}
}

// endScan gives the place of a long scan back.
func (s *scan) endScan() {
	if s.free != nil {
		s.free()
	}
}

// isOver reports whether the scan has read more than maxReadBytes. A scan that has read more than
// longScan first waits for a place. It fails with unavailable when the call's time ends before a
// place is free.
func (s *scan) isOver() (bool, error) {
	read := s.c.read + s.c.passed - s.begin
	if read > longScan && s.free == nil {
		free, err := s.limits.scans.Acquire(s.c.ctx, s.c.who.workspace())
		if err != nil {
			return false, fault.New(fault.Unavailable, "other lists are being read; nothing changed")
		}
		s.free = free
	}
	return read > maxReadBytes, nil
}

// countingReader returns a Reader that counts the documents which it returns: single records in
// call.read, and lists in call.passed. It is for one goroutine.
func (c *call) countingReader(r query.Reader) query.Reader {
	return query.CountingReader{Reader: r,
		Single: func(bytes int) { c.read += bytes }, Listed: func(bytes int) { c.passed += bytes }}
}

// readBytes returns the bytes that the limits count beside those of the body and the answer. A page
// of the dashboard asks for itself again every few seconds, so that it counts the parts that it
// opens, and not the other records that its lists pass over.
func (c *call) readBytes() int {
	if c.ofPage {
		return c.read
	}
	return c.read + c.passed
}
