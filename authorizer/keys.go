package authorizer

import (
	"encoding/binary"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// First bytes of the keys; the table is in doc.go.
const (
	prefixStamp       = 'a'
	prefixLog         = 'b'
	prefixHold        = 'c'
	prefixSpend       = 'd'
	prefixRule        = 'e'
	prefixFunds       = 'f'
	prefixReservation = 'g'
	prefixRepeat      = 'h'
	prefixDue         = 'i'
	prefixCursor      = 'j'
	prefixRelayed     = 'k'
	prefixLost        = 'l'
	prefixAnew        = 'm'
	prefixJournal     = 'n'
	prefixProjected   = 'o'
	prefixChunk       = 'p'
)

// Last bytes of the keys of a workspace's funds, one per writer.
const (
	termLedger   = 0
	termCard     = 1
	termReserved = 2
)

func keyStamp() []byte { return []byte{prefixStamp} }

func keyAnew() []byte { return []byte{prefixAnew} }

func keyProjected() []byte { return []byte{prefixProjected} }

func keyJournal() []byte { return []byte{prefixJournal} }

func appendLogKey(dst []byte, chunk uint64, shard ident.Shard, seq uint64) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, prefixLog), chunk)
	return binary.BigEndian.AppendUint64(append(dst, byte(shard)), seq)
}

func appendChunkKey(dst []byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, prefixChunk), number)
}

func appendIDKey(dst []byte, prefix byte, id *ident.UUID) []byte {
	return append(append(dst, prefix), id[:]...)
}

func appendFundsKey(dst []byte, workspace *ident.UUID, term byte) []byte {
	return append(appendIDKey(dst, prefixFunds, workspace), term)
}

func appendRuleKey(dst []byte, token *ident.Token) []byte {
	return append(append(dst, prefixRule), token[:]...)
}

func appendReservationKey(dst []byte, workspace, reservation *ident.UUID) []byte {
	return append(appendIDKey(dst, prefixReservation, workspace), reservation[:]...)
}

func appendDueKey(dst []byte, shard ident.Shard, expiresAt int64, hold *ident.UUID) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, prefixDue, byte(shard)), uint64(expiresAt))
	return append(dst, hold[:]...)
}

const repeatKeyBytes = 1 + 2 + len(networkID{})

func appendRepeatKey(dst []byte, bucket uint16, id *networkID) []byte {
	return append(binary.BigEndian.AppendUint16(append(dst, prefixRepeat), bucket), id[:]...)
}

func appendShardKey(dst []byte, prefix byte, shard ident.Shard) []byte {
	return append(dst, prefix, byte(shard))
}

func appendRelayedKey(dst []byte, shard ident.Shard, hour uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, prefixRelayed, byte(shard)), hour)
}

// relayedHour reads the hour out of the key of a relay mark.
func relayedHour(key []byte) uint32 { return binary.BigEndian.Uint32(key[2:]) }

func appendLostKey(dst []byte, shard ident.Shard, first uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, prefixLost, byte(shard)), first)
}

func appendCents(dst []byte, c money.Cents) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(c))
}

func decodeCents(b []byte) money.Cents { return money.Cents(binary.BigEndian.Uint64(b)) }

func decodeUint64(n *uint64) func(v []byte) error {
	return func(v []byte) error {
		if len(v) != 8 {
			return ErrCorrupt
		}
		*n = binary.BigEndian.Uint64(v)
		return nil
	}
}
