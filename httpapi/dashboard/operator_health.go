package dashboard

import (
	"context"
	"fmt"
	"strings"

	"purser/httpapi/web"
)

// maxShownFindings bounds the findings of the last audit that a page shows.
const maxShownFindings = 20

// programName begins the commands that the pages show.
const programName = "purser "

// commandBlock shows a command of the program, to be copied.
func commandBlock(command string) Block {
	return Block{Code: &Code{ID: "command", Label: "On the server's machine", Text: programName + command}}
}

// showServer shows the health of the server: faults and orders that wait for a person, the figures
// with the commands that explain them or act on them, the disks and the last audit.
func showServer(ctx context.Context, v *OperatorVisit) (*View, error) {
	status := v.State.Status()
	view := &View{Title: "Health", Badges: []Cell{{Text: "Ready", Tone: "good", Icon: "check"}},
		Lead: "Version " + status.Version + "."}
	if len(status.Problems) > 0 {
		view.Badges = []Cell{{Text: "Not ready", Tone: "bad", Icon: "alert"}}
		view.Notice = &Notice{Text: "Not ready: " + strings.Join(status.Problems, "; ") + ". " + programName +
			"health prints the same.", Refused: true}
	}
	if !status.Running {
		view.Blocks = []Block{{Text: "The stores are not open: the server is starting or stopping."},
			status.diskBlock()}
		return view, nil
	}
	unmatched := countUnmatched(ctx, v)
	if items := status.waitingItems(unmatched); len(items) > 0 || len(status.Problems) == 0 {
		view.Blocks = []Block{{Waits: &Waiting{items}}}
	}
	view.Blocks = append(view.Blocks, status.figuresBlock(),
		Block{Columns: &Columns{MainSide, []Block{status.lagBlock(unmatched)}, auditBlocks(status.Audit)}},
		status.diskBlock())
	return view, nil
}

// waitingItems lists the faults and orders that need a person, each with the command that decides
// it.
func (s *ServerStatus) waitingItems(unmatched Cell) (items []Stat) {
	add := func(waits bool, icon, name, value, note, command string) {
		if waits {
			items = append(items, Stat{Name: name, Icon: icon, Value: value, Note: note, Command: programName +
				command})
		}
	}
	for _, d := range s.Disks {
		add(d.Scarce, "alert", "Approvals have stopped: the disk of "+d.Dir+" is nearly full",
			d.Free, "Free space on it. They go on by themselves above "+d.Resumes+".", "health")
		add(d.Unknown, "alert", "The free space of "+d.Dir+" is not known", "",
			"The disk cannot be measured, so approvals stay as they were.", "health")
	}
	add(s.LostShards > 0, "alert", "Shards with an unresolved commit", groupedCount(int64(s.LostShards)),
		"The journal did not say whether their last commit is stored. Each asks again until it does.", "health")
	add(unmatched.Tone == "" && unmatched.Text != "0", "alert", "Unmatched reports", unmatched.Text,
		"Partners reported about nothing that Purser knows. Ask the partner.", "unmatched --json")
	add(s.Overdue > 0, "clock", "Orders overdue", groupedCount(s.Overdue),
		"A partner has them and does not report. Ask the partner, then note the answer of each.", "payouts overdue")
	add(s.SetAside > 0, "alert", "Workspaces set aside", groupedCount(s.SetAside), fmt.Sprintf(
		"The journal refuses %s of their decisions. Repair the cause, then send them again.",
		groupedCount(s.SetAsideEntries)), "relay retry")
	if a := s.Audit; a != nil {
		add(a.Failure != "", "alert", "The last audit did not end", "", a.Failure, "audit")
		add(a.Failure == "" && a.countFindings() > 0, "alert", "Findings of the last audit",
			groupedCount(a.countFindings()),
			"Amounts of the stores differ. The command prints all of them.", "audit")
	}
	return items
}

// figuresBlock has the first figures of the page.
func (s *ServerStatus) figuresBlock() Block {
	audit := "None yet"
	if s.Audit != nil {
		audit = s.Audit.result().Text
	}
	return Block{Strip: []Stat{
		{Name: "Not in the journal", Value: web.Dollars(s.BacklogCents), Command: programName + "relay list"},
		{Name: "Relay lag", Value: seconds(s.RelayLag), Command: programName + "relay list"},
		{Name: "Orders overdue", Value: groupedCount(s.Overdue), Command: programName + "payouts overdue"},
		{Name: "Last audit", Value: audit, Command: programName + "audit"}}}
}

// countUnmatched counts the unmatched reports of the first page.
func countUnmatched(ctx context.Context, v *OperatorVisit) Cell {
	list, err := v.State.Unmatched(ctx, "")
	if err != nil {
		return Cell{Text: "Not known", Tone: "warn", Icon: "alert"}
	}
	var next *string
	if list.Next != "" {
		next = &list.Next
	}
	return linkCell(countText(len(list.Reports), next), operatorAddress("unmatched"))
}

// lagBlock draws how many decisions, journal positions and commands wait between the stores, and
// for how long.
func (s *ServerStatus) lagBlock(unmatched Cell) Block {
	t := &Table{Caption: "Between the stores", Columns: []Column{{Name: "Figure", Role: rolePrimary},
		{Name: "Now", Number: true, Role: roleAmount}, {Name: "Command", Role: roleSecond}}}
	add := func(name, command string, now Cell) {
		t.Rows = append(t.Rows, []Cell{plainCell(name), now, codeCell(programName + command)})
	}
	add("Decisions not in the journal", "relay list", plainCell(groupedCount(s.BacklogEntries)+" of "+
		groupedCount(s.BacklogLimit)))
	add("Workspaces set aside", "relay retry", plainCell(groupedCount(s.SetAside)))
	add("Their decisions", "relay list", plainCell(groupedCount(s.SetAsideEntries)))
	add("Unmatched reports", "unmatched --json", unmatched)
	add("Journal positions not followed", "audit", plainCell(groupedCount(int64(s.FollowerLag))))
	add("Longest time behind", "audit", plainCell(seconds(s.FollowerLate)))
	add("Reserved debits", "audit", plainCell(groupedCount(int64(s.Reservations))))
	add("Oldest reservation", "audit", plainCell(seconds(s.ReservationAge)))
	add("Commands that wait for a commit", "health", plainCell(groupedCount(int64(s.Queued))))
	add("Shards with an unresolved commit", "health", plainCell(groupedCount(int64(s.LostShards))))
	return Block{Heading: t.Caption, Table: t}
}

// diskBlock draws the free space of the stores' disks.
func (s *ServerStatus) diskBlock() Block {
	t := &Table{Caption: "Disks", Empty: "No disk is measured.", Columns: []Column{{Name: "Store", Role: rolePrimary},
		{Name: "Directory"}, {Name: "Command", Role: roleSecond}, {Name: "Reserve", Role: roleStatus}, {Name: "Free",
			Number: true, Role: roleAmount}}}
	for _, d := range s.Disks {
		free, command := plainCell(d.Free), "backup DIRECTORY"
		switch {
		case d.Unknown:
			free, command = Cell{Text: "Not known", Tone: "warn", Icon: "alert"}, "health"
		case d.Scarce:
			free, command = Cell{Text: free.Text, Tone: "bad", Icon: "alert"}, "health"
		}
		t.Rows = append(t.Rows, []Cell{plainCell(inWords(d.Store)), codeCell(d.Dir), codeCell(programName + command),
			plainCell(d.Kept + " kept free"), free})
	}
	return Block{Heading: t.Caption, Table: t,
		Text: "Approvals stop below the reserve: PURSER_DISK_RESERVE, and room for decisions that are not in the journal."}
}

// countFindings returns the number of the findings.
func (a *AuditResult) countFindings() int64 { return int64(len(a.Findings)) + a.More }

// result is the result in words.
func (a *AuditResult) result() Cell {
	switch {
	case a.Failure != "":
		return Cell{Text: "Did not end", Tone: "warn", Icon: "alert"}
	case a.countFindings() > 0:
		return Cell{Text: groupedCount(a.countFindings()) + " findings", Tone: "bad", Icon: "cross"}
	}
	return Cell{Text: "Clean", Tone: "good", Icon: "check"}
}

// auditBlocks draws the last audit.
func auditBlocks(a *AuditResult) []Block {
	command := Fact{"Command", codeCell(programName + "audit")}
	if a == nil {
		return []Block{{Heading: "Last audit", Panel: true, Facts: []Fact{{"Result",
			plainCell("None since the server started")}, command}}}
	}
	facts := []Fact{{"Result", a.result()}, {"Ended (UTC)", timeCell(a.At)}, {"Compared", plainCell(a.Compared)},
		command}
	if a.Failure != "" {
		facts[2] = Fact{"Reason", plainCell(a.Failure)}
	}
	blocks := []Block{{Heading: "Last audit", Panel: true, Facts: facts}}
	if len(a.Findings) > 0 {
		shown := a.Findings[:min(len(a.Findings), maxShownFindings)]
		findings := Block{Heading: "Findings", Panel: true}
		if int64(len(shown)) < a.countFindings() {
			findings.Text = fmt.Sprintf("The first %d. The command prints all.", len(shown))
		}
		for _, text := range shown {
			findings.Steps = append(findings.Steps, Step{Name: text, Bad: true})
		}
		blocks = append(blocks, findings)
	}
	return blocks
}
