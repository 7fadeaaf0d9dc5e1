package persistence

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"purser/persistence/ident"
)

// Limits of one batch besides those in journal.go. They bound the size of a commit in any store.
const (
	MaxBatchBytes = 64 << 20 // bytes of payloads, documents and answers in one batch
	MaxBatchItems = 4096     // records, onces and timers in one batch, each
	MaxName       = 1024     // bytes of one kind, id, key, scope, type or name
)

// Check returns ErrTooLarge, naming the limit, when the batch exceeds a limit, and ErrRefused when
// a name in it cannot be stored by every store. It panics when an item of the batch belongs to
// another shard: this is a bug of the caller, and no read would find the item again.
func (b *Batch) Check(shard ident.Shard) error {
	if len(b.Events) > MaxBatchEvents {
		return tooLarge("events", len(b.Events), MaxBatchEvents)
	}
	if n := max(len(b.Records), len(b.Onces), len(b.Timers)); n > MaxBatchItems {
		return tooLarge("records, onces or timers", n, MaxBatchItems)
	}
	b.mustLiveIn(shard)
	if err := b.checkNames(); err != nil {
		return err
	}
	return b.checkBytes()
}

// mustLiveIn panics when the batch, or a record or timer in it, belongs to another shard.
func (b *Batch) mustLiveIn(shard ident.Shard) {
	in := func(slot ident.Slot, what string) {
		if slot >= ident.Slots || slot.Shard() != shard {
			panic(fmt.Sprintf("BUG: %s of slot %d appended to shard %d", what, slot, shard))
		}
	}
	in(b.Slot, "batch")
	for i := range b.Records {
		in(b.SlotOf(b.Records[i].Slot), "record")
	}
	for i := range b.Timers {
		in(b.SlotOf(b.Timers[i].Slot), "timer")
	}
}

// SlotOf returns the slot of an item of the batch: the item's own, or the batch's when it is zero.
func (b *Batch) SlotOf(slot ident.Slot) ident.Slot {
	if slot == 0 {
		return b.Slot
	}
	return slot
}

// WorkspaceOf returns the workspace of an item of the batch: the item's own, or the batch's when
// it is empty.
func (b *Batch) WorkspaceOf(workspace string) string {
	if workspace == "" {
		return b.Workspace
	}
	return workspace
}

// checkNames fails with ErrTooLarge for a name longer than MaxName bytes, and with ErrRefused for
// one that contains U+0000 or is not UTF-8.
func (b *Batch) checkNames() error {
	longest, bad := 0, false
	see := func(names ...string) {
		for _, name := range names {
			longest = max(longest, len(name))
			bad = bad || strings.IndexByte(name, 0) >= 0 || !utf8.ValidString(name)
		}
	}
	see(b.Workspace)
	for i := range b.Events {
		e := &b.Events[i]
		see(e.ID, e.Workspace, e.Kind, e.Stream, e.Type)
	}
	for i := range b.Records {
		r := &b.Records[i]
		see(r.Kind, r.Workspace, r.Parent, r.ID)
	}
	for i := range b.Onces {
		see(b.Onces[i].Scope)
	}
	for i := range b.Timers {
		t := &b.Timers[i]
		see(t.Kind, t.Stream, t.Key, t.Workspace)
	}
	switch {
	case longest > MaxName:
		return tooLarge("bytes of a name", longest, MaxName)
	case bad:
		return fmt.Errorf("%w: a name with U+0000 or that is not UTF-8", ErrRefused)
	}
	return nil
}

// Bytes returns the bytes of the batch's payloads, documents and stored answers together, and of
// the longest of them. It allocates nothing.
func (b *Batch) Bytes() (total, largest int) {
	count := func(n int) { total, largest = total+n, max(largest, n) }
	for i := range b.Events {
		count(len(b.Events[i].Payload))
	}
	for i := range b.Records {
		count(len(b.Records[i].Document))
	}
	for i := range b.Onces {
		count(len(b.Onces[i].Answer))
	}
	return total, largest
}

// checkBytes fails with ErrTooLarge for a payload, document or answer over MaxPayload bytes, or a
// batch over MaxBatchBytes.
func (b *Batch) checkBytes() error {
	total, largest := b.Bytes()
	if largest > MaxPayload {
		return tooLarge("bytes of a payload", largest, MaxPayload)
	}
	if total > MaxBatchBytes {
		return tooLarge("bytes of a batch", total, MaxBatchBytes)
	}
	return nil
}

func tooLarge(what string, n, limit int) error {
	return fmt.Errorf("%w: %d %s, at most %d", ErrTooLarge, n, what, limit)
}

// PageLimit returns the number of items that a read may return for a requested limit of n. A limit
// that is not positive, or is over MaxPage, becomes MaxPage.
func PageLimit(n int) int {
	if n <= 0 || n > MaxPage {
		return MaxPage
	}
	return n
}
