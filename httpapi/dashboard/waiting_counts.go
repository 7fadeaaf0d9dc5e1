package dashboard

import (
	"strconv"
	"sync"
	"time"
)

// Limits of the counts that the navigation keeps.
const (
	countsFor     = 5 * time.Second // a count is this old at most
	maxCountsKept = 1000            // workspaces and roles; one more drops all
)

// waitingCounts keeps the numbers of waiting records by workspace and role, because counting reads
// lists. Its methods are safe for concurrent use.
type waitingCounts struct {
	mu   sync.Mutex
	kept map[[2]string]keptCounts // by workspace and role
}

type keptCounts struct {
	at     time.Time
	counts map[string]string // by section
}

// readCounts returns the counts of a visit by section: those that the page has read, or else kept ones. A
// count that cannot be read is left
// out, because a page is worth more than its counts.
func (w *waitingCounts) readCounts(v *visit) map[string]string {
	key := [2]string{v.Workspace, v.Role}
	w.mu.Lock()
	kept, known := w.kept[key]
	w.mu.Unlock()
	if age := v.Now.Sub(kept.at); known && v.waits == nil && age >= 0 && age < countsFor {
		return kept.counts
	}
	counts := map[string]string{}
	for section := range waiting {
		stats, err := v.waitingIn(section)
		if err != nil {
			return nil
		}
		count, more := 0, ""
		for _, s := range stats {
			count += s.Count
			if s.Uncounted {
				more = "+"
			}
		}
		if count > 0 {
			counts[section] = strconv.Itoa(count) + more
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept == nil || len(w.kept) >= maxCountsKept {
		w.kept = map[[2]string]keptCounts{}
	}
	w.kept[key] = keptCounts{v.Now, counts}
	return counts
}

// dropCounts forgets the counts of a visit, which has changed something.
func (w *waitingCounts) dropCounts(v *visit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.kept, [2]string{v.Workspace, v.Role})
}
