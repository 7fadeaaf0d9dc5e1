package authorizer

import "purser/authorizer/hold"

// Room says for which messages the disks of the deployment have room. Its owner measures the disks;
// the engine looks at it with every message.
type Room uint32

// Rooms, from the widest to the narrowest. Without room a message is answered as by a system that
// is not available, and nothing is stored: a decline "system_unavailable" (response code 96), or
// status 503 for a fact, which the network repeats. Repeats get the remembered answer.
const (
	RoomForAll   Room = iota
	RoomForFacts      // reversals, clearings and refunds; no approvals
	RoomForNone
)

// SetRoom says for what there is room from now on. A new engine has room for all.
func (e *Engine) SetRoom(r Room) { e.room.Store(uint32(r)) }

// lacksDiskSpace reports that a message of this kind has no room on the disk. It is one atomic load.
func (e *Engine) lacksDiskSpace(k hold.Kind) bool {
	r := Room(e.room.Load())
	return r != RoomForAll && (r == RoomForNone || asks(k))
}
