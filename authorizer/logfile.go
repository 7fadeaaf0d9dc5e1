package authorizer

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// zeroedLogs makes each new write-ahead log as long as it will get, of zeros, and syncs it before its first record. A sync of a
// file that grows writes the file's length and its new blocks to the file system's journal as well, and takes up to twice as long
// as one over blocks that are there. Pebble uses old logs again, which are long enough from then on; so this costs a few writes
// of zeros after a start, and nothing later. Zeros are no record: a log ends for its reader where they begin.
type zeroedLogs struct {
	FS
	bytes int
}

// Create is vfs.FS's.
func (z zeroedLogs) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := z.FS.Create(name, category)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	_, err = f.Write(make([]byte, z.bytes))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	return z.OpenReadWrite(name, category)
}
