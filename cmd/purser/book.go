package main

import (
	"context"
	"time"

	"purser/persistence/book"
	"purser/persistence/consumer"
)

// bookWithin bounds how long a start waits for the book to be made.
const bookWithin = 10 * time.Second

// openBook makes the consumer that keeps the ledger in tables of Postgres. A journal in the data
// directory has none, and openBook returns nil. It fails for an unusable database URL; a database
// that does not answer is only logged.
func openBook(ctx context.Context, m *daemon) (consumer.Handler, error) {
	if m.config.DatabaseURL == "" {
		return nil, nil
	}
	b, err := book.Open(ctx, book.Options{URL: m.config.DatabaseURL, Identity: m.journal.Identity(), Slack: m.config.Slack,
		Note: func(err error) { m.log.Warn("how far the book is handled is not written", "err", err) }})
	if err != nil {
		return nil, err
	}
	m.cleanup.push(b.Close)
	within, cancel := context.WithTimeout(ctx, time.Duration(m.config.Slack)*bookWithin)
	defer cancel()
	if err := b.Prepare(within); err != nil {
		m.log.Warn("the book is not there; its consumer tries again, and nothing else needs it", "err", err)
	}
	return b, nil
}
