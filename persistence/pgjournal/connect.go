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

// application is the session name of the journal's connections. Raise ends only sessions with it.
const application = "purser journal"

// connectionConfig returns the configuration of the pool and of the lanes. It fails only for a URL
// that does not parse.
func connectionConfig(o Options, g *connectBackoff) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("pgjournal: %w", err)
	}
	slack := time.Duration(o.Slack)
	config.MaxConns = int32(o.PoolSize)
	config.PingTimeout = slack * postgres.ConnectTimeout
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return g.checkOpen() }
	c := config.ConnConfig
	c.ConnectTimeout = slack * postgres.ConnectTimeout
	maps.Copy(c.RuntimeParams, sessionSettings(o))
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := checkServer(ctx, conn); err != nil && !o.AllowUnsafe {
			return err
		}
		g.recordSuccess()
		return nil
	}
	return config, nil
}

// sessionSettings returns the parameters of every session. Each query has an index. The other plans
// are off, because the planner chooses them for small tables and for tables without statistics.
func sessionSettings(o Options) map[string]string {
	all := postgres.Settings(application, o.Timeout, o.LockTimeout, time.Duration(o.Slack)*postgres.IdleTimeout)
	for _, plan := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
		all[plan] = "off"
	}
	return all
}

// checkServer fails with ErrUnsafe for a server that may lose commits when it loses power, and with
// the server's error. It runs on every new connection.
func checkServer(ctx context.Context, conn *pgconn.PgConn) error {
	const query = "SELECT current_setting('fsync'), current_setting('full_page_writes'), " +
		"current_setting('synchronous_commit')"
	results, err := conn.Exec(ctx, query).ReadAll()
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

// connectBackoff refuses connections for a pause after a failed one, so that callers fail at once.
type connectBackoff struct {
	mu    sync.Mutex
	pause time.Duration
	until time.Time
}

func (g *connectBackoff) checkOpen() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().Before(g.until) {
		return errBackoff
	}
	return nil
}

// recordFailure starts a pause, twice as long as the last one. Failures during a pause do not
// count.
func (g *connectBackoff) recordFailure() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); !now.Before(g.until) {
		g.pause = min(max(2*g.pause, backoffMin), backoffMax)
		g.until = now.Add(g.pause)
	}
}

func (g *connectBackoff) recordSuccess() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pause, g.until = 0, time.Time{}
}
