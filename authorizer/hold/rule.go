package hold

import (
	"encoding/binary"
	"slices"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// Rule is the authorizer's copy of a card. Version is the card stream's; an older version never
// replaces a newer one.
type Rule struct {
	Token       ident.Token `json:"-"`
	State       CardState   `json:"-"`
	Card        ident.UUID  `json:"-"`
	Workspace   ident.UUID  `json:"-"`
	Version     uint64      `json:"-"`
	PerTxnCents money.Cents `json:"-"`
	MonthCents  money.Cents `json:"-"`
	// A nil MCCs allows every category, an empty one none, and so does Merchants. See MatchMerchant
	// for the form of its entries.
	MCCs      []uint16 `json:"-"`
	Merchants []string `json:"-"`
}

// ruleVersion is the version of the binary form of a Rule.
const ruleVersion = 1

// AppendRule appends the binary form of r, which the authorizer's store keeps.
func AppendRule(dst []byte, r *Rule) []byte {
	dst = append(dst, ruleVersion)
	dst = append(dst, r.Token[:]...)
	dst = append(dst, r.Card[:]...)
	dst = append(dst, r.Workspace[:]...)
	dst = binary.AppendUvarint(dst, r.Version)
	dst = append(dst, byte(r.State))
	dst = appendCents(dst, r.PerTxnCents)
	dst = appendCents(dst, r.MonthCents)
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

// DecodeRule reads exactly the output of AppendRule. Any other bytes are ErrCorrupt. r does not
// alias b; after an error its content is undefined.
func DecodeRule(b []byte, r *Rule) error {
	d := decoder{b: b}
	d.readVersion(ruleVersion)
	*r = Rule{}
	copy(r.Token[:], d.takeBytes(len(r.Token)))
	r.Card, r.Workspace, r.Version = d.readUUID(), d.readUUID(), d.readUvarint()
	r.State = CardState(d.readEnum(cardStateNames))
	r.PerTxnCents, r.MonthCents = d.readCents(), d.readCents()
	if n, ok := d.readCount(2); ok {
		r.MCCs = make([]uint16, n)
		for i := range r.MCCs {
			r.MCCs[i] = d.uint16()
		}
	}
	if n, ok := d.readCount(1); ok {
		r.Merchants = make([]string, n)
		for i := range r.Merchants {
			r.Merchants[i] = d.readString()
		}
	}
	return d.endOfValue()
}

// Stricter returns a rule that allows no more than either of two rules of one card. It has the
// version of the first, so the card's next change replaces it.
func Stricter(r, other *Rule) Rule {
	s := *r
	s.State = max(r.State, other.State)
	s.PerTxnCents = min(r.PerTxnCents, other.PerTxnCents)
	s.MonthCents = min(r.MonthCents, other.MonthCents)
	s.MCCs = allowedByBoth(r.MCCs, other.MCCs)
	s.Merchants = allowedByBoth(r.Merchants, other.Merchants)
	return s
}

// allowedByBoth returns the common entries of two allowlists. A nil list allows all.
func allowedByBoth[T comparable](a, b []T) []T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	both := make([]T, 0, min(len(a), len(b)))
	for _, item := range a {
		if slices.Contains(b, item) {
			both = append(both, item)
		}
	}
	return both
}
