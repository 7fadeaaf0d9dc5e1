package loadtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"

	"purser/bench"
	"purser/cmd/purser/tuning"
)

// BenchEmpty is the process of the yardstick's empty handler. It prints its URL and ends with its
// standard input, which closes when its parent ends.
type BenchEmpty struct{}

// Run is the command `purser bench empty`: it serves empty answers until its standard input ends,
// with as many processors as the server uses, so that only the work of the two differs. It fails
// when it cannot listen.
func (*BenchEmpty) Run(out io.Writer) error {
	tuning.SpareProcessors()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- bench.ServeEmpty(listener) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, listener.Close(), <-ended)
}

// startEmpty runs BenchEmpty by a command and returns its URL and a function that ends it. It fails
// when the command does not start or prints no URL.
func startEmpty(command ...string) (url string, end func() error, err error) {
	child := exec.Command(command[0], command[1:]...)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := child.Start(); err != nil {
		return "", nil, err
	}
	end = func() error { return errors.Join(in.Close(), child.Wait()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		return "", nil, errors.Join(fmt.Errorf("it says %q, no URL", line), err, end())
	}
	return strings.TrimSpace(line), end, nil
}

// emptyHandler is the Empty of bench.Config: it runs `purser bench empty` as another process. It
// fails when the process cannot be started.
func emptyHandler() (url string, end func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	return startEmpty(self, "bench", "empty")
}
