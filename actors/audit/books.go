package audit

import (
	"context"
	"encoding/json"
	"fmt"

	"purser/actors/ident"
	"purser/actors/money"
	"purser/persistence"
)

// books are what the events of one shard add up to.
type books struct {
	shard    ident.Shard
	followed uint64 // the position the authorizer stands at
	position uint64
	versions map[stream]uint64 // of the streams' newest events
	accounts map[string]*account
	deposits map[string]deposit
	cards    map[string]*cardBook

	transfers      map[string]transfer
	authorizations map[string]*authorization
	log            sequence // of the authorizer's log
	findings       []Finding
}

type stream struct{ kind, id string }

// account is a workspace's money in cents, added up from postings and entries.
type account struct {
	usd, suspense            int64 // postings
	ledger, followed         int64 // journal-originated credits; those the authorizer must have followed
	card, hold               int64 // of relayed entries, and of the log's rest once that is read
	wsSeq                    uint64
	month                    uint32
	monthSpend               int64
	pending, pendingDeposits int64
}

// cardBook is a card's newest terms, those the authorizer must have followed, and its counter.
type cardBook struct {
	terms, followed terms
	version         uint64 // of followed
	month           uint32
	cents           int64
}

// transfer is what one transfer did to its workspace.
type transfer struct {
	workspace string
	usd       int64
	suspense  int64
}

func newBooks(shard ident.Shard) *books {
	return &books{shard: shard, versions: map[stream]uint64{}, accounts: map[string]*account{}, deposits: map[string]deposit{},
		cards: map[string]*cardBook{}, transfers: map[string]transfer{}, authorizations: map[string]*authorization{},
		log: sequence{next: 1, above: map[uint64]bool{}}}
}

// differs notes a finding when the two are not equal.
func (b *books) differs(kind, id, what string, expected, actual any) {
	if e, a := fmt.Sprint(expected), fmt.Sprint(actual); e != a {
		b.findings = append(b.findings, Finding{Kind: kind, Shard: b.shard, ID: id, What: what, Expected: e, Actual: a})
	}
}

// sum adds to a total; what does not fit is a finding, and the total stays.
func (b *books) sum(kind, id, what string, total *int64, cents int64) {
	added, err := money.Add(*total, cents)
	if err != nil {
		b.differs(kind, id, what, "a sum that fits", fmt.Sprintf("%d + %d", *total, cents))
		return
	}
	*total = added
}

func (b *books) account(workspace string) *account {
	a := b.accounts[workspace]
	if a == nil {
		a = &account{}
		b.accounts[workspace] = a
	}
	return a
}

func (b *books) card(id string) *cardBook {
	c := b.cards[id]
	if c == nil {
		c = &cardBook{}
		b.cards[id] = c
	}
	return c
}

// readEvents folds the shard's events up to its head.
func (b *books) readEvents(ctx context.Context, journal persistence.Journal) error {
	for {
		events, err := journal.Events(ctx, b.shard, b.position, eventsPerRead)
		if err != nil {
			return fmt.Errorf("shard %d: events after %d: %w", b.shard, b.position, err)
		}
		if len(events) == 0 {
			return nil
		}
		for i := range events {
			b.event(&events[i])
		}
	}
}

func (b *books) event(e *persistence.Event) {
	b.differs("event", e.ID, "position", b.position+1, e.Position)
	b.position = e.Position
	key := stream{e.Kind, e.Stream}
	b.differs("event", e.ID, "stream version", b.versions[key]+1, e.Version)
	b.versions[key] = e.Version
	var err error
	switch {
	case e.Type == "balance.deposit_created.v1":
		err = b.depositCreated(e)
	case e.Type == "balance.deposit_settled.v1":
		err = b.depositSettled(e)
	case e.Type == "balance.deposit_received.v1":
		err = b.depositReceived(e)
	case e.Type == "balance.relayed.v1":
		err = b.relayed(e)
	case e.Kind == "card":
		err = b.cardChanged(e)
	}
	if err != nil {
		b.differs("event", e.ID, "payload", "readable "+e.Type, err)
	}
}

func (b *books) depositCreated(e *persistence.Event) error {
	var p struct{ Deposit deposit }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	a := b.account(e.Workspace)
	a.pendingDeposits++
	b.sum("workspace", e.Workspace, "incoming", &a.pending, p.Deposit.AmountUsdCents)
	b.deposits[p.Deposit.ID] = deposit{p.Deposit.ID, "pending", p.Deposit.AmountUsdCents}
	return nil
}

func (b *books) depositSettled(e *persistence.Event) error {
	var p struct {
		Deposit        string
		AmountUsdCents int64
		Postings       []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	announced := b.deposits[p.Deposit]
	b.differs("deposit", p.Deposit, "settled from", deposit{p.Deposit, "pending", p.AmountUsdCents}, announced)
	a := b.account(e.Workspace)
	a.pendingDeposits--
	b.sum("workspace", e.Workspace, "incoming", &a.pending, -announced.AmountUsdCents)
	b.deposits[p.Deposit] = deposit{p.Deposit, "settled", p.AmountUsdCents}
	b.credit(e, p.AmountUsdCents, p.Postings)
	return nil
}

func (b *books) depositReceived(e *persistence.Event) error {
	var p struct {
		Deposit  deposit
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.deposits[p.Deposit.ID] = deposit{p.Deposit.ID, "settled", p.Deposit.AmountUsdCents}
	b.credit(e, p.Deposit.AmountUsdCents, p.Postings)
	return nil
}

// credit adds dollars that the journal originated.
func (b *books) credit(e *persistence.Event, cents int64, postings []posting) {
	a := b.account(e.Workspace)
	moved := b.post(e, postings)
	b.differs("event", e.ID, "postings to usd", cents, moved)
	b.sum("workspace", e.Workspace, "ledger cents", &a.ledger, moved)
	if e.Position <= b.followed {
		b.sum("workspace", e.Workspace, "followed ledger cents", &a.followed, moved)
	}
}

// post books the postings of an event, each transfer of which must sum to zero, and returns what went to usd.
func (b *books) post(e *persistence.Event, postings []posting) (usd int64) {
	a, sums, order := b.account(e.Workspace), map[string]int64{}, []string{}
	for _, p := range postings {
		if _, known := sums[p.Transfer]; !known {
			order = append(order, p.Transfer)
		}
		total := sums[p.Transfer]
		b.sum("transfer", p.Transfer, "sum", &total, p.Cents)
		sums[p.Transfer] = total
		t := b.transfers[p.Transfer]
		t.workspace = e.Workspace
		switch p.Account {
		case "usd":
			usd += p.Cents
			t.usd += p.Cents
			b.sum("workspace", e.Workspace, "usd", &a.usd, p.Cents)
		case "suspense":
			t.suspense += p.Cents
			b.sum("workspace", e.Workspace, "suspense", &a.suspense, p.Cents)
		}
		b.transfers[p.Transfer] = t
	}
	for _, id := range order {
		b.differs("transfer", id, "sum of postings", 0, sums[id])
	}
	return usd
}

func (b *books) relayed(e *persistence.Event) error {
	var p struct {
		Entries  []entry
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	a := b.account(e.Workspace)
	var cleared, unmatched int64
	for i := range p.Entries {
		n := &p.Entries[i]
		b.differs("entry", n.name(), "workspace", e.Workspace, n.Workspace)
		if !b.log.add(n.Seq) {
			b.differs("entry", n.name(), "relayed", "once", "again")
		}
		b.entry(n)
		if n.Decision == "unmatched" {
			unmatched += n.Posted
		} else {
			cleared += n.Posted
		}
	}
	suspense := a.suspense
	usd := b.post(e, p.Postings)
	b.differs("event", e.ID, "postings to usd", -cleared, usd)
	b.differs("event", e.ID, "postings to suspense", -unmatched, a.suspense-suspense)
	return nil
}

func (b *books) cardChanged(e *persistence.Event) error {
	var t terms
	if err := json.Unmarshal(e.Payload, &t); err != nil {
		return err
	}
	b.differs("event", e.ID, "card", e.Stream, t.Card)
	c := b.card(e.Stream)
	c.terms = t
	if e.Position <= b.followed {
		c.followed, c.version = t, e.Version
	}
	return nil
}
