package httpapi

import (
	"cmp"
	"slices"
	"time"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/query"
)

// totalsPeriod is the time before a request whose authorizations it counts.
const totalsPeriod = 24 * time.Hour

// authorizationTotals counts the authorizations since a time: the newest of them, up to
// maxScanned or maxReadBytes, when complete is false. Reasons are those of the declined ones, the
// most frequent first.
type authorizationTotals struct {
	From     decision.Stamp `json:"from"`
	Approved int            `json:"approved"`
	Declined int            `json:"declined"`
	Reasons  []reasonCount  `json:"reasons"`
	Complete bool           `json:"complete"`
}

// reasonCount is how many authorizations were declined for a reason.
type reasonCount struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// getAuthorizationTotals handles GET /api/authorizations/totals: it counts the authorizations of
// the last totalsPeriod by decision and reason, the newest maxScanned at most. It first waits until
// the journal has the workspace's answered decisions. It fails with an error of the store, and like
// scan.isOver.
func (h *cardHandlers) getAuthorizationTotals(c *call) (answer, error) {
	h.actors.WaitRelayed(c.ctx, c.who.workspace())
	walk := authorizationWalk{h: h, c: c, nextPage: query.Page{Limit: indexRecords},
		l: listing{kind: balance.RecordAuthorizationIndex, workspace: c.who.workspace()}}
	since := authorizationFilter{from: c.now.Add(-totalsPeriod)}
	totals := authorizationTotals{From: decision.StampOf(since.from), Reasons: []reasonCount{}}
	reading := h.limits.newScan(c)
	defer reading.endScan()
	for scanned := 0; ; scanned++ {
		there, err := walk.nextAuthorization()
		if err != nil {
			return answer{}, err
		}
		var made time.Time
		if there {
			if made, err = madeAt(walk.currentID()); err != nil {
				return answer{}, err
			}
		}
		over, err := reading.isOver()
		if err != nil {
			return answer{}, err
		}
		totals.Complete = !there || since.isBehind(made)
		if totals.Complete || over || scanned == maxScanned {
			break
		}
		if !since.isWithin(made) {
			continue
		}
		if err := totals.countCurrent(&walk); err != nil {
			return answer{}, err
		}
	}
	totals.sortReasons()
	return reply(totals)
}

// countCurrent counts the authorization at the walk's position. It fails when its record cannot be
// read or decoded.
func (t *authorizationTotals) countCurrent(walk *authorizationWalk) error {
	record, err := walk.readRecord()
	if err != nil {
		return err
	}
	walk.c.passed += len(record.Document)
	a, err := query.AuthorizationTraits.Decode(record.Document)
	if err != nil {
		return err
	}
	if a.Decision == "approved" {
		t.Approved++
		return nil
	}
	t.Declined++
	i := slices.IndexFunc(t.Reasons, func(r reasonCount) bool { return r.Reason == a.Reason })
	if i < 0 {
		t.Reasons, i = append(t.Reasons, reasonCount{Reason: a.Reason}), len(t.Reasons)
	}
	t.Reasons[i].Count++
	return nil
}

// sortReasons puts the most frequent reason first, and reasons of one count in the order of their
// names.
func (t *authorizationTotals) sortReasons() {
	slices.SortFunc(t.Reasons, func(a, b reasonCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
}
