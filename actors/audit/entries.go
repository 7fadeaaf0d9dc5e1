package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"purser/persistence/ident"
)

// These are the parts of stored events and documents that carry money, read by the names under which they are stored.

type posting struct {
	Transfer string `json:"transfer"`
	Account  string `json:"account"`
	Currency string `json:"currency"` // empty for dollars
	Cents    int64  `json:"cents"`
}

type deposit struct {
	ID             string `json:"id"`
	Status         string `json:"status"`
	AmountUsdCents int64  `json:"amountUsdCents"`
}

// terms are a card's rule.
type terms struct {
	Card                 string    `json:"card"`
	Workspace            string    `json:"workspace"`
	Token                string    `json:"token"`
	State                string    `json:"state"`
	MonthlyLimitUsdCents int64     `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  int64     `json:"perTxnLimitUsdCents"`
	AllowedMccs          *[]string `json:"allowedMccs"`
	AllowedMerchants     *[]string `json:"allowedMerchants"`
}

func (t terms) String() string {
	return fmt.Sprintf("%s of %s, token %s, %s, month %d, each %d, categories %s, merchants %s", t.Card, t.Workspace, t.Token,
		t.State, t.MonthlyLimitUsdCents, t.PerTxnLimitUsdCents, list(t.AllowedMccs), list(t.AllowedMerchants))
}

// list writes an allowlist, null apart from empty.
func list(l *[]string) string {
	if l == nil {
		return "any"
	}
	return fmt.Sprintf("%q", *l)
}

// entry is a row of the authorizer's log.
type entry struct {
	Seq           uint64         `json:"seq"`
	WsSeq         uint64         `json:"workspaceSeq"`
	Kind          string         `json:"kind"`
	Decision      string         `json:"decision"`
	Shard         ident.Shard    `json:"shard"`
	Workspace     string         `json:"workspaceId"`
	Card          string         `json:"cardId"`
	CardDelta     int64          `json:"cardDeltaCents"`
	HoldDelta     int64          `json:"holdDeltaCents"`
	SpendDelta    int64          `json:"spendDeltaCents"`
	Posted        int64          `json:"postedCents"`
	Month         uint32         `json:"month"`
	SpendCents    int64          `json:"monthSpendCents"`
	Authorization *authorization `json:"authorization"`
}

func (e *entry) name() string { return fmt.Sprintf("%d/%d", e.Shard, e.Seq) }

// authorization is one as it stands after an entry; in the books Held, Cleared and Refunded are added up.
type authorization struct {
	ID         string     `json:"id"`
	Card       string     `json:"cardId"`
	Workspace  string     `json:"workspaceId"`
	Held       int64      `json:"heldCents"`
	Cleared    int64      `json:"clearedCents"`
	Refunded   int64      `json:"refundedCents"`
	Month      uint32     `json:"month"`
	MonthCents int64      `json:"monthCents"`
	ExpiresAt  *time.Time `json:"expiresAt"`
	Decision   string     `json:"decision"`
	Reason     string     `json:"reason"`
	Status     string     `json:"status"`
}

// expires is in Unix milliseconds, 0 when nothing is held.
func (a *authorization) expires() int64 {
	if a.ExpiresAt == nil {
		return 0
	}
	return a.ExpiresAt.UnixMilli()
}

// entry adds a row to its workspace, its authorization and its card, and holds it against itself.
func (b *books) entry(e *entry) {
	a := b.account(e.Workspace)
	b.differs("entry", e.name(), "workspace sequence", a.wsSeq+1, e.WsSeq)
	a.wsSeq = e.WsSeq
	moved := -e.Posted
	if e.Decision == "unmatched" {
		moved = 0
	}
	b.differs("entry", e.name(), "card and hold", moved, e.CardDelta+e.HoldDelta)
	b.differs("entry", e.name(), "shard", b.shard, e.Shard)
	b.sum("workspace", e.Workspace, "card cents", &a.card, e.CardDelta)
	b.sum("workspace", e.Workspace, "held cents", &a.hold, e.HoldDelta)
	if e.Month > a.month {
		a.month, a.monthSpend = e.Month, 0
	}
	if e.Month == a.month {
		b.sum("workspace", e.Workspace, "month's spend", &a.monthSpend, e.SpendDelta)
	}
	if e.Card != "" {
		b.spend(e)
	}
	if e.Authorization != nil {
		b.authorized(e)
	} else {
		b.differs("entry", e.name(), "hold without an authorization", 0, e.HoldDelta)
	}
}

func (b *books) spend(e *entry) {
	c := b.card(e.Card)
	if e.Month > c.month {
		c.month, c.cents = e.Month, 0
	}
	b.differs("entry", e.name(), "month", c.month, e.Month)
	b.sum("card", e.Card, "spend", &c.cents, e.SpendDelta)
	b.differs("entry", e.name(), "card's spend", c.cents, e.SpendCents)
}

func (b *books) authorized(e *entry) {
	id, after := e.Authorization.ID, *e.Authorization
	sum := b.authorizations[id]
	if sum == nil {
		sum = &authorization{}
		b.authorizations[id] = sum
	}
	b.sum("authorization", id, "held", &sum.Held, e.HoldDelta)
	switch {
	case e.Decision == "unmatched":
	case e.Posted > 0:
		b.sum("authorization", id, "cleared", &sum.Cleared, e.Posted)
	case e.Posted < 0:
		b.sum("authorization", id, "refunded", &sum.Refunded, -e.Posted)
	}
	b.differs("entry", e.name(), "held after", sum.Held, after.Held)
	b.differs("entry", e.name(), "cleared after", sum.Cleared, after.Cleared)
	b.differs("entry", e.name(), "refunded after", sum.Refunded, after.Refunded)
	after.Held, after.Cleared, after.Refunded = sum.Held, sum.Cleared, sum.Refunded
	*sum = after
}

// readLog folds what the authorizer decided and the journal does not have yet. Afterwards the books stand where the authorizer
// stands, and every number up to its last must have been seen.
func (b *books) readLog(authorizer Authorizer) error {
	err := authorizer.Log(b.shard, b.log.next-1, func(raw []byte) error {
		var e entry
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		if e.Seq > b.log.next+maxAhead {
			return errTooFar
		}
		if b.log.add(e.Seq) {
			b.entry(&e)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("shard %d: log: %w", b.shard, err)
	}
	if synced := authorizer.Synced(b.shard); len(b.log.above) > 0 || b.log.next <= synced {
		b.differs("log", fmt.Sprint(b.shard), "entry "+fmt.Sprint(b.log.next), "relayed or in the log", "missing")
	}
	return nil
}

// sequence is a set of numbers from 1 on, most of them without gaps. Those that are known to be lost are not waited for.
type sequence struct {
	next  uint64 // the lowest number that is missing
	above map[uint64]bool
	lost  []Loss
}

// maxAhead bounds the numbers seen after a missing one: more than any backlog can hold.
const maxAhead = 200_000_000

var errTooFar = errors.New("a sequence number is missing for too long")

// add is false for a number that was there, or was lost.
func (s *sequence) add(n uint64) bool {
	if n < s.next || s.above[n] || s.lostAt(n) > 0 {
		return false
	}
	s.above[n] = true
	for {
		switch last := s.lostAt(s.next); {
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

// lostAt returns the last number of the run of lost ones that a number is in, 0 when it is in none.
func (s *sequence) lostAt(n uint64) uint64 {
	i, _ := slices.BinarySearchFunc(s.lost, n, func(l Loss, n uint64) int { return cmp.Compare(l.Last, n) })
	if i < len(s.lost) && s.lost[i].First <= n {
		return s.lost[i].Last
	}
	return 0
}
