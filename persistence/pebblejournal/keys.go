package pebblejournal

import (
	"encoding/binary"
	"time"

	"purser/persistence/ident"
)

// The tables. A byte is never given to another table.
const (
	tableMeta    = 'm'
	tableHead    = 'h'
	tableEvent   = 'e'
	tableVersion = 'v'
	tableRecord  = 'r'
	tableList    = 'l'
	tableOnce    = 'o'
	tableExpiry  = 'x'
	tableTimer   = 't'
	tableDue     = 'd'
	tableCursor  = 'c'
	tableMoved   = 'w'
)

const signBit = 1 << 63

func prefix(table byte, shard ident.Shard) []byte {
	return append(make([]byte, 0, 96), table, byte(shard))
}

func appendPart(dst []byte, part string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(part)))
	return append(dst, part...)
}

func appendTime(dst []byte, t time.Time) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Unix())^signBit)
	return binary.BigEndian.AppendUint32(dst, uint32(t.Nanosecond()))
}

// after returns the first key that does not start with the prefix. The tables' bytes are below 0xff, so there is one.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	panic("BUG: no key after prefix")
}

// next returns the first key after key.
func next(key []byte) []byte { return append(key, 0) }

func keyMeta() []byte { return []byte{tableMeta} }

func keyMoved() []byte { return []byte{tableMoved} }

func keyHead(shard ident.Shard) []byte { return prefix(tableHead, shard) }

func keyEvent(shard ident.Shard, position uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(tableEvent, shard), position)
}

func keyVersion(shard ident.Shard, kind, stream string) []byte {
	return append(appendPart(prefix(tableVersion, shard), kind), stream...)
}

func prefixRecord(shard ident.Shard, kind string) []byte {
	return appendPart(prefix(tableRecord, shard), kind)
}

func keyRecord(shard ident.Shard, kind, id string) []byte {
	return append(prefixRecord(shard, kind), id...)
}

func prefixList(shard ident.Shard, kind, workspace, parent string) []byte {
	return appendPart(appendPart(appendPart(prefix(tableList, shard), kind), workspace), parent)
}

func keyList(shard ident.Shard, kind, workspace, parent string, position uint64, ordinal uint32) []byte {
	key := binary.BigEndian.AppendUint64(prefixList(shard, kind, workspace, parent), ^position)
	return binary.BigEndian.AppendUint32(key, ^ordinal)
}

func keyOnce(shard ident.Shard, scope string, hash [32]byte) []byte {
	return append(appendPart(prefix(tableOnce, shard), scope), hash[:]...)
}

func keyExpiry(shard ident.Shard, expires time.Time, scope string, hash [32]byte) []byte {
	return append(appendPart(appendTime(prefix(tableExpiry, shard), expires), scope), hash[:]...)
}

func keyTimer(shard ident.Shard, kind, stream, key string) []byte {
	return append(appendPart(appendPart(prefix(tableTimer, shard), kind), stream), key...)
}

func keyDue(shard ident.Shard, due time.Time, kind, stream, key string) []byte {
	return append(appendPart(appendPart(appendTime(prefix(tableDue, shard), due), kind), stream), key...)
}

func keyCursor(shard ident.Shard, name string) []byte {
	return append(prefix(tableCursor, shard), name...)
}
