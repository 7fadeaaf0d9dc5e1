package wal

import "encoding/binary"

// Bounds of a group. A group that is full waits for its sync behind the next one's begin, so a
// stalled disk makes the queue longer and not the groups.
const (
	// MaxRecordBytes bounds one record. A record must also fit in an empty segment.
	MaxRecordBytes = 2 << 20

	maxGroupBytes = MaxRecordBytes + recordHeader // payload of a frame
	spareGroups   = 2                             // written groups that are kept for reuse
)

// group is the frame of the records that share a write and a sync, while it is filled.
type group[T any] struct {
	frame  []byte // room for the header, then the records
	owners []T
	first  uint64
}

func newGroup[T any]() *group[T] { return &group[T]{frame: make([]byte, frameHeader)} }

// payload returns the bytes of the records.
func (g *group[T]) payload() int { return len(g.frame) - frameHeader }

// last returns the number of the last record.
func (g *group[T]) last() uint64 { return g.first + uint64(len(g.owners)) - 1 }

// addRecord copies a record into the group.
func (g *group[T]) addRecord(number uint64, record []byte, owner T) {
	if len(g.owners) == 0 {
		g.first = number
	}
	g.frame = binary.LittleEndian.AppendUint32(g.frame, uint32(len(record)))
	g.frame = append(g.frame, record...)
	g.owners = append(g.owners, owner)
}

// finishFrame completes the frame for its place.
func (g *group[T]) finishFrame(k frameKey, at int64, segment, synced uint64) []byte {
	f := frame{segment: segment, first: g.first, synced: synced, payload: g.payload(), records: len(g.owners)}
	g.frame = append(g.frame, zeroPage[:f.bytes()-len(g.frame)]...)
	f.encodeHeader(k, at, g.frame)
	return g.frame
}

// emptyGroup empties the group and keeps its memory.
func (g *group[T]) emptyGroup() {
	clear(g.owners)
	g.frame, g.owners = g.frame[:frameHeader], g.owners[:0]
}

// queue holds the groups that wait for the writer. The last one is being filled. Its user has a
// lock.
type queue[T any] struct {
	limit   int // payload bytes of a group
	waiting []*group[T]
	spare   []*group[T]
}

// addToLast copies a record into the last group, or into a new one when it does not fit there.
func (q *queue[T]) addToLast(number uint64, record []byte, owner T) {
	last := len(q.waiting) - 1
	if last < 0 || q.waiting[last].payload()+recordHeader+len(record) > q.limit {
		q.waiting = append(q.waiting, q.takeSpare())
		last++
	}
	q.waiting[last].addRecord(number, record, owner)
}

func (q *queue[T]) takeSpare() *group[T] {
	if len(q.spare) == 0 {
		return newGroup[T]()
	}
	g := q.spare[len(q.spare)-1]
	q.spare = q.spare[:len(q.spare)-1]
	return g
}

// takeOldest removes and returns the oldest group, or nil.
func (q *queue[T]) takeOldest() *group[T] {
	if len(q.waiting) == 0 {
		return nil
	}
	g := q.waiting[0]
	n := copy(q.waiting, q.waiting[1:])
	q.waiting[n] = nil
	q.waiting = q.waiting[:n]
	return g
}

// giveBack keeps a group's memory for a later one.
func (q *queue[T]) giveBack(g *group[T]) {
	g.emptyGroup()
	if len(q.spare) < spareGroups {
		q.spare = append(q.spare, g)
	}
}
