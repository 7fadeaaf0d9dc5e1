package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/settings"
	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/kafka"
	"purser/persistence/pgjournal/pgtest"
)

// testDataKey is the data key of servers whose journal is in a database.
var testDataKey = strings.Repeat("5e", settings.DataKeyBytes)

// databaseConfig returns the configuration of a server with free ports, no rate limits, and its
// journal in a database.
func databaseConfig(t *testing.T, data, url string, brokers ...string) settings.Config {
	t.Helper()
	s := defaults(t)
	s.HTTPAddr, s.AuthorizerAddr, s.AdminAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s.DataDir, s.SandboxDelay, s.AuthorizerCache = data, "50ms", "16MiB"
	s.AnswerWithin, s.PasswordNice, s.Slack = patientAnswer, "0", mostSlack
	s.DataKey, s.DatabaseURL, s.KafkaBrokers, s.RateLimits = testDataKey, url, strings.Join(brokers, ","), "off"
	c, err := s.Config()
	require.NoError(t, err)
	return c
}

// startServerWithClient starts a server and returns it with a client of its ports. It does not wait
// for the journal. The end of the test closes the server, if nothing does before.
func startServerWithClient(t *testing.T, c settings.Config) (*daemon, *process) {
	t.Helper()
	m := newDaemon(c, debugLogger())
	return m, m.startWithClient(t)
}

// startWithClient is startServerWithClient for a server that the test has prepared.
func (m *daemon) startWithClient(t *testing.T) *process {
	t.Helper()
	require.NoError(t, m.Start(t.Context()))
	stop := sync.OnceValue(m.Close)
	t.Cleanup(func() { require.NoError(t, stop()) })
	p := &process{rest: "http://" + m.listeners.http.Addr().String(), network: "http://" + m.listeners.authorizer.Addr().String(),
		admin: "http://" + m.listeners.admin.Addr().String(), secret: m.config.NetworkSecrets[0], stop: stop,
		http: &http.Client{Timeout: processTimeout, Transport: responseJudge.Through(&http.Transport{})}}
	t.Cleanup(p.http.CloseIdleConnections)
	return p
}

func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	p.await(t, "readiness", func() bool { return p.adminPage("/readyz") != "" })
}

// awaitNotReady waits until readiness names a reason, and requires that health and metrics agree.
func (p *process) awaitNotReady(t *testing.T, m *daemon, why string) {
	t.Helper()
	p.await(t, why, func() bool {
		status, text := m.adminPage(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, why)
	})
	status, _ := m.adminPage(t, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Zero(t, m.scrape(t)["purser_ready"])
	require.Zero(t, m.scrape(t)["purser_journal_up"])
}

// maxSwipes is the number of swipes that requireApproval tries.
const maxSwipes = 20

// requireApproval sends an authorization and requires its approval. A timeout of a busy machine
// declines an authorization for good, so requireApproval then sends another one. It returns the
// network id of the approved one.
func (p *process) requireApproval(t *testing.T, token, prefix string) (id string) {
	t.Helper()
	var a apiclient.Answer
	for n := 0; n == 0 || a.Text("reason") == "timeout" && n < maxSwipes; n++ {
		id = fmt.Sprint(prefix, "-", n)
		var err error
		a, err = p.client(p.network, p.secret).Send(t.Context(),
			apiclient.Request{Method: "POST", Path: "/v1/authorizations",
				Body: marshal(fields{"id": id, "cardToken": token, "amountCents": 100, "currency": "USD",
					"merchant": fields{"name": "Cafe", "mcc": "5812"}})})
		require.NoError(t, err)
		require.Equal(t, 200, a.Status, string(a.Raw))
	}
	require.Equal(t, "approved", a.Text("decision"), string(a.Raw))
	return id
}

// requireAllUnavailable sends reads, a command and a login, and requires that each is answered 503.
func (p *process) requireAllUnavailable(t *testing.T, bearer string) {
	t.Helper()
	p.requireUnavailable(t, bearer,
		apiclient.Request{Method: "GET", Path: "/api/treasury"}, apiclient.Request{Method: "GET", Path: "/api/cards"},
		apiclient.Request{Method: "POST", Path: "/api/cards", IdempotencyKey: apiclient.NewIdempotencyKey(),
			Body: marshal(cardRequest())},
		apiclient.Request{Method: "POST", Path: "/api/dashboard/login",
			Body: marshal(fields{"email": "nobody@example.com",
				"password": "a long password"})})
}

func (p *process) requireUnavailable(t *testing.T, bearer string, requests ...apiclient.Request) {
	t.Helper()
	for _, r := range requests {
		a, err := p.client(p.rest, bearer).Send(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, 503, a.Status, "%s: %s", r.Path, a.Raw)
		require.Equal(t, "unavailable", a.Text("error"), r.Path)
	}
}

// requireCleanAudit audits the stores of a server and requires that they agree.
func requireCleanAudit(t *testing.T, c settings.Config) {
	t.Helper()
	var out strings.Builder
	require.NoError(t, run([]string{"audit", "--data-dir", c.DataDir, "--database-url", c.DatabaseURL}, &out),
		out.String())
	require.Contains(t, out.String(), "agree to the cent")
}

// TestSwipesOutliveTheDatabase starts a server while its database is down, and crashes the database
// of a running server. Swipes are approved in both cases.
func TestSwipesOutliveTheDatabase(t *testing.T) {
	onlyInFullLength(t)
	database := pgtest.Own(t, "the program while its database is away", true)
	if database == nil {
		return
	}
	config := databaseConfig(t, t.TempDir(), database.URL("postgres"), "127.0.0.1:1") // no Kafka listens there
	_, p := startServerWithClient(t, config)
	p.awaitReady(t)
	w := newWitness(t, p)
	rich := w.tenants[len(w.tenants)-1]
	token := rich.restClients[0].token
	require.NoError(t, p.stop())
	require.NoError(t, database.Crash())

	m, p := startServerWithClient(t, config)
	p.awaitNotReady(t, m, "the journal: ")
	swiped := []string{p.requireApproval(t, token, "while-away-1")}
	p.requireAllUnavailable(t, rich.bearer)
	require.Positive(t, m.scrape(t)["purser_backlog_entries"])
	require.NoError(t, database.Restart())
	p.awaitReady(t)
	p.awaitEmptyBacklog(t)
	p.await(t, "the journal", func() bool { return m.scrape(t)["purser_journal_up"] == 1 })
	requireCleanAudit(t, config)

	require.NoError(t, database.Crash())
	swiped = append(swiped, p.requireApproval(t, token, "while-away-2"))
	p.requireAllUnavailable(t, rich.bearer)
	p.awaitNotReady(t, m, "the journal does not answer")
	swiped = append(swiped, p.requireApproval(t, token, "while-away-3"))
	require.NoError(t, database.Restart())
	p.awaitReady(t)
	p.awaitEmptyBacklog(t)
	require.Zero(t, m.scrape(t)["purser_publisher_up"])
	require.Positive(t, m.scrape(t)["purser_outbox_lag_events"])
	seen := w.listAuthorizations(t, p, rich, func(map[string]listedAuthorization) bool { return false })
	for _, id := range swiped {
		require.Contains(t, seen, id)
	}
	require.NoError(t, p.stop())
	requireCleanAudit(t, config)
}

// silentDatabaseTimeout is the client's timeout while the database does not answer. The server
// refuses a request after about five seconds, and later on a slow machine.
const silentDatabaseTimeout = 30 * time.Second

// TestRequestsAreRefusedWhileTheDatabaseIsSilent suspends the database: its connections stay open
// and nothing is answered. A request is answered 503 within silentDatabaseTimeout, and swipes are
// approved.
func TestRequestsAreRefusedWhileTheDatabaseIsSilent(t *testing.T) {
	onlyInFullLength(t)
	t.Parallel()
	database := pgtest.Own(t, "the program on a database that does not answer", true)
	if database == nil {
		return
	}
	config := databaseConfig(t, t.TempDir(), database.URL("postgres"))
	m, p := startServerWithClient(t, config)
	p.awaitReady(t)
	w := newWitness(t, p)
	rich := w.tenants[len(w.tenants)-1]
	p.awaitEmptyBacklog(t)
	require.NoError(t, database.Pause())
	p.requireApproval(t, rich.restClients[0].token, "silence-1")
	began := time.Now()
	hasty := &process{rest: p.rest, http: &http.Client{Timeout: silentDatabaseTimeout, Transport: p.http.Transport}}
	hasty.requireUnavailable(t, rich.bearer, // only a timeout of the server itself can end this request
		apiclient.Request{Method: "POST", Path: "/api/cards", IdempotencyKey: apiclient.NewIdempotencyKey(),
			Body: marshal(cardRequest())})
	t.Logf("a request was refused after %v", time.Since(began))
	p.awaitNotReady(t, m, "the journal does not answer")
	p.requireApproval(t, rich.restClients[0].token, "silence-2")
	require.NoError(t, database.Resume())
	p.awaitReady(t)
	p.awaitEmptyBacklog(t)
	require.NoError(t, p.stop())
	requireCleanAudit(t, config)
}

// TestTheFirstStartWaitsForItsDatabase: before its first connection to the journal, a server knows
// no deployment and answers swipes and requests with 503.
func TestTheFirstStartWaitsForItsDatabase(t *testing.T) {
	database := pgtest.Own(t, "the first start without its database", true)
	if database == nil {
		return
	}
	require.NoError(t, database.Stop())
	config := databaseConfig(t, t.TempDir(), database.URL("postgres"))
	m, p := startServerWithClient(t, config)
	p.awaitNotReady(t, m, "the journal: ")
	a, err := p.client(p.network, p.secret).Send(t.Context(),
		apiclient.Request{Method: "POST", Path: "/v1/authorizations",
			Body: marshal(fields{"id": "early", "cardToken": "ctok_x", "amountCents": 100, "currency": "USD",
				"merchant": fields{"name": "Cafe", "mcc": "5812"}})})
	require.NoError(t, err)
	require.Equal(t, 503, a.Status, string(a.Raw))
	p.requireAllUnavailable(t, "apk_none")
	require.NotContains(t, m.scrape(t), "purser_backlog_entries",
		"metrics of an authorizer before the first connection to the journal")
	require.NoError(t, database.Restart())
	p.awaitReady(t)
	require.NoError(t, p.stop())
	require.NoError(t, database.Stop())
	m, p = startServerWithClient(t, config)
	p.awaitNotReady(t, m, "the journal: ")
	require.NoError(t, p.stop(), "stop of a server that waits for its journal")
}

// TestAnotherDatabaseIsRefused starts on a database of another deployment, and on an empty one.
func TestAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "the program on another's database", true)
	if database == nil {
		return
	}
	mine, theirs := t.TempDir(), t.TempDir()
	for data, name := range map[string]string{mine: "mine", theirs: "theirs"} {
		_, p := startServerWithClient(t, databaseConfig(t, data, createDatabase(t, database, name)))
		p.awaitReady(t)
		require.NoError(t, p.stop())
	}
	for name, why := range map[string]string{"theirs": "is not that of", "empty": "has no journal"} {
		url := database.URL(name)
		if name == "empty" {
			url = createDatabase(t, database, name)
		}
		m, p := startServerWithClient(t, databaseConfig(t, mine, url))
		require.ErrorContains(t, <-m.Failed(), why)
		require.NoError(t, p.stop())
	}
	_, p := startServerWithClient(t, databaseConfig(t, mine, database.URL("mine")))
	p.awaitReady(t)
}

func createDatabase(t *testing.T, server *pgtest.Server, name string) (url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	return server.URL(name)
}

// countingConsumer is a consumer that stores its position in each shard. While refuse is set, it
// fails.
type countingConsumer struct {
	mu        sync.Mutex
	positions [ident.Shards]uint64
	refuse    bool
}

func (r *countingConsumer) Position(_ context.Context, shard ident.Shard) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.positions[shard], nil
}

func (r *countingConsumer) Handle(_ context.Context, shard ident.Shard, events []persistence.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.refuse:
		return persistence.ErrUnavailable
	case events[0].Position != r.positions[shard]+1:
		return consumer.ErrMoved
	}
	r.positions[shard] += uint64(len(events))
	return nil
}

func (r *countingConsumer) setRefusing(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = is
}

// TestTheProgramOnEveryStore runs the demo on all four combinations of stores, with a consumer that
// fails at first.
func TestTheProgramOnEveryStore(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "the program on Postgres", true)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	brokers := cluster.ListenAddrs()
	for _, c := range []struct {
		name  string
		url   bool
		kafka []string
	}{{"directory", false, nil}, {"directory and Kafka", false, brokers}, {"Postgres", true, nil},
		{"Postgres and Kafka", true, brokers}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := ""
			if c.url {
				if database == nil {
					return
				}
				url = createDatabase(t, database, fmt.Sprintf("stores_%d", len(c.kafka)))
			}
			demoWithFailingConsumer(t, databaseConfig(t, t.TempDir(), url, c.kafka...))
		})
	}
}

func demoWithFailingConsumer(t *testing.T, config settings.Config) {
	r := &countingConsumer{refuse: true}
	m := newDaemon(config, debugLogger())
	m.consumers = append(m.consumers,
		namedConsumer{"left-out", func(context.Context, *daemon) (consumer.Handler, error) { return nil, nil }},
		namedConsumer{"reader", func(context.Context, *daemon) (consumer.Handler, error) { return r, nil }})
	require.NoError(t, m.Start(t.Context()))
	defer func() { require.NoError(t, m.Close()) }()
	p := m.adminClient()
	p.awaitReady(t)
	passDemo(t, config.DataDir)
	require.NoError(t, m.system.RelayAll(t.Context()))
	p.await(t, "a failure", func() bool { return m.scrape(t)["purser_consumer_failing_shards"] > 0 })
	require.Positive(t, m.scrape(t)["purser_consumer_lag_events"])
	r.setRefusing(false)
	p.await(t, "the consumer", func() bool { return m.scrape(t)["purser_consumer_lag_events"] == 0 })
	p.await(t, "purser_consumer_failing_shards 0",
		func() bool { return m.scrape(t)["purser_consumer_failing_shards"] == 0 })
	p.awaitReady(t)
	after := m.scrape(t)
	require.Positive(t, after["purser_consumer_events_total"])
	require.Positive(t, after["purser_consumer_failures_total"])
	if len(config.Kafka.Brokers) > 0 {
		p.await(t, "the outbox", func() bool { return m.scrape(t)["purser_outbox_lag_events"] == 0 })
		p.await(t, "the publisher", func() bool { return m.scrape(t)["purser_publisher_up"] == 1 })
		require.Positive(t, m.scrape(t)["purser_published_total"])
	} else {
		require.NotContains(t, after, "purser_publisher_up")
	}
	requireCleanAudit(t, config)
}

// TestProvisioning creates the schema and the topic by command, before any server.
func TestProvisioning(t *testing.T) {
	say := func(args ...string) string {
		var out strings.Builder
		require.NoError(t, run(args, &out), out.String())
		return out.String()
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer cluster.Close()
	for range 2 {
		require.Contains(t, say("topics", "--kafka-brokers", cluster.ListenAddrs()[0]),
			kafka.DefaultTopic+" has 32 partitions")
	}
	require.ErrorContains(t, run([]string{"topics", "--kafka-brokers", ""}, &strings.Builder{}),
		"KAFKA_BROKERS is not set")
	require.ErrorContains(t, run([]string{"topics", "--kafka-brokers", "nowhere"}, &strings.Builder{}),
		"is not host:port")
	require.ErrorContains(t, run([]string{"migrate", "--database-url", ""}, &strings.Builder{}),
		"DATABASE_URL is not set")
	database := pgtest.Own(t, "purser migrate", true)
	if database == nil {
		return
	}
	require.Contains(t, say("migrate", "--database-url", database.URL("postgres")),
		"the schema went from version 0 to ")
	require.Contains(t, say("migrate", "--database-url", database.URL("postgres")), " already")
}

// A Postgres whose disk is full answers reads and refuses commits. Readiness then names the disk,
// and swipes are still approved. A trigger that fails simulates the full disk.
func TestReadinessNamesTheFullDiskOfPostgres(t *testing.T) {
	database := pgtest.Own(t, "the program on a full database", true)
	if database == nil {
		return
	}
	url := createDatabase(t, database, "full_disk")
	m, p := startServerWithClient(t, databaseConfig(t, t.TempDir(), url))
	p.awaitReady(t)
	v := newTenantWithHold(t, p)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	execute := func(sql string) {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	execute(`CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$`)
	execute(`CREATE TRIGGER fill BEFORE UPDATE ON journal_shard FOR EACH ROW EXECUTE FUNCTION fill()`)
	p.requireApproval(t, v.token, "full") // the relay meets the full disk
	p.await(t, "the reason", func() bool {
		status, text := m.adminPage(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "the disk of Postgres is full")
	})
	p.requireApproval(t, v.token, "still")
	execute(`DROP TRIGGER fill ON journal_shard`)
	p.awaitReady(t)
	p.awaitEmptyBacklog(t)
}
