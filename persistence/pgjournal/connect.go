package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"purser/persistence/postgres"
)

// application is the name under which the journal's connections are seen; Raise ends only those that have it.
const application = "purser journal"

// configure returns how to connect, for the pool and for the lanes.
func configure(o Options, g *gate) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("pgjournal: %w", err)
	}
	slack := time.Duration(o.Slack)
	config.MaxConns = int32(o.PoolSize)
	config.PingTimeout = slack * postgres.ConnectTimeout
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return g.check() }
	c := config.ConnConfig
	c.ConnectTimeout = slack * postgres.ConnectTimeout
	maps.Copy(c.RuntimeParams, settings(slack))
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := checkServer(ctx, conn); err != nil && !o.AllowUnsafe {
			return err
		}
		g.worked()
		return nil
	}
	return config, nil
}

// settings are what every session runs with. All that the journal asks is found by an index; what the planner would rather do
// with tables it believes to be small, or has no statistics of, is switched off, so that a plan is the same on the first day and
// later.
func settings(slack time.Duration) map[string]string {
	all := postgres.Settings(application, slack*queryTimeout, slack*lockTimeout, slack*postgres.IdleTimeout)
	for _, plan := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
		all[plan] = "off"
	}
	return all
}

// checkServer refuses a server that forgets what it has committed when it loses power.
func checkServer(ctx context.Context, conn *pgconn.PgConn) error {
	const ask = "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')"
	results, err := conn.Exec(ctx, ask).ReadAll()
	if err != nil {
		return err
	}
	for i, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if value := string(results[0].Rows[0][i]); value != "on" {
			return fmt.Errorf("%w: %s is %s", ErrUnsafe, name, value)
		}
	}
	return nil
}

var errBackoff = errors.New("server could not be reached a moment ago")

// gate keeps callers from a server that cannot be reached: after a failed connection they are refused at once for a while.
type gate struct {
	mu    sync.Mutex
	pause time.Duration
	until time.Time
}

func (g *gate) check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().Before(g.until) {
		return errBackoff
	}
	return nil
}

// failed is told of every connection that could not be made. Those that were under way at the same time count once.
func (g *gate) failed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); !now.Before(g.until) {
		g.pause = min(max(2*g.pause, backoffMin), backoffMax)
		g.until = now.Add(g.pause)
	}
}

func (g *gate) worked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pause, g.until = 0, time.Time{}
}
