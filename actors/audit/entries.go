package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// These structs are the parts of stored events and documents that have money, by their stored
// member names.

type posting struct {
	Transfer string      `json:"transfer"`
	Account  string      `json:"account"`
	Currency string      `json:"currency"` // "" for dollars
	Amount   money.Minor `json:"cents"`    // in minor units of the currency
}

type deposit struct {
	ID             string      `json:"id"`
	Status         string      `json:"status"`
	AmountUsdCents money.Cents `json:"amountUsdCents"`
}

// logEntry is an entry of the authorizer's log.
type logEntry struct {
	Seq           uint64         `json:"seq"`
	WsSeq         uint64         `json:"workspaceSeq"`
	Kind          string         `json:"kind"`
	Decision      string         `json:"decision"`
	Shard         ident.Shard    `json:"shard"`
	Workspace     string         `json:"workspaceId"`
	Card          string         `json:"cardId"`
	CardDelta     money.Cents    `json:"cardDeltaCents"`
	HoldDelta     money.Cents    `json:"holdDeltaCents"`
	SpendDelta    money.Cents    `json:"spendDeltaCents"`
	Posted        money.Cents    `json:"postedCents"`
	Month         uint32         `json:"month"`
	SpendCents    money.Cents    `json:"monthSpendCents"`
	Authorization *authorization `json:"authorization"`
}

func (e *logEntry) logPosition() string { return fmt.Sprintf("%d/%d", e.Shard, e.Seq) }

// authorization is an authorization after an entry. In the totals Held, Cleared and Refunded are
// summed.
type authorization struct {
	ID         string      `json:"id"`
	Card       string      `json:"cardId"`
	Workspace  string      `json:"workspaceId"`
	Asked      money.Cents `json:"amountCents"`
	Held       money.Cents `json:"heldCents"`
	Cleared    money.Cents `json:"clearedCents"`
	Refunded   money.Cents `json:"refundedCents"`
	Month      uint32      `json:"month"`
	MonthCents money.Cents `json:"monthCents"`
	ExpiresAt  *time.Time  `json:"expiresAt"`
	Decision   string      `json:"decision"`
	Reason     string      `json:"reason"`
	Status     string      `json:"status"`
}

// expiryMillis is the expiry in Unix milliseconds, 0 when nothing is held.
func (a *authorization) expiryMillis() int64 {
	if a.ExpiresAt == nil {
		return 0
	}
	return a.ExpiresAt.UnixMilli()
}

// foldEntry adds an entry to its workspace, its authorization and its card, and checks its own
// amounts; differences are findings.
func (b *shardTotals) foldEntry(e *logEntry) {
	a := b.accountOf(e.Workspace)
	b.expectEqual("entry", e.logPosition(), "workspace sequence", a.wsSeq+1, e.WsSeq)
	a.wsSeq = e.WsSeq
	moved := -e.Posted
	if e.Decision == "unmatched" {
		moved = 0
	}
	b.expectEqual("entry", e.logPosition(), "card and hold", moved, e.CardDelta+e.HoldDelta)
	b.expectEqual("entry", e.logPosition(), "shard", b.shard, e.Shard)
	addChecked(b, "workspace", e.Workspace, "card cents", &a.card, e.CardDelta)
	addChecked(b, "workspace", e.Workspace, "held cents", &a.hold, e.HoldDelta)
	if e.Month > a.month {
		a.month, a.monthSpend = e.Month, 0
	}
	if e.Month == a.month {
		addChecked(b, "workspace", e.Workspace, "month's spend", &a.monthSpend, e.SpendDelta)
	}
	if e.Card != "" {
		b.foldSpend(e)
	}
	if e.Authorization != nil {
		b.foldAuthorization(e)
	} else {
		b.expectEqual("entry", e.logPosition(), "hold without an authorization", 0, e.HoldDelta)
	}
}

// foldSpend adds an entry to its card's monthly spend and compares the sum with the entry's own; a
// difference is a finding.
func (b *shardTotals) foldSpend(e *logEntry) {
	c := b.cardOf(e.Card)
	if e.Month > c.month {
		c.month, c.cents = e.Month, 0
	}
	b.expectEqual("entry", e.logPosition(), "month", c.month, e.Month)
	addChecked(b, "card", e.Card, "spend", &c.cents, e.SpendDelta)
	b.expectEqual("entry", e.logPosition(), "card's spend", c.cents, e.SpendCents)
}

// foldAuthorization adds an entry's amounts to its authorization and compares the sums with the
// entry's own; differences are findings.
func (b *shardTotals) foldAuthorization(e *logEntry) {
	id, after := e.Authorization.ID, *e.Authorization
	sum := b.authorizations[id]
	if sum == nil {
		sum = &authorization{}
		b.authorizations[id] = sum
	}
	addChecked(b, "authorization", id, "held", &sum.Held, e.HoldDelta)
	switch {
	case e.Decision == "unmatched":
	case e.Posted > 0:
		addChecked(b, "authorization", id, "cleared", &sum.Cleared, e.Posted)
	case e.Posted < 0:
		addChecked(b, "authorization", id, "refunded", &sum.Refunded, -e.Posted)
	}
	b.expectEqual("entry", e.logPosition(), "held after", sum.Held, after.Held)
	b.expectEqual("entry", e.logPosition(), "cleared after", sum.Cleared, after.Cleared)
	b.expectEqual("entry", e.logPosition(), "refunded after", sum.Refunded, after.Refunded)
	after.Held, after.Cleared, after.Refunded = sum.Held, sum.Cleared, sum.Refunded
	*sum = after
}

// readLog folds the log entries that the journal does not have yet. Afterwards the totals reflect
// the authorizer, and every sequence number up to its last must have been seen: a missing one is a
// finding. It fails when the log cannot be read or decoded, or with errTooFar.
func (b *shardTotals) readLog(authorizer AuthorizerSnapshot) error {
	err := authorizer.Log(b.shard, b.log.next-1, func(raw []byte) error {
		var e logEntry
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		if e.Seq > b.log.next+maxAhead {
			return errTooFar
		}
		if b.log.addNumber(e.Seq) {
			b.foldEntry(&e)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("shard %d: log: %w", b.shard, err)
	}
	if synced := authorizer.Synced(b.shard); len(b.log.above) > 0 || b.log.next <= synced {
		b.expectEqual("log", fmt.Sprint(b.shard), "entry "+fmt.Sprint(b.log.next), "relayed or in the log", "missing")
	}
	return nil
}

// logSequence is a set of sequence numbers from 1 on, mostly contiguous. Numbers known as lost
// leave no gap.
type logSequence struct {
	next  uint64 // the lowest missing number
	above map[uint64]bool
	lost  []Loss
}

// maxAhead bounds the distance of a number from the lowest missing one; no backlog is larger.
const maxAhead = 200_000_000

var errTooFar = errors.New("too many entries follow a missing sequence number")

// addNumber adds a number and reports whether it is new and not lost.
func (s *logSequence) addNumber(n uint64) bool {
	if n < s.next || s.above[n] || s.lossEnd(n) > 0 {
		return false
	}
	s.above[n] = true
	for {
		switch last := s.lossEnd(s.next); {
		case last > 0:
			s.next = last + 1
		case s.above[s.next]:
			delete(s.above, s.next)
			s.next++
		default:
			return true
		}
	}
}

// lossEnd returns the last number of the lost run that has n, 0 when no run has it.
func (s *logSequence) lossEnd(n uint64) uint64 {
	i, _ := slices.BinarySearchFunc(s.lost, n, func(l Loss, n uint64) int { return cmp.Compare(l.Last, n) })
	if i < len(s.lost) && s.lost[i].First <= n {
		return s.lost[i].Last
	}
	return 0
}
