package audit

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Print writes the report as a text: the amounts read, then a table of the differences. It fails
// when w fails.
func (r *Report) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "read %d events: %d transfers, %d workspaces, %d cards, %d authorizations\n",
		r.Events, r.Transfers, r.Workspaces, r.Cards, r.Authorizations)
	if err != nil {
		return err
	}
	for _, l := range r.Lost {
		_, err := fmt.Fprintf(w, "decisions %d to %d of shard %d: lost at the rebuild of %s\n", l.First, l.Last,
			l.Shard,
			l.At.UTC().Format(time.RFC3339))
		if err != nil {
			return err
		}
	}
	agree := "journal, records and authorizer agree to the cent"
	if r.Book != nil {
		agree = "journal, records, authorizer and book agree to the cent"
		_, err := fmt.Fprintf(w, "compared the book: %d accounts, %d postings; it is %d events behind\n",
			r.Book.Accounts,
			r.Book.Postings, r.Book.Lag)
		if err != nil {
			return err
		}
	}
	if r.Clean() {
		_, err = fmt.Fprintln(w, agree)
		return err
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tSHARD\tID\tWHAT\tEXPECTED\tACTUAL")
	for _, f := range r.Findings {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\n", f.Kind, f.Shard, f.ID, f.What, f.Expected, f.Actual)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%d differences\n", int64(len(r.Findings))+r.More)
	return err
}
