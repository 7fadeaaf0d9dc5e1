package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"purser/httpapi/password"
)

// passwordWorker is the name of passwordWorkerCommand.
const passwordWorker = "password-worker"

// passwordWorkerCommand derives password hashes for the server that started it, at a low priority. It is
// no command for a person.
type passwordWorkerCommand struct {
	Nice    int  `hidden:"" default:"19" help:"The nice value."`
	Lowered bool `hidden:"" help:"The priority is lowered."`
}

// Run is the hidden command of the server's child process: it lowers the priority and answers
// derivations of password hashes until its standard input ends. It fails with an error of the pipe.
func (c *passwordWorkerCommand) Run(out io.Writer) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM) // the server ends it, after the sign-ins under way
	if !c.Lowered && c.Nice > 0 {
		if err := lowerPriority(c.Nice, passwordWorker, "--lowered"); err != nil {
			return fmt.Errorf("lower the priority: %w", err)
		}
	}
	return password.Work(os.Stdin, out)
}
