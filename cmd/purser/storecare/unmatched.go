package storecare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fault"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/persistence"
)

// UnmatchedCmd lists the partners' reports that matched nothing. It asks the server that has the
// data directory, and opens the journal itself when none has.
type UnmatchedCmd struct {
	datadir.Stores
	DataKey string `name:"data-key" env:"PURSER_DATA_KEY" secret:"" help:"As of purser serve, without which stored reports cannot be opened."`
	JSON    bool   `name:"json" help:"One JSON document a line, with the bodies as they came; they may name people."`
}

const (
	UnmatchedAtOnce = 16 // reports of a page; each has a body of at most balance.MaxUnmatchedBody
	unmatchedWithin = 10 * time.Minute
	maxUnmatched    = UnmatchedAtOnce * (balance.MaxUnmatchedBody*6 + 4096) // bytes of a page: a body that is no JSON is escaped
)

// unmatchedFrom asks for the page after a report; the zero value for the first one.
type unmatchedFrom struct {
	Shard int    `json:"shard"`
	After string `json:"after"`
}

// unmatchedReports is a page, in the order of shards and there of time. Next is nil on the last
// one.
type unmatchedReports struct {
	Reports []json.RawMessage `json:"reports"`
	Next    *unmatchedFrom    `json:"next"`
}

// Run is `purser unmatched`: it prints all reports of partners that matched nothing, as a table or
// as JSON. It asks the running server, or reads the journal when none runs. It fails when neither
// can be read.
func (u *UnmatchedCmd) Run(out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), unmatchedWithin)
	defer cancel()
	unlock, err := datadir.LockUsed(u.DataDir)
	if errors.Is(err, datadir.ErrInUse) {
		return u.print(out, func(from unmatchedFrom) (unmatchedReports, error) {
			return adminport.Ask[unmatchedReports](ctx, u.DataDir, "unmatched", from, maxUnmatched)
		})
	}
	if err != nil {
		return err
	}
	return errors.Join(u.printStored(ctx, out), unlock())
}

// printStored prints the reports of the journal, which no server has open. It fails when the
// journal or a data key is missing, and like readUnmatched.
func (u *UnmatchedCmd) printStored(ctx context.Context, out io.Writer) (err error) {
	journal, err := u.ReadJournal(ctx, "a list")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	sealer, err := settings.OpenSealer(u.DataDir, u.DataKey)
	if err != nil {
		return err
	}
	return u.print(out, func(from unmatchedFrom) (unmatchedReports, error) {
		return readUnmatched(ctx, journal, sealer, from)
	})
}

// readUnmatched reads a page of at most UnmatchedAtOnce reports from a position on. It fails like
// readRecords.
func readUnmatched(ctx context.Context, journal persistence.Journal, sealer actors.Sealer,
	from unmatchedFrom) (unmatchedReports, error) {
	reports, next, err := readRecords(ctx, journal, sealer, balance.RecordUnmatched, recordsFrom(from), UnmatchedAtOnce)
	return unmatchedReports{Reports: reports, Next: (*unmatchedFrom)(next)}, err
}

// AnswerUnmatched handles the admin port's command "unmatched": it returns a page of reports from
// the position in the body on. It fails with invalid_body, and like readUnmatched.
func AnswerUnmatched(ctx context.Context, journal persistence.Journal, sealer actors.Sealer,
	body []byte) (unmatchedReports, error) {
	var from unmatchedFrom
	if err := adminport.DecodeBody(body, &from); err != nil {
		return unmatchedReports{}, err
	}
	if from.Shard < 0 {
		return unmatchedReports{}, fault.New(fault.InvalidBody, "shard is negative")
	}
	return readUnmatched(ctx, journal, sealer, from)
}

// print writes page after page: a line for each report, or each as it is kept. It fails with next's
// error, and for a report that cannot be read.
func (u *UnmatchedCmd) print(out io.Writer, next func(unmatchedFrom) (unmatchedReports, error)) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !u.JSON {
		fmt.Fprintln(table, "REPORT\tAT\tPARTNER\tPARTNER'S ID\tTYPE")
	}
	total := 0
	for from := new(unmatchedFrom); from != nil; {
		page, err := next(*from)
		if err != nil {
			return err
		}
		for _, report := range page.Reports {
			if err := u.printOne(out, table, report); err != nil {
				return err
			}
		}
		total, from = total+len(page.Reports), page.Next
	}
	if u.JSON {
		return nil
	}
	fmt.Fprintf(table, "%d unmatched\n", total)
	return table.Flush()
}

// printOne prints one unmatched report of a partner: as JSON to out, or else as a row of the table.
// It fails for a report that cannot be read, and with the writer's error. print calls it.
func (u *UnmatchedCmd) printOne(out, table io.Writer, report json.RawMessage) error {
	if u.JSON {
		_, err := fmt.Fprintf(out, "%s\n", report)
		return err
	}
	var r balance.Unmatched
	if err := json.Unmarshal(report, &r); err != nil {
		return fmt.Errorf("an unmatched report that cannot be read: %w", err)
	}
	_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%q\t%q\n", r.ID, r.At.UTC().Format(time.RFC3339), r.Partner, r.EventID, r.Type)
	return err
}
