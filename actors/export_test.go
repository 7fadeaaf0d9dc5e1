package actors

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
