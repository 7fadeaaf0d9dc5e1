package loadtest

import (
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"purser/bench"
	"purser/cmd/purser/settings"
	"purser/persistence"
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

// ownServer is a purser serve that belongs to a run: a child process of the same binary, on the same addresses however often it
// is started. It is a bench.Server.
type ownServer struct {
	command   []string
	data      string
	temporary bool
	target    bench.Target
	env       []string
	cmd       *exec.Cmd
	ended     chan struct{} // closed when the child has
	log       *os.File
}

// newOwnServer starts one with a command and returns when it is ready. Without a directory it gets
// a temporary one. It fails when the server does not get ready, with the end of its log.
func newOwnServer(ctx context.Context, data string, command ...string) (*ownServer, error) {
	s := &ownServer{data: data, command: command}
	if data == "" {
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
	if err == nil {
		err = s.readSecret()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

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
		"PURSER_SIGNUP=open", "PURSER_SANDBOX_DELAY=50ms", "PURSER_ISSUER=fixture", "PURSER_LOG_LEVEL=warn",
		"PURSER_NETWORK_SECRET=", "PURSER_TLS_CERT=", "PURSER_TLS_KEY=", "PURSER_PROXY_PROTOCOL=")
	if os.Getenv("DATABASE_URL") != "" && os.Getenv("PURSER_DATA_KEY") == "" {
		key := make([]byte, settings.DataKeyBytes)
		rand.Read(key)
		s.env = append(s.env, "PURSER_DATA_KEY="+hex.EncodeToString(key))
	}
	return nil
}

// FreeAddresses returns n addresses of 127.0.0.1 whose ports are free.
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
// within ownStopWithin.
func (s *ownServer) Stop() error {
	cmd := s.cmd
	s.cmd = nil
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have exited
	patience := time.AfterFunc(ownStopWithin, func() { _ = cmd.Process.Kill() })
	defer patience.Stop()
	<-s.ended
	if !cmd.ProcessState.Success() {
		return s.lastOf(cmd)
	}
	return nil
}

// PeakMemory reads the peak resident memory of the child from /proc.
func (s *ownServer) PeakMemory() (bytes int64, told bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(status), "\nVmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
	return kibibytes << 10, err == nil
}

func (s *ownServer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ownStartWithin)
	defer cancel()
	asker := &http.Client{Timeout: ownAskWithin}
	defer asker.CloseIdleConnections()
	for {
		if resp, err := asker.Get(s.target.Admin + "/readyz"); err == nil {
			_ = resp.Body.Close() // its status is all that is wanted
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := s.died(); err != nil {
			return err
		}
		if persistence.Pause(ctx, ownAskEvery) {
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

// lastOf returns an error with the exit status of a child and the end of its log.
func (s *ownServer) lastOf(cmd *exec.Cmd) error {
	return fmt.Errorf("the server ended with %s:\n%s", cmd.ProcessState, s.lastWords())
}

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
