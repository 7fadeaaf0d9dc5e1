package hold

import (
	"crypto/sha256"
	"encoding/binary"
)

// Sum is the fingerprint that tells a repeat of a message from another one under the same network id: another kind, card,
// amount, currency or authorization is another message; the merchant's spelling and the options are not compared. It is kept
// with the decision and must stay what it is for ever.
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
