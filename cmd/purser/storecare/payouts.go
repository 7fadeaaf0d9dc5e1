package storecare

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"purser/actors/processes"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
)

// PayoutsCmd asks the running server about orders that the bank or the ramp's partner has and does
// not report.
type PayoutsCmd struct {
	Overdue PayoutsOverdueCmd `cmd:"" help:"List the payouts, conversions and ramp orders about which a person has to decide."`
	Resolve PayoutsResolveCmd `cmd:"" help:"Note what the bank or the ramp's partner says, to a person, of an overdue order."`
}

// PayoutsOverdueCmd lists overdue orders.
type PayoutsOverdueCmd struct{ datadir.Stores }

// PayoutsResolveCmd decides an overdue order.
type PayoutsResolveCmd struct {
	datadir.Stores
	ID      string `arg:"" help:"The po_, cnv_, ro_ or rw_ id of the order."`
	Outcome string `required:"" enum:"settled,failed" help:"settled: the partner has paid. failed: the partner has not paid and will not; the money is free again."`
}

const (
	payoutsCommandWithin = 10 * time.Minute
	maxPayoutsAnswer     = 16 << 20 // bytes of the list
)

// payoutsQuestion is the body of the admin port's command; without an id it asks for the list
// alone.
type payoutsQuestion struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
}

// payoutsAnswer lists the overdue orders after the command.
type payoutsAnswer struct {
	Overdue []processes.OverdueOrder `json:"overdue"`
}

// AnswerPayouts handles the admin port's command "payouts": it resolves an order as settled or
// failed, if the body names one, and returns the overdue orders. It fails for another outcome, and
// for an order that cannot be resolved.
func AnswerPayouts(ctx context.Context, system *processes.Product, body []byte) (answer payoutsAnswer, err error) {
	var question payoutsQuestion
	if err := adminport.DecodeBody(body, &question); err != nil {
		return answer, err
	}
	if question.ID != "" {
		if question.Outcome != "settled" && question.Outcome != "failed" {
			return answer, fmt.Errorf("outcome %q: settled or failed", question.Outcome)
		}
		if err := system.ResolveOrder(ctx, question.ID, question.Outcome == "settled"); err != nil {
			return answer, fmt.Errorf("order %s: %w", question.ID, err)
		}
	}
	answer.Overdue, err = system.ListOverdue(ctx)
	return answer, err
}

// Run is `purser payouts overdue`: it prints the orders that a partner has and does not report. It
// fails when no server answers.
func (c *PayoutsOverdueCmd) Run(out io.Writer) error {
	return askPayouts(c.DataDir, payoutsQuestion{}, out)
}

// Run is `purser payouts resolve`: it decides one order and prints the overdue orders that are
// left. It fails when no server answers or the server refuses.
func (c *PayoutsResolveCmd) Run(out io.Writer) error {
	return askPayouts(c.DataDir, payoutsQuestion{ID: c.ID, Outcome: c.Outcome}, out)
}

// askPayouts asks the running server and prints the overdue orders. It fails when no server answers
// or the server refuses.
func askPayouts(data string, question payoutsQuestion, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), payoutsCommandWithin)
	defer cancel()
	answer, err := adminport.Ask[payoutsAnswer](ctx, data, "payouts", question, maxPayoutsAnswer)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ORDER\tKIND\tWORKSPACE\tSTATUS\tSINCE")
	for _, o := range answer.Overdue {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", o.ID, o.Kind, o.Workspace, o.Status,
			o.Since.UTC().Format(time.DateOnly))
	}
	fmt.Fprintf(table, "%d overdue\n", len(answer.Overdue))
	return table.Flush()
}
