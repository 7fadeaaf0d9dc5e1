package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// books are what the events of one shard add up to.
type books struct {
	shard      ident.Shard
	followed   uint64 // the position the authorizer stands at
	position   uint64
	versions   map[stream]uint64 // of the streams' newest events
	tallies    map[stream]tally  // of what the workspaces have, by the kind of the tally's record
	accounts   map[string]*account
	deposits   map[string]deposit
	payouts    map[string]payout
	physical   physicalCards
	sessions   map[string]session
	currencies *currencyBooks
	ramp       *rampBooks
	cards      map[string]*cardBook

	transfers      map[string]transfer
	authorizations map[string]*authorization
	log            sequence // of the authorizer's log
	ledger         *ledger  // of the book; nil without one
	findings       []Finding
	more           int64 // differences beyond MaxFindings
}

type stream struct{ kind, id string }

// account is a workspace's money in cents, added up from postings and entries.
type account struct {
	usd, suspense, coins     int64 // postings; coins are stablecoins
	ledger, followed         int64 // journal-originated credits; those the authorizer must have followed
	card, hold               int64 // of relayed entries, and of the log's rest once that is read
	wsSeq                    uint64
	month                    uint32
	monthSpend               int64
	pending, pendingDeposits int64
	reserved, openPayouts    int64
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
	coins     int64
}

func newBooks(shard ident.Shard) *books {
	b := &books{shard: shard, versions: map[stream]uint64{}, tallies: map[stream]tally{}, accounts: map[string]*account{},
		deposits: map[string]deposit{}, payouts: map[string]payout{},
		physical: physicalCards{orders: map[string]physicalOrder{}, minted: map[string]string{}}, sessions: map[string]session{},
		cards: map[string]*cardBook{}, transfers: map[string]transfer{},
		authorizations: map[string]*authorization{}, log: sequence{next: 1, above: map[uint64]bool{}}}
	b.currencies, b.ramp = newCurrencyBooks(b), newRampBooks(b)
	return b
}

// differs notes a finding when the two are not equal.
func (b *books) differs(kind, id, what string, expected, actual any) {
	e, a := fmt.Sprint(expected), fmt.Sprint(actual)
	switch {
	case e == a:
	case len(b.findings) >= MaxFindings:
		b.more++
	default:
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
			if err := b.booked(ctx, &events[i]); err != nil {
				return err
			}
		}
	}
}

func (b *books) event(e *persistence.Event) {
	b.differs("event", e.ID, "position", b.position+1, e.Position)
	b.position = e.Position
	key := stream{e.Kind, e.Stream}
	b.differs("event", e.ID, "stream version", b.versions[key]+1, e.Version)
	b.versions[key] = e.Version
	b.count(e)
	var err error
	switch {
	case e.Type == "balance.deposit_created.v1":
		err = b.depositCreated(e)
	case e.Type == "balance.deposit_settled.v1":
		err = b.depositSettled(e)
	case e.Type == "balance.deposit_received.v1":
		err = b.depositReceived(e)
	case e.Type == "balance.payout_created.v1":
		err = b.payoutCreated(e)
	case e.Type == "balance.payout_moved.v1":
		err = b.payoutMoved(e)
	case e.Type == "balance.physical_card_ordered.v1":
		err = b.physicalOrdered(e)
	case e.Type == "balance.physical_card_refused.v1":
		err = b.physicalRefused(e)
	case e.Type == "balance.checkout_credited.v1":
		err = b.checkoutCredited(e)
	case e.Type == "balance.stablecoin_received.v1":
		err = b.stablecoinReceived(e)
	case e.Type == "balance.currency_opened.v1":
		err = b.currencies.currencyOpened(e)
	case e.Type == "balance.payin_announced.v1":
		err = b.currencies.payinAnnounced(e)
	case e.Type == "balance.conversion_created.v1":
		err = b.currencies.conversionCreated(e)
	case e.Type == "balance.conversion_moved.v1":
		err = b.currencies.conversionMoved(e)
	case e.Type == "balance.payin_arrived.v1":
		err = b.currencies.payinArrived(e)
	case e.Kind == "ramp", strings.HasPrefix(e.Type, "balance.ramp_"):
		err = b.ramp.rampEvent(e)
	case e.Type == "checkout.completed.v1":
		err = b.sessionCompleted(e)
	case e.Type == "checkout.credited.v1":
		err = b.sessionCredited(e)
	case e.Type == "balance.relayed.v1":
		err = b.relayed(e)
	case e.Kind == "card":
		err = b.cardChanged(e)
	}
	if err != nil {
		b.differs("event", e.ID, "payload", "readable "+e.Type, err)
	}
}

// tally is how many of a kind a workspace has, and which was the first.
type tally struct {
	Count int64  `json:"count"`
	First string `json:"first"`
}

// begins and ends are the tallies to which an event adds one, and from which it takes one.
var (
	begins = map[string]string{
		"card.minted.v1":         "tally_card",
		"counterparty.saved.v1":  "tally_counterparty",
		"cardholder.created.v1":  "tally_cardholder",
		"cardholder.enrolled.v1": "tally_cardholder_active",
		"agent.registered.v1":    "tally_agent",
		"webhook.registered.v1":  "tally_webhook_endpoint",
	}
	ends = map[string]string{"webhook.removed.v1": "tally_webhook_endpoint"}
)

// count adds what an event begins to the workspace's tallies, and takes what it ends from them.
func (b *books) count(e *persistence.Event) {
	if kind, ok := begins[e.Type]; ok {
		b.oneMore(kind, e)
	}
	if kind, ok := ends[e.Type]; ok {
		b.oneLess(kind, e)
	}
}

func (b *books) oneMore(kind string, e *persistence.Event) {
	t := b.tallies[stream{kind, e.Workspace}]
	if t.First == "" {
		t.First = e.Stream
	}
	t.Count++
	b.tallies[stream{kind, e.Workspace}] = t
}

func (b *books) oneLess(kind string, e *persistence.Event) {
	t := b.tallies[stream{kind, e.Workspace}]
	t.Count--
	b.tallies[stream{kind, e.Workspace}] = t
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

// credit adds dollars that the journal originated. They come from the bank.
func (b *books) credit(e *persistence.Event, cents int64, postings []posting) {
	moved := b.post(e, postings)
	b.moved(e, moved, map[string]int64{"usd": cents, "bank": -cents})
	b.originated(e, moved["usd"])
}

// moved holds what an event's postings did to each account against what they should have done.
func (b *books) moved(e *persistence.Event, got, want map[string]int64) {
	for _, account := range slices.Sorted(maps.Keys(got)) {
		if _, known := want[account]; !known {
			b.differs("event", e.ID, "postings to "+account, 0, got[account])
		}
	}
	for account, cents := range want {
		b.differs("event", e.ID, "postings to "+account, cents, got[account])
	}
}

// post books the postings of an event, each transfer of which must sum to zero, and returns what went to each account.
func (b *books) post(e *persistence.Event, postings []posting) (moved map[string]int64) {
	a, sums, order := b.account(e.Workspace), map[string]int64{}, []string{}
	moved = map[string]int64{}
	for _, p := range postings {
		if _, known := sums[p.Transfer]; !known {
			order = append(order, p.Transfer)
		}
		total, account := sums[p.Transfer], moved[p.Account]
		b.sum("transfer", p.Transfer, "sum", &total, p.Cents)
		b.sum("event", e.ID, "postings to "+p.Account, &account, p.Cents)
		sums[p.Transfer], moved[p.Account] = total, account
		t := b.transfers[p.Transfer]
		t.workspace = e.Workspace
		switch p.Account {
		case "usd":
			t.usd += p.Cents
			b.sum("workspace", e.Workspace, "usd", &a.usd, p.Cents)
		case "suspense":
			t.suspense += p.Cents
			b.sum("workspace", e.Workspace, "suspense", &a.suspense, p.Cents)
		case "stablecoin":
			t.coins += p.Cents
			b.sum("workspace", e.Workspace, "stablecoins", &a.coins, p.Cents)
		}
		b.transfers[p.Transfer] = t
	}
	for _, id := range order {
		b.differs("transfer", id, "sum of postings", 0, sums[id])
	}
	return moved
}

func (b *books) relayed(e *persistence.Event) error {
	var p struct {
		Entries  []entry
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
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
	b.moved(e, b.post(e, p.Postings), map[string]int64{"usd": -cleared, "suspense": -unmatched, "network": cleared + unmatched})
	return nil
}

func (b *books) cardChanged(e *persistence.Event) error {
	var t terms
	if err := json.Unmarshal(e.Payload, &t); err != nil {
		return err
	}
	b.differs("event", e.ID, "card", e.Stream, t.Card)
	b.differs("event", e.ID, "card's workspace", e.Workspace, t.Workspace)
	b.physicalMinted(e)
	c := b.card(e.Stream)
	c.terms = t
	if e.Position <= b.followed {
		c.followed, c.version = t, e.Version
	}
	return nil
}
