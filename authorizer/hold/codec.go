package hold

import (
	"encoding/binary"
	"errors"
	"math"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// The binary forms are what the authorizer's store keeps. Each begins with its version. Integers are varints (signed ones in
// zigzag) of the least length, strings carry their length, ids are their 16 bytes, a boolean is one byte. There is one encoding
// of a value, so that what was read is written again byte for byte.
const (
	entryVersion = 1
	holdVersion  = 1
	ruleVersion  = 1
	spendVersion = 1
)

// ErrCorrupt says that bytes are not an encoding of what was asked for.
var ErrCorrupt = errors.New("corrupt encoding")

// AppendEntry appends the binary form of e.
func AppendEntry(dst []byte, e *Entry) []byte {
	dst = append(dst, entryVersion)
	dst = binary.AppendUvarint(dst, e.Seq)
	dst = binary.AppendUvarint(dst, e.WsSeq)
	dst = binary.AppendVarint(dst, e.At)
	dst = append(dst, byte(e.Kind), byte(e.Decision), byte(e.Reason), byte(e.Shard))
	dst = append(dst, e.Workspace[:]...)
	dst = append(dst, e.Card[:]...)
	dst = appendString(dst, e.NetworkID)
	dst = appendString(dst, e.OriginalID)
	dst = append(dst, e.Fingerprint[:]...)
	dst = binary.AppendVarint(dst, e.Amount)
	dst = binary.AppendVarint(dst, e.Approved)
	dst = append(dst, e.Currency[:]...)
	dst = appendMerchant(dst, &e.Merchant)
	dst = appendBool(dst, e.Final)
	dst = appendBool(dst, e.Tombstone)
	dst = binary.AppendVarint(dst, e.CardDelta)
	dst = binary.AppendVarint(dst, e.HoldDelta)
	dst = binary.AppendVarint(dst, e.SpendDelta)
	dst = binary.AppendVarint(dst, e.Posted)
	dst = appendSpend(dst, &e.Spend)
	dst = appendChecked(dst, e.HasChecked, &e.Checked)
	known := !e.After.ID.IsZero()
	dst = appendBool(dst, known)
	if known {
		dst = appendHold(dst, &e.After)
	}
	return dst
}

// DecodeEntry reads what AppendEntry wrote and nothing else. e does not alias b; after an error its content is undefined.
func DecodeEntry(b []byte, e *Entry) error {
	d := decoder{b: b}
	d.version(entryVersion)
	*e = Entry{
		Seq: d.uvarint(), WsSeq: d.uvarint(), At: d.varint(),
		Kind: Kind(d.enum(kindNames)), Decision: Decision(d.enum(decisionNames)), Reason: Reason(d.enum(reasonNames)),
		Shard: ident.Shard(d.byte()), Workspace: d.uuid(), Card: d.uuid(),
		NetworkID: d.string(), OriginalID: d.string(), Fingerprint: d.uuid(),
		Amount: d.varint(), Approved: d.varint(), Currency: d.currency(), Merchant: d.merchant(),
		Final: d.bool(), Tombstone: d.bool(),
		CardDelta: d.varint(), HoldDelta: d.varint(), SpendDelta: d.varint(), Posted: d.varint(),
		Spend: d.spend(),
	}
	e.HasChecked, e.Checked = d.checked()
	if d.bool() {
		e.After = d.hold()
		d.require(!e.After.ID.IsZero())
	}
	return d.end()
}

// AppendHold appends the binary form of h.
func AppendHold(dst []byte, h *Hold) []byte { return appendHold(append(dst, holdVersion), h) }

// DecodeHold reads what AppendHold wrote and nothing else. h does not alias b; after an error its content is undefined.
func DecodeHold(b []byte, h *Hold) error {
	d := decoder{b: b}
	d.version(holdVersion)
	*h = d.hold()
	return d.end()
}

// AppendRule appends the binary form of r.
func AppendRule(dst []byte, r *Rule) []byte {
	dst = append(dst, ruleVersion)
	dst = append(dst, r.Token[:]...)
	dst = append(dst, r.Card[:]...)
	dst = append(dst, r.Workspace[:]...)
	dst = binary.AppendUvarint(dst, r.Version)
	dst = append(dst, byte(r.State))
	dst = binary.AppendVarint(dst, r.PerTxnCents)
	dst = binary.AppendVarint(dst, r.MonthCents)
	dst = appendCount(dst, r.MCCs == nil, len(r.MCCs))
	for _, mcc := range r.MCCs {
		dst = binary.BigEndian.AppendUint16(dst, mcc)
	}
	dst = appendCount(dst, r.Merchants == nil, len(r.Merchants))
	for _, merchant := range r.Merchants {
		dst = appendString(dst, merchant)
	}
	return dst
}

// DecodeRule reads what AppendRule wrote and nothing else. r does not alias b; after an error its content is undefined.
func DecodeRule(b []byte, r *Rule) error {
	d := decoder{b: b}
	d.version(ruleVersion)
	*r = Rule{}
	copy(r.Token[:], d.take(len(r.Token)))
	r.Card, r.Workspace, r.Version = d.uuid(), d.uuid(), d.uvarint()
	r.State = CardState(d.enum(cardStateNames))
	r.PerTxnCents, r.MonthCents = d.varint(), d.varint()
	if n, ok := d.count(2); ok {
		r.MCCs = make([]uint16, n)
		for i := range r.MCCs {
			r.MCCs[i] = d.uint16()
		}
	}
	if n, ok := d.count(1); ok {
		r.Merchants = make([]string, n)
		for i := range r.Merchants {
			r.Merchants[i] = d.string()
		}
	}
	return d.end()
}

// AppendSpend appends the binary form of s.
func AppendSpend(dst []byte, s *Spend) []byte { return appendSpend(append(dst, spendVersion), s) }

// DecodeSpend reads what AppendSpend wrote and nothing else.
func DecodeSpend(b []byte, s *Spend) error {
	d := decoder{b: b}
	d.version(spendVersion)
	*s = d.spend()
	return d.end()
}

func appendHold(dst []byte, h *Hold) []byte {
	dst = append(dst, h.ID[:]...)
	dst = append(dst, h.Card[:]...)
	dst = append(dst, h.Workspace[:]...)
	dst = appendString(dst, h.NetworkID)
	dst = binary.AppendVarint(dst, h.At)
	dst = binary.AppendVarint(dst, h.ExpiresAt)
	dst = binary.AppendVarint(dst, h.Asked)
	dst = binary.AppendVarint(dst, h.Approved)
	dst = binary.AppendVarint(dst, h.Held)
	dst = binary.AppendVarint(dst, h.Cleared)
	dst = binary.AppendVarint(dst, h.Refunded)
	dst = binary.AppendUvarint(dst, uint64(h.Month))
	dst = binary.AppendVarint(dst, h.MonthCents)
	dst = append(dst, byte(h.Decision), byte(h.Reason), byte(h.Status))
	dst = appendChecked(dst, h.HasChecked, &h.Checked)
	return appendMerchant(dst, &h.Merchant)
}

func appendMerchant(dst []byte, m *Merchant) []byte {
	dst = appendString(dst, m.ID)
	dst = appendString(dst, m.Name)
	dst = appendString(dst, m.Country)
	return binary.BigEndian.AppendUint16(dst, m.MCC)
}

func appendSpend(dst []byte, s *Spend) []byte {
	return binary.AppendVarint(binary.AppendUvarint(dst, uint64(s.Month)), s.Cents)
}

func appendChecked(dst []byte, has bool, c *Checked) []byte {
	dst = appendBool(dst, has)
	if !has {
		return dst
	}
	dst = binary.AppendVarint(dst, c.LimitCents)
	dst = binary.AppendVarint(dst, c.SpentCents)
	return binary.AppendVarint(dst, c.AskedCents)
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// appendCount writes 0 for a nil list, else its length and one.
func appendCount(dst []byte, isNil bool, n int) []byte {
	if isNil {
		return append(dst, 0)
	}
	return binary.AppendUvarint(dst, uint64(n)+1)
}

// decoder reads fields in order. After the first fault every read yields zeros and end reports it.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) require(ok bool) {
	if !ok {
		d.bad, d.b = true, nil
	}
}

func (d *decoder) end() error {
	if d.bad || len(d.b) != 0 {
		return ErrCorrupt
	}
	return nil
}

func (d *decoder) take(n int) []byte {
	if d.require(n <= len(d.b)); d.bad {
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) version(want byte) { d.require(d.byte() == want) }

func (d *decoder) enum(names []string) byte {
	v := d.byte()
	d.require(d.bad || v == 0 || named(names, v))
	return v
}

func (d *decoder) bool() bool {
	v := d.byte()
	d.require(v <= 1)
	return v == 1
}

func (d *decoder) uint16() uint16 {
	if b := d.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	// A last byte of zero would be a longer encoding of the same number.
	if d.require(n > 0 && (n == 1 || d.b[n-1] != 0)); d.bad {
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (d *decoder) uuid() (u [16]byte) {
	copy(u[:], d.take(len(u)))
	return u
}

func (d *decoder) currency() (c [3]byte) {
	copy(c[:], d.take(len(c)))
	return c
}

func (d *decoder) string() string {
	n := d.uvarint()
	d.require(n <= uint64(len(d.b)))
	if d.bad {
		return ""
	}
	return string(d.take(int(n)))
}

// count reads the length of a list that is not nil, and refuses one that the bytes left cannot hold.
func (d *decoder) count(itemBytes int) (int, bool) {
	n := d.uvarint()
	if n == 0 {
		return 0, false
	}
	d.require((n - 1) <= uint64(len(d.b)/itemBytes))
	return int(n - 1), !d.bad
}

func (d *decoder) month() money.Month {
	v := d.uvarint()
	d.require(v <= math.MaxUint32)
	return money.Month(v)
}

func (d *decoder) spend() Spend { return Spend{Month: d.month(), Cents: d.varint()} }

func (d *decoder) checked() (has bool, c Checked) {
	if !d.bool() {
		return false, c
	}
	return true, Checked{LimitCents: d.varint(), SpentCents: d.varint(), AskedCents: d.varint()}
}

func (d *decoder) merchant() Merchant {
	return Merchant{ID: d.string(), Name: d.string(), Country: d.string(), MCC: d.uint16()}
}

func (d *decoder) hold() Hold {
	h := Hold{
		ID: d.uuid(), Card: d.uuid(), Workspace: d.uuid(), NetworkID: d.string(), At: d.varint(), ExpiresAt: d.varint(),
		Asked: d.varint(), Approved: d.varint(), Held: d.varint(), Cleared: d.varint(), Refunded: d.varint(),
		Month: d.month(), MonthCents: d.varint(),
		Decision: Decision(d.enum(decisionNames)), Reason: Reason(d.enum(reasonNames)), Status: Status(d.enum(statusNames)),
	}
	h.HasChecked, h.Checked = d.checked()
	h.Merchant = d.merchant()
	return h
}
