// Package ident makes and reads the identifiers of Purser.
//
// Every id, API secret and card token contains the slot of its tenant: a workspace, or a user. A
// request is routed to its shard by the id alone, without an index or a query.
//
//   - An id is a prefix, an underscore and 26 characters of lower-case Crockford base32. The 128 bits are a UUIDv7
//     (RFC 9562): 48 bits of Unix milliseconds, 4 of version, 12 of rand_a, 2 of variant, 62 of rand_b. rand_a is the slot.
//   - A secret is a prefix and slot + 256 random bits: "apk_" of an API key, "ses_" of a session,
//     "invite_" of an invitation, "whsec_" of a webhook endpoint's signatures.
//   - A card token is "ctok_" and slot + 128 random bits.
//
// The package does no I/O and reads no clock: time and entropy are arguments.
package ident

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Slots is the number of slots, Shards the number of shards they fold into: shard = slot >> 4.
const (
	Slots  = 4096
	Shards = 256
)

// SystemSlot is the slot of Purser itself. It holds records that match no tenant, such as a
// clearing for an unknown card.
const SystemSlot Slot = 0

// Slot is the routing number of a tenant, 0 to 4095.
type Slot uint16

// Shard is one of the 256 units of locking, logging and journal position.
type Shard uint8

// Shard returns the shard a slot lives in.
func (s Slot) Shard() Shard { return Shard(s >> 4) }

// UUID is the 128 bits of an id, without its prefix.
type UUID [16]byte

// Prefixes of the ids that exist.
const (
	Workspace     = "ws"
	Key           = "key"
	User          = "usr"
	Card          = "card"
	Cardholder    = "chld"
	Agent         = "agt"
	IntentLog     = "log"
	LedgerEntry   = "le"
	TransferGroup = "tg"
	Deposit       = "dep"
	Event         = "evt"
	Authorization = "auth"
	Reservation   = "rsv"
	Endpoint      = "whe"
	Delivery      = "whd"
	Counterparty  = "rcp"
	Payout        = "po"
	FXQuote       = "fxq"
	CurrencyQuote = "mcq"
	Conversion    = "cnv"
	PhysicalOrder = "pco"
	Checkout      = "cs"
	RampAccount   = "ramp"
	RampWallet    = "wal"
	RampQuote     = "rq"
	RampOrder     = "ro"
	Withdrawal    = "rw"
	RampSession   = "rs"
	Invitation    = "inv"
	Address       = "eml"
)

// Prefixes of secrets and tokens.
const (
	APISecret       = "apk"
	SessionSecret   = "ses"
	InviteSecret    = "invite"
	ResetSecret     = "reset"
	EmailSecret     = "email"
	ChallengeSecret = "signin"
	SigningSecret   = "whsec"
	CardToken       = "ctok"
)

// ErrMalformed: the string is not an id, secret or token of the expected kind.
var ErrMalformed = errors.New("malformed id")

// System is the workspace of slot 0. It is a constant of the product, so that it needs no record to
// be found.
var System = UUID{6: 0x70, 8: 0x80}

// New makes an id of a slot at a time, with 62 bits read from entropy. It fails only when entropy
// does. A slot of Slots or more panics.
func New(slot Slot, now time.Time, entropy io.Reader) (UUID, error) {
	var random [8]byte
	if _, err := io.ReadFull(entropy, random[:]); err != nil {
		return UUID{}, fmt.Errorf("id entropy: %w", err)
	}
	return assemble(slot, now, random), nil
}

// FromRandom is New with random bits that the caller has drawn, for the path of a swipe, where
// reading them one id at a time would allocate.
func FromRandom(slot Slot, now time.Time, random [8]byte) UUID { return assemble(slot, now, random) }

// Derive makes the id bits that follow from a cause: the same cause at the same time gives the same
// id, which is how a reaction that runs twice makes one thing.
func Derive(slot Slot, at time.Time, cause string) UUID {
	sum := sha256.Sum256([]byte(cause))
	return assemble(slot, at, [8]byte(sum[:8]))
}

// assemble makes a UUID (version 7) from a time in milliseconds, a slot and 8 random bytes. It
// panics for a slot that does not exist.
func assemble(slot Slot, now time.Time, random [8]byte) UUID {
	if slot >= Slots {
		panic(fmt.Sprintf("BUG: slot %d", slot))
	}
	var u UUID
	binary.BigEndian.PutUint64(u[:8], uint64(now.UnixMilli())<<16)
	u[6] = 0x70 | byte(slot>>8)
	u[7] = byte(slot)
	copy(u[8:], random[:])
	u[8] = u[8]&0x3f | 0x80
	return u
}

// Slot returns the slot the id carries.
func (u UUID) Slot() Slot { return Slot(u[6]&0x0f)<<8 | Slot(u[7]) }

// Shard returns the shard the id is routed to.
func (u UUID) Shard() Shard { return u.Slot().Shard() }

// Time returns the millisecond the id was made.
func (u UUID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(u[:8]) >> 16)).UTC()
}

// IsZero reports whether the id is absent.
func (u UUID) IsZero() bool { return u == UUID{} }

// Format writes the id with its prefix.
func (u UUID) Format(prefix string) string {
	var text [32]byte // long enough for every prefix: nothing is allocated but the string
	return string(u.Append(text[:0], prefix))
}

// Append appends the id with its prefix to dst.
func (u UUID) Append(dst []byte, prefix string) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, '_')
	return appendBase32(dst, u[:])
}

// Parse reads an id that must have the prefix. It fails with ErrMalformed for every other text.
func Parse(prefix, id string) (UUID, error) {
	var u UUID
	rest, ok := cut(prefix, id)
	if !ok || len(rest) != idChars || !decodeBase32(u[:], rest) || u[6]>>4 != 7 || u[8]>>6 != 2 {
		return UUID{}, ErrMalformed
	}
	return u, nil
}

// SlotOf returns the slot of any id, whatever its prefix. It fails with ErrMalformed for a text
// that is no id.
func SlotOf(id string) (Slot, error) {
	i := strings.IndexByte(id, '_')
	if i < 0 {
		return 0, ErrMalformed
	}
	u, err := Parse(id[:i], id)
	return u.Slot(), err
}

// TenantSlot returns the slot of a tenant that is known by a name: the folded email of a user, or
// the idempotency key under which a workspace is created. It is the first 12 bits of HMAC-SHA256
// under the deployment's id, never the system's slot. Callers choose names and do not know the
// deployment's id, so that they cannot choose whose shard they share.
func TenantSlot(deployment UUID, name string) Slot {
	mac := hmac.New(sha256.New, deployment[:])
	mac.Write([]byte(name))
	slot := Slot(binary.BigEndian.Uint16(mac.Sum(nil)) >> 4)
	if slot == SystemSlot {
		return 1
	}
	return slot
}

// RandomSlot draws the slot of a new workspace, never the system's. It fails only when entropy
// does.
func RandomSlot(entropy io.Reader) (Slot, error) {
	var b [2]byte
	for {
		if _, err := io.ReadFull(entropy, b[:]); err != nil {
			return 0, fmt.Errorf("slot entropy: %w", err)
		}
		if slot := Slot(binary.BigEndian.Uint16(b[:]) & (Slots - 1)); slot != SystemSlot {
			return slot, nil
		}
	}
}

func cut(prefix, id string) (string, bool) {
	if len(id) <= len(prefix) || id[:len(prefix)] != prefix || id[len(prefix)] != '_' {
		return "", false
	}
	return id[len(prefix)+1:], true
}
