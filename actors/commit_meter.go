package actors

import (
	"context"
	"sync/atomic"

	"purser/persistence"
)

// CommitMeter counts the bytes that the commands of one request commit: payloads of events,
// documents of records and stored answers. An entity commits its whole state with each change, so a
// short request can write much. It is safe for concurrent use.
type CommitMeter struct{ bytes atomic.Int64 }

// meterKey is the key of a context's CommitMeter.
type meterKey struct{}

// WithCommitMeter returns a context whose commands count in a meter. The HTTP server makes one for
// each request that its limits of bytes apply to.
func WithCommitMeter(ctx context.Context, meter *CommitMeter) context.Context {
	return context.WithValue(ctx, meterKey{}, meter)
}

// Bytes returns the bytes of the batches that the request's commands have submitted so far. A batch
// that is refused or decided again counts too, because encoding it takes the same time.
func (m *CommitMeter) Bytes() int { return int(m.bytes.Load()) }

// countCommit adds a batch to the meter of a command's context. Commands of the relay, of timers
// and of reactions have none. It allocates nothing.
func countCommit(ctx context.Context, batch *persistence.Batch) {
	if meter, ok := ctx.Value(meterKey{}).(*CommitMeter); ok {
		total, _ := batch.Bytes()
		meter.bytes.Add(int64(total))
	}
}
