package actors

import "context"

// Settle waits until every decision is relayed and every committed rule followed. It fails only
// when the context ends first.
func (s *System) Settle(ctx context.Context) error {
	if err := s.RelayAll(ctx); err != nil {
		return err
	}
	for _, sh := range s.shards {
		if err := sh.followed.wait(ctx, s.journal.Head(sh.id).Position); err != nil {
			return err
		}
	}
	return nil
}

// Waiting returns the number of answers that wait for the follower or the relay.
func (s *System) Waiting() (n int) {
	for _, sh := range s.shards {
		n += sh.followed.waiters() + sh.relayed.waiters()
	}
	return n
}

// waiters returns the number of registered waiters.
func (p *progress) waiters() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}
