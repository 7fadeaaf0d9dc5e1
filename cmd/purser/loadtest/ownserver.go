package loadtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"purser/bench"
	"purser/cmd/purser/settings"
	"purser/persistence/retry"
)

// Limits of a server of a run's own.
const (
	ownStartWithin = 5 * time.Minute
	ownStopWithin  = 30 * time.Second
	ownAskEvery    = 20 * time.Millisecond
	ownAskWithin   = 10 * time.Second // an answer of one that is asked whether it is ready
	ownLogBytes    = 8000             // of the end of its log, when it ends by itself: a panic with its stack
	// The ports of a server that is killed and started again are below the ephemeral range, so that
	// no other process gets one while the server is down.
	leastOwnPort = 10_000
	mostOwnPort  = 16_000
	ownPortTries = 1000
)

// ownServer is a purser serve that belongs to a run: a child process, on the same addresses however
// often it is started. It is a bench.Server. A networkOnly one is another program, which has
// neither REST nor an admin port and need not handle SIGTERM.
type ownServer struct {
	command     []string
	networkOnly bool
	data        string
	temporary   bool
	target      bench.Target
	env         []string
	cmd         *exec.Cmd
	ended       chan struct{} // closed when the child has
	log         *os.File
}

// The placeholders in the command of a program that answers only the card network's port.
const (
	addressPlaceholder = "{address}"
	secretPlaceholder  = "{secret}"
	dataPlaceholder    = "{data-dir}"
)

// newOwnServer starts a server with a command and returns when it is ready. A command with
// addressPlaceholder is another program. Without a directory it gets a temporary one. It fails when
// the server does not get ready, with the end of its log.
func newOwnServer(ctx context.Context, data string, command []string) (*ownServer, error) {
	if len(command) == 0 {
		return nil, errors.New("the command is empty")
	}
	s := &ownServer{data: data, command: command, networkOnly: strings.Contains(strings.Join(command, " "), addressPlaceholder)}
	return s.launchServer(ctx)
}

// selfCommand returns the command that runs this program with arguments.
func selfCommand(arguments ...string) []string {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return append([]string{self}, arguments...)
}

// launchServer makes the directory of the server, starts the server and returns it when it is
// ready. It fails like newOwnServer.
func (s *ownServer) launchServer(ctx context.Context) (*ownServer, error) {
	if s.data == "" {
		dir, err := os.MkdirTemp("", "purser-bench-")
		if err != nil {
			return nil, err
		}
		s.data, s.temporary = dir, true
	}
	err := s.prepare()
	if err == nil {
		err = s.Start()
	}
	if err == nil {
		err = s.ready(ctx)
	}
	if err == nil && !s.networkOnly {
		err = s.readSecret()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// prepare makes the data directory and the log, and chooses free ports and the environment of the
// server. It fails with the file system's error and without free ports.
func (s *ownServer) prepare() (err error) {
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		return err
	}
	if s.log, err = os.OpenFile(filepath.Join(s.data, "bench.log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil {
		return err
	}
	addresses, err := FreeAddresses(3)
	if err != nil {
		return err
	}
	s.target = bench.Target{REST: "http://" + addresses[0], Network: "http://" + addresses[1], Admin: "http://" + addresses[2]}
	s.env = append(os.Environ(), "PURSER_HTTP_ADDR="+addresses[0], "PURSER_AUTHORIZER_ADDR="+addresses[1],
		"PURSER_ADMIN_ADDR="+addresses[2], "PURSER_DATA_DIR="+s.data, "PURSER_BASE_URL=", "PURSER_RATE_LIMITS=off",
		"PURSER_SIGNUP=open", "PURSER_PASSWORD_NICE=0", "PURSER_SANDBOX_DELAY=50ms", "PURSER_ISSUER=fixture", "PURSER_LOG_LEVEL=warn",
		"PURSER_NETWORK_SECRET=", "PURSER_NETWORK_SECRET_FILE=", "PURSER_TLS_CERT=", "PURSER_TLS_KEY=", "PURSER_PROXY_PROTOCOL=")
	if isSet("DATABASE_URL") && !isSet("PURSER_DATA_KEY") {
		key := make([]byte, settings.DataKeyBytes)
		rand.Read(key)
		s.env = append(s.env, "PURSER_DATA_KEY="+hex.EncodeToString(key))
	}
	if s.networkOnly {
		s.target = bench.Target{Network: s.target.Network, Secret: rand.Text()}
		filled := strings.NewReplacer(addressPlaceholder, addresses[1], secretPlaceholder, s.target.Secret,
			dataPlaceholder, s.data)
		for i := range s.command {
			s.command[i] = filled.Replace(s.command[i])
		}
	}
	s.target.Process = s.process
	return nil
}

// isSet reports whether the environment sets a setting, itself or by a file.
func isSet(name string) bool { return os.Getenv(name) != "" || os.Getenv(name+"_FILE") != "" }

// FreeAddresses returns n addresses of 127.0.0.1 whose ports are free. It fails when ownPortTries
// tries do not find them. Another process may take a port before the server does.
func FreeAddresses(n int) ([]string, error) {
	var all []string
	var taken error
	for range ownPortTries {
		listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", leastOwnPort+mathrand.N(mostOwnPort-leastOwnPort)))
		if err != nil {
			taken = err
			continue
		}
		defer listener.Close() // after the last one is bound: they differ
		if all = append(all, listener.Addr().String()); len(all) == n {
			return all, nil
		}
	}
	return nil, fmt.Errorf("no free ports: %w", taken)
}

// Start launches the server and does not wait until it is ready. It fails only when the process
// does not start.
func (s *ownServer) Start() error {
	s.cmd = exec.Command(s.command[0], s.command[1:]...)
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = s.env, s.log, s.log
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // how it ended is kept in its state
		close(ended)
	}(s.cmd, s.ended)
	return nil
}

// Kill ends the server with kill -9. It returns an error when the server has ended by itself.
func (s *ownServer) Kill() error {
	if err := s.died(); err != nil {
		return err
	}
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	<-s.ended
	s.cmd = nil
	return nil
}

// Stop ends the server with SIGTERM. It returns an error when the server fails or does not end
// within ownStopWithin. Another program than a purser may end by the signal.
func (s *ownServer) Stop() error {
	cmd := s.cmd
	s.cmd = nil
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have exited
	patience := time.AfterFunc(ownStopWithin, func() { _ = cmd.Process.Kill() })
	defer patience.Stop()
	<-s.ended
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if cmd.ProcessState.Success() || s.networkOnly && status.Signaled() && status.Signal() == syscall.SIGTERM {
		return nil
	}
	return s.lastOf(cmd)
}

// process returns the id of the server's process, 0 without one.
func (s *ownServer) process() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// ready waits until the server answers /readyz with 200, and another program until it answers
// anything. It fails when the process ends, or is not ready within ownStartWithin.
func (s *ownServer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ownStartWithin)
	defer cancel()
	asker := &http.Client{Timeout: ownAskWithin}
	defer asker.CloseIdleConnections()
	for {
		if resp, err := asker.Get(cmp.Or(s.target.Admin, s.target.Network) + "/readyz"); err == nil {
			_ = resp.Body.Close() // its status is all that is wanted
			if resp.StatusCode == http.StatusOK || s.networkOnly {
				return nil
			}
		}
		if err := s.died(); err != nil {
			return err
		}
		if retry.Pause(ctx, ownAskEvery) {
			continue
		}
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return fmt.Errorf("the server was not ready within %s:\n%s", ownStartWithin, s.lastWords())
	}
}

// died returns an error when the server has ended by itself. It does not wait.
func (s *ownServer) died() error {
	select {
	case <-s.ended:
		cmd := s.cmd
		s.cmd = nil
		return s.lastOf(cmd)
	default:
		return nil
	}
}

// lastOf returns an error with the command and exit status of a child and the end of its log.
func (s *ownServer) lastOf(cmd *exec.Cmd) error {
	return fmt.Errorf("the server (%s) ended with %s:\n%s", s.command[0], cmd.ProcessState, s.lastWords())
}

// lastWords returns the last ownLogBytes bytes of the server's log, or why they cannot be read.
func (s *ownServer) lastWords() string {
	info, err := s.log.Stat()
	if err != nil {
		return err.Error()
	}
	text := make([]byte, min(info.Size(), ownLogBytes))
	if _, err := s.log.ReadAt(text, info.Size()-int64(len(text))); err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *ownServer) readSecret() error {
	text, err := os.ReadFile(filepath.Join(s.data, "network-secret"))
	first, _, _ := strings.Cut(string(text), ",")
	s.target.Secret = strings.TrimSpace(first)
	return err
}

// close stops the server and removes a temporary directory. It fails like Stop.
func (s *ownServer) close() error {
	var faults []error
	if s.cmd != nil {
		faults = append(faults, s.Stop())
	}
	if s.log != nil {
		faults = append(faults, s.log.Close())
	}
	if s.temporary {
		faults = append(faults, os.RemoveAll(s.data))
	}
	return errors.Join(faults...)
}
