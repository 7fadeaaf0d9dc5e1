// Package pgtest gives tests a real Postgres: one server per test binary, in a temporary directory
// and at its own loopback address, and one database per test, cloned from a template.
// DATABASE_URL_TEST names another server to use instead; it must allow CREATE DATABASE.
//
// The server is a child of the test binary and ends with it. It is stopped, killed and paused by
// its process id alone. The data of a server without fsync is in a file system in memory where the
// machine has one: a clone of the template is several hundred new files.
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

// ErrAbsent: the machine has no Postgres.
var ErrAbsent = errors.New("no Postgres: neither DATABASE_URL_TEST nor initdb and postgres, in PATH or /usr/lib/postgresql")

// Bounds of waiting for a server.
const (
	startTimeout = time.Minute
	startPoll    = 10 * time.Millisecond
	stopTimeout  = time.Minute
	maxSessions  = 200
	maxStarts    = 10     // ports that are tried until one is free
	maxBuilds    = 3      // attempts to build the template
	firstPort    = 20_000 // the whole range lies below the ephemeral ports of the kernel
	portSpread   = 1000   // number of processes with port ranges of their own
)

// memoryDir is a file system in memory. It holds the data of servers without fsync while it has
// minMemory bytes free.
const (
	memoryDir = "/dev/shm"
	minMemory = 2 << 30
)

// objectInUse is the SQLSTATE of a database that still has sessions.
const objectInUse = "55006"

// ports counts the ports that this process has used at its address.
var ports atomic.Int32

// initialData is a directory with the output of initdb, which Start copies; empty: Start runs
// initdb. Main sets it.
var initialData string

// Server is a Postgres server that Start has started.
type Server struct {
	bin, dir    string
	host        string
	port        int
	durable     bool
	sysProcAttr *syscall.SysProcAttr
	process     *exec.Cmd
	exited      chan struct{}
	logOffset   int64 // size of the log at the last start
}

// Start makes a data directory and starts a server on it. A server that is not durable runs without
// fsync: it is faster, and its data means nothing after a crash. It fails with ErrAbsent without
// Postgres on the machine, and when the server does not start.
func Start(durable bool) (*Server, error) {
	s, err := prepare(durable)
	if err != nil {
		return nil, err
	}
	if err := s.startOnFreePort(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

// prepare makes a server with a data directory, without a process. It fails with ErrAbsent without
// Postgres on the machine, and when the directory cannot be made.
func prepare(durable bool) (*Server, error) {
	bin, err := findPrograms()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, host: ownHost(), durable: durable,
		sysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}}
	parent := ""
	if !durable {
		parent = memoryParent(memoryDir)
	}
	if s.dir, err = os.MkdirTemp(parent, "purser-pg-"); err != nil {
		return nil, err
	}
	if err := s.makeData(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

// memoryParent returns dir if this process can write there and minMemory bytes are free, else the
// empty string, which stands for the directory of temporary files.
func memoryParent(dir string) string {
	var free syscall.Statfs_t
	if err := syscall.Statfs(dir, &free); err != nil || free.Bavail*uint64(free.Bsize) < minMemory {
		return ""
	}
	probe, err := os.MkdirTemp(dir, "purser-pg-")
	if err != nil {
		return ""
	}
	_ = os.Remove(probe) // prepare makes another one
	return dir
}

// startOnFreePort starts the server on a port that is not in use. It fails when the server does not
// start.
func (s *Server) startOnFreePort() (err error) {
	for range maxStarts {
		s.port = nthPort(ports.Add(1))
		if err = s.Restart(); !errors.Is(err, errTaken) {
			return err
		}
	}
	return err
}

// errTaken: another process listens on the address of the server.
var errTaken = errors.New("the address is in use")

// nthPort returns the n-th port of this process. Processes that share an address use different
// ranges.
func nthPort(n int32) int { return firstPort + os.Getpid()%portSpread*maxStarts + int(n) }

// ownHost returns the loopback address of this process, derived from its id. No other process
// listens on it or connects from it, so a stopped server finds its port free again. On a machine
// with a single loopback address it returns 127.0.0.1.
func ownHost() string {
	pid := os.Getpid()
	return hostOr(fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&0x7f, pid>>8&0xff, pid&0xff), "127.0.0.1")
}

// hostOr returns host if this machine can listen on it, else other.
func hostOr(host, other string) string {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return other
	}
	_ = listener.Close() // no client has connected
	return host
}

// findPrograms returns the directory of initdb and postgres. Without one it fails with ErrAbsent.
func findPrograms() (string, error) {
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

// makeData makes the data directory: a copy of initialData, or else by initdb. The programs run as
// another user when this one is root, because Postgres refuses root.
func (s *Server) makeData() error {
	if err := s.dropPrivileges(); err != nil {
		return err
	}
	program := exec.Command(filepath.Join(s.bin, "initdb"), "--pgdata", s.dataDir(), "--username", "purser", "--auth", "trust",
		"--no-locale", "--encoding", "UTF8", "--no-sync")
	if initialData != "" {
		program = exec.Command("cp", "-R", "-p", initialData, s.dataDir())
	}
	program.SysProcAttr, program.Dir = s.sysProcAttr, s.dir
	if output, err := program.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program.Path), err, output)
	}
	return nil
}

// dropPrivileges makes root run the server as the user postgres, or else nobody, because Postgres
// refuses root. It fails when there is no such user or the directory cannot be given to it.
func (s *Server) dropPrivileges() error {
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
	s.sysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, uid, gid)
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }

// Restart starts the server that was stopped, on the same data and address, and waits until it
// answers. It fails when the server does not start or answer in time.
func (s *Server) Restart() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	if s.logOffset, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	arguments := []string{"-D", s.dataDir(), "-p", strconv.Itoa(s.port), "-k", "", "-h", s.host,
		"-c", "max_connections=" + strconv.Itoa(maxSessions)}
	if !s.durable {
		arguments = append(arguments, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	s.process = exec.Command(filepath.Join(s.bin, "postgres"), arguments...)
	s.process.SysProcAttr, s.process.Dir = s.sysProcAttr, s.dir
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		return err
	}
	s.exited = make(chan struct{})
	go func(process *exec.Cmd, exited chan struct{}) {
		_ = process.Wait() // how it ended is in the log
		close(exited)
	}(s.process, s.exited)
	return s.awaitReady()
}

// awaitReady waits until the server accepts connections; after a crash it recovers first. It ends
// early when the process exits, although another server may answer at the address. It fails when
// the process exits or does not answer in time.
func (s *Server) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	exited := s.exited // Restart replaces the channel
	go func() {
		select {
		case <-exited:
			cancel() // another server may have the address
		case <-ctx.Done():
		}
	}()
	ticker := time.NewTicker(startPoll)
	defer ticker.Stop()
	for {
		err := s.probeSession(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			select {
			case <-exited:
				return s.exitError()
			default:
				return fmt.Errorf("postgres does not answer: %w: %s", err, s.logText())
			}
		}
	}
}

// exitError returns the reason of an unexpected exit, from the log.
func (s *Server) exitError() error {
	log := s.logText()
	if strings.Contains(log, "could not create any TCP/IP sockets") {
		return fmt.Errorf("%w: %s", errTaken, log)
	}
	return fmt.Errorf("postgres ended: %s", log)
}

// probeSession opens a session and checks that it belongs to this server. It fails when no server
// answers, or another one does.
func (s *Server) probeSession(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	var data string
	err = conn.QueryRow(ctx, "SHOW data_directory").Scan(&data)
	if err == nil && data != s.dataDir() {
		err = fmt.Errorf("another server answers, whose data is in %s", data)
	}
	return errors.Join(err, conn.Close(ctx))
}

// logText returns the log since the last start.
func (s *Server) logText() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[s.logOffset:])
}

// URL returns the URL of a database of the server.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://purser@%s/%s?sslmode=disable", s.address(), database)
}

func (s *Server) address() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// Stop shuts the server down: it ends its sessions and writes a checkpoint.
func (s *Server) Stop() error { return s.stopWith(syscall.SIGINT) }

// Crash ends the server at once, as pg_ctl stop -m immediate does: everything that is only in
// memory is lost.
func (s *Server) Crash() error { return s.stopWith(syscall.SIGQUIT) }

// stopWith signals the server and waits for its end. It fails when the signal cannot be sent, and
// when the server does not end within stopTimeout.
func (s *Server) stopWith(signal syscall.Signal) error {
	if err := s.process.Process.Signal(signal); err != nil {
		return err
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("postgres does not stop: %s", s.logText())
	}
}

// Pause freezes the server and its sessions: connections stay open but get no answers until Resume.
func (s *Server) Pause() error { return s.signalAll(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.signalAll(syscall.SIGCONT) }

// signalAll signals the server and all its child processes. It fails when a process cannot be
// signalled or listed.
func (s *Server) signalAll(signal syscall.Signal) error {
	parent := s.process.Process.Pid
	// The parent comes first, so that it starts no child in between.
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

// Close crashes the server and removes its data. It fails when the process does not end or the data
// cannot be removed.
func (s *Server) Close() error {
	select {
	case <-s.exited:
		return os.RemoveAll(s.dir)
	default:
		return errors.Join(s.Resume(), s.Crash(), os.RemoveAll(s.dir)) // a paused server does not handle signals
	}
}

// Templates makes databases by cloning: the first is built, the others are copies of its files.
type Templates struct {
	adminURL string
	build    func(url string) error
	once     sync.Once
	err      error
	name     string
	server   *Server
	next     atomic.Int64
}

// Main runs the tests of a package that needs Postgres and returns the exit code. build fills the
// template, an empty database. what names the tests in messages. On a machine without Postgres the
// tests are left out and pass; with CI=true they fail.
func Main(what string, build func(url string) error, run func(*Templates) int) int {
	t := &Templates{adminURL: os.Getenv("DATABASE_URL_TEST"), build: build}
	if t.adminURL == "" {
		initial, err := prepare(false)
		if err != nil {
			return reportAbsent(os.Stdout, what, err)
		}
		defer os.RemoveAll(initial.dir) // it remains when the tests panic
		initialData = initial.dataDir()
		if t.server, err = Start(false); err != nil {
			return reportAbsent(os.Stdout, what, err)
		}
		t.adminURL = t.server.URL("postgres")
	}
	if _, err := url.Parse(t.adminURL); err != nil || !strings.HasPrefix(t.adminURL, "postgres") {
		fmt.Fprintln(os.Stderr, "pgtest: DATABASE_URL_TEST is not of the form postgres://user@host/database")
		return 1
	}
	code := run(t)
	if err := t.dropTemplate(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(code, 1)
	}
	return code
}

func reportAbsent(w io.Writer, what string, err error) int {
	fmt.Fprintf(w, "left out, %s: %v\n", what, err)
	if os.Getenv("CI") == "true" || !errors.Is(err, ErrAbsent) {
		return 1
	}
	return 0
}

// dropTemplate removes the template database, and ends the server if the tests started it. It
// returns the errors of both.
func (t *Templates) dropTemplate() error {
	var err error
	if t.name != "" {
		err = t.execAdmin("DROP DATABASE IF EXISTS " + t.name)
	}
	if t.server != nil {
		err = errors.Join(err, t.server.Close())
	}
	return err
}

// execAdmin runs statements on the server. It repeats a statement while its database is in use,
// because the sessions of a client that has just closed end a little later.
func (t *Templates) execAdmin(statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, t.adminURL)
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

// Own starts a server for one test that stops or crashes it, and closes it after the test. On a
// machine without Postgres it prints a line and returns nil; with CI=true the test fails.
func Own(test T, what string, durable bool) *Server {
	test.Helper()
	server, err := Start(durable)
	if err != nil {
		if reportAbsent(os.Stdout, what, err) != 0 {
			requireNoError(test, err)
		}
		return nil
	}
	test.Cleanup(func() { requireNoError(test, server.Close()) })
	return server
}

// T is the part of testing.T that this package needs.
type T interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	FailNow()
}

// Empty returns the URL of a new database without tables, which is dropped after the test.
func (t *Templates) Empty(test T) string {
	test.Helper()
	return t.createDatabase(test, "template0")
}

// Database returns the URL of a new clone of the template, which is dropped after the test.
func (t *Templates) Database(test T) string {
	test.Helper()
	t.once.Do(func() {
		t.name = fmt.Sprintf("purser_template_%d", os.Getpid())
		for range maxBuilds { // build may time out on a machine that stalls
			t.err = t.execAdmin("DROP DATABASE IF EXISTS "+t.name+" WITH (FORCE)", "CREATE DATABASE "+t.name)
			if t.err == nil {
				t.err = t.build(t.databaseURL(t.name))
			}
			if t.err == nil {
				break
			}
		}
	})
	requireNoError(test, t.err)
	return t.createDatabase(test, t.name)
}

func (t *Templates) createDatabase(test T, template string) string {
	test.Helper()
	name := fmt.Sprintf("purser_test_%d_%d", os.Getpid(), t.next.Add(1))
	requireNoError(test, t.execAdmin("CREATE DATABASE "+name+" TEMPLATE "+template))
	test.Cleanup(func() { requireNoError(test, t.execAdmin("DROP DATABASE "+name+" WITH (FORCE)")) })
	return t.databaseURL(name)
}

func requireNoError(test T, err error) {
	test.Helper()
	if err != nil {
		test.Errorf("pgtest: %v", err)
		test.FailNow()
	}
}

// databaseURL returns the URL of the server with another database.
func (t *Templates) databaseURL(database string) string {
	u, err := url.Parse(t.adminURL)
	if err != nil {
		panic(fmt.Sprintf("BUG: Main has let through what is no URL: %v", err))
	}
	u.Path = "/" + database
	return u.String()
}
