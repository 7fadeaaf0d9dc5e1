package authorizer

import (
	"sync/atomic"

	"purser/authorizer/hold"
)

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

// diskRoom is the Room of now. Its zero value has room for all messages.
type diskRoom struct{ now atomic.Uint32 }

// SetRoom sets the room from now on. A new engine has room for all messages.
func (e *Engine) SetRoom(r Room) { e.room.now.Store(uint32(r)) }

// lacksRoom reports that a message of this kind has no room on the disk. It is one atomic load.
func (d *diskRoom) lacksRoom(k hold.Kind) bool {
	r := Room(d.now.Load())
	return r != RoomForAll && (r == RoomForNone || asksForAmount(k))
}
