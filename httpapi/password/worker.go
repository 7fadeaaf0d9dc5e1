package password

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// deriveTimeout bounds one derivation of the worker; a worker that takes longer is killed.
	deriveTimeout = 30 * time.Second
	// workerMemory is the soft limit of the worker's heap: two derivations.
	workerMemory = 48 << 20
)

// reply is a line of the worker's output.
type reply struct {
	Key []byte `json:"key"`
}

// Worker derives keys in another process. A thread of low priority in the server's own process
// would delay every stop of the garbage collector while it waits for a processor. The process
// starts with the first derivation and ends when its input does, so it never outlives the server.
// Worker is safe for concurrent use and derives one key at a time.
type Worker struct {
	command []string

	mu     sync.Mutex // held by Derive and Close
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	closed bool
}

// NewWorker returns the client of the process that a command starts. The process runs Work on its
// standard input and output. Its environment holds GOMAXPROCS alone.
func NewWorker(command ...string) *Worker { return &Worker{command: command} }

// Derive is a Deriver. A worker that fails is replaced once. It fails after Close, and when the
// replacement fails too. The password queue calls it, one derivation at a time.
func (w *Worker) Derive(d Derivation) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, err := w.requestHash(d)
	if err != nil && !w.closed {
		key, err = w.requestHash(d)
	}
	return key, err
}

// requestHash sends a derivation to the process and reads the key. It fails when the process does
// not start, does not answer within deriveTimeout or answers badly; the process is then ended.
func (w *Worker) requestHash(d Derivation) ([]byte, error) {
	if err := w.startProcess(); err != nil {
		return nil, fmt.Errorf("password worker: %w", err)
	}
	process := w.cmd.Process
	late := time.AfterFunc(deriveTimeout, func() { _ = process.Kill() })
	defer late.Stop()
	var answer reply
	err := json.NewEncoder(w.in).Encode(d)
	if err == nil {
		var line []byte
		if line, err = w.out.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &answer)
		}
	}
	if err == nil && len(answer.Key) != argonKey {
		err = errors.New("the key has another length")
	}
	if err != nil {
		w.stopProcess()
		return nil, fmt.Errorf("password worker: %w", err)
	}
	return answer.Key, nil
}

// startProcess starts the process unless it runs. It fails after Close, and when the command does
// not start.
func (w *Worker) startProcess() (err error) {
	if w.closed {
		return errors.New("closed")
	}
	if w.cmd != nil {
		return nil
	}
	cmd := exec.Command(w.command[0], w.command[1:]...)
	cmd.Env = []string{"GOMAXPROCS=1"}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.cmd, w.in, w.out = cmd, in, bufio.NewReader(out)
	return nil
}

// stopProcess ends the process and waits for it.
func (w *Worker) stopProcess() {
	if w.cmd == nil {
		return
	}
	_ = w.in.Close()
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
	w.cmd, w.in, w.out = nil, nil, nil
}

// Close ends the process after the running derivation. Later derivations fail.
func (w *Worker) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.stopProcess()
	return nil
}

// Work answers derivations, one a line, until the input ends, and then returns nil. It fails for a
// line that is no derivation, for parameters beyond the bounds, and when a write fails. The
// server's child process runs it.
func Work(in io.Reader, out io.Writer) error {
	debug.SetMemoryLimit(workerMemory)
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var d Derivation
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("password worker: read a derivation: %w", err)
		}
		if d.Time < 1 || d.Time > maxStoredTime || d.Memory > maxStoredMemory {
			return fmt.Errorf("password worker: a derivation of %d KiB and %d passes", d.Memory, d.Time)
		}
		key, err := DeriveInProcess(d)
		if err != nil {
			return err
		}
		if err := encoder.Encode(reply{Key: key}); err != nil {
			return fmt.Errorf("password worker: write a key: %w", err)
		}
	}
}
