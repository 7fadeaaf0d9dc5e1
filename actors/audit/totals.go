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

// shardTotals are the sums of one shard's events.
type shardTotals struct {
	shard      ident.Shard
	followed   uint64 // the journal position that the authorizer has applied
	position   uint64
	versions   map[stream]uint64 // by the newest event of each stream
	tallies    map[stream]tally  // numbers of a workspace's things, by record kind
	accounts   map[string]*account
	deposits   map[string]deposit
	payouts    map[string]payout
	ordered    map[string]payoutOrder // by payout
	fxQuotes   map[string]fxQuote
	physical   physicalCards
	sessions   map[string]checkoutSession
	links      map[string]*checkoutLink
	currencies *currencyTotals
	ramp       *rampTotals
	cards      map[string]*cardTotals

	transfers      map[string]transfer
	authorizations map[string]*authorization
	log            logSequence // sequence numbers of the authorizer's log
	bookReader     *bookReader // the book's postings; nil without a book
	findings       []Finding
	more           int64 // differences beyond MaxFindings
}

type stream struct{ kind, id string }

// account is a workspace's money in cents, summed from postings and log entries.
type account struct {
	usd, suspense, coins         money.Cents // from postings; coins are stablecoins
	ledger, followed             money.Cents // credits of journal events; those the authorizer has applied
	card, hold                   money.Cents // from relayed entries, and from the rest of the log once it is read
	wsSeq                        uint64
	month                        uint32
	monthSpend                   money.Cents
	pending, reserved            money.Cents
	pendingDeposits, openPayouts int64
	paidOut                      dayTotal
}

// cardTotals are a card's newest terms, the terms that the authorizer has applied, and its spend
// counter.
type cardTotals struct {
	terms, followed cardTerms
	version         uint64 // stream version of followed
	month           uint32
	cents           money.Cents
}

// transfer is the effect of one transfer on its workspace, in cents. After is the workspace's
// dollars after it, nil for a transfer that moves none.
type transfer struct {
	workspace string
	usd       money.Cents
	suspense  money.Cents
	coins     money.Cents
	after     *money.Cents
}

// newShardTotals returns empty totals of a shard.
func newShardTotals(shard ident.Shard) *shardTotals {
	b := &shardTotals{shard: shard, versions: map[stream]uint64{}, tallies: map[stream]tally{},
		accounts: map[string]*account{},
		deposits: map[string]deposit{}, payouts: map[string]payout{}, ordered: map[string]payoutOrder{},
		fxQuotes: map[string]fxQuote{}, links: map[string]*checkoutLink{},
		physical: physicalCards{orders: map[string]physicalOrder{}, minted: map[string]string{}},
		sessions: map[string]checkoutSession{},
		cards:    map[string]*cardTotals{}, transfers: map[string]transfer{},
		authorizations: map[string]*authorization{}, log: logSequence{next: 1, above: map[uint64]bool{}}}
	b.currencies, b.ramp = newCurrencyTotals(b), newRampTotals(b)
	return b
}

// expectEqual adds a finding unless the two print the same. Beyond MaxFindings it only counts. All
// folds and comparisons of an audit report through it.
func (b *shardTotals) expectEqual(kind, id, what string, expected, actual any) {
	e, a := fmt.Sprint(expected), fmt.Sprint(actual)
	switch {
	case e == a:
	case len(b.findings) >= MaxFindings:
		b.more++
	default:
		b.findings = append(b.findings, Finding{Kind: kind, Shard: b.shard, ID: id, What: what, Expected: e, Actual: a})
	}
}

// addChecked adds an amount to a total. An overflow is a finding and leaves the total as it was.
// The folds and comparisons of an audit add with it.
func addChecked[A money.Amount](b *shardTotals, kind, id, what string, total *A, amount A) {
	added, err := money.Add(*total, amount)
	if err != nil {
		b.expectEqual(kind, id, what, "a sum that fits", fmt.Sprintf("%d + %d", *total, amount))
		return
	}
	*total = added
}

func (b *shardTotals) accountOf(workspace string) *account {
	a := b.accounts[workspace]
	if a == nil {
		a = &account{}
		b.accounts[workspace] = a
	}
	return a
}

func (b *shardTotals) cardOf(id string) *cardTotals {
	c := b.cards[id]
	if c == nil {
		c = &cardTotals{}
		b.cards[id] = c
	}
	return c
}

// readEvents folds the shard's events up to its head, and compares the book's postings of each. It
// fails when the journal or the book cannot be read.
func (b *shardTotals) readEvents(ctx context.Context, journal persistence.Snapshot) error {
	for {
		events, err := journal.Events(ctx, b.shard, b.position, eventsPerRead)
		if err != nil {
			return fmt.Errorf("shard %d: events after %d: %w", b.shard, b.position, err)
		}
		if len(events) == 0 {
			return nil
		}
		for i := range events {
			b.foldEvent(&events[i])
			if err := b.compareBookedEvent(ctx, &events[i]); err != nil {
				return err
			}
		}
	}
}

// readFollowed folds the events after the journal's snapshot that the authorizer has followed. It
// fails when the journal cannot be read.
func readFollowed(ctx context.Context, b *shardTotals, journal Journal) error {
	for b.position < b.followed {
		events, err := journal.Events(ctx, b.shard, b.position, int(min(b.followed-b.position, eventsPerRead)))
		if err != nil {
			return fmt.Errorf("shard %d: events after %d: %w", b.shard, b.position, err)
		}
		if len(events) == 0 {
			return nil // the comparison with the authorizer reports it
		}
		for i := range events {
			b.foldEvent(&events[i])
		}
	}
	return nil
}

// foldEvent adds an event to the totals by its type and checks its position and version. A payload
// that does not decode is a finding.
func (b *shardTotals) foldEvent(e *persistence.Event) {
	b.expectEqual("event", e.ID, "position", b.position+1, e.Position)
	b.position = e.Position
	key := stream{e.Kind, e.Stream}
	b.expectEqual("event", e.ID, "stream version", b.versions[key]+1, e.Version)
	b.versions[key] = e.Version
	b.countTallies(e)
	var err error
	switch {
	case e.Type == "balance.deposit_created.v1":
		err = b.depositCreated(e)
	case e.Type == "balance.deposit_settled.v1":
		err = b.depositSettled(e)
	case e.Type == "balance.deposit_received.v1":
		err = b.depositReceived(e)
	case e.Type == "balance.fx_quote_locked.v1":
		err = b.fxQuoteLocked(e)
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
	case e.Type == "balance.conversion_quoted.v1":
		err = b.currencies.conversionQuoted(e)
	case e.Type == "balance.conversion_created.v1":
		err = b.currencies.conversionCreated(e)
	case e.Type == "balance.conversion_moved.v1":
		err = b.currencies.conversionMoved(e)
	case e.Type == "balance.payin_arrived.v1":
		err = b.currencies.payinArrived(e)
	case e.Kind == "ramp", strings.HasPrefix(e.Type, "balance.ramp_"):
		err = b.ramp.rampEvent(e)
	case e.Kind == "checkout":
		err = b.checkoutEvent(e)
	case e.Type == "balance.relayed.v1":
		err = b.foldRelayed(e)
	case e.Kind == "card":
		err = b.cardChanged(e)
	}
	if err != nil {
		b.expectEqual("event", e.ID, "payload", "readable "+e.Type, err)
	}
}

// depositCreated folds a pending deposit. It fails when the payload does not decode.
func (b *shardTotals) depositCreated(e *persistence.Event) error {
	var p struct{ Deposit deposit }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	a := b.accountOf(e.Workspace)
	a.pendingDeposits++
	addChecked(b, "workspace", e.Workspace, "incoming", &a.pending, p.Deposit.AmountUsdCents)
	b.deposits[p.Deposit.ID] = deposit{p.Deposit.ID, "pending", p.Deposit.AmountUsdCents}
	return nil
}

// depositSettled folds the arrival of an announced deposit, and compares it with its announcement.
// It fails when the payload does not decode.
func (b *shardTotals) depositSettled(e *persistence.Event) error {
	var p struct {
		Deposit        string
		AmountUsdCents money.Cents
		Postings       []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	announced := b.deposits[p.Deposit]
	b.expectEqual("deposit", p.Deposit, "settled from", deposit{p.Deposit, "pending", p.AmountUsdCents}, announced)
	a := b.accountOf(e.Workspace)
	a.pendingDeposits--
	addChecked(b, "workspace", e.Workspace, "incoming", &a.pending, -announced.AmountUsdCents)
	b.deposits[p.Deposit] = deposit{p.Deposit, "settled", p.AmountUsdCents}
	b.foldBankCredit(e, p.AmountUsdCents, p.Postings)
	return nil
}

// depositReceived folds a deposit without an announcement. It fails when the payload does not
// decode.
func (b *shardTotals) depositReceived(e *persistence.Event) error {
	var p struct {
		Deposit  deposit
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.deposits[p.Deposit.ID] = deposit{p.Deposit.ID, "settled", p.Deposit.AmountUsdCents}
	b.foldBankCredit(e, p.Deposit.AmountUsdCents, p.Postings)
	return nil
}

// foldBankCredit adds dollars that came from the bank.
func (b *shardTotals) foldBankCredit(e *persistence.Event, cents money.Cents, postings []posting) {
	moved := b.addPostings(e, postings)
	b.expectPostings(e, moved, map[string]money.Cents{"usd": cents, "bank": -cents})
	b.addLedgerCents(e, moved["usd"])
}

// expectPostings compares the sums that an event's postings added to each account with the expected
// sums; differences are findings.
func (b *shardTotals) expectPostings(e *persistence.Event, got, want map[string]money.Cents) {
	for _, account := range slices.Sorted(maps.Keys(got)) {
		if _, known := want[account]; !known {
			b.expectEqual("event", e.ID, "postings to "+account, 0, got[account])
		}
	}
	for account, cents := range want {
		b.expectEqual("event", e.ID, "postings to "+account, cents, got[account])
	}
}

// addPostings adds the postings of an event and returns the sum by account. All must be of dollars,
// and each transfer must sum to zero; differences are findings.
func (b *shardTotals) addPostings(e *persistence.Event, postings []posting) (moved map[string]money.Cents) {
	a, sums, order := b.accountOf(e.Workspace), map[string]money.Cents{}, []string{}
	moved = map[string]money.Cents{}
	for _, p := range postings {
		if _, known := sums[p.Transfer]; !known {
			order = append(order, p.Transfer)
		}
		cents := p.Amount.Cents()
		if p.Currency != "" {
			b.expectEqual("transfer", p.Transfer, "currency of the posting to "+p.Account, money.USD, p.Currency)
		}
		total, account := sums[p.Transfer], moved[p.Account]
		addChecked(b, "transfer", p.Transfer, "sum", &total, cents)
		addChecked(b, "event", e.ID, "postings to "+p.Account, &account, cents)
		sums[p.Transfer], moved[p.Account] = total, account
		t := b.transfers[p.Transfer]
		t.workspace = e.Workspace
		switch p.Account {
		case "usd":
			t.usd += cents
			addChecked(b, "workspace", e.Workspace, "usd", &a.usd, cents)
			after := a.usd
			t.after = &after
		case "suspense":
			t.suspense += cents
			addChecked(b, "workspace", e.Workspace, "suspense", &a.suspense, cents)
		case "stablecoin":
			t.coins += cents
			addChecked(b, "workspace", e.Workspace, "stablecoins", &a.coins, cents)
		}
		b.transfers[p.Transfer] = t
	}
	for _, id := range order {
		b.expectEqual("transfer", id, "sum of postings", 0, sums[id])
	}
	return moved
}

// foldRelayed folds the log entries that the relay stored in the journal, and checks their
// postings. An entry that was stored before is a finding. It fails when the payload does not
// decode.
func (b *shardTotals) foldRelayed(e *persistence.Event) error {
	var p struct {
		Entries  []logEntry
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	var cleared, unmatched money.Cents
	for i := range p.Entries {
		n := &p.Entries[i]
		b.expectEqual("entry", n.logPosition(), "workspace", e.Workspace, n.Workspace)
		if !b.log.addNumber(n.Seq) {
			b.expectEqual("entry", n.logPosition(), "relayed", "once", "again")
		}
		b.foldEntry(n)
		if n.Decision == "unmatched" {
			unmatched += n.Posted
		} else {
			cleared += n.Posted
		}
	}
	b.expectPostings(e, b.addPostings(e, p.Postings), map[string]money.Cents{"usd": -cleared, "suspense": -unmatched,
		"network": cleared + unmatched})
	return nil
}

// cardChanged takes the card's terms from the event, and those that the authorizer has followed. It
// fails when the payload does not decode.
func (b *shardTotals) cardChanged(e *persistence.Event) error {
	var t cardTerms
	if err := json.Unmarshal(e.Payload, &t); err != nil {
		return err
	}
	b.expectEqual("event", e.ID, "card", e.Stream, t.Card)
	b.expectEqual("event", e.ID, "card's workspace", e.Workspace, t.Workspace)
	b.physicalMinted(e)
	c := b.cardOf(e.Stream)
	c.terms = t
	if e.Position <= b.followed {
		c.followed, c.version = t, e.Version
	}
	return nil
}
