package hold

import (
	"encoding/binary"
	"errors"
	"math"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// The authorizer's store keeps binary forms. Each begins with its version. Integers are varints
// (signed ones in zigzag) of the least length, strings carry their length, ids are their 16 bytes,
// and a boolean is one byte. A value has exactly one encoding, so a decoded value is encoded to the
// same bytes again. The form of a Rule is in rule.go.
const (
	entryVersion = 1
	holdVersion  = 1
	spendVersion = 1
)

// ErrCorrupt means that bytes are not an encoding of the requested type.
var ErrCorrupt = errors.New("corrupt encoding")

// AppendEntry appends the binary form of e, which the authorizer's decision log stores.
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
	dst = appendCents(dst, e.Amount)
	dst = appendCents(dst, e.Approved)
	dst = append(dst, e.Currency[:]...)
	dst = appendMerchant(dst, &e.Merchant)
	dst = appendBool(dst, e.Final)
	dst = appendBool(dst, e.Tombstone)
	dst = appendCents(dst, e.CardDelta)
	dst = appendCents(dst, e.HoldDelta)
	dst = appendCents(dst, e.SpendDelta)
	dst = appendCents(dst, e.Posted)
	dst = appendSpend(dst, &e.Spend)
	dst = appendChecked(dst, e.HasChecked, &e.Checked)
	known := !e.After.ID.IsZero()
	dst = appendBool(dst, known)
	if known {
		dst = appendHold(dst, &e.After)
	}
	return dst
}

// DecodeEntry reads exactly the output of AppendEntry. Any other bytes are ErrCorrupt. e does not
// alias b; after an error its content is undefined.
func DecodeEntry(b []byte, e *Entry) error {
	d := decoder{b: b}
	d.readVersion(entryVersion)
	*e = Entry{
		Seq: d.readUvarint(), WsSeq: d.readUvarint(), At: d.readVarint(),
		Kind: Kind(d.readEnum(kindNames)), Decision: Decision(d.readEnum(decisionNames)),
		Reason: Reason(d.readEnum(reasonNames)),
		Shard:  ident.Shard(d.readByte()), Workspace: d.readUUID(), Card: d.readUUID(),
		NetworkID: d.readString(), OriginalID: d.readString(), Fingerprint: d.readUUID(),
		Amount: d.readCents(), Approved: d.readCents(), Currency: d.readCurrency(), Merchant: d.readMerchant(),
		Final: d.readBool(), Tombstone: d.readBool(),
		CardDelta: d.readCents(), HoldDelta: d.readCents(), SpendDelta: d.readCents(), Posted: d.readCents(),
		Spend: d.readSpend(),
	}
	e.HasChecked, e.Checked = d.readChecked()
	if d.readBool() {
		e.After = d.readHold()
		d.require(!e.After.ID.IsZero())
	}
	return d.endOfValue()
}

// AppendHold appends the binary form of h, which the authorizer's store keeps.
func AppendHold(dst []byte, h *Hold) []byte { return appendHold(append(dst, holdVersion), h) }

// DecodeHold reads exactly the output of AppendHold. Any other bytes are ErrCorrupt. h does not
// alias b; after an error its content is undefined.
func DecodeHold(b []byte, h *Hold) error {
	d := decoder{b: b}
	d.readVersion(holdVersion)
	*h = d.readHold()
	return d.endOfValue()
}

// AppendSpend appends the binary form of s, which the authorizer's store keeps.
func AppendSpend(dst []byte, s *Spend) []byte { return appendSpend(append(dst, spendVersion), s) }

// DecodeSpend reads exactly the output of AppendSpend. Any other bytes are ErrCorrupt.
func DecodeSpend(b []byte, s *Spend) error {
	d := decoder{b: b}
	d.readVersion(spendVersion)
	*s = d.readSpend()
	return d.endOfValue()
}

// appendHold appends an authorization without a version byte.
func appendHold(dst []byte, h *Hold) []byte {
	dst = append(dst, h.ID[:]...)
	dst = append(dst, h.Card[:]...)
	dst = append(dst, h.Workspace[:]...)
	dst = appendString(dst, h.NetworkID)
	dst = binary.AppendVarint(dst, h.At)
	dst = binary.AppendVarint(dst, h.ExpiresAt)
	dst = appendCents(dst, h.Asked)
	dst = appendCents(dst, h.Approved)
	dst = appendCents(dst, h.Held)
	dst = appendCents(dst, h.Cleared)
	dst = appendCents(dst, h.Refunded)
	dst = binary.AppendUvarint(dst, uint64(h.Month))
	dst = appendCents(dst, h.MonthCents)
	dst = append(dst, byte(h.Decision), byte(h.Reason), byte(h.Status))
	dst = appendChecked(dst, h.HasChecked, &h.Checked)
	return appendMerchant(dst, &h.Merchant)
}

func appendCents(dst []byte, c money.Cents) []byte { return binary.AppendVarint(dst, int64(c)) }

func appendMerchant(dst []byte, m *Merchant) []byte {
	dst = appendString(dst, m.ID)
	dst = appendString(dst, m.Name)
	dst = appendString(dst, m.Country)
	return binary.BigEndian.AppendUint16(dst, m.MCC)
}

func appendSpend(dst []byte, s *Spend) []byte {
	return appendCents(binary.AppendUvarint(dst, uint64(s.Month)), s.Cents)
}

// appendChecked appends whether an entry has a Checked, and then its three amounts.
func appendChecked(dst []byte, has bool, c *Checked) []byte {
	dst = appendBool(dst, has)
	if !has {
		return dst
	}
	dst = appendCents(dst, c.LimitCents)
	dst = appendCents(dst, c.SpentCents)
	return appendCents(dst, c.AskedCents)
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

// appendCount writes 0 for a nil list, or else its length plus one.
func appendCount(dst []byte, isNil bool, n int) []byte {
	if isNil {
		return append(dst, 0)
	}
	return binary.AppendUvarint(dst, uint64(n)+1)
}

// decoder reads fields in order. After the first fault every read returns zero, and endOfValue
// reports the fault.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) require(ok bool) {
	if !ok {
		d.bad, d.b = true, nil
	}
}

// endOfValue returns ErrCorrupt after any fault of the reads before it, or when bytes are left.
func (d *decoder) endOfValue() error {
	if d.bad || len(d.b) != 0 {
		return ErrCorrupt
	}
	return nil
}

// takeBytes returns the next n bytes, which alias the input, or nil when fewer are left; the
// decoder is then bad.
func (d *decoder) takeBytes(n int) []byte {
	if d.require(n <= len(d.b)); d.bad {
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) readByte() byte {
	if b := d.takeBytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) readVersion(want byte) { d.require(d.readByte() == want) }

func (d *decoder) readEnum(names []string) byte {
	v := d.readByte()
	d.require(d.bad || v == 0 || isNamed(names, v))
	return v
}

func (d *decoder) readBool() bool {
	v := d.readByte()
	d.require(v <= 1)
	return v == 1
}

func (d *decoder) uint16() uint16 {
	if b := d.takeBytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// readUvarint reads an unsigned varint in its shortest form. A longer form marks the decoder as
// bad, because every value has one encoding.
func (d *decoder) readUvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	// A last byte of zero would be a longer encoding of the same number.
	if d.require(n > 0 && (n == 1 || d.b[n-1] != 0)); d.bad {
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) readVarint() int64 {
	u := d.readUvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (d *decoder) readCents() money.Cents { return money.Cents(d.readVarint()) }

func (d *decoder) readUUID() (u [16]byte) {
	copy(u[:], d.takeBytes(len(u)))
	return u
}

func (d *decoder) readCurrency() (c [3]byte) {
	copy(c[:], d.takeBytes(len(c)))
	return c
}

// readString reads a length and as many bytes, and copies them. A length beyond the end marks the
// decoder as bad.
func (d *decoder) readString() string {
	n := d.readUvarint()
	d.require(n <= uint64(len(d.b)))
	if d.bad {
		return ""
	}
	return string(d.takeBytes(int(n)))
}

// readCount reads the length of a list that is not nil. It refuses a length that the remaining
// bytes cannot hold.
func (d *decoder) readCount(itemBytes int) (int, bool) {
	n := d.readUvarint()
	if n == 0 {
		return 0, false
	}
	d.require((n - 1) <= uint64(len(d.b)/itemBytes))
	return int(n - 1), !d.bad
}

func (d *decoder) readMonth() money.Month {
	v := d.readUvarint()
	d.require(v <= math.MaxUint32)
	return money.Month(v)
}

func (d *decoder) readSpend() Spend { return Spend{Month: d.readMonth(), Cents: d.readCents()} }

func (d *decoder) readChecked() (has bool, c Checked) {
	if !d.readBool() {
		return false, c
	}
	return true, Checked{LimitCents: d.readCents(), SpentCents: d.readCents(), AskedCents: d.readCents()}
}

func (d *decoder) readMerchant() Merchant {
	return Merchant{ID: d.readString(), Name: d.readString(), Country: d.readString(), MCC: d.uint16()}
}

// readHold reads the output of appendHold. A fault marks the decoder as bad, and endOfValue reports
// it.
func (d *decoder) readHold() Hold {
	h := Hold{
		ID: d.readUUID(), Card: d.readUUID(), Workspace: d.readUUID(), NetworkID: d.readString(), At: d.readVarint(),
		ExpiresAt: d.readVarint(),
		Asked:     d.readCents(), Approved: d.readCents(), Held: d.readCents(), Cleared: d.readCents(),
		Refunded: d.readCents(),
		Month:    d.readMonth(), MonthCents: d.readCents(),
		Decision: Decision(d.readEnum(decisionNames)), Reason: Reason(d.readEnum(reasonNames)),
		Status: Status(d.readEnum(statusNames)),
	}
	h.HasChecked, h.Checked = d.readChecked()
	h.Merchant = d.readMerchant()
	return h
}
