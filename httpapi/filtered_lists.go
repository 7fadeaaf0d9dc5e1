package httpapi

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"purser/actors/fault"
	"purser/actors/query"
)

const (
	recordsAtOnce = 128 // records that a filtered list reads at a time
	// maxClockStep is how far an operator may have set the trusted clock back without a filter of
	// times missing a record. Without such a step the times of a list are in the order of its
	// places.
	maxClockStep = 10 * time.Minute
)

// period bounds the times of a list's records: from is included, to is not. A zero time is no
// bound.
type period struct{ from, to time.Time }

// includes reports whether a time is in the period.
func (p period) includes(at time.Time) bool {
	return !at.Before(p.from) && (p.to.IsZero() || at.Before(p.to))
}

// periodQuery holds the query parameters of a list that is bounded in time.
var periodQuery = []string{"from", "to"}

// stateQuery holds the query parameter of a list that is narrowed to a state alone.
var stateQuery = []string{"state"}

// readListPeriod reads the parameters from and to. Each is a time in RFC 3339, or a day in UTC; the
// day of to is included. It fails with invalid_query, which names the parameter.
func (c *call) readListPeriod() (p period, err error) {
	if p.from, err = c.readMoment("from"); err != nil {
		return p, err
	}
	if p.to, err = c.readMomentBehind("to"); err == nil && !p.to.IsZero() && !p.from.Before(p.to) {
		err = fault.New(fault.InvalidQuery, "to must be after from")
	}
	return p, err
}

// readChoice reads a parameter that has one of some values, and reports whether it is given. It
// fails with invalid_query, which lists the values.
func (c *call) readChoice(name string, values ...string) (value string, given bool, err error) {
	if value, given = c.query[name]; given && !slices.Contains(values, value) {
		err = fault.New(fault.InvalidQuery, name+" must be one of "+strings.Join(values, ", "))
	}
	return value, given, err
}

// filterText writes the given ones of the parameters, for the mark of a list's cursors. Without any
// it is "", as in a list without filters.
func (c *call) filterText(names ...string) string {
	given := url.Values{}
	for _, name := range names {
		if value, ok := c.query[name]; ok {
			given.Set(name, value)
		}
	}
	return given.Encode()
}

// filteredList is a list that is narrowed to the records of a period that match. The list of D must
// show the times of its records in the order of their places, to within maxClockStep.
type filteredList[D any] struct {
	of      query.Records[D]
	parent  string // the listed records'; most kinds have ""
	filter  string // the parameters that narrow the list
	within  period
	timeOf  func(*D) time.Time
	matches func(*D) bool                          // nil takes every record
	show    func(json.RawMessage, *D) (any, error) // the value in the interface, of a record as it is stored
}

// answerPage answers a page of the list. A page may be short or empty and have a cursor, because it
// also ends after maxScanned records, at maxPageBytes, and at maxReadBytes of records that it does
// not show. The start of a period is found by bisection. It fails like readPage, with the store's
// error, with show's, and with unavailable.
func (l *filteredList[D]) answerPage(e *edge, c *call) (answer, error) {
	list := listing{kind: l.of.Kind(), workspace: c.who.workspace(), parent: l.parent, filter: l.filter}
	asked, err := c.readPage(list)
	if err != nil {
		return answer{}, err
	}
	if asked.After == (query.Place{}) && !l.within.to.IsZero() {
		place, err := l.firstSince(e, c, l.within.to.Add(maxClockStep))
		if err != nil {
			return answer{}, err
		}
		asked.After.Position = place
	}
	out, err := l.collectPage(e, c, list, asked)
	if err != nil {
		return answer{}, err
	}
	return reply(out)
}

// firstSince returns the place of the first record since a time.
func (l *filteredList[D]) firstSince(e *edge, c *call, at time.Time) (uint64, error) {
	return firstPlaceSince(at, func(before uint64) (time.Time, uint64, error) {
		records, err := l.of.List(c.ctx, c.countingReader(e.actors), c.who.workspace(), l.parent,
			query.Page{After: query.Place{Position: before}, Limit: 1})
		if err != nil || len(records) == 0 {
			return time.Time{}, 0, err
		}
		return l.timeOf(&records[0].Document), records[0].Place.Position, nil
	})
}

// firstPlaceSince returns the position of the first record of a list at or after a time, by
// bisection. Without such a record it is the position behind the newest, and 1 for an empty list.
// newestBefore returns the time and the position of the newest record before a position, 0 for
// none; position 0 is behind the newest record. It fails only with newestBefore's error.
func firstPlaceSince(at time.Time, newestBefore func(uint64) (time.Time, uint64, error)) (uint64, error) {
	made, position, err := newestBefore(0)
	if err != nil || position == 0 {
		return 1, err
	}
	low, high := uint64(1), position+1
	if made.Before(at) {
		return high, nil
	}
	// Every record before low is older than at; the newest record before high is not.
	for high-low > 1 {
		middle := low + (high-low)/2
		made, position, err := newestBefore(middle)
		switch {
		case err != nil:
			return 0, err
		case position == 0 || made.Before(at):
			low = middle
		default:
			high = position + 1
		}
	}
	return low, nil
}

// collectPage reads the page behind a place. The records that it reads and does not show count, but
// for the one behind the page, and so do the parts that matches reads. It fails with the store's
// error, with show's, and like scan.isOver.
func (l *filteredList[D]) collectPage(e *edge, c *call, list listing, asked query.Page) (page, error) {
	out, next, length := page{Data: []any{}}, query.Page{After: asked.After, Limit: asked.Limit + 1}, 0
	reading := e.limits.newScan(c)
	defer reading.endScan()
	for scanned := 0; ; {
		next.Limit = min(next.Limit, recordsAtOnce)
		records, err := l.of.AsStored().List(c.ctx, e.actors, list.workspace, list.parent, next)
		if err != nil {
			return out, err
		}
		for i := range records {
			document, err := l.of.Decode(records[i].Document)
			if err != nil {
				return out, err
			}
			made := l.timeOf(&document)
			if made.Add(maxClockStep).Before(l.within.from) {
				c.countUnread(records[i+1:])
				return out, nil
			}
			over, err := reading.isOver()
			if err != nil {
				return out, err
			}
			if over || len(out.Data) == asked.Limit || scanned == maxScanned || length > maxPageBytes {
				c.countUnread(records[i+1:])
				out.NextCursor = list.cursorBehind(next.After)
				return out, nil
			}
			scanned, next.After = scanned+1, records[i].Place
			read, passed := c.read, c.passed
			c.passed += len(records[i].Document)
			if !l.within.includes(made) || l.matches != nil && !l.matches(&document) {
				continue
			}
			c.read, c.passed = read, passed // the answer has the record and its parts
			shown, err := l.show(records[i].Document, &document)
			if err != nil {
				return out, err
			}
			out.Data, length = append(out.Data, shown), length+len(records[i].Document)
		}
		if len(records) < next.Limit {
			return out, nil
		}
		next.Limit = recordsAtOnce
	}
}

// countUnread counts records of a list that were read and not looked at.
func (c *call) countUnread(records []query.Record[json.RawMessage]) {
	for i := range records {
		c.passed += len(records[i].Document)
	}
}
