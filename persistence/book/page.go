package book

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/money"
)

const (
	// kind is that of the streams with postings.
	kind = "balance"
	// defaultCurrency is the currency of a posting without one.
	defaultCurrency = "USD"
)

// page is a run of events of a shard with the accounts, transfers and postings that they book.
type page struct {
	shard       ident.Shard
	first, last uint64
	accounts    []*account
	byKey       map[accountKey]*account
	transfers   []transfer
	postings    []posting
}

type accountKey struct{ workspace, name, currency string }

// account holds the stored balance and number of postings. numberPostings advances both past the
// page.
type account struct {
	accountKey
	id      int64 // 0 until queueOpen has read it
	balance money.Minor
	entries int64
}

type transfer struct {
	position  uint64
	ordinal   int
	id, event string
	kind      string
	at        time.Time
}

type posting struct {
	position     uint64
	leg, ordinal int
	account      *account
	at           time.Time
	amount       money.Minor

	number  int64       // set by numberPostings
	balance money.Minor // set by numberPostings
}

// eventPostings is the part of an event payload with its postings.
type eventPostings struct {
	Postings []eventPosting `json:"postings"`
}

// eventPosting is a posting in the payload of an event.
type eventPosting struct {
	Transfer string       `json:"transfer"`
	Account  string       `json:"account"`
	Currency string       `json:"currency"`
	Amount   *money.Minor `json:"cents"`
}

// readPage collects the postings of events, of which there is at least one. It fails with
// ErrUnsound for postings that cannot be decoded or do not balance.
func readPage(shard ident.Shard, events []persistence.Event) (*page, error) {
	p := &page{shard: shard, first: events[0].Position, last: events[len(events)-1].Position,
		byKey: map[accountKey]*account{}}
	for i := range events {
		if events[i].Kind != kind {
			continue
		}
		if err := p.addEvent(&events[i]); err != nil {
			return nil, fmt.Errorf("%w: %s at %d of shard %d: %w", ErrUnsound, events[i].ID, events[i].Position, shard, err)
		}
	}
	return p, nil
}

// declaresNoPostings reports whether a payload contains the member "postings" once and its value is
// null or []. Most relayed runs of card decisions do, and they are long, so the JSON decoder is
// spared. A string with this text has its quotes escaped. false means that the payload has to be
// decoded.
func declaresNoPostings(document []byte) bool {
	_, after, named := bytes.Cut(document, postingsName)
	rest, none := bytes.CutPrefix(after, []byte(":null"))
	if !none {
		rest, none = bytes.CutPrefix(after, []byte(":[]"))
	}
	ends := len(rest) > 0 && (rest[0] == ',' || rest[0] == '}')
	return named && none && ends && !bytes.Contains(rest, postingsName)
}

var postingsName = []byte(`"postings"`)

// addEvent adds the transfers and postings of one event to the page. It fails for a payload that
// does not decode or does not balance.
func (p *page) addEvent(e *persistence.Event) error {
	if declaresNoPostings(e.Payload) {
		return nil
	}
	var m eventPostings
	if err := json.Unmarshal(e.Payload, &m); err != nil {
		return err
	}
	if err := m.checkBalanced(); err != nil {
		return err
	}
	ordinals := map[string]int{} // by transfer
	for leg, n := range m.Postings {
		ordinal, begun := ordinals[n.Transfer]
		if !begun {
			ordinal = leg
			ordinals[n.Transfer] = leg
			p.transfers = append(p.transfers, transfer{e.Position, leg, n.Transfer, e.ID, e.Type, e.At})
		}
		p.postings = append(p.postings, posting{position: e.Position, leg: leg, ordinal: ordinal, at: e.At,
			amount: *n.Amount, account: p.accountFor(accountKey{e.Workspace, n.Account, n.Currency})})
	}
	return nil
}

// checkBalanced sets the default currency. It fails for postings that lack a member, overflow, or
// do not sum to zero per transfer and currency.
func (m *eventPostings) checkBalanced() error {
	type part struct{ transfer, currency string }
	sums := map[part]money.Minor{}
	for leg := range m.Postings {
		n := &m.Postings[leg]
		if n.Transfer == "" || n.Account == "" || n.Amount == nil {
			return fmt.Errorf("posting %d has no transfer, account or amount", leg)
		}
		if n.Currency == "" {
			n.Currency = defaultCurrency
		}
		of := part{n.Transfer, n.Currency}
		sum, err := money.Add(sums[of], *n.Amount)
		if err != nil {
			return fmt.Errorf("transfer %s: %w", n.Transfer, err)
		}
		sums[of] = sum
	}
	for of, sum := range sums {
		if sum != 0 {
			return fmt.Errorf("transfer %s is off by %d %s", of.transfer, sum, of.currency)
		}
	}
	return nil
}

// accountFor returns the page's entry of an account, and adds an empty one when there is none.
func (p *page) accountFor(key accountKey) *account {
	a := p.byKey[key]
	if a == nil {
		a = &account{accountKey: key}
		p.byKey[key] = a
		p.accounts = append(p.accounts, a)
	}
	return a
}

// numberPostings gives every posting its number and the balance after it. It fails with ErrUnsound
// for an account of another shard or a balance out of range.
func (p *page) numberPostings() error {
	for _, a := range p.accounts {
		if a.id == 0 {
			return fmt.Errorf("%w: account %s of %s is in another shard", ErrUnsound, a.name, a.workspace)
		}
	}
	for i := range p.postings {
		n := &p.postings[i]
		a := n.account
		sum, err := money.Add(a.balance, n.amount)
		if err != nil {
			return fmt.Errorf("%w: account %s of %s at %d: %w", ErrUnsound, a.name, a.workspace, n.position, err)
		}
		a.balance, a.entries = sum, a.entries+1
		n.number, n.balance = a.entries, a.balance
	}
	return nil
}

// writePage moves the position and writes the page, in two round trips of one transaction. It fails
// with ErrMoved when the stored position is not in the skipped range, with ErrUnsound, and with the
// server's error.
func (p *page) writePage(ctx context.Context, tx pgx.Tx, store ident.UUID, skipped positionRange) error {
	var first pgx.Batch
	p.queueMove(&first, store, skipped)
	p.queueOpen(&first)
	if err := tx.SendBatch(ctx, &first).Close(); err != nil {
		return err
	}
	if err := p.numberPostings(); err != nil {
		return err
	}
	var second pgx.Batch
	p.queuePostings(&second)
	return tx.SendBatch(ctx, &second).Close()
}

// queueMove moves the position from anywhere in the skipped range before the page to its last
// event. Otherwise the batch ends with ErrMoved.
func (p *page) queueMove(b *pgx.Batch, store ident.UUID, skipped positionRange) {
	var m positionMoves
	m.addMove(p.shard, skipped.after, skipped.end, p.last)
	m.queueMoves(b, store).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != 1 {
			return consumer.ErrMoved
		}
		return nil
	})
}

// queueOpen inserts the new accounts and reads all of them.
func (p *page) queueOpen(b *pgx.Batch) {
	n := len(p.accounts)
	workspace, name, currency, side := make([]string, n), make([]string, n), make([]string, n), make([]Side, n)
	for i, a := range p.accounts {
		workspace[i], name[i], currency[i], side[i] = a.workspace, a.name, a.currency, normalSide(a.name)
	}
	b.Queue(sqlOpenAccounts, int16(p.shard), workspace, name, currency, side)
	b.Queue(sqlAccounts, int16(p.shard), workspace, name, currency).Query(func(rows pgx.Rows) error {
		var n, id, balance, entries int64
		_, err := pgx.ForEachRow(rows, []any{&n, &id, &balance, &entries}, func() error {
			a := p.accounts[n-1]
			a.id, a.balance, a.entries = id, money.Minor(balance), entries
			return nil
		})
		return err
	})
}

// queuePostings inserts transfers and postings and updates the balances.
func (p *page) queuePostings(b *pgx.Batch) {
	p.queueTransfers(b)
	n := len(p.postings)
	position, leg, ordinal, account := make([]int64, n), make([]int32, n), make([]int32, n), make([]int64, n)
	currency, number, at := make([]string, n), make([]int64, n), make([]time.Time, n)
	amount, balance := make([]int64, n), make([]int64, n)
	for i, q := range p.postings {
		position[i], leg[i], ordinal[i], account[i] = int64(q.position), int32(q.leg), int32(q.ordinal), q.account.id
		currency[i], number[i], at[i] = q.account.currency, q.number, q.at
		amount[i], balance[i] = int64(q.amount), int64(q.balance)
	}
	b.Queue(sqlInsertPostings, int16(p.shard), position, leg, ordinal, account, currency, number, at, amount, balance)

	id, balances, entries := make([]int64, len(p.accounts)), make([]int64, len(p.accounts)), make([]int64, len(p.accounts))
	for i, a := range p.accounts {
		id[i], balances[i], entries[i] = a.id, int64(a.balance), a.entries
	}
	b.Queue(sqlSetBalances, id, balances, entries)
}

// queueTransfers queues one statement that inserts all transfers of the page.
func (p *page) queueTransfers(b *pgx.Batch) {
	n := len(p.transfers)
	position, ordinal, at := make([]int64, n), make([]int32, n), make([]time.Time, n)
	id, event, kinds := make([]string, n), make([]string, n), make([]string, n)
	for i, t := range p.transfers {
		position[i], ordinal[i], at[i] = int64(t.position), int32(t.ordinal), t.at
		id[i], event[i], kinds[i] = t.id, t.event, t.kind
	}
	b.Queue(sqlInsertTransfers, int16(p.shard), position, ordinal, id, event, kinds, at)
}
