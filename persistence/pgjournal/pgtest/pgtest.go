// Package pgtest gives tests a real Postgres: one server of its own per test binary, in a temporary directory, at a loopback
// address of its own, and one database per test, cloned from a template. DATABASE_URL_TEST names another server to use instead;
// it must allow CREATE DATABASE.
//
// A server of the package is the binary's child and goes with it. It is stopped, killed and paused by its process id alone.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrAbsent: this machine has no Postgres.
var ErrAbsent = errors.New("no Postgres: neither DATABASE_URL_TEST nor initdb and postgres, in PATH or /usr/lib/postgresql")

// Bounds of waiting for a server.
const (
	startTimeout = time.Minute
	startPoll    = 10 * time.Millisecond
	stopTimeout  = time.Minute
	maxSessions  = 200
	maxStarts    = 10     // ports that a server is started on until one is free
	maxBuilds    = 3      // tries to make the template
	firstPort    = 20_000 // below those that a kernel gives away by itself, as the last is
	spread       = 1000   // processes that begin at different ports
)

// objectInUse is Postgres's code for a database that sessions have not left yet.
const objectInUse = "55006"

// ports counts the ports that this process has used at its address.
var ports atomic.Int32

// Server is a Postgres that was started here.
type Server struct {
	bin, dir string
	host     string
	port     int
	durable  bool
	as       *syscall.SysProcAttr
	process  *exec.Cmd
	exited   chan struct{}
	logged   int64 // bytes of the log that are of earlier starts
}

// Start makes a data directory and starts a server on it. One that is not durable runs without fsync: it is faster, and a crash
// of it means nothing.
func Start(durable bool) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, host: ownHost(), durable: durable, as: &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}}
	if s.dir, err = os.MkdirTemp("", "purser-pg-"); err != nil {
		return nil, err
	}
	if err = s.prepare(); err == nil {
		err = s.first()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

// first starts the server on a port that nobody has.
func (s *Server) first() (err error) {
	for range maxStarts {
		s.port = port(ports.Add(1))
		if err = s.Restart(); !errors.Is(err, errTaken) {
			return err
		}
	}
	return err
}

// errTaken: somebody listens where the server is to.
var errTaken = errors.New("the address is in use")

// port is the n-th port of this process. Where processes share an address, each begins elsewhere.
func port(n int32) int { return firstPort + os.Getpid()%spread*maxStarts + int(n) }

// ownHost is the loopback address of this process. No other process listens there, and nothing that connects comes from there: a
// server that is down for a while finds its port free. Where the machine has but one loopback address it is that.
func ownHost() string {
	pid := os.Getpid()
	return hostOr(fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&0x7f, pid>>8&0xff, pid&0xff), "127.0.0.1")
}

// hostOr returns the host when it can be listened on here, and the other when not.
func hostOr(host, other string) string {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return other
	}
	_ = listener.Close() // nobody has connected
	return host
}

// find returns the directory of the server's programs.
func find() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", ErrAbsent
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// prepare runs initdb, as another user when this one is root: Postgres refuses root.
func (s *Server) prepare() error {
	if err := s.unprivileged(); err != nil {
		return err
	}
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "--pgdata", s.data(), "--username", "purser", "--auth", "trust",
		"--no-locale", "--encoding", "UTF8", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = s.as, s.dir
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	return nil
}

func (s *Server) unprivileged() error {
	if os.Getuid() != 0 {
		return nil
	}
	other, err := user.Lookup("postgres")
	if err != nil {
		if other, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, err := strconv.Atoi(other.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(other.Gid)
	if err != nil {
		return err
	}
	s.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, uid, gid)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Restart starts the server that was stopped, on the same data and address, and waits until it answers.
func (s *Server) Restart() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	if s.logged, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	arguments := []string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-k", "", "-h", s.host,
		"-c", "max_connections=" + strconv.Itoa(maxSessions)}
	if !s.durable {
		arguments = append(arguments, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	s.process = exec.Command(filepath.Join(s.bin, "postgres"), arguments...)
	s.process.SysProcAttr, s.process.Dir = s.as, s.dir
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		return err
	}
	s.exited = make(chan struct{})
	go func(process *exec.Cmd, exited chan struct{}) {
		_ = process.Wait() // how it ended is in the log
		close(exited)
	}(s.process, s.exited)
	return s.await()
}

// await waits until the server takes connections: after a crash it first recovers. Who else answers there is not waited for.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	exited := s.exited // that of this start
	go func() {
		select {
		case <-exited:
			cancel() // nobody waits for whoever has the address
		case <-ctx.Done():
		}
	}()
	ticker := time.NewTicker(startPoll)
	defer ticker.Stop()
	for {
		err := s.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			select {
			case <-exited:
				return s.ended()
			default:
				return fmt.Errorf("postgres does not answer: %w: %s", err, s.log())
			}
		}
	}
}

// ended tells why the server has ended by itself.
func (s *Server) ended() error {
	log := s.log()
	if strings.Contains(log, "could not create any TCP/IP sockets") {
		return fmt.Errorf("%w: %s", errTaken, log)
	}
	return fmt.Errorf("postgres ended: %s", log)
}

// answers tells whether a session can be had, of this server.
func (s *Server) answers(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	var data string
	err = conn.QueryRow(ctx, "SHOW data_directory").Scan(&data)
	if err == nil && data != s.data() {
		err = fmt.Errorf("another server answers, whose data is in %s", data)
	}
	return errors.Join(err, conn.Close(ctx))
}

// log is what the server has said since it was last started.
func (s *Server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[s.logged:])
}

// URL returns how to reach a database of the server.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://purser@%s/%s?sslmode=disable", s.address(), database)
}

func (s *Server) address() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// Stop ends the server in order: it ends its sessions and writes a checkpoint.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Crash ends the server at once, as pg_ctl stop -m immediate does: what is in memory alone is lost.
func (s *Server) Crash() error { return s.end(syscall.SIGQUIT) }

func (s *Server) end(signal syscall.Signal) error {
	if err := s.process.Process.Signal(signal); err != nil {
		return err
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("postgres does not stop: %s", s.log())
	}
}

// Pause freezes the server and its sessions: connections stand, nothing is answered. Resume lets them go on.
func (s *Server) Pause() error { return s.signalAll(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.signalAll(syscall.SIGCONT) }

func (s *Server) signalAll(signal syscall.Signal) error {
	parent := s.process.Process.Pid
	// The parent first, so that it starts no child that is missed.
	if err := syscall.Kill(parent, signal); err != nil {
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err != nil {
		return err
	}
	for _, field := range strings.Fields(string(children)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		if err := syscall.Kill(child, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// Close crashes the server and removes its data.
func (s *Server) Close() error {
	select {
	case <-s.exited:
		return os.RemoveAll(s.dir)
	default:
		return errors.Join(s.Resume(), s.Crash(), os.RemoveAll(s.dir)) // a paused server does not hear of the crash
	}
}

// Templates makes databases by cloning: the first has to be built, the others are copies of its files.
type Templates struct {
	admin  string
	build  func(url string) error
	once   sync.Once
	err    error
	name   string
	server *Server
	next   atomic.Int64
}

// Main runs the tests of a package that needs Postgres and returns the exit code. build makes the template in an empty database.
// When the machine has no Postgres it says what is left out and the tests pass; with CI=true they fail.
func Main(what string, build func(url string) error, run func(*Templates) int) int {
	t := &Templates{admin: os.Getenv("DATABASE_URL_TEST"), build: build}
	if t.admin == "" {
		server, err := Start(false)
		if err != nil {
			return absent(os.Stdout, what, err)
		}
		t.server, t.admin = server, server.URL("postgres")
	}
	if _, err := url.Parse(t.admin); err != nil || !strings.HasPrefix(t.admin, "postgres") {
		fmt.Fprintln(os.Stderr, "pgtest: DATABASE_URL_TEST is not of the form postgres://user@host/database")
		return 1
	}
	code := run(t)
	if err := t.close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(code, 1)
	}
	return code
}

func absent(w io.Writer, what string, err error) int {
	fmt.Fprintf(w, "left out, %s: %v\n", what, err)
	if os.Getenv("CI") == "true" || !errors.Is(err, ErrAbsent) {
		return 1
	}
	return 0
}

func (t *Templates) close() error {
	var err error
	if t.name != "" {
		err = t.admins("DROP DATABASE IF EXISTS " + t.name)
	}
	if t.server != nil {
		err = errors.Join(err, t.server.Close())
	}
	return err
}

// admins runs statements on the server itself. A database that is in use still is waited for: sessions that were ended, or whose
// client has just gone, are there for a moment.
func (t *Templates) admins(statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, t.admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		var refusal *pgconn.PgError
		for {
			_, err = conn.Exec(ctx, sql)
			if !errors.As(err, &refusal) || refusal.Code != objectInUse {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// Own starts a server for one test that stops and crashes it. It goes with the test. It is nil, after a line that says so, when
// the machine has none; with CI=true the test fails.
func Own(test T, what string, durable bool) *Server {
	test.Helper()
	server, err := Start(durable)
	if err != nil {
		if absent(os.Stdout, what, err) != 0 {
			must(test, err)
		}
		return nil
	}
	test.Cleanup(func() { must(test, server.Close()) })
	return server
}

// T is what a test has to offer.
type T interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	FailNow()
}

// Empty returns the URL of a fresh database without tables. It goes with the test.
func (t *Templates) Empty(test T) string {
	test.Helper()
	return t.create(test, "template0")
}

// Database returns the URL of a fresh clone of the template. It goes with the test.
func (t *Templates) Database(test T) string {
	test.Helper()
	t.once.Do(func() {
		t.name = fmt.Sprintf("purser_template_%d", os.Getpid())
		for range maxBuilds { // what builds it may have given up on a machine that stood still
			t.err = t.admins("DROP DATABASE IF EXISTS "+t.name+" WITH (FORCE)", "CREATE DATABASE "+t.name)
			if t.err == nil {
				t.err = t.build(t.url(t.name))
			}
			if t.err == nil {
				break
			}
		}
	})
	must(test, t.err)
	return t.create(test, t.name)
}

func (t *Templates) create(test T, template string) string {
	test.Helper()
	name := fmt.Sprintf("purser_test_%d_%d", os.Getpid(), t.next.Add(1))
	must(test, t.admins("CREATE DATABASE "+name+" TEMPLATE "+template))
	test.Cleanup(func() { must(test, t.admins("DROP DATABASE "+name+" WITH (FORCE)")) })
	return t.url(name)
}

func must(test T, err error) {
	test.Helper()
	if err != nil {
		test.Errorf("pgtest: %v", err)
		test.FailNow()
	}
}

// url is the server's, with another database.
func (t *Templates) url(database string) string {
	u, err := url.Parse(t.admin)
	if err != nil {
		panic(fmt.Sprintf("BUG: Main has let through what is no URL: %v", err))
	}
	u.Path = "/" + database
	return u.String()
}
