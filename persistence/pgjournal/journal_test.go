package pgjournal_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"purser/persistence"
	"purser/persistence/journaltest"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// databases are on the one server of this test binary, which runs without fsync.
var databases *pgtest.Templates

func TestMain(m *testing.M) {
	build := func(url string) error { return pgjournal.Migrate(context.Background(), url) }
	os.Exit(pgtest.Main("the journal over Postgres", build, func(t *pgtest.Templates) int {
		databases = t
		before := goleak.IgnoreCurrent() // the goroutine that waits for the server
		code := m.Run()
		if err := journaltest.Leaked(before); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}))
}

// slack is the factor of timeouts on a machine that stalls, or is twenty times slower than another.
const slack = 12

// fastOptions returns the options of tests that do not test durability.
func fastOptions(url string) pgjournal.Options {
	return pgjournal.Options{URL: url, AllowUnsafe: true, Slack: slack, CursorInterval: cursorInterval}
}

// cursorInterval is the interval of tests that wait for cursors; never is longer than any test.
const (
	cursorInterval = 10 * time.Millisecond
	never          = time.Hour
)

func open(t journaltest.T, o pgjournal.Options) *pgjournal.Journal {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	j, err := pgjournal.Open(ctx, o)
	require.NoError(t, err)
	return j
}

// modelHistories is how many random histories TestContract checks against the contract's model.
// Each has a database of its own. `make model` checks 1,000.
const modelHistories = "10"

func TestContract(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		require.NoError(t, checks.Value.Set(modelHistories))
		t.Cleanup(func() { require.NoError(t, checks.Value.Set(checks.DefValue)) })
	}
	journaltest.Run(t, func(t journaltest.T) journaltest.Reopen {
		o := fastOptions(databases.Database(t.(pgtest.T)))
		return func() persistence.Journal { return open(t, o) }
	})
}
