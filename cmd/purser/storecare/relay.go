package storecare

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"purser/actors"
	"purser/actors/processes"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
)

// RelayCmd asks the running server about the workspaces that the relay has set aside.
type RelayCmd struct {
	List  RelayListCmd  `cmd:"" help:"List the workspaces that are set aside, and why."`
	Retry RelayRetryCmd `cmd:"" help:"Send the decisions of the workspaces that are set aside again."`
}

// RelayListCmd lists the workspaces that are set aside.
type RelayListCmd struct{ datadir.Stores }

// RelayRetryCmd sends decisions again. It fails when a workspace still refuses them.
type RelayRetryCmd struct {
	datadir.Stores
	Workspace string `arg:"" optional:"" help:"The workspace's ws_ id; every workspace that is set aside when unset."`
}

const (
	relayCommandWithin = 10 * time.Minute
	maxRelayAnswer     = 16 << 20 // bytes of the list
)

// relayQuestion is the body of the command at the admin port.
type relayQuestion struct {
	Retry     bool   `json:"retry"`
	Workspace string `json:"workspace"`
}

// relayAnswer lists the workspaces that are set aside after the command.
type relayAnswer struct {
	SetAside []actors.SetAside `json:"setAside"`
}

// AnswerRelay handles the admin port's command "relay": it relays the decisions of set-aside
// workspaces again, if the body asks for it, and lists the workspaces that are still set aside. It
// fails only with invalid_body.
func AnswerRelay(ctx context.Context, system *processes.Product, body []byte) (relayAnswer, error) {
	var question relayQuestion
	if err := adminport.DecodeBody(body, &question); err != nil {
		return relayAnswer{}, err
	}
	if question.Retry {
		// The answer names each workspace that refuses its entries again, with the reason.
		_ = system.RetrySetAside(ctx, question.Workspace)
	}
	return relayAnswer{SetAside: system.SetAside()}, nil
}

// Run is `purser relay list`: it prints the workspaces whose decisions the relay has set aside. It
// fails when no server answers.
func (c *RelayListCmd) Run(out io.Writer) error {
	_, err := askRelay(c.DataDir, relayQuestion{}, out)
	return err
}

// Run is `purser relay retry`: it has the server relay the decisions again, and prints the
// workspaces that still refuse them. It fails when one of the named workspaces is still set aside,
// and when no server answers.
func (c *RelayRetryCmd) Run(out io.Writer) error {
	left, err := askRelay(c.DataDir, relayQuestion{Retry: true, Workspace: c.Workspace}, out)
	if err != nil {
		return err
	}
	for _, one := range left {
		if c.Workspace == "" || one.Workspace == c.Workspace {
			return fmt.Errorf("workspace %s is still set aside: %s", one.Workspace, one.Reason)
		}
	}
	return nil
}

// askRelay asks the running server, and prints and returns the workspaces that are set aside. It
// fails when no server answers.
func askRelay(data string, question relayQuestion, out io.Writer) ([]actors.SetAside, error) {
	ctx, cancel := context.WithTimeout(context.Background(), relayCommandWithin)
	defer cancel()
	answer, err := adminport.Ask[relayAnswer](ctx, data, "relay", question, maxRelayAnswer)
	if err != nil {
		return nil, err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WORKSPACE\tSHARD\tSINCE\tDECISIONS\tREASON")
	for _, one := range answer.SetAside {
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\n", one.Workspace, one.Shard, one.Since.Format(time.RFC3339),
			one.Entries,
			one.Reason)
	}
	fmt.Fprintf(table, "%d set aside\n", len(answer.SetAside))
	return answer.SetAside, table.Flush()
}
