package hold

import (
	"crypto/sha256"
	"encoding/binary"
)

// Sum returns the fingerprint that distinguishes a repeat from another message with the same
// network id. Kind, card, amount, currency and authorization are compared; the merchant's spelling
// and the options are not. The store keeps it with the decision, so it must never change.
// network.Scan calls it for every message.
func (m *Message) Sum() [16]byte {
	var buffer [160 + 4*MaxNetworkID]byte
	b := append(buffer[:0], 1, byte(m.Kind))
	b = append(b, m.Token[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Amount))
	b = appendBool(b, m.WholeHold)
	b = append(b, m.Currency[:]...)
	b = append(b, m.AuthorizationID[:]...)
	b = append(b, m.OriginalID...)
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}
