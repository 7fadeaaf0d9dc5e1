package authorizer

import "purser/authorizer/hold"

// Room is the set of messages for which the deployment's disks have room. Its owner measures the
// disks; the engine checks it for every message.
type Room uint32

// Rooms, from the widest to the narrowest. Without room a message is answered as by an unavailable
// system, and nothing is stored: "system_unavailable" (response code 96) declines an authorization,
// and status 503 asks the network to repeat another message. Repeats get the remembered answer.
const (
	RoomForAll   Room = iota
	RoomForFacts      // reversals, clearings and refunds; no approvals
	RoomForNone
)

// SetRoom sets the room from now on. A new engine has room for all messages. The serve command's
// disk guard calls it after each measurement.
func (e *Engine) SetRoom(r Room) { e.room.Store(uint32(r)) }

// lacksDiskSpace reports that a message of this kind has no room on the disk. It is one atomic
// load.
func (e *Engine) lacksDiskSpace(k hold.Kind) bool {
	r := Room(e.room.Load())
	return r != RoomForAll && (r == RoomForNone || asks(k))
}
